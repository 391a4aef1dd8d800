"""Decisions on long texts: ``python -m benchmarks.long_texts --data DATA --development FILE``.

Pairs of `benchmarks.verdicts` are joined to longer pairs. Negatives: suspicious texts in a row against the same number
of sources, their own ones (one topic) or those of the next group (other topics); groups with long verbatim runs in
common, which some kinds draw from one stock of texts, are left out. Positives: the same on one topic, with a positive
pair instead of one of the joined pairs.
"""

import random
from pathlib import Path

import click
import numpy as np

from benchmarks.development.compose import Pair
from benchmarks.pairs import decide, draw_pairs, format_rows, read_development, read_pan13
from benchmarks.simple_pair_scores import TextPairs, words

JOINED = (1, 2, 4, 8, 16)
MAX_GROUPS = 200
RUN_WORDS = 8
MAX_VERBATIM = 80
"""Characters in verbatim runs of eight words or more; more are no chance."""


def join(pairs: list[Pair], count: int, one_topic: bool) -> TextPairs:
    """Return pairs of ``count`` joined texts."""
    groups = [pairs[i : i + count] for i in range(0, len(pairs) - count + 1, count)][:MAX_GROUPS]
    joined = []
    for number, group in enumerate(groups):
        others = group if one_topic else groups[(number + 1) % len(groups)]
        target, source = ("\n\n".join(texts) for texts in ([p.target for p in group], [p.source for p in others]))
        if count_verbatim(target, source) <= MAX_VERBATIM:
            joined.append((target, source))
    return joined


def join_with_reuse(pairs: list[Pair], positives: list[Pair], count: int) -> TextPairs:
    """Return pairs of ``count`` joined texts, one of which reuses its source."""
    rng, joined = random.Random(count), []
    for number in range(min(MAX_GROUPS, len(pairs) // count)):
        group = pairs[number * count : (number + 1) * count]
        group[rng.randrange(count)] = positives[(7 * number + count) % len(positives)]
        joined.append(("\n\n".join(p.target for p in group), "\n\n".join(p.source for p in group)))
    return joined


def count_verbatim(target: str, source: str) -> int:
    """Return the characters of target words in runs of eight words or more that the source has too."""
    own, others = words(target), words(source)
    grams = set(zip(*(others[i:] for i in range(RUN_WORDS))))
    covered = set[int]()
    for start, gram in enumerate(zip(*(own[i:] for i in range(RUN_WORDS)))):
        if gram in grams:
            covered |= set(range(start, start + RUN_WORDS))
    return sum(len(own[place]) + 1 for place in covered)


@click.command(help=__doc__)
@click.option("--data", type=click.Path(path_type=Path), required=True, help="Folder with pan13-dev.")
@click.option("--development", type=click.Path(path_type=Path), required=True)
@click.option("--profile", default="offline", show_default=True)
@click.option("--work", type=click.Path(path_type=Path), default=Path("out/long-texts"), show_default=True)
def main(data: Path, development: Path, profile: str, work: Path) -> None:
    pairs = [*read_development(development), *read_pan13(data / "pan13-dev")]
    negatives, positives = draw_pairs(pairs, 0, 3), draw_pairs(pairs, 1, 4)
    sets = {("one topic", count): join(negatives, count, one_topic=True) for count in JOINED}
    sets |= {("other topics", count): join(negatives, count, one_topic=False) for count in JOINED}
    sets |= {("with reuse", count): join_with_reuse(negatives, positives, count) for count in JOINED}
    rows = []
    for (name, count), texts in sets.items():
        decisions = decide(texts, work / f"{name.replace(' ', '-')}-{count}", profile)
        positive = sum(bool(line.decision) for line in decisions)
        largest = np.quantile([line.score for line in decisions], 0.97)
        length = int(np.median([len(target) for target, _ in texts]))
        rows.append(
            [name, count, f"{length:,}", f"{positive / len(texts):.3f} ({positive} of {len(texts)})", f"{largest:.3f}"]
        )
    click.echo(format_rows(["topics", "joined", "characters", "called positive", "97th percentile"], rows))


if __name__ == "__main__":
    main()
