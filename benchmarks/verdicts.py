"""Decisions beside simple methods: ``python -m benchmarks.verdicts --data DATA --development FILE``.

Pairs: the development set (`benchmarks.development`), the 510 PAN 2013 pairs in DATA/pan13-dev, the 781 pairs in
DATA/answers-dev, the 579 in DATA/rewrites-dev, and 300 of all these with the same headings in both texts. ``run``
scores and decides them with a profile. For each kind the AUROC of the profile and of simple methods; then what the
threshold of the profile does, and what a threshold that was chosen by this rule on all other kinds does, both on the
pairs that are decided.
"""

from collections.abc import Mapping
from pathlib import Path

import click
import numpy as np
import numpy.typing as npt

from benchmarks.development.compose import Pair
from benchmarks.pairs import CLEAN, add_headings, decide, format_rows, read_answers, read_development, read_pan13
from benchmarks.simple_pair_scores import (
    Floats,
    best_four_sentences,
    content_word_overlap,
    four_gram_containment,
    minilm_cosine,
    tfidf_cosine,
)
from pan_scdg.results.records import FEW_SENTENCES
from pan_scdg.scdg.thresholds import choose_threshold

Bools = npt.NDArray[np.bool_]
ALL = "all"
MAX_FALSE_POSITIVES, MAX_FALSE_POSITIVES_OF_A_KIND = 0.03, 0.10
"""The rule by which the thresholds of former scores were chosen; today's is that of `benchmarks.choose_score`."""
MIN_NEGATIVES = 10
"""Negative pairs of a kind whose false positives limit the threshold."""
HEADED_PAIRS = 150
"""Pairs of each label that get headings."""
RESAMPLES = 1000


class Items:
    """Pairs with their kinds and labels."""

    def __init__(self, pairs: list[Pair]) -> None:
        """Keep the pairs."""
        self.pairs = pairs
        self.texts = [(pair.target, pair.source) for pair in pairs]
        self.kinds = np.array([pair.kind for pair in pairs])
        self.labels = np.array([bool(pair.label) for pair in pairs])

    def list_kinds(self) -> list[str]:
        """Return all kinds, then ``all``."""
        return [*dict.fromkeys(self.kinds.tolist()), ALL]

    def select(self, kind: str) -> Bools:
        """Return True for the pairs of a kind; positive PAN 2013 pairs come with all negative ones of PAN 2013."""
        if kind == ALL:
            return np.ones(len(self.kinds), np.bool_)
        if kind.startswith("pan13"):
            negative = np.char.startswith(self.kinds, "pan13") & ~self.labels
            return np.asarray((self.kinds == kind) | negative)
        return np.asarray(self.kinds == kind)


def take_first(pairs: list[Pair], count: int | None) -> list[Pair]:
    """Return the first pairs of each kind and label."""
    taken: dict[tuple[str, int], int] = {}
    chosen = []
    for pair in pairs:
        taken[pair.kind, pair.label] = taken.get((pair.kind, pair.label), 0) + 1
        if count is None or taken[pair.kind, pair.label] <= count:
            chosen.append(pair)
    return chosen


def compute_auroc(scores: Floats, labels: Bools) -> float:
    """Return the area under the ROC curve, ties counted half."""
    from scipy.stats import rankdata

    positives = int(labels.sum())
    ranks = rankdata(scores)[labels].sum() - positives * (positives + 1) / 2
    return float(ranks / (positives * (len(labels) - positives)))


def bootstrap_auroc(scores: Floats, labels: Bools) -> tuple[float, float]:
    """Return a 95 % interval over pairs."""
    rng = np.random.default_rng(0)
    drawn = (rng.integers(len(labels), size=len(labels)) for _ in range(RESAMPLES))
    values = [compute_auroc(scores[places], labels[places]) for places in drawn]
    return float(np.quantile(values, 0.025)), float(np.quantile(values, 0.975))


def find_wilson_interval(hits: int, count: int) -> str:
    """Return a rate with its 95 % interval."""
    z, rate = 1.96, hits / count
    middle, half = rate + z * z / (2 * count), z * np.sqrt(rate * (1 - rate) / count + (z / (2 * count)) ** 2)
    low, high = ((middle + sign * half) / (1 + z * z / count) for sign in (-1, 1))
    return f"{rate:.3f} [{low:.3f}, {high:.3f}]"


