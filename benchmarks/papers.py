"""Time and memory of ``run`` on papers: ``python -m benchmarks.papers --data DATA --out FOLDER``.

Papers of 9,000 words, the size of those of PAN 2025, are made of DATA/lm-text; a fifth of the paragraphs of each
suspicious one is copied from its sources. Processor seconds are those of sentences that are encoded, a paper once, and
of all other work, by pair: so the time of other numbers of papers and pairs follows.
"""

import random
import resource
import time
from collections import defaultdict
from itertools import cycle
from pathlib import Path
from typing import Any

import click

from benchmarks.check import read_records
from pan_scdg.cli import run_command
from pan_scdg.models.encoder import Encoder

WORDS, COPIED = 9000, 0.2
MIN_PARAGRAPH = 25
TEXTS = ("technical-and-government", "openstax-textbooks")
PAN25_PAIRS, PAN25_PAPERS = 7976, 13_500
"""Of the validation part."""


def make_papers(data: Path, count: int) -> list[list[str]]:
    """Return papers as lists of paragraphs, each of which is in one paper only as long as there are enough."""
    texts = (r["text"] for name in TEXTS for r in read_records(data / "lm-text" / f"{name}.jsonl.xz"))
    paragraphs = cycle([p for text in texts for p in text.split("\n\n") if len(p.split()) >= MIN_PARAGRAPH])
    papers = []
    for _ in range(count):
        paper, words = list[str](), 0
        while words < WORDS:
            paper.append(next(paragraphs))
            words += len(paper[-1].split())
        papers.append(paper)
    return papers


def write_pairs(data: Path, out: Path, targets: int, sources: int) -> None:
    """Write a folder with the pairs of each suspicious paper with the same number of its sources."""
    rng, papers = random.Random(1), make_papers(data, 2 * targets)
    for folder in ("susp", "src"):
        (out / folder).mkdir(parents=True)
    lines = []
    for number, paper in enumerate(papers[:targets]):
        own = [targets + (number + step) % targets for step in range(sources)]
        for place in rng.sample(range(len(paper)), int(COPIED * len(paper))):
            paper[place] = rng.choice(papers[rng.choice(own)])
        lines += [f"suspicious-document{number:05}.txt source-document{source:05}.txt\n" for source in own]
    (out / "pairs").write_text("".join(lines), encoding="utf-8")
    for number, paper in enumerate(papers):
        name = f"susp/suspicious-document{number:05}.txt" if number < targets else f"src/source-document{number:05}.txt"
        (out / name).write_text("\n\n".join(paper), encoding="utf-8")


def count_encoding() -> dict[str, float]:
    """Return the tokens and processor seconds that every encoder adds up from now on."""
    counts, encode = defaultdict[str, float](float), Encoder.compute

    def count(self: Encoder, tokenised: Any) -> Any:
        began = time.process_time()
        vectors = encode(self, tokenised)
        counts["seconds"] += time.process_time() - began
        counts["tokens"] += sum(len(one["input_ids"]) for one in tokenised.inputs)
        return vectors

    Encoder.compute = count  # type: ignore[method-assign]
    return counts


@click.command(help=__doc__)
@click.option("--data", type=click.Path(path_type=Path), required=True, help="Folder with lm-text.")
@click.option("--out", type=click.Path(path_type=Path), required=True)
@click.option("--targets", type=click.IntRange(1), default=40, show_default=True)
@click.option("--sources", type=click.IntRange(1), default=5, show_default=True, help="Of each suspicious paper.")
def main(data: Path, out: Path, targets: int, sources: int) -> None:
    """Write the pairs, decide them, and print the figures."""
    write_pairs(data, out / "input", targets, sources)
    counts = count_encoding()
    began = time.process_time()
    run_command(["run", "--input", str(out / "input"), "--output", str(out / "result"), "--device", "cpu"])
    pairs, papers, encoding = targets * sources, 2 * targets, counts["seconds"]
    other = time.process_time() - began - encoding
    memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss >> 10
    click.echo(f"{pairs} pairs of {papers} papers, {counts['tokens'] / papers:.0f} tokens each: {memory} MiB")
    click.echo(f"encoding {encoding:.0f} s, {counts['tokens'] / encoding:.0f} tokens/s; other work {other:.0f} s")
    hours = (PAN25_PAPERS * encoding / papers + PAN25_PAIRS * other / pairs) / 3600
    click.echo(f"{PAN25_PAIRS} pairs of {PAN25_PAPERS} papers: {hours:.1f} h of a processor")


if __name__ == "__main__":
    main()
