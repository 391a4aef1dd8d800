"""Label target tokens as reused or new (paper, Mapping Character Annotations to Target Tokens)."""

from collections.abc import Iterable
from typing import Any

import numpy as np
import numpy.typing as npt

from pan_scdg.research.retention.distractors import Span
from pan_scdg.scdg.sequences import Offsets

REUSED, NEW, NEITHER = 1, 0, -1
"""Y of a token: in an annotated span, in none, or on a boundary (or no piece of the text at all)."""

Labels = npt.NDArray[np.int8]


def label_tokens(offsets: Offsets, selected: Span, reused: Iterable[Span], characters: int) -> Labels:
    """Return the label of each token (paper, Eq. supp-retention-token-label), ``[n]``.

    The first that covers at least half of a token's characters decides: the selected span, the other annotated spans,
    the text outside of all. A token without characters, such as BOS, is neither.

    Args:
        offsets: half-open intervals in characters of the target, ``[n, 2]``.
        selected: the span whose source is the evidence.
        reused: all annotated spans; they may overlap each other and ``selected``.
        characters: the target's length; spans may reach beyond it, intervals may not.

    Raises:
        ValueError: an interval does not lie within the target.
    """
    starts, ends = offsets.T
    if len(offsets) and not (starts.min() >= 0 and (starts <= ends).all() and ends.max() <= characters):
        raise ValueError(f"an interval is not within {characters} characters")
    of_selected = _mask([selected], characters)
    of_others = _mask(reused, characters) & ~of_selected
    size = ends - starts
    covered, others = (_count_before(mask)[ends] - _count_before(mask)[starts] for mask in (of_selected, of_others))
    new = size - covered - others
    rules = [size == 0, 2 * covered >= size, 2 * others >= size, 2 * new >= size]
    return np.select(rules, [NEITHER, REUSED, REUSED, NEW], NEITHER).astype(np.int8)


def _mask(spans: Iterable[Span], characters: int) -> npt.NDArray[np.bool_]:
    """Return True for each character in any of the spans, ``[characters]``."""
    mask = np.zeros(characters, dtype=bool)
    for start, end in spans:
        mask[max(0, start) : max(0, end)] = True
    return mask


def _count_before(mask: npt.NDArray[Any]) -> npt.NDArray[np.int64]:
    """Return the number of True values before each place, ``[characters + 1]``."""
    return np.concatenate([[0], np.cumsum(mask, dtype=np.int64)])
