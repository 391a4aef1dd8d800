"""Time, memory and recall of the command check: ``python -m benchmarks.check --data DATA --out FOLDER [--sources N]``.

Essays of about 1,500 words are cut from textbooks of DATA/lm-text. Every fifth suspicious one gets two paragraphs of
sources: copied, obfuscated at strength 1 or 2 as in the PAN 2012 corpus, or a machine rewrite of a paragraph that is
put into the source. FOLDER keeps the essays and the output; the command runs in a process of its own.
"""

import csv
import json
import lzma
import random
import resource
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import click

from benchmarks.development.obfuscate import obfuscate
from training.alter import load_thesaurus

WORDS = 1500
MIN_PARAGRAPH, MIN_COPIED = 25, 60
"""Words of a paragraph of an essay, and of one that is copied without its neighbour."""
FORMULAS = ("physics", "chemistry")
"""Textbooks that are left out."""
KINDS = ("copy", "obf1", "obf2", "rewrite")
SIDES = ("suspicious", "sources")


class Reuse(NamedTuple):
    """Numbers of a suspicious essay and of a source, and what was done to the paragraph."""

    suspicious: int
    source: int
    kind: str


def read_records(path: Path) -> Iterator[dict[str, Any]]:
    """Yield the records of a compressed file."""
    with lzma.open(path, "rt", encoding="utf-8") as file:
        yield from map(json.loads, file)


def cut_essays(data: Path, rng: random.Random) -> list[str]:
    """Return essays of whole paragraphs in random order; none crosses from one textbook to another."""
    books: dict[str, list[str]] = {}
    for record in read_records(data / "lm-text" / "openstax-textbooks.jsonl.xz"):
        books.setdefault(record["source"], []).append(record["text"])
    essays = []
    for name in sorted(name for name in books if not any(word in name for word in FORMULAS)):
        essay, words = list[str](), 0
        for paragraph in (p for text in books[name] for p in text.split("\n\n")):
            if (length := len(paragraph.split())) < MIN_PARAGRAPH:
                continue
            essay.append(paragraph)
            words += length
            if words >= WORDS:
                essays.append("\n\n".join(essay))
                essay, words = [], 0
    rng.shuffle(essays)
    return essays


def read_rewrites(data: Path, rng: random.Random) -> list[list[str]]:
    """Return paragraphs with their machine rewrites, the rewrite last, in random order."""
    folder = data / "paraphrase"
    rewrites = [r["texts"] for r in read_records(folder / "llm-rewrites.jsonl.xz") if len(r["texts"][0].split()) > 90]
    for record in read_records(folder / "humanized-texts.jsonl.xz"):
        if len(record["texts"][0].split()) > 120:
            rewrites.append(record["texts"][:2])
    rng.shuffle(rewrites)
    return rewrites


def write_essays(data: Path, out: Path, suspicious: int, sources: int) -> list[Reuse]:
    """Write both folders; return what was reused."""
    rng = random.Random(5)
    essays, rewrites = cut_essays(data, rng), iter(read_rewrites(data, rng))
    if len(essays) < suspicious + sources:
        raise click.UsageError(f"there are only {len(essays)} essays")
    thesaurus, foreign = load_thesaurus(data / "paraphrase" / "thesaurus-wordnet.jsonl.xz"), essays[-1].split()
    left = [essay.split("\n\n") for essay in essays[:suspicious]]
    right = [essay.split("\n\n") for essay in essays[suspicious : suspicious + sources]]
    truth = []
    for i in range(0, suspicious, 5):
        for kind in rng.sample(KINDS, 2):
            j = rng.randrange(sources)
            place = rng.randrange(len(left[i]))
            if kind == "rewrite":
                original, *_, paragraph = next(rewrites)
                right[j].insert(rng.randrange(len(right[j])), original)
            else:
                k = rng.randrange(len(right[j]))
                short = len(right[j][k].split()) < MIN_COPIED
                paragraph = " ".join(right[j][k : k + 1 + short])
                if kind != "copy":
                    paragraph = obfuscate(paragraph, int(kind[-1]), foreign, thesaurus, rng)
            left[i].insert(place, paragraph)
            truth.append(Reuse(i, j, kind))
    for side, texts in zip(SIDES, (left, right), strict=True):
        (out / side).mkdir(parents=True, exist_ok=True)
        for number, paragraphs in enumerate(texts):
            (out / side / f"{number:04}.txt").write_text("\n\n".join(paragraphs), encoding="utf-8")
    return truth


def run_check(out: Path) -> str:
    """Run the command; return the time that passed, that of the processors, and the peak memory."""
    places = [str(out / side) for side in SIDES]
    command = [sys.executable, "-m", "pan_scdg", "check", *places, "--output", str(out / "result"), "--overwrite"]
    began = time.monotonic()
    subprocess.run(command, check=True)
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    seconds = time.monotonic() - began
    return f"{seconds:.0f} s, {used.ru_utime + used.ru_stime:.0f} s of a processor, {used.ru_maxrss >> 10} MiB"


@click.command(help=__doc__)
@click.option("--data", type=click.Path(path_type=Path), required=True, help="Folder with lm-text and paraphrase.")
@click.option("--out", type=click.Path(path_type=Path), required=True)
@click.option("--suspicious", type=click.IntRange(1), default=30, show_default=True)
@click.option("--sources", type=click.IntRange(1), default=200, show_default=True)
def main(data: Path, out: Path, suspicious: int, sources: int) -> None:
    """Write the essays, check them, and print the figures."""
    truth = write_essays(data, out, suspicious, sources)
    used = run_check(out)
    with (out / "result" / "report.csv").open(newline="", encoding="utf-8-sig") as file:
        judged = {(row["suspicious"], row["source"]): row["decision"] for row in csv.DictReader(file)}
    decisions: dict[str, Counter[str]] = {kind: Counter() for kind in KINDS}
    for i, j, kind in truth:
        decisions[kind][judged.pop((f"{i:04}.txt", f"{j:04}.txt"), "not listed")] += 1
    click.echo(f"{suspicious} x {sources}: {used}, {len(judged)} other pairs listed")
    for kind, counts in {**decisions, "none": Counter(judged.values())}.items():
        click.echo(f"{kind}: {dict(counts)}")


if __name__ == "__main__":
    main()
