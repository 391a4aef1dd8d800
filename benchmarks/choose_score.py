"""Choose the score and both thresholds: ``python -m benchmarks.choose_score --data DATA --development FILE``.

The numbers of all pairs of the development set, of DATA/pan13-dev, answers-dev, rewrites-dev and real-dev are measured
as ``run`` does; vectors and numbers stay in ``--work``. A threshold is the least at which the false positives of the
collections meet a rule. With each collection left out in turn, the thresholds are chosen on the others, and its own
false positives are counted. With ``--steps`` the weights are chosen, too, on all collections and with each left out:
random steps between round numbers are kept if they raise the recall at the thresholds by `RULES`, less penalties for an
AUROC below `MIN_AUROC` and for a collection left out above a tenth.
"""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import click
import numpy as np
import numpy.typing as npt

from benchmarks.development.compose import Pair
from benchmarks.pairs import format_rows, read_answers, read_development, read_pan13
from benchmarks.stored_vectors import StoredEncoder
from benchmarks.verdicts import compute_auroc
from pan_scdg.commit import hash_code
from pan_scdg.methods import MethodOptions
from pan_scdg.methods.alignment import AlignmentMethod, AlignmentSettings
from pan_scdg.profile import load_profile
from pan_scdg.records import TextPair

Floats = npt.NDArray[np.float64]
STEPS = {
    "similarity_weight": 0.5,
    "nearest_weight": 0.5,
    "margin_weight": 1.0,
    "extent_weight": 1.0,
    "contrast_factor": 0.25,
    "topic_weight": 0.25,
}
"""Size of a step of each weight."""
START = {
    "similarity_weight": 5.0,
    "nearest_weight": 5.0,
    "margin_weight": 10.0,
    "extent_weight": 10.0,
    "contrast_factor": 1.0,
    "topic_weight": 0.0,
}


class Rule(NamedTuple):
    """Largest false positives of the collections at a threshold."""

    mean: float
    largest: float


RULES = (Rule(0.04, 0.095), Rule(0.015, 0.095))
"""For the threshold and for the strict one; below a tenth, so that a collection left out stays below it, too."""
NO_RECALL = ("sentence", "synthesis", "summary-inside", "commonlit-summaries")
"""Collections whose reuse is left out of the recall: single sentences, and summaries that students wrote."""
PROSE = (
    "answer-from-article",
    "answer-rewritten",
    "gpt35-news-rephrased",
    "hewlett-gpt4-simplify",
    "humanised-adversarial",
    "raidar-arxiv-gpt35",
    "rewritten-section",
    "rewritten-section-inside",
    "rewritten-whole",
    "toefl-gpt4-polish",
)
"""Collections of prose that is rewritten as a whole, or a section of it."""
REAL = (
    "basil-news",
    "commonlit-peers",
    "commonlit-summaries",
    "cs224n-abstracts",
    "gpt35-news-rephrased",
    "hewlett-gpt4-simplify",
    "humanised-adversarial",
    "raidar-arxiv-gpt35",
    "recipes",
    "toefl-gpt4-polish",
)
"""Collections of real-dev."""
INSIDE = ("obfuscated-3", "pan13, random", "pan13, translation", "passage-inside", "rewritten-section-inside")
"""Collections in which the reuse is one heavily changed passage of a text."""
MIN_AUROC = 0.97
"""Of the pairs that are not from real-dev."""
MIN_PAIRS = 8
"""Pairs of a collection and label that have a rate."""


class Numbers:
    """The measured numbers of pairs, their collections and labels, without pairs that are too short to decide."""

    def __init__(self, rows: Sequence[Mapping[str, Any]], settings: AlignmentSettings) -> None:
        self.rows = rows = [row for row in rows if settings.can_decide(row["values"])]
        self.settings = settings
        self.values = [row["values"] for row in rows]
        self.labels = np.array([row["label"] for row in rows], np.bool_)
        # negative PAN 2013 pairs are one collection, whatever their folder
        self.kinds = ["pan13" if row["kind"].startswith("pan13") and not row["label"] else row["kind"] for row in rows]
        self.negatives, self.positives = (
            {
                kind: places
                for kind, places in group_places(self.kinds, self.labels == label).items()
                if len(places) >= MIN_PAIRS
            }
            for label in (False, True)
        )

    def compute_scores(self, weights: Mapping[str, float] | None = None) -> Floats:
        """Return the score of each pair, with these weights instead of the shipped ones."""
        changed = type("Changed", (AlignmentSettings,), dict(weights or {}))(model=self.settings.model)
        return np.array([changed.compute_score(values) for values in self.values])

    def leave_out(self, name: str) -> "Numbers":
        """Return the numbers of all collections but one."""
        return Numbers([row for row, kind in zip(self.rows, self.kinds) if kind != name], self.settings)


def group_places(kinds: Sequence[str], chosen: npt.NDArray[np.bool_]) -> dict[str, npt.NDArray[np.int64]]:
    """Return the places of the chosen pairs of each collection."""
    names = np.array(kinds)
    return {name: np.flatnonzero(chosen & (names == name)) for name in sorted(set(kinds))}


