"""The similarity of two vectors: their exact inner product in steps of 1e-6.

The last bits of a matrix product depend on the library, the processor and the block size, so that equal texts could
change places. A similarity is therefore a whole number of steps of the exact inner product: `bound_error` says how far
a float32 product can be off, and `count_steps` computes the steps wherever that leaves a doubt.
"""

from math import fsum

import numpy as np
import numpy.typing as npt

from pan_scdg.retrieval.dense.rows import Rows

STEP = 1e-6
"""Similarities are multiples of this."""
PIECE_BYTES = 32 << 20
"""Size of the vectors that are converted to float64 at one time, with their originals."""

Float32s = npt.NDArray[np.float32]
Steps = npt.NDArray[np.int64]
Positions = npt.NDArray[np.int64]


def bound_error(dimension: int) -> float:
    """Return the largest error of a float32 inner product of unit vectors, summed in any order (Higham's bound)."""
    unit = 2.0**-24
    return (dimension + 1) * unit / (1 - (dimension + 1) * unit)


def count_steps(queries: Float32s, vectors: Rows, positions: Positions, device: str = "cpu") -> Steps:
    """Return the exact inner products of query vectors ``[s, d]`` with the vectors at ``positions``, in steps.

    The products of two numbers of at most float32 precision are exact in float64, so only their sums are rounded.
    Those that rounding could move to the next step are summed exactly.

    Returns:
        ``[s, n]`` for ``n`` positions.
    """
    import torch

    width = max(1, queries.shape[1])
    piece = max(1, PIECE_BYTES // (32 * width))
    left = torch.from_numpy(queries).to(device).double()
    length = float(left.norm(dim=1).amax()) if len(queries) else 0.0
    found = np.empty((len(queries), len(positions)), np.int64)
    for start in range(0, len(positions), piece):
        part = vectors[positions[start : start + piece]]
        right = torch.from_numpy(part).to(device).double()
        scaled = left @ right.T / STEP
        steps = scaled.round()
        # about one product in a million: the error is below 1e-6 steps for unit vectors of 4,096 dimensions
        error = 2.0**-51 * width * length * float(right.norm(dim=1).amax()) / STEP
        whole = found[:, start : start + piece]
        whole[:] = steps.long().cpu().numpy()
        for row, column in ((scaled - steps).abs() >= 0.5 - error - 1e-9).nonzero().tolist():
            products = queries[row].astype(np.float64) * part[column].astype(np.float64)
            whole[row, column] = np.rint(fsum(products.tolist()) / STEP)
    return found
