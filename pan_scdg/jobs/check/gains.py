"""Measure how much cheaper the source makes each passage and its tokens."""

from collections.abc import Sequence
from dataclasses import replace

from pan_scdg.jobs.check.texts import Material
from pan_scdg.progress import Progress
from pan_scdg.records import Passage
from pan_scdg.report.records import ReportPair, ReportPassage, TokenGains
from pan_scdg.scorer import Scorer
from pan_scdg.scoring.verification import Verifier

MOST_PAIRS = 100
"""The best pairs, whose passages are measured; a passage takes about a second."""


def measure_gains(
    material: Material, pairs: Sequence[ReportPair], verifier: Verifier, scorer: Scorer
) -> list[ReportPair]:
    """Return the pairs, the passages of the best ones with their gains.

    Args:
        material: the texts.
        pairs: best first.
        verifier: measures passages as `run` does.
        scorer: gives the gain of each token of a passage; decides nothing here.
    """
    left, right = (
        {text.shown.name: text.compared.text or "" for text in side} for side in (material.suspicious, material.sources)
    )
    chosen = [number for number, pair in enumerate(pairs) if pair.passages][:MOST_PAIRS]
    measured = list(pairs)
    with Progress("measuring gains", len(chosen)) as progress:
        for number in chosen:
            pair = pairs[number]
            measured[number] = _measure_pair(pair, left[pair.suspicious], right[pair.source], verifier, scorer)
            progress.update()
    return measured


def _measure_pair(pair: ReportPair, target: str, source: str, verifier: Verifier, scorer: Scorer) -> ReportPair:
    passages: list[ReportPassage] = []
    tokens: dict[tuple[int, int], float] = {}
    for p in pair.passages:
        gain = verifier.measure(target, source, Passage(p.begin, p.end - p.begin, p.begin2, p.end2 - p.begin2))
        passages.append(p._replace(gain=gain.gain, control=gain.control))
        for token in scorer.score(target[p.begin : p.end], source[p.begin2 : p.end2]).tokens:
            if token.start < token.end:
                tokens.setdefault((p.begin + token.start, p.begin + token.end), token.gain)
    spans = tuple(sorted(tokens))
    gains = TokenGains(spans, tuple(tokens[span] for span in spans))
    return replace(pair, passages=tuple(passages), gains=gains)
