"""Find damaged weights before anything is scored with them.

A download that reserved the whole file and stopped, or a copy that lost blocks, leaves a file of the right size with
zeros. Such a model loads, gives each token the same probability, and makes every gain 0.
"""

from collections.abc import Iterable
from pathlib import Path
from typing import Any

from pan_scdg.errors import UserError

MAX_ZERO_ROWS = 0.5
"""Largest share of the rows of a matrix that are zero. Those of attention that a small model does not use are: 23 % of
a matrix of scdg-mini. A file that ends in zeros has matrices of nothing else."""
OF_TOKENS = ("embed", "head")
"""Parts of the names of matrices with a row for each token; those of tokens that do not exist may be zero."""
FETCH_AGAIN = "fetch or copy the model again"


def check_weights(weights: Iterable[tuple[str, Any]], folder: Path) -> None:
    """Raise UserError for the first weights, by name, that are not finite, or of which a large part is zero.

    A vector may be zero: that of an unused bias is.
    """
    for name, weight in weights:
        if not weight.is_floating_point() or weight.element_size() < 2 or not weight.numel():
            continue
        rows = weight.detach().reshape(len(weight) if weight.dim() > 1 else 1, -1)
        smallest, largest = rows.amin(1), rows.amax(1)  # five times as fast as aminmax, and without a copy
        if not (smallest.isfinite() & largest.isfinite()).all():
            raise UserError(f"the weights {name} have values that are not finite", FETCH_AGAIN, folder)
        zeros = ((smallest == 0) & (largest == 0)).float().mean().item()
        is_of_tokens = any(part in name for part in OF_TOKENS)
        if weight.dim() > 1 and (zeros == 1 or (zeros > MAX_ZERO_ROWS and not is_of_tokens)):
            what = f"the weights {name} are damaged: {zeros:.0%} of their rows are zero"
            raise UserError(what, FETCH_AGAIN, folder)
