"""Find the stretch of a source that a given passage of a target is most like."""

from collections.abc import Sequence

import numpy as np

from pan_scdg.align.align import Alignment, Evidence
from pan_scdg.align.units import prepare_text
from pan_scdg.profile import PassageSettings
from pan_scdg.records import Passage

FARTHEST = 2
"""Units by which a stretch grows at one time: one that adds nothing may lie between two that do."""
DECIMALS = 6
"""Precision of cosines; the last digits of a sum depend on the processor."""

Span = tuple[int, int]


def find_counterparts(target: str, source: str, passages: Sequence[Span], unit_words: int) -> list[Evidence | None]:
    """Return each passage of a target with the stretch of the source that it is most like.

    The stretch begins with the unit of the source whose TF-ISF vector has the largest cosine with the passage, and
    grows at both ends as long as the cosine does. None: no cosine is above 0, for lack of common words.

    Args:
        target: the suspicious document.
        source: the source.
        passages: the characters of the passages, each made of whole units of the target.
        unit_words: least number of words of a unit in both texts (`prepare_text`): a title alone would often be the
            most similar one.
    """
    first, second = (prepare_text(text, unit_words) for text in (target, source))
    if not len(first.units) or not len(second.units):
        return [None] * len(passages)
    alignment = Alignment(first, second, PassageSettings())
    return [_find_counterpart(alignment, passage) for passage in passages]


def _find_counterpart(alignment: Alignment, passage: Span) -> Evidence | None:
    begin, end = passage
    units = range(*np.searchsorted(alignment.target.spans[:, 0], (begin, end)).tolist())
    cosines = alignment.comparison.compare_units(units).round(DECIMALS)
    if cosines.max() <= 0:
        return None
    stretch = _grow(alignment, units, int(cosines.argmax()))
    spans = alignment.source.spans
    source_begin, source_end = int(spans[stretch.start, 0]), int(spans[stretch.stop - 1, 1])
    return alignment.measure(Passage(begin, end - begin, source_begin, source_end - source_begin))


def _grow(alignment: Alignment, units: range, first: int) -> range:
    """Return the units around the first one whose cosine no small growth makes larger."""
    last = len(alignment.source.units)
    chosen, best = range(first, first + 1), 0.0
    while True:
        steps = [(a, b) for a in range(FARTHEST + 1) for b in range(FARTHEST + 1)]
        wider = [range(max(0, chosen.start - a), min(last, chosen.stop + b)) for a, b in steps]
        cosines = [round(alignment.comparison.compare_ranges(units, stretch), DECIMALS) for stretch in wider]
        if max(cosines) <= best:
            return chosen
        best = max(cosines)
        chosen = wider[cosines.index(best)]
