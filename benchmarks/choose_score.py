"""Choose the score and both thresholds: ``python -m benchmarks.choose_score --data DATA --development FILE``.

The numbers of all pairs of the development set, of DATA/pan13-dev, answers-dev, rewrites-dev and real-dev are measured
as ``run`` does; vectors and numbers stay in ``--work``. A threshold is the least at which the false positives of the
collections have at most a given mean. Weights are round numbers: random steps from the shipped ones are kept if they
raise the mean recall at `MEANS`. With each collection left out in turn, the thresholds are chosen on the others, and
its own false positives are counted.
"""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import click
import numpy as np
import numpy.typing as npt

from benchmarks.development.compose import Pair
from benchmarks.pairs import format_rows, read_answers, read_development, read_pan13
from benchmarks.stored_vectors import StoredEncoder
from pan_scdg.methods import MethodOptions
from pan_scdg.methods.alignment import AlignmentMethod, AlignmentSettings
from pan_scdg.profile import load_profile
from pan_scdg.records import TextPair

Floats = npt.NDArray[np.float64]
WEIGHTS = ("length_slope", "similarity_weight", "margin_weight", "extent_weight", "contrast_factor")
STEPS = (0.05, 0.5, 1.0, 1.0, 0.5)
"""Size of a step of each weight."""
MEANS = (0.04, 0.015)
"""Largest mean of the collections' false positives, for the threshold and for the strict one."""
NO_RECALL = ("sentence", "synthesis", "summary-inside", "commonlit-summaries")
"""Collections whose reuse is left out of the recall: single sentences, and summaries that students wrote."""
MIN_PAIRS = 8
"""Pairs of a collection and label that have a rate."""


class Numbers:
    """The measured numbers of pairs, their collections and labels, without pairs that are too short to decide."""

    def __init__(self, rows: Sequence[Mapping[str, Any]], settings: AlignmentSettings) -> None:
        rows = [row for row in rows if settings.can_decide(row["values"])]
        self.values = [row["values"] for row in rows]
        labels = np.array([row["label"] for row in rows], np.bool_)
        # negative PAN 2013 pairs are one collection, whatever their folder
        kinds = ["pan13" if row["kind"].startswith("pan13") and not row["label"] else row["kind"] for row in rows]
        self.negatives, self.positives = (
            {kind: places for kind, places in group_places(kinds, labels == label).items() if len(places) >= MIN_PAIRS}
            for label in (False, True)
        )

    def compute_scores(self, settings: AlignmentSettings) -> Floats:
        """Return the score of each pair."""
        return np.array([settings.compute_score(values) for values in self.values])


def group_places(kinds: Sequence[str], chosen: npt.NDArray[np.bool_]) -> dict[str, npt.NDArray[np.int64]]:
    """Return the places of the chosen pairs of each collection."""
    names = np.array(kinds)
    return {name: np.flatnonzero(chosen & (names == name)) for name in sorted(set(kinds))}


def read_collections(data: Path, development: Path) -> list[Pair]:
    """Return the pairs of all collections; those of real-dev have the name of their set as their kind."""
    pairs = [*read_development(development), *read_pan13(data / "pan13-dev")]
    pairs += [pair for name in ("answers-dev", "rewrites-dev") for pair in read_answers(data / name)]
    lines = read_lines(data / "real-dev" / "pairs.jsonl")
    return pairs + [
        Pair(line["pair_id"], line["set"], line["label"], line["source"], line["suspicious"]) for line in lines
    ]


def read_lines(path: Path) -> list[dict[str, Any]]:
    """Return the objects of a JSON Lines file."""
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


def take_first(pairs: Sequence[Pair], count: int | None) -> list[Pair]:
    """Return the first pairs of each collection and label."""
    taken: dict[tuple[str, int], int] = {}
    chosen = []
    for pair in pairs:
        taken[pair.kind, pair.label] = taken.get((pair.kind, pair.label), 0) + 1
        if count is None or taken[pair.kind, pair.label] <= count:
            chosen.append(pair)
    return chosen


def measure(pairs: Sequence[Pair], work: Path, model: str) -> list[dict[str, Any]]:
    """Return kind, label and numbers of each pair; those that were measured before are read from a file."""
    method = AlignmentMethod(AlignmentSettings(model=model), MethodOptions("cpu"))
    method.encoder = StoredEncoder(model, work / "vectors")
    method.encoder.encode_ahead(dict.fromkeys(text for pair in pairs for text in (pair.target, pair.source)))
    path = work / "numbers.jsonl"
    rows = {row["id"]: row for row in read_lines(path)} if path.exists() else {}
    with path.open("a", encoding="utf-8") as file:
        for number, pair in enumerate(pairs):
            key = f"{pair.kind}/{pair.label}/{pair.id}"
            if key not in rows:
                (measured,) = method.score([TextPair(str(number), "", pair.target, pair.source)])
                rows[key] = {"id": key, "kind": pair.kind, "label": pair.label, "values": dict(measured.values)}
                file.write(f"{json.dumps(rows[key])}\n")
    return [rows[f"{pair.kind}/{pair.label}/{pair.id}"] for pair in pairs]


