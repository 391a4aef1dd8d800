"""Compare the results of two checkouts: run both on the same inputs, one after the other, and compare every file.

    python tools/compare_checkouts.py OLD NEW --work /tmp/compare [--only CASE ...] [--data DIR]

Results have to be byte-identical: detection XML, runs, decisions, gains, reports, exit codes, what ``score`` prints.
Vectors and first-stage scores have to have the same order and to differ by 1e-6 at most. Marks and metadata name
versions and are not compared. Each checkout runs with its own ``.venv`` (or with ``--python``), both with the inputs of
OLD. ``--data`` names the folder with the official samples; its cases are left out without it.

Exit code 0: everything that ran is the same; 1: something differs, each difference on a line of its own.
"""

import argparse
import gzip
import json
import math
import os
import shlex
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

ENTRY = "entrypoint.py"
TOLERANCE = 1e-6
IGNORED = {"ir-metadata.yml", ".pan_scdg.json", "index.json", "manifest.json", "lock"}
"""Files that name versions, formats or machines."""
FIRST_STAGE_FIELDS = {"coarse", "final"}
"""Fields of ``scores.jsonl.gz`` that hold or contain a first-stage score."""


class Case(NamedTuple):
    """Commands that run one after the other in an empty folder, whose files are compared then."""

    commands: Sequence[str]
    """Lines for a shell-like split; ``{examples}`` and ``{data}`` are replaced. ``kill SECONDS:`` in front kills the
    command with SIGKILL after that time, unless it ended before."""
    needs_data: bool = False
    prints: bool = False
    """Standard output is a result, too."""


PAIRS = "run --input {examples}/pan25-pairs/test"
GAINS = f"{PAIRS} --profile scdg-mini"
RETRIEVAL = "run --input {examples}/pan26-retrieval"
INPUT = "--input {examples}/pan25-pairs/calibration"
CALIBRATE = f"calibrate {INPUT}"
CASES = {
    "pairs": Case([f"{PAIRS} --output pairs", "evaluate --input {examples}/pan25-pairs/test --output pairs"]),
    "pairs-gains": Case([f"{GAINS} --output pairs --keep-gains"]),
    "pairs-reference": Case([f"{GAINS} --output pairs --engine reference --limit 4"]),
    "pairs-killed": Case([f"kill 12: {GAINS} --output pairs", f"{GAINS} --output pairs"]),
    "pairs-shards": Case(
        [
            f"{PAIRS} --output one --shard 1/2",
            f"{PAIRS} --output two --shard 2/2",
            "merge --input {examples}/pan25-pairs/test --output merged one two",
        ]
    ),
    "pairs-calibrated": Case(
        [f"{CALIBRATE} --profile offline --write my.toml", f"{PAIRS} --profile my.toml --output pairs"]
    ),
    "own-pairs": Case(["prepare --table {examples}/own-pairs.csv --output own", "run --input own --output pairs"]),
    "score": Case(
        [
            "score {examples}/pan25-pairs/test/susp/suspicious-document00101.txt"
            " {examples}/pan25-pairs/test/src/source-document00109.txt --tokens tokens.jsonl"
        ],
        prints=True,
    ),
    "retrieval": Case(
        [f"{RETRIEVAL} --output out --keep-gains", "evaluate --input {examples}/pan26-retrieval --output out"]
    ),
    "retrieval-killed": Case([f"kill 30: {RETRIEVAL} --output out", f"{RETRIEVAL} --output out"]),
    "retrieval-shards": Case(
        [
            f"{RETRIEVAL} --output one --shard 1/2 --limit 6",
            f"{RETRIEVAL} --output two --shard 2/2 --limit 6",
            "merge --input {examples}/pan26-retrieval --output merged one two",
        ]
    ),
    "calibrate-shards": Case(
        [
            f"{CALIBRATE} --profile scdg-mini --limit 20 --shard 1/2 --output one",
            f"run --scores-only {INPUT} --profile scdg-mini --limit 20 --shard 2/2 --output two",
            f"{CALIBRATE} --profile scdg-mini --write my.toml --scores one two",
            f"run --scores-only {INPUT} --profile pan25-char-ngrams --output ngrams",
            f"{CALIBRATE} --profile pan25-char-ngrams --write ngrams.toml --scores ngrams",
        ]
    ),
    "retrieval-staged": Case(
        [
            f"{RETRIEVAL} --output first --stop-after first-stage",
            f"{RETRIEVAL} --output out --candidates first",
            "index --input {examples}/pan26-retrieval --index index",
            f"{RETRIEVAL} --output indexed --index index --limit 4",
        ]
    ),
    **{
        name: Case([f"{RETRIEVAL} --profile {name} --output out"])
        for name in ("pan26-bm25-full", "pan26-bm25-sentence")
    },
    **{name: Case([f"{PAIRS} --profile {name} --output out"]) for name in ("pan25-containment",)},
    **{
        name: Case([f"{CALIBRATE} --profile {name} --write my.toml", f"{PAIRS} --profile my.toml --output out"])
        for name in ("pan25-char-ngrams", "pan25-bm25", "pan25-gram-logistic", "pan25-minilm")
    },
    "study-pairs": Case(["studies pairs --examples --output out"]),
    "study-same-topic": Case(["studies same-topic --examples --output out"]),
    "study-retrieval": Case(["studies retrieval --examples --output out"]),
    "study-retention": Case(["studies retention --examples --output out --instances 4 --seeds 1"]),
    **{
        f"study-{name.partition(' ')[0]}-shards": Case(
            [
                f"studies {name} --examples --output one --shard 1/2",
                f"studies {name} --examples --output two --shard 2/2",
                f"studies {name} --examples --output out --scores one two",
            ]
        )
        for name in ("pairs", "retrieval", "retention --instances 4 --seeds 1")
    },
    "refused": Case(
        [f"{PAIRS} --output out --profile no-such-profile", "run --input {examples} --output out", "score a b", "merge"]
    ),
    "sample": Case(["run --input {data}/pan25-sample/input --output out"], needs_data=True),
    "spot-check": Case(["run --input {data}/pan26-spot-check --output out --limit 3"], needs_data=True),
}


