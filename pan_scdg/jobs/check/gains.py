"""Measure how much cheaper the source makes each passage, and how much of that its topic alone explains."""

from collections.abc import Iterable, Sequence
from dataclasses import replace

import numpy as np

from pan_scdg.jobs.check.texts import Material
from pan_scdg.progress import Progress
from pan_scdg.report.records import ReportPair, ReportPassage, TokenGains
from pan_scdg.retrieval.sentences import find_sentence_spans
from pan_scdg.scorer import PairResult, Scorer

MOST_PAIRS = 100
"""The best pairs, whose passages are measured; a passage takes about a second."""
LEAST_CONTROL = 200
"""Least length in characters of the other part of a source."""


def measure_gains(material: Material, pairs: Sequence[ReportPair], scorer: Scorer) -> list[ReportPair]:
    """Return the pairs, the passages of the best ones with their gains.

    Each passage is scored with the passage of the source that it corresponds to, and with another part of the same
    source.

    Args:
        material: the texts.
        pairs: best first.
        scorer: a language model that decides nothing here.
    """
    left, right = (
        {text.shown.name: text.compared.text or "" for text in side} for side in (material.suspicious, material.sources)
    )
    chosen = [number for number, pair in enumerate(pairs) if pair.passages][:MOST_PAIRS]
    measured = list(pairs)
    with Progress("measuring gains", len(chosen)) as progress:
        for number in chosen:
            pair = pairs[number]
            measured[number] = _measure_pair(pair, left[pair.suspicious], right[pair.source], scorer)
            progress.update()
    return measured


def _measure_pair(pair: ReportPair, target: str, source: str, scorer: Scorer) -> ReportPair:
    passages: list[ReportPassage] = []
    tokens: dict[tuple[int, int], float] = {}
    for passage in pair.passages:
        part = target[passage.begin : passage.end]
        other = pick_control(source, passage, pair.passages)
        sides = [source[passage.begin2 : passage.end2], *([other] if other else [])]
        result, *control = scorer.score_pairs((part, side) for side in sides)
        passages.append(passage._replace(gain=_average(result), control=_average(control[0]) if control else None))
        for token in result.tokens:
            tokens.setdefault((passage.begin + token.start, passage.begin + token.end), token.gain)
    spans = sorted(span for span in tokens if span[0] < span[1])
    gains = TokenGains(tuple(spans), tuple(tokens[span] for span in spans))
    return replace(pair, passages=tuple(passages), gains=gains)


def _average(result: PairResult) -> float:
    """Return the mean gain in nats per token."""
    return float(np.mean(result.gains))


def pick_control(source: str, passage: ReportPassage, others: Iterable[ReportPassage]) -> str:
    """Return whole sentences of a source that no passage of the pair comes from, about as long as this one's.

    They are taken from the longest such part. It is empty if there are too few.
    """
    taken = [(p.begin2, p.end2) for p in others]
    parts: list[list[tuple[int, int]]] = [[]]
    for begin, end in find_sentence_spans(source):
        if any(begin < last and first < end for first, last in taken):
            parts.append([])
        else:
            parts[-1].append((begin, end))
    longest = max(parts, key=lambda spans: spans[-1][1] - spans[0][0] if spans else 0)
    if not longest:
        return ""
    start, most = longest[0][0], passage.end2 - passage.begin2
    end = max((end for _, end in longest if end - start <= most), default=longest[0][1])
    return source[start:end].strip() if end - start >= LEAST_CONTROL else ""