def choose(scores: Floats, items: Items, among: Bools) -> float:
    """Return the threshold with the largest F1 that keeps the false positives of all and of each kind few."""
    threshold = choose_threshold({0.0: scores[among]}, items.labels[among], MAX_FALSE_POSITIVES).threshold
    for kind in np.unique(items.kinds[among & ~items.labels]):
        negative = np.sort(scores[among & ~items.labels & (items.kinds == kind)])[::-1]
        if len(negative) >= MIN_NEGATIVES:
            allowed = int(MAX_FALSE_POSITIVES_OF_A_KIND * len(negative))
            threshold = max(threshold, float(np.nextafter(negative[allowed], np.inf)))
    return threshold


def count_positives(scores: Floats, items: Items, threshold: float, among: Bools) -> list[str]:
    """Return true and false positive rates with their counts."""
    cells = []
    for label in (True, False):
        chosen = scores[among & (items.labels == label)]
        hits = int((chosen >= threshold).sum())
        cells.append(f"{hits / len(chosen):.3f} ({hits} of {len(chosen)})" if len(chosen) else "-")
    return cells


def tabulate(items: Items, methods: Mapping[str, Floats]) -> str:
    """Return the AUROC of every method on every kind."""
    rows = []
    for kind in items.list_kinds():
        chosen = items.select(kind)
        labels = items.labels[chosen]
        if kind != CLEAN and not labels.all():
            cells = [f"{compute_auroc(scores[chosen], labels):.3f}" for scores in methods.values()]
            rows.append([kind, f"{labels.sum()} + {(~labels).sum()}", *cells])
    return format_rows(["kind", "pairs", *methods], rows)


@click.command(help=__doc__)
@click.option("--data", type=click.Path(path_type=Path), help="Folder with pan13-dev, answers-dev and rewrites-dev.")
@click.option("--development", type=click.Path(path_type=Path), required=True)
@click.option("--profile", default="offline", show_default=True)
@click.option("--first", type=click.IntRange(min=1), help="Pairs of each kind and label, for a smaller set.")
@click.option("--minilm", is_flag=True, help="Both methods with MiniLM as well; they encode every text again.")
@click.option("--work", type=click.Path(path_type=Path), default=Path("out/verdicts"), show_default=True)
def main(data: Path | None, development: Path, profile: str, first: int | None, minilm: bool, work: Path) -> None:
    pairs = read_development(development)
    if data:
        pairs += read_pan13(data / "pan13-dev")
        pairs += [pair for name in ("answers-dev", "rewrites-dev") for pair in read_answers(data / name)]
    pairs += add_headings(pairs, HEADED_PAIRS)
    items = Items(take_first(pairs, first))
    decisions = decide(items.texts, work, profile)
    scores = np.array([line.score for line in decisions], np.float64)
    functions = {"4-gram containment": four_gram_containment, "TF-IDF": tfidf_cosine}
    functions["content words"] = content_word_overlap
    if minilm:
        functions |= {"best four sentences": best_four_sentences, "MiniLM cosine": minilm_cosine}
    methods = {Path(profile).stem: scores, **{name: score(items.texts) for name, score in functions.items()}}
    click.echo(f"AUROC\n\n{tabulate(items, methods)}\n")
    for name, values in methods.items():
        low, high = bootstrap_auroc(values, items.labels)
        click.echo(f"{name}, all pairs: {compute_auroc(values, items.labels):.3f} [{low:.3f}, {high:.3f}]")
    long_enough = [line.find_reason(FEW_SENTENCES) is None for line in decisions]
    click.echo(f"\nnot decided, since the target is one sentence: {len(pairs) - sum(long_enough)}")
    items, scores = Items([pair for pair, kept in zip(items.pairs, long_enough) if kept]), scores[long_enough]
    every = items.select(ALL)
    threshold, best = float(decisions[0].threshold or 0.0), choose(scores, items, every)
    click.echo(f"\nthreshold of the profile {threshold!r}; by the rule {best!r}\n")
    heads = ["true positives", "false positives"]
    rows = []
    for kind in items.list_kinds():
        among = every if kind == ALL else items.kinds == kind
        held_out = best if kind == ALL else choose(scores, items, ~among)
        cells = [*count_positives(scores, items, threshold, among), *count_positives(scores, items, held_out, among)]
        rows.append([kind, *cells])
    click.echo(format_rows(["kind", *heads, *(f"{head}, kind left out" for head in heads)], rows))
    positive = scores >= threshold
    for name, label in (("recall", True), ("false positives", False)):
        among = items.labels == label
        click.echo(f"{name}: {find_wilson_interval(int(positive[among].sum()), int(among.sum()))}")


if __name__ == "__main__":
    main()