def read_collections(data: Path, development: Path) -> list[Pair]:
    """Return the pairs of all collections but those of real-dev."""
    pairs = [*read_development(development), *read_pan13(data / "pan13-dev")]
    return pairs + [pair for name in ("answers-dev", "rewrites-dev") for pair in read_answers(data / name)]


def read_real(data: Path) -> list[Pair]:
    """Return the pairs of real-dev, with the name of their set as their kind."""
    lines = read_lines(data / "real-dev" / "pairs.jsonl")
    return [Pair(line["pair_id"], line["set"], line["label"], line["source"], line["suspicious"]) for line in lines]


def read_lines(path: Path) -> list[dict[str, Any]]:
    """Return the objects of a JSON Lines file."""
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


def take_evenly(pairs: Sequence[Pair], count: int) -> list[Pair]:
    """Return pairs of each collection and label, evenly spaced: in their order, those that are alike are neighbours."""
    groups: dict[tuple[str, int], list[Pair]] = {}
    for pair in pairs:
        groups.setdefault((pair.kind, pair.label), []).append(pair)
    return [
        group[len(group) * n // min(count, len(group))]
        for group in groups.values()
        for n in range(min(count, len(group)))
    ]


def measure(pairs: Sequence[Pair], work: Path, model: str) -> list[dict[str, Any]]:
    """Return kind, label and numbers of each pair; those that were measured before are read from a file."""
    method = AlignmentMethod(AlignmentSettings(model=model), MethodOptions("cpu"))
    method.encoder = StoredEncoder(model, work / "vectors")
    method.encoder.encode_ahead(dict.fromkeys(text for pair in pairs for text in (pair.target, pair.source)))
    path = work / f"numbers-{hash_code()[:12]}.jsonl"  # another version measures other numbers
    rows = {row["id"]: row for row in read_lines(path)} if path.exists() else {}
    with path.open("a", encoding="utf-8") as file:
        for number, pair in enumerate(pairs):
            key = f"{pair.kind}/{pair.label}/{pair.id}"
            if key not in rows:
                (measured,) = method.score([TextPair(str(number), "", pair.target, pair.source)])
                rows[key] = {"id": key, "kind": pair.kind, "label": pair.label, "values": dict(measured.values)}
                file.write(f"{json.dumps(rows[key])}\n")
    return [rows[f"{pair.kind}/{pair.label}/{pair.id}"] for pair in pairs]


def choose_threshold(scores: Floats, negatives: Mapping[str, npt.NDArray[np.int64]], rule: Rule) -> float:
    """Return the least threshold at which the false positives of collections meet a rule."""
    every = np.concatenate([scores[places] for places in negatives.values()])
    shares = np.concatenate([np.full(len(places), 1 / len(places)) for places in negatives.values()]) / len(negatives)
    order = np.argsort(-every)
    highest = [every[order][np.searchsorted(np.cumsum(shares[order]), rule.mean + 1e-9, "right")]]
    for places in negatives.values():
        count = int(rule.largest * len(places) + 1e-9)
        highest += np.sort(scores[places])[::-1][count : count + 1].tolist()
    return float(np.nextafter(max(highest), np.inf))


def hold_out(scores: Floats, negatives: Mapping[str, npt.NDArray[np.int64]], rule: Rule) -> dict[str, float]:
    """Return the false positives of each collection at the threshold that is chosen on the others."""
    rates = {}
    for name, places in negatives.items():
        others = {other: there for other, there in negatives.items() if other != name}
        rates[name] = float((scores[places] >= choose_threshold(scores, others, rule)).mean())
    return rates


def compute_recall(scores: Floats, numbers: Numbers, threshold: float, names: Sequence[str] = ()) -> float:
    """Return the mean recall of collections: those with these names, or all that count."""
    chosen = [
        places for name, places in numbers.positives.items() if (name in names if names else name not in NO_RECALL)
    ]
    return float(np.mean([(scores[places] >= threshold).mean() for places in chosen]))


def search_weights(numbers: Numbers, steps: int) -> dict[str, float]:
    """Return the weights that the best of random steps from `START` led to.

    They are rated by the recall at the threshold, of all collections and once more of `INSIDE`, and by half of that at
    the strict one; less what the AUROC lacks, and by how much a collection left out exceeds a tenth.
    """
    rng = np.random.default_rng(0)
    others = ~np.isin(numbers.kinds, REAL)

    def rate(weights: Mapping[str, float]) -> float:
        scores = numbers.compute_scores(weights)
        threshold, strict = (choose_threshold(scores, numbers.negatives, rule) for rule in RULES)
        recall = compute_recall(scores, numbers, threshold) + compute_recall(scores, numbers, threshold, INSIDE)
        missing = max(0.0, MIN_AUROC - compute_auroc(scores[others], numbers.labels[others]))
        largest = (max(hold_out(scores, numbers.negatives, rule).values()) for rule in RULES)
        too_many = sum(max(0.0, rate - 0.1) for rate in largest)
        return recall + compute_recall(scores, numbers, strict) / 2 - 20 * missing - 5 * too_many

    best, reached = START, rate(START)
    for _ in range(steps):
        moves = rng.integers(-2, 3, size=len(STEPS)) * (rng.random(len(STEPS)) < 0.4)
        tried = {
            name: max(0.0, round(best[name] + step * move, 2))
            for (name, step), move in zip(STEPS.items(), moves.tolist(), strict=True)
        }
        if (rated := rate(tried)) > reached:
            best, reached = tried, rated
    return best


def leave_out_each(numbers: Numbers, steps: int) -> str:
    """Return the false positives of each collection by the weights and thresholds that are chosen without it."""
    rows = []
    for name, own in numbers.negatives.items():
        weights = search_weights(numbers.leave_out(name), steps)
        scores = numbers.compute_scores(weights)
        others = {other: there for other, there in numbers.negatives.items() if other != name}
        rates = [(scores[own] >= choose_threshold(scores, others, rule)).mean() for rule in RULES]
        rows.append([name, *(f"{rate:.3f}" for rate in rates), *(f"{weight:g}" for weight in weights.values())])
    return format_rows(["collection left out", "false positives", "strict", *STEPS], rows)


def tabulate(numbers: Numbers, scores: Floats, thresholds: Sequence[float]) -> str:
    """Return false positives, also with the collection left out, and recall of each collection at each threshold."""
    held_out = [hold_out(scores, numbers.negatives, rule) for rule in RULES]
    rows = []
    for name in sorted({*numbers.negatives, *numbers.positives}):
        own, reused = numbers.negatives.get(name), numbers.positives.get(name)
        cells: list[str] = []
        for rates, threshold in zip(held_out, thresholds, strict=True):
            shares = [None if places is None else (scores[places] >= threshold).mean() for places in (own, reused)]
            cells += ["-" if share is None else f"{share:.3f}" for share in (shares[0], rates.get(name), shares[1])]
        counts = (len(places.get(name, ())) for places in (numbers.positives, numbers.negatives))
        rows.append([name, " + ".join(map(str, counts)), *cells])
    heads = ["false positives", "left out", "found"]
    return format_rows(["collection", "pairs", *heads, *(f"strict: {head}" for head in heads)], rows)


def summarise(numbers: Numbers, scores: Floats, thresholds: Sequence[float]) -> str:
    """Return what each rule chooses, and the means of all collections at the threshold that is shipped."""
    rows = []
    for rule, threshold in zip(RULES, thresholds, strict=True):
        rates = [(scores[places] >= threshold).mean() for places in numbers.negatives.values()]
        left_out = list(hold_out(scores, numbers.negatives, rule).values())
        numbers_of_rule = (
            choose_threshold(scores, numbers.negatives, rule),
            threshold,
            np.mean(rates),
            np.mean(left_out),
            np.quantile(left_out, 0.9),
            max(left_out),
            compute_recall(scores, numbers, threshold),
            compute_recall(scores, numbers, threshold, PROSE),
        )
        rows.append([f"{value:.3f}" for value in numbers_of_rule])
    heads = ["chosen", "threshold", "false positives", "left out: mean", "90th percentile", "largest"]
    return format_rows([*heads, "recall", "rewritten prose"], rows)


@click.command(help=__doc__)
@click.option("--data", type=click.Path(path_type=Path), required=True, help="Folder with pan13-dev, ..., real-dev.")
@click.option("--development", type=click.Path(path_type=Path), required=True)
@click.option("--each", type=click.IntRange(min=1), help="Pairs of each collection and label; all of real-dev.")
@click.option("--steps", type=click.IntRange(min=0), default=0, show_default=True, help="Random steps of the weights.")
@click.option("--work", type=click.Path(path_type=Path), default=Path("out/choose-score"), show_default=True)
def main(data: Path, development: Path, each: int | None, steps: int, work: Path) -> None:
    profile = load_profile("offline")
    settings, decide = profile.method_settings, profile.need_decide()
    if not isinstance(settings, AlignmentSettings) or decide.threshold is None or decide.strict is None:
        raise click.ClickException("the profile offline does not decide by alignment, or has no thresholds")
    others, real_pairs = read_collections(data, development), read_real(data)
    pairs = [*(take_evenly(others, each) if each else others), *real_pairs]
    numbers = Numbers(measure(pairs, work, settings.model), settings)
    scores = numbers.compute_scores()
    thresholds = (decide.threshold, decide.strict)
    click.echo(f"{summarise(numbers, scores, thresholds)}\n\n{tabulate(numbers, scores, thresholds)}\n")
    real = np.isin(numbers.kinds, REAL)
    for name, chosen in (("all", real | True), ("real-dev", real), ("the others", ~real)):
        click.echo(f"{name}: {chosen.sum()} pairs, AUROC {compute_auroc(scores[chosen], numbers.labels[chosen]):.3f}")
    if steps:
        click.echo(f"best weights: {search_weights(numbers, steps)}\n\n{leave_out_each(numbers, steps)}")


if __name__ == "__main__":
    main()