def run_case(case: Case, checkout: Path, python: Path, folder: Path, places: dict[str, str]) -> list[int]:
    """Run the commands of a case in ``folder``; return the exit codes of those that were not killed."""
    folder.mkdir(parents=True)
    state = {"PAN_SCDG_METADATA": "0", "HF_HUB_OFFLINE": "1", "OMP_NUM_THREADS": os.environ.get("OMP_NUM_THREADS", "2")}
    environment = {**os.environ, **state, "PYTHONPATH": str(checkout)}
    codes = []
    printed = folder / ("stdout.txt" if case.prints else "stdout-log.txt")
    with printed.open("w", encoding="utf-8") as out, (folder / "stderr-log.txt").open("w", encoding="utf-8") as log:
        for command in case.commands:
            patience, _, line = command.rpartition(": ")
            words = shlex.split(line.format(**places))
            process = subprocess.Popen(
                [python, checkout / ENTRY, *words], cwd=folder, env=environment, stdout=out, stderr=log
            )
            try:
                process.wait(float(patience.removeprefix("kill ")) if patience else None)
            except subprocess.TimeoutExpired:
                process.send_signal(signal.SIGKILL)
                process.wait()
                continue
            codes.append(process.returncode)
    return codes


def list_results(folder: Path) -> dict[str, Path]:
    """Return the files to compare by their names in ``folder``; hidden folders and what names versions are left out."""
    found = {path.relative_to(folder).as_posix(): path for path in folder.rglob("*") if path.is_file()}
    return {
        name: path
        for name, path in found.items()
        if path.name not in IGNORED
        and not name.endswith("-log.txt")
        and not any(p.startswith(".") for p in Path(name).parts)
    }


def compare_files(name: str, old: Path, new: Path) -> str | None:
    """Return the difference of two results; None if they are the same."""
    if old.read_bytes() == new.read_bytes():
        return None
    if name.endswith("scores.jsonl.gz"):
        return compare_scores(old, new)
    if name.endswith("vectors.f16"):
        return compare_vectors(old, new)
    return f"{describe_difference(old, new)}"


def describe_difference(old: Path, new: Path) -> str:
    """Return the first line that differs, of files that are text."""
    one, other = (_read_lines(path) for path in (old, new))
    for number, (left, right) in enumerate(zip(one, other), 1):
        if left != right:
            return f"line {number}: {left[:200]!r} became {right[:200]!r}"
    return f"{len(one)} lines became {len(other)}"


def _read_lines(path: Path) -> list[str]:
    data = gzip.decompress(path.read_bytes()) if path.name.endswith(".gz") else path.read_bytes()
    return data.decode("utf-8", "replace").splitlines()


