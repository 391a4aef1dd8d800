"""Time whole commands of checkouts in turn: ``python -m benchmarks.speed [CHECKOUT ...] [--part NAME]``.

Each part generates its input once and runs the same command with the ``entrypoint.py`` of each checkout, by the
interpreter that runs this. Printed are the least seconds that passed, the least seconds of the processor, and the
largest memory of a process. ``bm25`` has a row for each engine: building its index, and one query from the difference
of runs with 1 and with more queries. Engines ``impact`` and ``terrier`` have to give the same run.
"""

import gzip
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

import click

from benchmarks import corpus
from benchmarks.pairs import ROOT, format_rows, write_folder

ENGINES = ("impact", "terrier", "fts5")
BM25_PROFILE = """name = "bm25-{0}"
description = "BM25 of sentences"
[retrieval]
routes = ["bm25-sentence"]
fusion = "none"
rerank = false
bm25 = "{0}"
"""


class Used(NamedTuple):
    """Time and memory of a command."""

    seconds: float
    processor_seconds: float
    peak_mib: float


class Commands:
    """Runs commands of checkouts, with their results in a folder that is emptied before each."""

    def __init__(self, work: Path, repeats: int) -> None:
        """Keep the folder and the number of runs of which the fastest counts."""
        self.work, self.repeats = work, repeats
        self.output = work / "output"

    def time(self, checkout: Path, *words: object) -> Used:
        """Run a command; ``OUT`` in it is the output folder."""
        line = [sys.executable, str(checkout / "entrypoint.py"), *map(str, words)]
        line = [word.replace("OUT", str(self.output)) for word in line]
        return min(self._time_once(checkout, line) for _ in range(self.repeats))

    def _time_once(self, checkout: Path, line: list[str]) -> Used:
        for folder in (self.output, self.work / "demo-output"):
            shutil.rmtree(folder, ignore_errors=True)
        environment = {**os.environ, "PYTHONPATH": str(checkout), "PAN_SCDG_METADATA": "0"}
        began = time.perf_counter()
        process = subprocess.Popen(line, cwd=self.work, env=environment, stdout=subprocess.DEVNULL)
        _, status, used = os.wait4(process.pid, 0)
        seconds = time.perf_counter() - began
        if status:
            raise click.ClickException(f"exit code {os.waitstatus_to_exitcode(status)}: {' '.join(line)}")
        return Used(seconds, used.ru_utime + used.ru_stime, used.ru_maxrss / 1024)


def make_pairs(folder: Path, count: int, words: int) -> Path:
    """Write pairs of texts that share no sentence, so that gains and alignment take what they take at least."""
    texts = [" ".join(corpus.make_document(number).split()[:words]) for number in range(2 * count)]
    write_folder(list(zip(texts[::2], texts[1::2])), folder)
    return folder


def make_texts(folder: Path, count: int, words: int) -> tuple[Path, Path]:
    """Write two folders of texts."""
    folders = folder / "suspicious", folder / "sources"
    for side, place in enumerate(folders):
        place.mkdir(parents=True, exist_ok=True)
        for number in range(count):
            text = " ".join(corpus.make_document(number + side * count).split()[:words])
            (place / f"{number:03}.txt").write_text(text, encoding="utf-8")
    return folders


def make_candidates(folder: Path, queries: int, documents: int) -> Path:
    """Write a corpus with queries of 300 words, and a run in which every query has all documents as candidates."""
    corpus.write_corpus(folder, documents, queries)
    names = [corpus.make_document_id(number) for number in range(documents)]
    lines = [f"q{q:05} Q0 {name} {i + 1} {documents - i} x\n" for q in range(queries) for i, name in enumerate(names)]
    (folder / "candidates.txt").write_text("".join(lines), encoding="utf-8")
    return folder


def time_demo(commands: Commands, checkout: Path) -> Iterator[tuple[str, Used]]:
    """Yield the time of the demo."""
    yield "demo", commands.time(checkout, "demo", "--device", "cpu")


def time_check(commands: Commands, checkout: Path) -> Iterator[tuple[str, Used]]:
    """Yield the time of 30 texts against 30."""
    folders = make_texts(commands.work / "check", 30, 1500)
    yield "check 30 x 30", commands.time(checkout, "check", *folders, "--output", "OUT", "--device", "cpu")


