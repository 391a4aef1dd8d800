"""The passages of a report as JSON lines, for other programs."""

from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Mapping
from functools import lru_cache
from typing import Any

from pan_scdg.pan.detections import format_decision
from pan_scdg.report.records import Report, ReportPair, ReportPassage
from pan_scdg.retrieval.sentences import find_sentence_spans


def format_passages(report: Report) -> Iterator[str]:
    """Yield a line of ``passages.jsonl`` for each passage of each pair, in the order of the report.

    ``begin`` and ``end`` are characters of the suspicious text, ``begin2`` and ``end2`` of the source; ``sentences``
    and ``sentences2`` are the whole sentences that they lie in.
    """
    for pair in report.pairs:
        for passage in pair.passages:
            yield format_decision(_describe(report, pair, passage))


def _describe(report: Report, pair: ReportPair, passage: ReportPassage) -> Mapping[str, Any]:
    left, right = report.suspicious[pair.suspicious].text, report.sources[pair.source].text
    return {
        "suspicious": pair.suspicious,
        "source": pair.source,
        **{name: value for name, value in passage._asdict().items() if name != "note"},
        "sentences": list_sentences(left, passage.begin, passage.end),
        "sentences2": list_sentences(right, passage.begin2, passage.end2),
        "note": passage.note,
    }


def list_sentences(text: str, begin: int, end: int) -> list[str]:
    """Return the sentences of a text that have a character between two places, without white space around them."""
    starts, ends = _split(text)
    chosen = range(bisect_right(ends, begin), bisect_left(starts, end))
    return [sentence for i in chosen if (sentence := text[starts[i] : ends[i]].strip())]


@lru_cache(maxsize=256)
def _split(text: str) -> tuple[list[int], list[int]]:
    spans = find_sentence_spans(text)
    return [start for start, _ in spans], [end for _, end in spans]
