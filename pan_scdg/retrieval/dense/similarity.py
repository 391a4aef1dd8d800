"""The similarity of two vectors: their exact inner product in steps of 1e-6.

The last bits of a matrix product depend on the library, the processor and the block size, so that equal texts could
change places. A similarity is therefore a whole number of steps of the exact inner product: `bound_error` says how far
a float32 product can be off, and where that leaves two steps possible `count_steps` decides.
"""

from math import fsum
from typing import Any

import numpy as np
import numpy.typing as npt

STEP = 1e-6
"""Similarities are multiples of this."""
PIECE_BYTES = 32 << 20
"""Vectors that are gathered at one time, in float64 with their sources."""

Floats = npt.NDArray[np.floating]
Float32s = npt.NDArray[np.float32]
Steps = npt.NDArray[np.int64]
Positions = npt.NDArray[np.int64]


def bound_error(dimension: int) -> float:
    """Return how far a float32 inner product of unit vectors can be off, summed in any order (Higham's bound)."""
    unit = 2.0**-24
    return (dimension + 1) * unit / (1 - (dimension + 1) * unit)


def round_to_steps(similarities: npt.NDArray[np.float64]) -> Steps:
    """Return the nearest whole numbers of steps."""
    steps: Steps = np.rint(similarities / STEP).astype(np.int64)
    return steps


def count_steps(query: Float32s, vectors: Floats, positions: Positions, device: str = "cpu") -> Steps:
    """Return the exact inner products of one query vector with the vectors at ``positions``, in steps, ``[n]``."""
    import torch

    left = torch.from_numpy(query).to(device).double()
    piece = max(1, PIECE_BYTES // (32 * max(1, len(query))))
    found = [np.empty(0, np.int64)]
    for start in range(0, len(positions), piece):
        right = vectors[positions[start : start + piece]]
        wide = torch.from_numpy(right).to(device).double()
        found.append(settle_steps((wide @ left)[None], query[None], right, float(wide.norm(dim=1).amax()))[0])
    return np.concatenate(found)


def settle_steps(products: Any, queries: Float32s, vectors: Floats, longest: float) -> Steps:
    """Return float64 products in steps; those that rounding could carry over half a step are summed exactly.

    The products of two numbers of at most float32 precision are exact in float64, so only their sums are rounded.

    Args:
        products: a tensor, ``[s, n]``.
        queries: ``[s, d]``.
        vectors: ``[n, d]``.
        longest: length of the longest vector.
    """
    scaled = products / STEP
    steps = scaled.round()
    length = float(np.linalg.norm(queries.astype(np.float64), axis=1).max(initial=0))
    # about one product in a million: the error is below 1e-6 steps for unit vectors of 4,096 dimensions
    error = 2.0**-51 * queries.shape[1] * length * longest / STEP
    doubtful = ((scaled - steps).abs() >= 0.5 - error - 1e-9).nonzero().tolist()
    whole: Steps = steps.long().cpu().numpy()
    for row, column in doubtful:
        exact = fsum((queries[row].astype(np.float64) * vectors[column].astype(np.float64)).tolist())
        whole[row, column] = round_to_steps(np.array(exact))
    return whole
