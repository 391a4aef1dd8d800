"""Kill runs of both jobs at random moments and fill their disks; print what was wrong as a JSON list.

    python tests/faults/disturb.py FOLDER MODEL MOMENTS

Each disturbed run is followed by the same command, undisturbed, which has to end with the result of a run that was
never disturbed. Runs are forks of this process, which has imported the heavy packages once.
"""

import gzip
import json
import os
import random
import resource
import shutil
import signal
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parents[2]
sys.path.insert(0, str(ROOT))
os.environ |= {
    "OMP_NUM_THREADS": "1",
    "TOKENIZERS_PARALLELISM": "false",
    "HF_HUB_OFFLINE": "1",
    "PAN_SCDG_METADATA": "0",
}
PROFILE = ROOT / "tests" / "profiles" / "small.toml"
HEAVY = ("torch", "transformers", "sentence_transformers", "lxml.etree")
WORDS = ("tide", "noon", "nets", "empty", "quay", "salt", "litre", "dam", "river", "bed", "sample", "gram", "lost")
SMALLEST = 4096
"""Bytes that a file may have at least: messages are written to a file, too."""


class Ended(NamedTuple):
    """How a run ended."""

    code: int
    seconds: float
    last: str
    """The last line on stderr."""


def write_text(rng: random.Random, words: int) -> str:
    """Return a sentence of so many words."""
    return " ".join(rng.choice(WORDS) for _ in range(words)) + "."


def write_pairs(folder: Path) -> Path:
    """Write twelve pairs, half of them partly copied."""
    rng = random.Random(3)
    for side in ("susp", "src"):
        (folder / side).mkdir(parents=True)
    for i in range(12):
        source, own = write_text(rng, 30), write_text(rng, 20)
        (folder / "src" / f"r{i}.txt").write_text(source)
        (folder / "susp" / f"s{i}.txt").write_text(f"{source[: 20 * (i % 4) + 40]} {own}" if i < 6 else own)
    (folder / "pairs").write_text("".join(f"s{i}.txt r{i}.txt\n" for i in range(12)))
    return folder


def write_retrieval(folder: Path) -> Path:
    """Write fourteen documents and three queries."""
    rng = random.Random(4)
    folder.mkdir()
    texts = [write_text(rng, 60) for _ in range(14)]
    with gzip.open(folder / "corpus.jsonl.gz", "wt", encoding="utf-8") as file:
        file.writelines(json.dumps({"doc_id": f"d/{i}", "default_text": text}) + "\n" for i, text in enumerate(texts))
    queries = [{"qid": f"q{i}", "query": texts[i][:90] + write_text(rng, 9)} for i in range(3)]
    (folder / "queries.jsonl").write_text("".join(json.dumps(query) + "\n" for query in queries))
    return folder


def start(words: list[str], log: Path, max_bytes: int | None = None) -> int:
    """Fork a run, whose files may grow to so many bytes; return its process."""
    if process := os.fork():
        return process
    code = 99
    try:
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
        os.dup2(os.open(log, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), 2)
        if max_bytes is not None:
            signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
            resource.setrlimit(resource.RLIMIT_FSIZE, (max_bytes, max_bytes))
        from pan_scdg.cli import run_command

        code = run_command(words)
        sys.stderr.flush()
    finally:
        os._exit(code)


def wait(process: int, log: Path, kill_after: float | None = None) -> Ended:
    """Wait for the end of a run, or kill it after some seconds."""
    began = time.monotonic()
    while kill_after is not None and time.monotonic() - began < kill_after:
        ended, status = os.waitpid(process, os.WNOHANG)
        if ended:
            break
        time.sleep(0.001)
    else:
        if kill_after is not None:
            os.kill(process, signal.SIGKILL)
        _, status = os.waitpid(process, 0)
    lines = log.read_text(encoding="utf-8").splitlines() if log.exists() else []
    return Ended(os.waitstatus_to_exitcode(status), time.monotonic() - began, lines[-1] if lines else "")


def read_result(output: Path) -> dict[str, bytes]:
    """Return the visible files of a result."""
    return {p.name: p.read_bytes() for p in output.iterdir() if p.is_file() and not p.name.startswith(".")}


def disturb(name: str, words: list[str], folder: Path, moments: int) -> Iterator[str]:
    """Yield what was wrong with a job that was disturbed at so many moments, and by so many full disks."""
    output, log, rng = folder / "output", folder / "log", random.Random(name)
    words = [*words, "--output", str(output)]
    undisturbed = wait(start(words, log), log)
    if undisturbed.code:
        yield f"{name}: fails undisturbed: {undisturbed}"
        return
    reference = read_result(output)
    largest = 2 * max(map(len, reference.values()))
    kills = [rng.uniform(0, 1.05 * undisturbed.seconds) for _ in range(moments)]
    limits = [max(SMALLEST, int(largest * ((i + 1) / (moments + 1)) ** 2)) for i in range(moments)]
    for kill_after, max_bytes in [*((kill, None) for kill in kills), *((None, limit) for limit in limits)]:
        shutil.rmtree(output)
        ended = wait(start(words, log, max_bytes), log, kill_after)
        what = f"{name}, {f'killed after {kill_after:.2f} s' if kill_after else f'files of {max_bytes} bytes'}"
        if ended.code not in (0, -9 if kill_after else 3) or "internal error" in ended.last:
            yield f"{what}: ends with {ended}"
        if max_bytes and ended.code and not ended.last.endswith("un the same command again to continue."):
            yield f"{what}: says {ended.last!r}"
        left = read_result(output) if output.is_dir() else {}
        yield from (f"{what}: {file} is incomplete" for file, data in left.items() if reference.get(file) != data)
        if "job.json" in left and left != reference:
            yield f"{what}: job.json comes before the rest"
        again = wait(start(words, log), log)
        if again.code or read_result(output) != reference:
            yield f"{what}: the same command does not give the same result: {again}"


def main(folder: Path, model: str, moments: int) -> None:
    """Disturb both jobs."""
    for module in HEAVY:
        __import__(module)
    import torch

    torch.set_num_threads(1)
    scored = ["--profile", str(PROFILE), "--model", model, "--device", "cpu"]
    wrong = []
    for name, write in (("pairs", write_pairs), ("retrieval", write_retrieval)):
        place = folder / name
        place.mkdir()
        wrong += disturb(name, ["run", "--input", str(write(place / "input")), *scored], place, moments)
    print(json.dumps(wrong))


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2], int(sys.argv[3]))
