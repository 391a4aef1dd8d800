"""Measure for a page how much cheaper the source makes each passage and its tokens, and how much its topic does."""

from collections.abc import Callable, Iterable
from dataclasses import replace

from pan_scdg.progress import Progress
from pan_scdg.records import Passage
from pan_scdg.report.records import ReportPair, ReportPassage, TokenGains
from pan_scdg.scoring.token_offsets import TokenLocator, make_locator
from pan_scdg.scoring.verification import Verifier

MOST_PAIRS = 100
"""The best pairs, whose passages are measured; a passage takes about a second."""


def measure_gains(
    pairs: Iterable[ReportPair], read_texts: Callable[[ReportPair], tuple[str, str]], verifier: Verifier
) -> list[ReportPair]:
    """Return the pairs, the passages of the best ones with their gains."""
    measured = list(pairs)
    chosen = [number for number, pair in enumerate(measured) if pair.passages][:MOST_PAIRS]
    locator = make_locator(verifier.model)
    with Progress("measuring gains", len(chosen)) as progress:
        for number in chosen:
            pair = measured[number]
            measured[number] = _measure_pair(pair, *read_texts(pair), verifier, locator)
            progress.update()
    return measured


def _measure_pair(pair: ReportPair, target: str, source: str, verifier: Verifier, locator: TokenLocator) -> ReportPair:
    """Return the pair with gains of passages, and of their tokens if it has none of all tokens."""
    passages: list[ReportPassage] = []
    tokens: dict[tuple[int, int], float] = {}
    for p in pair.passages:
        found = verifier.measure(target, source, Passage(p.begin, p.end - p.begin, p.begin2, p.end2 - p.begin2))
        passages.append(p._replace(gain=found.gain, control=found.control))
        for (start, end), gain in zip(locator.locate_query(target[p.begin : p.end]).offsets.tolist(), found.gains):
            if start < end:
                tokens.setdefault((p.begin + start, p.begin + end), gain)
    spans = tuple(sorted(tokens))
    gains = pair.gains or TokenGains(spans, tuple(tokens[span] for span in spans))
    return replace(pair, passages=tuple(passages), gains=gains)