def choose_threshold(scores: Floats, negatives: Mapping[str, npt.NDArray[np.int64]], mean: float) -> float:
    """Return the least threshold at which the false positives of collections have at most this mean."""
    every = np.concatenate([scores[places] for places in negatives.values()])
    shares = np.concatenate([np.full(len(places), 1 / len(places)) for places in negatives.values()]) / len(negatives)
    order = np.argsort(-every)
    first_below = np.searchsorted(np.cumsum(shares[order]), mean + 1e-9, "right")
    return float(np.nextafter(every[order][first_below], np.inf))


def compute_recall(scores: Floats, numbers: Numbers, threshold: float) -> float:
    """Return the mean recall of the collections that count."""
    chosen = [places for name, places in numbers.positives.items() if name not in NO_RECALL]
    return float(np.mean([(scores[places] >= threshold).mean() for places in chosen]))


def search_weights(numbers: Numbers, settings: AlignmentSettings, steps: int) -> dict[str, float]:
    """Return the weights that the best of random steps led to."""
    rng = np.random.default_rng(0)

    def rate(weights: Mapping[str, float]) -> float:
        changed = type("Changed", (AlignmentSettings,), dict(weights))(model=settings.model)
        scores = numbers.compute_scores(changed)
        recalls = (compute_recall(scores, numbers, choose_threshold(scores, numbers.negatives, mean)) for mean in MEANS)
        return float(np.mean(list(recalls)))

    best = {name: float(getattr(settings, name)) for name in WEIGHTS}
    reached = rate(best)
    for _ in range(steps):
        moves = rng.integers(-1, 2, size=len(WEIGHTS)) * np.array(STEPS)
        tried = {name: max(0.0, round(best[name] + move, 2)) for name, move in zip(WEIGHTS, moves.tolist())}
        if (rated := rate(tried)) > reached:
            best, reached = tried, rated
            click.echo(f"{reached:.4f} {best}", err=True)
    return best


def tabulate(numbers: Numbers, scores: Floats, thresholds: Sequence[float]) -> str:
    """Return false positives, also with the collection left out, and recall of each collection at each threshold."""
    rows = []
    for name in sorted({*numbers.negatives, *numbers.positives}):
        cells: list[str] = []
        for mean, threshold in zip(MEANS, thresholds, strict=True):
            others = {other: places for other, places in numbers.negatives.items() if other != name}
            held_out = choose_threshold(scores, others, mean)
            own, reused = numbers.negatives.get(name), numbers.positives.get(name)
            cells += ["-", "-"] if own is None else [f"{(scores[own] >= t).mean():.3f}" for t in (threshold, held_out)]
            cells.append("-" if reused is None else f"{(scores[reused] >= threshold).mean():.3f}")
        counts = (len(places.get(name, ())) for places in (numbers.positives, numbers.negatives))
        rows.append([name, " + ".join(map(str, counts)), *cells])
    heads = ["false positives", "left out", "found"]
    return format_rows(["collection", "pairs", *heads, *(f"strict: {head}" for head in heads)], rows)


@click.command(help=__doc__)
@click.option("--data", type=click.Path(path_type=Path), required=True, help="Folder with pan13-dev, ..., real-dev.")
@click.option("--development", type=click.Path(path_type=Path), required=True)
@click.option("--first", type=click.IntRange(min=1), help="Pairs of each collection and label, for a smaller set.")
@click.option("--steps", type=click.IntRange(min=0), default=0, show_default=True, help="Random steps of the weights.")
@click.option("--work", type=click.Path(path_type=Path), default=Path("out/choose-score"), show_default=True)
def main(data: Path, development: Path, first: int | None, steps: int, work: Path) -> None:
    profile = load_profile("offline")
    settings, decide = profile.method_settings, profile.need_decide()
    if not isinstance(settings, AlignmentSettings) or decide.threshold is None or decide.strict is None:
        raise click.ClickException("the profile offline does not decide by alignment, or has no thresholds")
    pairs = take_first(read_collections(data, development), first)
    numbers = Numbers(measure(pairs, work, settings.model), settings)
    scores = numbers.compute_scores(settings)
    for mean, shipped in zip(MEANS, (decide.threshold, decide.strict)):
        chosen = choose_threshold(scores, numbers.negatives, mean)
        recall = compute_recall(scores, numbers, shipped)
        click.echo(f"mean {mean:.1%}: {chosen:.3f}; shipped {shipped}, recall {recall:.3f}")
    click.echo(f"\n{tabulate(numbers, scores, (decide.threshold, decide.strict))}\n")
    if steps:
        click.echo(f"best weights: {search_weights(numbers, settings, steps)}")


if __name__ == "__main__":
    main()
