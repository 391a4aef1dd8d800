"""Texts on one question in ``check``: ``python -m benchmarks.cohorts --data DATA --development FILE``.

The answers of DATA/answers-dev and the pairs "same-question" of the development set name no question. Their texts are
grouped by the cosine of their directions (average linkage, at `SIMILARITIES`); of each group every suspicious text is
compared with every source, as `check` does. Shown are the pairs with a cohort, before and after the comparison with it:
those that the data call reused or independent, and all others, which nothing suggests are reused.
"""

from collections import Counter
from itertools import product
from pathlib import Path

import click
import numpy as np
from scipy.cluster.hierarchy import fcluster, linkage

from benchmarks.development.compose import Pair
from benchmarks.pairs import format_rows, read_answers, read_development
from pan_scdg.jobs.decisions import MIN_COHORT, compare_with_cohorts
from pan_scdg.methods import MethodOptions, Values
from pan_scdg.methods.alignment import AlignmentMethod
from pan_scdg.profile import load_profile
from pan_scdg.records import DocumentPair, TextFile, TextPair
from pan_scdg.results.records import DecidedPair, Decision

SIMILARITIES = (0.55, 0.6, 0.65)
KINDS = ("answer-rewritten", "answer-from-article", "same-question")
LABELS, OTHERS = {1: "reused", 0: "independent"}, "all others"


def group_texts(pairs: list[Pair], similarity: float, method: AlignmentMethod) -> dict[str, int]:
    """Return the number of the group of each text."""
    texts = sorted({text for pair in pairs for text in (pair.target, pair.source)})
    vectors = np.stack([method.encoder.encode(text).vectors.sum(axis=0) for text in texts])
    numbers = fcluster(linkage(vectors, "average", "cosine"), 1 - similarity, "distance")
    return dict(zip(texts, numbers.tolist(), strict=True))


def score_group(
    pairs: list[Pair], texts: list[str], method: AlignmentMethod, threshold: float
) -> dict[DocumentPair, tuple[str, DecidedPair, Values]]:
    """Return the pairs of all suspicious texts and sources of a group, without those that are too short.

    Each with what the data say about it, the decision and the numbers.
    """
    labels = {(pair.target, pair.source): LABELS[pair.label] for pair in pairs}
    targets, sources = {pair.target for pair in pairs}, {pair.source for pair in pairs}
    scored: dict[DocumentPair, tuple[str, DecidedPair, Values]] = {}
    for target, source in product([t for t in texts if t in targets], [t for t in texts if t in sources]):
        values = method.score([TextPair("", "", target, source)])[0].values
        if target != source and method.settings.can_decide(values):
            number = method.settings.compute_score(values)
            pair = DocumentPair(make_file(target), make_file(source))
            record = Decision(*pair.key, number, threshold, number >= threshold, "no sign")
            scored[pair] = labels.get((target, source), OTHERS), DecidedPair(record), values
    return scored


def make_file(text: str) -> TextFile:
    """Return a text as a document of a pair."""
    return TextFile("", "", Path(), text)


def has_cohort(pair: DocumentPair, decided: dict[DocumentPair, DecidedPair]) -> bool:
    """Return True if a pair has enough others of its texts below the threshold."""
    others = [other for other, one in decided.items() if not one.decision and other != pair]
    return sum(bool({*other[:2]} & {*pair[:2]}) for other in others) >= MIN_COHORT


@click.command(help=__doc__)
@click.option("--data", type=click.Path(path_type=Path), required=True, help="Folder with answers-dev.")
@click.option("--development", type=click.Path(path_type=Path), required=True)
def main(data: Path, development: Path) -> None:
    profile = load_profile("offline")
    threshold = profile.need_decide().threshold or 0.0
    method = profile.open_method(MethodOptions("cpu"))
    assert isinstance(method, AlignmentMethod)
    pairs = [*read_answers(data / "answers-dev"), *read_development(development)]
    rows = []
    for similarity in SIMILARITIES:
        counts: Counter[tuple[str, str]] = Counter()
        for kind in KINDS:
            chosen = [pair for pair in pairs if pair.kind == kind]
            groups = group_texts(chosen, similarity, method)
            for group in sorted(set(groups.values())):
                texts = [text for text, number in groups.items() if number == group]
                labelled = score_group(chosen, texts, method, threshold)
                scored = {pair: one for pair, (_, one, _) in labelled.items()}
                copies = {pair for pair, (_, _, values) in labelled.items() if method.settings.is_copy(values)}
                kinds = {make_file(text): "texts" for text in texts}
                compared = compare_with_cohorts(scored, kinds, copies.__contains__)
                for pair, (label, before, _) in labelled.items():
                    if has_cohort(pair, scored):
                        counts[label, "pairs"] += 1
                        counts[label, "before"] += bool(before.decision)
                        counts[label, "after"] += bool(compared[pair].decision)
        rows += [
            [similarity, label, *(counts[label, count] for count in ("pairs", "before", "after"))]
            for label in (*LABELS.values(), OTHERS)
        ]
    click.echo(format_rows(["similarity of a group", "pairs", "with a cohort", "likely alone", "likely"], rows))


if __name__ == "__main__":
    main()
