"""Source evidence in eight sentence-aligned chunks of about one size (paper, Nested Evidence-Retention Intervention).

Where the paper leaves it open: sentences are those of the first stage (`retrieval.units`), and of the sentence ends
the k-th cut takes the one nearest to k eighths of the text that leaves every chunk a sentence, the earlier one of two.
"""

from typing import NamedTuple

from pan_scdg.retrieval.sentences import find_sentence_spans

CHUNKS = 8
SMALLEST_TARGET = 40
"""Fewest characters of the target size, an eighth of the evidence rounded down."""


class Span(NamedTuple):
    """Half-open, in characters."""

    start: int
    end: int


def divide(evidence: str) -> tuple[Span, ...] | str:
    """The spans of eight chunks in order, without white space around them; or why there are none."""
    if len(evidence) // CHUNKS < SMALLEST_TARGET:
        return f"source span shorter than {CHUNKS} chunks of {SMALLEST_TARGET} characters"
    ends = [end for _, end in find_sentence_spans(evidence)]
    if len(ends) < CHUNKS:
        return f"source span of fewer than {CHUNKS} sentences"
    cuts = [0]
    last = -1
    for k in range(1, CHUNKS):
        last = _nearest(ends, last + 1, len(ends) - (CHUNKS - k), k * len(evidence))
        cuts.append(ends[last])
    return tuple(_stripped(evidence, start, end) for start, end in zip(cuts, [*cuts[1:], len(evidence)]))


def cannot_divide(evidence: str) -> str | None:
    """Why `divide` gives no chunks; None: it gives them (condition 5 of an instance)."""
    found = divide(evidence)
    return found if isinstance(found, str) else None


def _nearest(ends: list[int], first: int, last: int, eighths: int) -> int:
    """Which of ``ends[first]`` to ``ends[last - 1]`` is nearest to ``eighths / 8``."""
    return min(range(first, last), key=lambda i: abs(CHUNKS * ends[i] - eighths))


def _stripped(text: str, start: int, end: int) -> Span:
    chunk = text[start:end]
    return Span(start + len(chunk) - len(chunk.lstrip()), end - len(chunk) + len(chunk.rstrip()))
