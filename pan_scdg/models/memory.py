"""How a shortage of memory is recognised, and what a user is told of it."""

from pan_scdg.errors import UserError

SIGNS = ("can't allocate memory", "CUDA error: out of memory", "CUBLAS_STATUS_ALLOC_FAILED")
"""What a RuntimeError says that is no OutOfMemoryError: of torch on a CPU, of the driver when another process has the
GPU's memory, and of cuBLAS, which allocates by itself."""


def is_out_of_memory(error: BaseException) -> bool:
    """Whether an exception says that memory is short."""
    import torch

    if isinstance(error, torch.OutOfMemoryError | MemoryError):
        return True
    return isinstance(error, RuntimeError) and any(sign in str(error) for sign in SIGNS)


def too_large(length: int, device: str) -> UserError:
    """What a user is told about an input that alone exceeds the memory."""
    return UserError(
        f"an input of {length} tokens does not fit in the memory of {device}",
        "use --over-long segments, a smaller context, limit or head_rows in the profile, or a larger GPU",
    )
