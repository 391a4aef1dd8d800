"""The exceptions by which torch, CUDA's libraries and Python report a lack of memory, and a device that lacks it."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch.nn.modules.module import register_module_forward_pre_hook

MEMORY_ERRORS = [
    MemoryError(),
    torch.OutOfMemoryError("CUDA out of memory"),
    RuntimeError("[enforce fail] DefaultCPUAllocator: can't allocate memory: you tried to allocate 1 bytes"),
    torch.AcceleratorError("CUDA error: out of memory"),
    RuntimeError("CUDA driver error: out of memory"),
    RuntimeError("CUDA error: CUBLAS_STATUS_ALLOC_FAILED when calling `cublasCreate(handle)`"),
    RuntimeError("CUDA error: CUBLAS_STATUS_NOT_INITIALIZED when calling `cublasCreate(handle)`"),
    RuntimeError("cuDNN error: CUDNN_STATUS_INTERNAL_ERROR_DEVICE_ALLOCATION_FAILED"),
    RuntimeError('NVML_SUCCESS == r INTERNAL ASSERT FAILED at "CUDACachingAllocator.cpp":1131'),
]


@contextmanager
def limit_memory(room: int, error: Exception) -> Iterator[None]:
    """Let every model fail that reads more than so many tokens a call, as on a device with little memory."""

    def check(module: torch.nn.Module, arguments: Any) -> None:
        if isinstance(module, torch.nn.Embedding) and arguments[0].shape[-1] > room:
            raise error

    hook = register_module_forward_pre_hook(check)
    try:
        yield
    finally:
        hook.remove()
