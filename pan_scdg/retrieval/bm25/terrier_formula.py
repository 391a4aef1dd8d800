"""BM25 as Terrier 5.11 computes it; its order of operations is kept, so that scores agree to the last bits."""

import math
from collections.abc import Mapping

import numpy as np
import numpy.typing as npt

K1, B = 1.2, 0.75
"""The paper's (BM25 retrieval), which are Terrier's defaults too."""
STEPS = 1e9
"""Scores are compared in whole multiples of 1e-9: sums of the same numbers in another order differ in their last bits,
and equal documents must stay equal."""

Floats = npt.NDArray[np.float64]
Integers = npt.NDArray[np.int64]


def compute_idf(documents: int, frequency: int) -> float:
    """Return the weight of a term that ``frequency`` of the ``documents`` hold; negative if more than half of them do.

    Terrier multiplies it with a weight of the term's count in the query, which is 1 here: every term counts once.
    """
    return math.log((documents - frequency + 0.5) / (frequency + 0.5)) * (1 / math.log(2))


def compute_length_norms(lengths: Integers) -> Floats:
    """Return the term of the denominator that depends on the length of each document, ``[documents]``."""
    average = float(lengths.sum()) / max(1, len(lengths))
    # Where every document is empty no term is indexed and no norm is asked for.
    return np.asarray(K1 * ((1 - B) + B * lengths / (average or 1.0)), np.float64)


def order_terms(frequencies: Mapping[str, int], documents: int) -> list[str]:
    """Return the terms in the order in which scores are summed: those of negative weight first, then rarest first.

    Terrier adds in the order of the query. Both engines get this one, so that their sums agree to the last bit.
    """
    return sorted(frequencies, key=lambda term: (compute_idf(documents, n := frequencies[term]) >= 0, n, term))


def round_to_steps(scores: Floats) -> Integers:
    """Return scores in whole steps of 1e-9."""
    return np.rint(scores * STEPS).astype(np.int64)
