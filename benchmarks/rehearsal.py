"""Rehearse the pairs of PAN 2025 at their size, with made-up papers: ``python -m benchmarks.rehearsal --output DIR``.

Writes a text-alignment corpus with truth, runs the commands from `studies prepare` to the table of pairs on it, and
prints the minutes, the memory and the disk of each. Like the validation part, nearly every pair has documents of its
own. Pair ``i`` depends on ``i`` alone, so that a smaller rehearsal is the beginning of a larger one.
"""

import os
import subprocess
import sys
import time
from collections.abc import Mapping
from multiprocessing import get_context
from pathlib import Path

import click
import numpy as np

from benchmarks.corpus import make_paper
from pan_scdg.evaluation.report import format_table

PAIRS = 7976
"""Of the validation part of PAN 2025; the paper keeps 6,791."""
WORDS = 9000
POSITIVE_SHARE = 0.7
SHARED_SOURCE_EVERY = 320
"""Pairs per source that the next pair has, too."""
REUSED_PARAGRAPHS, KEPT_WORDS = 12, 0.75
FEATURE = (
    '<feature name="plagiarism" obfuscation="simple" this_offset="{}" this_length="{}" source_reference="{}" '
    'source_offset="{}" source_length="{}"/>'
)
TRUTH = '<?xml version="1.0" encoding="utf-8"?>\n<document reference="{}">\n{}\n</document>\n'


def make_pair(number: int, words: int) -> tuple[str, str, list[tuple[int, int, int, int]]]:
    """Return the suspicious document, the source, and offset and length of each reused paragraph in both."""
    rng = np.random.default_rng([PAIRS, number])
    source = make_paper(2 * find_source(number), words)
    parts = make_paper(2 * number + 1, words).split("\n\n")
    if rng.random() >= POSITIVE_SHARE:
        return "\n\n".join(parts), source, []
    paragraphs = source.split("\n\n")
    reused: dict[int, int] = {}
    for place, origin in zip(rng.permutation(len(parts)), rng.permutation(len(paragraphs))[:REUSED_PARAGRAPHS]):
        own, others = paragraphs[origin].split(" "), parts[place].split(" ")
        kept = rng.random(len(own)) < KEPT_WORDS
        parts[place] = " ".join(
            word if keep else others[i % len(others)] for i, (word, keep) in enumerate(zip(own, kept))
        )
        reused[int(place)] = int(origin)
    begins, origins = find_begins(parts), find_begins(paragraphs)
    spans = [(begins[p], len(parts[p]), origins[o], len(paragraphs[o])) for p, o in sorted(reused.items())]
    return "\n\n".join(parts), source, spans


def find_source(number: int) -> int:
    """Return the number of the source of a pair: its own, but for those that share the source of the pair before."""
    return number - 1 if number and number % SHARED_SOURCE_EVERY == 0 else number


def find_begins(paragraphs: list[str]) -> list[int]:
    """Return the offset of each paragraph in the text that they make, with an empty line between two."""
    return [0, *np.cumsum([len(paragraph) + 2 for paragraph in paragraphs]).tolist()]


def write_pairs(folder: Path, pairs: int, words: int) -> None:
    """Write ``pairs``, ``susp/``, ``src/`` and ``truth/``."""
    for side in ("susp", "src", "truth"):
        (folder / side).mkdir(parents=True)
    with open(folder / "pairs", "w", encoding="ascii") as file:
        for number in range(pairs):
            target, source, spans = make_pair(number, words)
            names = (f"suspicious-document{number:05}", f"source-document{find_source(number):05}")
            features = "\n".join(FEATURE.format(*span[:2], f"{names[1]}.txt", *span[2:]) for span in spans)
            truth = TRUTH.format(f"{names[0]}.txt", features)
            (folder / "susp" / f"{names[0]}.txt").write_text(target, encoding="utf-8")
            (folder / "src" / f"{names[1]}.txt").write_text(source, encoding="utf-8")
            (folder / "truth" / f"{'-'.join(names)}.xml").write_text(truth, encoding="utf-8")
            file.write(f"{names[0]}.txt {names[1]}.txt\n")


def measure(step: str, words: list[str], written: Path | None) -> Mapping[str, object]:
    """Run a command in a process of its own; return its time, memory and disk as a row of the table."""
    began = time.monotonic()
    process = subprocess.Popen([sys.executable, "-m", *words], stdout=subprocess.DEVNULL)
    _, status, used = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        raise click.ClickException(f"{step} ended with {process.returncode}")
    size = 0 if written is None else sum(p.stat().st_size for p in written.rglob("*") if p.is_file())
    row = {
        "step": step,
        "minutes": round((time.monotonic() - began) / 60, 2),
        "processor minutes": round((used.ru_utime + used.ru_stime) / 60, 2),
        "memory (MiB)": used.ru_maxrss >> 10,
        "disk (MB)": None if written is None else round(size / 1e6),
    }
    click.echo(row, err=True)
    return row


@click.command(help=__doc__)
@click.option("--pairs", default=PAIRS, show_default=True, type=click.IntRange(10))
@click.option("--words", default=WORDS, show_default=True, type=click.IntRange(100), help="Of each document.")
@click.option("--output", required=True, type=click.Path(path_type=Path, file_okay=False))
def main(pairs: int, words: int, output: Path) -> None:
    # in a process of its own: a child's peak memory is at least that of the process that starts it
    writer = get_context("spawn").Process(target=write_pairs, args=(output / "data" / "pan25", pairs, words))
    writer.start()
    writer.join()
    if writer.exitcode:
        raise click.ClickException("the papers could not be written")
    prepared = output / "prepared"
    own = str(prepared / "pan25")
    run = ["pan_scdg", "run", "--input", own]
    results = {name: output / name for name in ("containment", "bm25")}
    tables = output / "tables"
    data = ["--data", str(output / "data"), "--part", "pan25", "--output", str(prepared)]
    rows = [
        measure("studies prepare", ["studies", "prepare", *data], prepared),
        measure(
            "run, pan25-containment",
            [*run, "--profile", "pan25-containment", "--output", str(results["containment"])],
            results["containment"],
        ),
        measure(
            "run, pan25-bm25",
            [*run, "--profile", "pan25-bm25", "--scores-only", "--output", str(results["bm25"])],
            results["bm25"],
        ),
        measure("evaluate", ["pan_scdg", "evaluate", "--input", own, "--output", str(results["containment"])], None),
        measure(
            "studies pairs",
            ["studies", "pairs", "--prepared", str(prepared), "--output", str(tables), *map(str, results.values())],
            tables,
        ),
    ]
    click.echo(format_table(rows, list(rows[0])), nl=False)


if __name__ == "__main__":
    main()
