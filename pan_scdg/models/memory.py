"""Recognise a shortage of memory, and explain it."""

from collections.abc import Callable

from pan_scdg.cluster.actor import Item, OutOfMemory, Result
from pan_scdg.errors import UserError

CPU_ROWS = 128
"""Fewest targets whose logits a CPU computes at a time."""
SHORTAGE = ("can't allocate memory", "CUDA error: out of memory", "CUBLAS_STATUS_ALLOC_FAILED")
"""Texts of a RuntimeError that is not an OutOfMemoryError: from torch on a CPU, from the driver if another process
holds the GPU's memory, and from cuBLAS, which allocates by itself."""


def is_out_of_memory(error: BaseException) -> bool:
    """Return True for an exception that reports a shortage of memory."""
    import torch

    if isinstance(error, torch.OutOfMemoryError | MemoryError):
        return True
    return isinstance(error, RuntimeError) and any(text in str(error) for text in SHORTAGE)


def explain_memory(compute: Callable[[Item], Result]) -> Callable[[Item], Result]:
    """Return the function that raises `OutOfMemory` for every lack of memory."""

    def compute_explained(work: Item) -> Result:
        try:
            return compute(work)
        except Exception as e:
            if is_out_of_memory(e):
                raise OutOfMemory(str(e)) from None
            raise

    return compute_explained


def explain_too_large(length: int, device: str) -> UserError:
    """Return the error for a single input that exceeds the memory."""
    return UserError(
        f"an input of {length} tokens does not fit in the memory of {device}",
        'use over_long = "segments", a smaller context, limit or head_rows in the profile, or a larger GPU',
    )