def compare_scores(old: Path, new: Path) -> str | None:
    """Compare score lines: the same but for first-stage scores, which may differ by `TOLERANCE`."""
    one, other = ([json.loads(line) for line in _read_lines(path)] for path in (old, new))
    if len(one) != len(other):
        return f"{len(one)} lines became {len(other)}"
    for number, (left, right) in enumerate(zip(one, other), 1):
        wrong = [key for key in {**left, **right} if not _same_field(key, left.get(key), right.get(key))]
        if wrong:
            return f"line {number}: {wrong[0]} is {right.get(wrong[0])!r}, was {left.get(wrong[0])!r}"
    return None


def _same_field(key: str, one: Any, other: Any) -> bool:
    if key in FIRST_STAGE_FIELDS and isinstance(one, float) and isinstance(other, float):
        return math.isclose(one, other, rel_tol=0, abs_tol=TOLERANCE)
    return bool(one == other)


def compare_vectors(old: Path, new: Path) -> str | None:
    """Compare float16 matrices: values may differ by `TOLERANCE`."""
    one, other = (np.fromfile(path, "<f2").astype(np.float64) for path in (old, new))
    if one.shape != other.shape:
        return f"{one.size} values became {other.size}"
    largest = float(np.abs(one - other).max())
    return f"values differ by up to {largest:.2e}" if largest > TOLERANCE else None


def compare_case(folders: tuple[Path, Path], codes: tuple[list[int], list[int]], *, refused: bool) -> Iterator[str]:
    """Yield every difference between the results of a case, whose commands are ``refused`` or succeed."""
    if codes[0] != codes[1]:
        yield f"exit codes {codes[0]} became {codes[1]}"
    if 1 in codes[0] or (2 in codes[0] and not refused):  # two that fail alike prove nothing
        yield "a command failed in OLD"
    old, new = (list_results(folder) for folder in folders)
    yield from (f"{name}: is missing" for name in sorted(old.keys() - new.keys()))
    yield from (f"{name}: is new" for name in sorted(new.keys() - old.keys()))
    for name in sorted(old.keys() & new.keys()):
        if difference := compare_files(name, old[name], new[name]):
            yield f"{name}: {difference}"


def main() -> int:
    """Run the chosen cases in both checkouts and print what differs."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("old", type=Path)
    parser.add_argument("new", type=Path)
    parser.add_argument("--work", type=Path, required=True, help="An empty or new folder.")
    parser.add_argument("--only", nargs="+", choices=list(CASES), default=list(CASES), metavar="CASE")
    parser.add_argument("--data", type=Path, help="Folder with pan25-sample and pan26-spot-check.")
    parser.add_argument("--python", type=Path, help="Interpreter for both, instead of the .venv of each.")
    parser.add_argument(
        "--keep-old", type=Path, help="Keep OLD's results in this folder and reuse those that lie there."
    )
    options = parser.parse_args()
    checkouts = [options.old.resolve(), options.new.resolve()]
    places = {"examples": str(checkouts[0] / "examples"), "data": str(options.data.resolve()) if options.data else ""}
    different = 0
    for name in options.only:
        if CASES[name].needs_data and options.data is None:
            print(f"{name}: left out, needs --data")
            continue
        folders, codes, seconds = [], [], []
        for role, checkout in zip(("old", "new"), checkouts):
            kept = role == "old" and options.keep_old is not None
            folders.append((options.keep_old if kept else options.work).resolve() / name / role)
            record = folders[-1].parent / "exit-codes.json"
            if kept and record.is_file():
                codes.append(json.loads(record.read_text()))
                seconds.append(math.nan)
                continue
            shutil.rmtree(folders[-1], ignore_errors=True)
            record.unlink(missing_ok=True)
            began = time.monotonic()
            python = options.python or checkout / ".venv" / "bin" / "python"
            codes.append(run_case(CASES[name], checkout, python.absolute(), folders[-1], places))
            seconds.append(time.monotonic() - began)
            record.write_text(json.dumps(codes[-1]))
        differences = list(compare_case((folders[0], folders[1]), (codes[0], codes[1]), refused=name == "refused"))
        files = len(list_results(folders[0]))
        times = f"{seconds[0]:.0f} s, {seconds[1]:.0f} s"
        print(f"{name}: {'DIFFERENT' if differences else 'the same'}, {files} files, exit codes {codes[0]}, {times}")
        print("".join(f"  {line}\n" for line in differences), end="", flush=True)
        different += bool(differences)
    return 1 if different else 0


if __name__ == "__main__":
    sys.exit(main())
