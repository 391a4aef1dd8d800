"""Feed changed valid files to the readers of foreign input: ``python -m tests.fuzz [--seconds N] [--findings FOLDER]``.

Only `UserError` may leave a reader, in lines that can be shown, within 1 GiB; a reader may change nothing outside of
its folder. An input that is still being read after two minutes counts as one that hangs. Printed is one JSON object:
for each target the inputs, those that were read and refused, and the findings. The exit code is 1 if there are any;
``--findings`` keeps their inputs.
"""

import argparse
import json
import random
import resource
import shutil
import signal
import sys
import tempfile
import time
import traceback
from pathlib import Path
from types import FrameType
from typing import Any

from pan_scdg.errors import UserError, UserErrors
from tests.fuzz.mutations import KINDS, mutate, write_kind
from tests.fuzz.targets import TARGETS, Target

HANG_SECONDS, MEMORY = 120, 1 << 30
KIND_SHARE = 0.02
PRECIOUS = "precious.txt"
"""A file beside the folder, at which names in the input point."""


def write_files(target: Target, folder: Path) -> dict[str, bytes]:
    """Write the valid files of a target; return those that are changed."""
    valid = {name: form.encode(text) for name, (form, text) in target.files.items()}
    for name, data in {**valid, **{name: text.encode() for name, text in target.others.items()}}.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(data)
    return valid


def fuzz(target: Target, inputs: int, seed: int, findings: Path | None) -> dict[str, Any]:
    """Feed so many inputs to a target."""
    rng, result = random.Random(f"{target.name} {seed}"), {"inputs": 0, "read": 0, "refused": 0}
    found: dict[str, str] = {}
    with tempfile.TemporaryDirectory() as scratch:
        folder, precious = Path(scratch) / "input", Path(scratch) / PRECIOUS
        precious.write_text("not yours")
        valid = write_files(target, folder)
        target.read(folder)
        for _ in range(inputs):
            if target.writes:
                shutil.rmtree(folder)
                write_files(target, folder)
            name = rng.choice(list(valid))
            form, text = target.files[name]
            if rng.random() < KIND_SHARE:
                write_kind(folder / name, rng.choice(KINDS), valid[name])
            else:
                (folder / name).write_bytes(mutate(text, form, rng))
            result["inputs"] += 1
            if (outcome := _read(target, folder)) in ("read", "refused"):
                result[outcome] += 1
            elif (where := outcome.splitlines()[0]) not in found:
                found[where] = outcome
                if findings is not None:
                    kept = findings / target.name / str(len(found))
                    shutil.rmtree(kept, ignore_errors=True)
                    shutil.copytree(folder, kept, symlinks=True, ignore=shutil.ignore_patterns("made"))
            if precious.read_text() != "not yours":
                found["a file outside of the folder was changed"] = name
            _restore(folder / name, valid[name])
    return {**result, "findings": found}


def _read(target: Target, folder: Path) -> str:
    """Return ``read``, ``refused``, or what went wrong: the error with its place, then the traceback."""
    signal.setitimer(signal.ITIMER_REAL, HANG_SECONDS)
    try:
        target.read(folder)
    except (UserError, UserErrors) as e:
        if all(line.isprintable() for line in str(e).split("\n")):
            return "refused"
        return f"a refusal that cannot be shown: {str(e)!r}"
    except BaseException as e:
        last = traceback.extract_tb(e.__traceback__)[-1]
        return f"{type(e).__name__} in {Path(last.filename).name}:{last.name}\n{traceback.format_exc()[-4000:]}"
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
    return "read"


def _restore(path: Path, data: bytes) -> None:
    if path.is_dir() and not path.is_symlink():
        path.rmdir()
    else:
        path.unlink(missing_ok=True)
    path.write_bytes(data)


def _stop(number: int, frame: FrameType | None) -> None:
    raise TimeoutError("it hangs")


def main() -> int:
    """Fuzz all targets, once or in rounds until the time is over."""
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz", description=__doc__)
    parser.add_argument("--inputs", type=int, default=256, help="of each target in a round")
    parser.add_argument("--seconds", type=float, default=0, help="rounds until so many seconds have passed")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--findings", type=Path)
    options = parser.parse_args()
    signal.signal(signal.SIGALRM, _stop)
    used = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (used + MEMORY, used + MEMORY))
    began, seed, total = time.monotonic(), options.seed, dict[str, dict[str, Any]]()
    while seed == options.seed or time.monotonic() - began < options.seconds:
        for target in TARGETS:
            result = fuzz(target, options.inputs, seed, options.findings)
            before = total.setdefault(target.name, {"inputs": 0, "read": 0, "refused": 0, "findings": {}})
            for name in ("inputs", "read", "refused"):
                before[name] += result[name]
            before["findings"] |= result["findings"]
        seed += 1
    print(json.dumps(total, indent=1))
    return int(any(result["findings"] for result in total.values()))


if __name__ == "__main__":
    sys.exit(main())