def time_pairs(commands: Commands, checkout: Path) -> Iterator[tuple[str, Used]]:
    """Yield the times of 32 pairs by gains and by alignment."""
    folder = make_pairs(commands.work / "pairs", 32, 600)
    where = ("run", "--input", folder, "--output", "OUT", "--device", "cpu")
    for profile in ("scdg-mini", "offline"):
        yield f"32 pairs, {profile}", commands.time(checkout, *where, "--profile", profile)


def time_candidates(commands: Commands, checkout: Path) -> Iterator[tuple[str, Used]]:
    """Yield the time of 2 queries with 8 candidates each."""
    folder = make_candidates(commands.work / "candidates", 2, 8)
    where = ("run", "--input", folder, "--output", "OUT", "--device", "cpu")
    yield "2 x 8 candidates", commands.time(checkout, *where, "--candidates", folder / "candidates.txt")


def time_bm25(
    commands: Commands, checkout: Path, documents: int, queries: int, engines: tuple[str, ...]
) -> Iterator[tuple[str, Used]]:
    """Yield the times of building an index and of a query for each engine.

    Raises:
        ClickException: ``terrier`` gives another run than ``impact``.
    """
    folders = []
    for count in (1, 1 + queries):
        folders.append(commands.work / f"corpus-{documents}-{count}")
        if not folders[-1].exists():
            corpus.write_corpus(folders[-1], documents, count)
    runs = {}
    for engine in engines:
        profile, index = commands.work / f"bm25-{engine}.toml", commands.work / f"index-{engine}"
        profile.write_text(BM25_PROFILE.format(engine), encoding="utf-8")
        shutil.rmtree(index, ignore_errors=True)
        words = ("--profile", profile, "--device", "cpu", "--index", index)
        yield f"bm25, {engine}: index", commands.time(checkout, "index", "--input", folders[0], *words)
        few, many = (commands.time(checkout, "run", "--input", f, "--output", "OUT", *words) for f in folders)
        runs[engine] = gzip.decompress((commands.output / "run.txt.gz").read_bytes()).decode()
        seconds, processor_seconds = ((b - a) / queries for a, b in zip(few[:2], many[:2]))
        each = Used(seconds, processor_seconds, many.peak_mib)
        yield f"bm25, {engine}: one query", each
    ranked = {name: [line.split()[:4] for line in runs.get(name, "").splitlines()] for name in ENGINES[:2]}
    if all(ranked.values()) and ranked["impact"] != ranked["terrier"]:
        raise click.ClickException("impact and terrier rank differently")


PARTS: dict[str, Callable[[Commands, Path], Iterator[tuple[str, Used]]]] = {
    "demo": time_demo,
    "check": time_check,
    "pairs": time_pairs,
    "candidates": time_candidates,
}


@click.command(help=__doc__)
@click.argument("checkouts", nargs=-1, type=click.Path(exists=True, path_type=Path, resolve_path=True))
@click.option("--part", "names", multiple=True, type=click.Choice([*PARTS, "bm25"]), help="default: all but bm25")
@click.option("--repeats", default=2, show_default=True, type=click.IntRange(1))
@click.option("--documents", default=5000, show_default=True, type=click.IntRange(1), help="of bm25")
@click.option("--queries", default=20, show_default=True, type=click.IntRange(1), help="of bm25")
@click.option("--engine", "engines", multiple=True, type=click.Choice(ENGINES), default=["impact"], show_default=True)
@click.option("--work", type=click.Path(path_type=Path, resolve_path=True), help="default: a temporary folder")
def main(
    checkouts: tuple[Path, ...],
    names: tuple[str, ...],
    repeats: int,
    documents: int,
    queries: int,
    engines: tuple[str, ...],
    work: Path | None,
) -> None:
    with tempfile.TemporaryDirectory() as scratch:
        commands = Commands(work or Path(scratch), repeats)
        commands.work.mkdir(parents=True, exist_ok=True)
        rows = []
        for name in names or PARTS:
            for checkout in checkouts or (ROOT,):
                timed = (
                    time_bm25(commands, checkout, documents, queries, engines)
                    if name == "bm25"
                    else PARTS[name](commands, checkout)
                )
                for what, used in timed:
                    cells = (f"{used.seconds:.2f}", f"{used.processor_seconds:.2f}", f"{used.peak_mib:,.0f}")
                    rows.append([what, checkout.name, *cells])
                    click.echo(" | ".join(rows[-1]), err=True)
    click.echo(format_rows(["command", "checkout", "s", "processor s", "peak MiB"], rows))


if __name__ == "__main__":
    main()
