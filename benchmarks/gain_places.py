"""Separate reused characters from new ones by gains: ``python -m benchmarks.gain_places --data DATA``.

Of each obfuscation of the PAN 2013 pairs in DATA/pan13-dev some pairs with reuse are drawn. The language model of the
profile gives the gain of every token of the target; a character is reused if a passage of the truth covers it. The
AUROC is over the characters of a target, for the gains and for their running means, and is averaged over the
targets. Pairs with a text beyond ``--characters`` are left out: one would take as long as all others.
"""

import random
from collections import defaultdict
from pathlib import Path
from typing import NamedTuple

import click
import numpy as np
import numpy.typing as npt

from benchmarks.pan13 import read_known_pairs
from pan_scdg.evaluation.report import format_table
from pan_scdg.pair_result import Token
from pan_scdg.pan.text_alignment import read_text
from pan_scdg.progress import Progress
from pan_scdg.records import Passage
from pan_scdg.scorer import Scorer

WINDOWS = (1, 10, 40, 128)
"""Tokens of the running mean; 1 is the gain itself."""
RESAMPLES = 2000
Floats = npt.NDArray[np.float64]


class Case(NamedTuple):
    """A positive pair."""

    kind: str
    target: str
    source: str
    passages: tuple[Passage, ...]


def draw_cases(folder: Path, each: int, characters: int) -> list[Case]:
    """Return at most ``each`` positive pairs of every kind that are not too long, in a repeatable order."""
    groups = defaultdict(list)
    for pair, kind, passages in read_known_pairs(folder):
        target, source = read_text(pair.suspicious), read_text(pair.source)
        if passages and max(len(target), len(source)) <= characters:
            groups[kind].append(Case(kind, target, source, passages))
    return [
        case for _, cases in sorted(groups.items()) for case in random.Random(5).sample(cases, min(each, len(cases)))
    ]


def mark_reused(tokens: tuple[Token, ...], case: Case) -> tuple[Floats, Floats]:
    """Return the numbers of reused and of new characters of each token, ``[tokens]`` each."""
    reused = np.zeros(len(case.target) + 1)
    for passage in case.passages:
        reused[passage[0] : passage[0] + passage[1]] = 1
    before = np.concatenate([[0], np.cumsum(reused)])
    starts, ends = (np.array([getattr(token, name) for token in tokens], np.int64) for name in ("start", "end"))
    inside = before[ends] - before[starts]
    return inside, (ends - starts) - inside


def smooth(gains: Floats, width: int) -> Floats:
    """Return the mean of the ``width`` gains around each token, of those that there are."""
    ones = np.ones(width)
    middle = slice((width - 1) // 2, (width - 1) // 2 + len(gains))
    return np.asarray(np.convolve(gains, ones)[middle] / np.convolve(np.ones(len(gains)), ones)[middle])


def measure(tokens: tuple[Token, ...], case: Case) -> list[float] | None:
    """Return the AUROC over characters for each window; None if all text is reused, or none of it."""
    from sklearn.metrics import roc_auc_score

    inside, outside = mark_reused(tokens, case)
    if not inside.sum() or not outside.sum():
        return None
    labels = np.repeat([1, 0], len(tokens))
    gains = np.array([token.gain for token in tokens])
    weights = np.concatenate([inside, outside])
    return [float(roc_auc_score(labels, np.tile(smooth(gains, w), 2), sample_weight=weights)) for w in WINDOWS]


def describe(values: Floats) -> str:
    """Return the mean of some targets and its 95 % interval over them."""
    drawn = np.random.default_rng(1).integers(len(values), size=(RESAMPLES, len(values)))
    low, high = np.quantile(values[drawn].mean(axis=1), [0.025, 0.975])
    return f"{values.mean():.3f} [{low:.3f}, {high:.3f}]"


@click.command(help=__doc__)
@click.option("--data", type=click.Path(path_type=Path, file_okay=False, exists=True), required=True)
@click.option("--profile", default="scdg-mini", show_default=True, help="Profile whose gains are measured.")
@click.option("--each", default=30, show_default=True, help="Pairs of each kind.")
@click.option("--characters", default=20_000, show_default=True, help="Longest text.")
def main(data: Path, profile: str, each: int, characters: int) -> None:
    """Print a row for each kind."""
    cases = draw_cases(data / "pan13-dev", each, characters)
    found = defaultdict(list)
    with Scorer(profile) as scorer, Progress("scoring", len(cases)) as progress:
        for case in cases:
            if row := measure(scorer.score(case.target, case.source).tokens, case):
                found[case.kind].append(row)
            progress.update()
    found["all"] = [row for rows in found.values() for row in rows]
    columns = ["kind", "targets", *(f"mean of {w}" for w in WINDOWS)]
    rows = [dict(zip(columns, (kind, len(rows), *map(describe, np.array(rows).T)))) for kind, rows in found.items()]
    print(format_table(rows, columns), end="")


if __name__ == "__main__":
    main()
