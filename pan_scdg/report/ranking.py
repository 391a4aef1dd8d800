"""The suspicious texts of a report, each with its sources, and the pairs to look at next."""

from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple, TypeGuard

from pan_scdg.report.records import (
    FINDING_ORDER,
    Excluded,
    Report,
    ReportText,
    subtract_spans,
)
from pan_scdg.results.records import DecidedPair, Finding

MAX_NEXT_PAIRS = 5
MIN_NEXT_POINTS = 25
"""Least points of a pair to look at next: half of those at the threshold."""


class SuspiciousText(NamedTuple):
    """A suspicious text with the decision and the score of its best pair."""

    name: str
    finding: Finding
    score: float | None
    share: float
    """Share of the text in passages that count, of all its pairs with a sign of reuse, 0 to 1."""
    best: int | None
    """Number of the pair that decides; None if none of its pairs is listed."""
    signs: tuple[int, ...]
    """Numbers of its pairs that are likely or unclear, best first, but for those that are only too short to tell."""


def rank_suspicious(report: Report) -> list[SuspiciousText]:
    """Return every suspicious text, best first."""
    pairs: dict[str, dict[int, DecidedPair]] = {name: {} for name in report.suspicious}
    for number, pair in enumerate(report.pairs, 1):
        pairs[pair.suspicious][number] = pair
        if report.within_class and pair.source in pairs:
            pairs[pair.source][number] = pair
    texts = [_rank_text(report, name, own) for name, own in pairs.items()]
    return sorted(texts, key=lambda t: (t.score is None, -(t.score or 0.0), FINDING_ORDER[t.finding], t.name))


def _rank_text(report: Report, name: str, pairs: Mapping[int, DecidedPair]) -> SuspiciousText:
    """Return a text, given its pairs by their numbers."""
    signs = tuple(n for n, pair in pairs.items() if pair.finding != "no sign" and not pair.short_texts)
    share = measure_text_share(report.suspicious, name, [pairs[number] for number in signs])
    # a text that is too short is unclear itself, and says nothing about the other one
    decisive = [n for n, pair in pairs.items() if not pair.short_texts or name in pair.short_texts]
    if not decisive:
        return SuspiciousText(name, "no sign", None, share, None, signs)
    # pairs come by score: an unclear one may be before a likely one
    best = min(decisive, key=lambda number: FINDING_ORDER[pairs[number].finding])
    return SuspiciousText(name, pairs[best].finding, pairs[best].score, share, best, signs)


def is_swapped(pair: DecidedPair, name: str) -> bool:
    """Return True if a text is on the side of the source: texts were compared with each other."""
    return pair.suspicious != name


def measure_text_share(texts: Mapping[str, ReportText], name: str, pairs: Iterable[DecidedPair]) -> float:
    """Return the share of a text in passages of its pairs that count, 0 to 1; one without passages is not read."""
    with_passages = [pair for pair in pairs if pair.passages]
    if not with_passages:
        return 0.0
    text = texts[name]
    places = [place for pair in with_passages for place in list_places(pair, text.excluded, is_swapped(pair, name))]
    return measure_share(places, len(text.text))


def list_places(pair: DecidedPair, excluded: Sequence[Excluded], swapped: bool = False) -> list[tuple[int, int]]:
    """Return begin and end of what counts of a pair's passages, in the suspicious text or, swapped, in the source.

    Args:
        pair: with passages.
        excluded: what does not count of this text.
        swapped: of the source.
    """
    counted = [p.source if swapped else p.target for p in pair.passages if p.counts]
    return [place for begin, end in counted for place in subtract_spans(begin, end, excluded)]


def measure_share(places: Iterable[tuple[int, int]], length: int) -> float:
    """Return the share of a text of this length that is inside at least one place, 0 to 1."""
    covered = last = 0
    for begin, end in sorted(places):
        covered += max(0, end - max(begin, last))
        last = max(last, end)
    return covered / max(1, length)


def has_points(threshold: float | None) -> TypeGuard[float]:
    """Return True if scores can be shown as points."""
    return threshold is not None and threshold > 0


def scale_score(score: float, threshold: float) -> float:
    """Return the points of a score, 0 to 100: 50 at the threshold, 67 at twice, 75 at three times the threshold."""
    return 100 * score / (score + threshold) if score > 0 else 0.0


def measure_points(score: float | None, threshold: float | None) -> int | None:
    """Return the points of a score as they are shown; None without a score or a threshold above 0."""
    if score is None or not has_points(threshold):
        return None
    points = int(scale_score(score, threshold))
    # neither a rounded score nor a rounded quotient changes sides
    return max(50, points) if score >= threshold else min(49, points)


def list_next(report: Report) -> list[int]:
    """Return the numbers of the best pairs without a sign of reuse, at most `MAX_NEXT_PAIRS`."""
    points = (measure_points(pair.score, report.threshold) for pair in report.pairs)
    pairs = enumerate(zip(report.pairs, points), 1)
    return [number for number, (pair, own) in pairs if is_next(pair.finding, own)][:MAX_NEXT_PAIRS]


def is_next(finding: str, points: int | None) -> bool:
    """Return True if a pair without a sign of reuse is so near the threshold that a reader should look at it."""
    return finding == "no sign" and points is not None and points >= MIN_NEXT_POINTS
