"""Gains as the page shows them: eight levels of colour, for tokens and for the means of sentences."""

from bisect import bisect_right
from collections.abc import Sequence
from typing import Any, NamedTuple

from pan_scdg.report.records import TokenGains
from pan_scdg.report.text_view import TextView
from pan_scdg.report.texts import Span, Stretch, cut_block

EDGES: dict[str, tuple[float, ...]] = {
    "token": (-1.5, -0.5, 0.5, 1, 2, 3, 5),
    "sentence": (-0.5, -0.15, 0.15, 0.4, 0.8, 1.4, 2.2),
}
"""Least gain of each level but the first, in nats."""
NEUTRAL = 2
"""The level around 0, without a colour."""


class GradedText(NamedTuple):
    """A part of a text with the level of its gain; None: without a colour."""

    text: str
    level: int | None


def grade_sentences(gains: TokenGains, view: TextView) -> list[Stretch]:
    """Return the sentences of a text that hold tokens, without the space around them, and the levels of their means.

    A token belongs to the sentence that it begins in.
    """
    graded: list[Stretch] = []
    tokens = sorted((begin, gain) for (begin, end), gain in zip(gains.spans, gains.gains, strict=True) if begin < end)
    starts = [begin for begin, _ in tokens]
    for begin, end in view.sentences:
        inside = [gain for _, gain in tokens[bisect_right(starts, begin - 1) : bisect_right(starts, end - 1)]]
        sentence = view.text[begin:end]
        if inside and sentence.strip():
            bare = begin + len(sentence) - len(sentence.lstrip()), begin + len(sentence.rstrip())
            graded.append((*bare, bisect_right(EDGES["sentence"], sum(inside) / len(inside))))
    return graded


def grade_part(text: str, part: Span, sentences: Sequence[Stretch]) -> list[GradedText]:
    """Return a part of a text, cut where the level changes."""
    coloured = [sentence for sentence in sentences if sentence[2] != NEUTRAL]
    pieces = cut_block(text, part, coloured)
    return [GradedText(piece.text, None if piece.owner < 0 else piece.owner) for piece in pieces]


def pack_gains(gains: TokenGains, view: TextView) -> dict[str, Any]:
    """Return tokens as distance from the previous one, length and gain in hundredths of a nat; ends of sentences.

    Offsets and lengths are in UTF-16 units.
    """
    packed: list[int] = []
    last = 0
    for (begin, end), gain in zip(gains.spans, gains.gains, strict=True):
        if begin < end:
            first, after = view.to_units(begin), view.to_units(end)
            packed += (first - last, after - first, round(100 * gain))
            last = after
    return {"gains": packed, "sentences": [view.to_units(end) for _, end in view.sentences]}


def describe_levels(unit: str) -> list[str]:
    """Return the legend: the range of each level, in nats."""
    edges = EDGES[unit]
    low = [f"< −{-edge:g}" for edge in edges[:NEUTRAL]]
    return [*low, "about 0", *(f"≥ {edge:g}" for edge in edges[NEUTRAL:])]
