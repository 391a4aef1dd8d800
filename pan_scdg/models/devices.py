"""Choose the device that models run on, check its abilities, and recognise a lack of memory.

A GPU that is visible but unusable is an error with its cause: a run that used the CPU instead would be a hundred times
slower than its user expects. The CPU is chosen automatically only if no GPU is visible.
"""

import importlib.util
import os
import re
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pan_scdg.errors import DeviceError, InputError, UnusableDeviceError, UserError, get_first_line
from pan_scdg.logs import say
from pan_scdg.resources import count_threads, find_processor

if TYPE_CHECKING:
    from pan_scdg.settings import EncoderDtype, ModelSettings

_DEVICE = re.compile(r"cpu|cuda(:\d+)?")
VISIBLE_DEVICES = "CUDA_VISIBLE_DEVICES"
HIDING = ("", "-1", "NoDevFiles")
"""First entries of that variable that hide all GPUs."""
TRIED_POSITIONS = 64
"""Positions of the attention that is tried: on a processor with AMX, torch's fails in bfloat16 from this number on if
``ATEN_CPU_CAPABILITY`` hides its AVX-512."""
NEEDS_BF16 = ("flash_attention_2", "varlen")
"""Kinds of attention that compute in bfloat16 only."""
FLASH_CAPABILITY = (8, 0)
"""The compute capability (Ampere) that FlashAttention-2 needs."""
MEMORY_ERRORS = re.compile(
    r"can't allocate memory|CUDA (driver )?error: out of memory|CUBLAS_STATUS_(ALLOC_FAILED|NOT_INITIALIZED)"
    r"|CUDNN_STATUS_\w*ALLOC\w*|NVML_SUCCESS == r INTERNAL ASSERT FAILED"
)
"""Texts of a RuntimeError that is not an OutOfMemoryError: from torch on a CPU, from the driver if another process
uses the GPU's memory, from cuBLAS and cuDNN, which allocate by themselves, and from torch on a part of a GPU (MIG)."""
DEVICE_ERRORS = re.compile(
    r"CUDA (driver )?error|CUDA kernel errors|CUBLAS_STATUS_|CUSOLVER_STATUS_|CUDNN_STATUS_|cuDNN error|NCCL error"
    r"|device-side assert|illegal memory access|unspecified launch failure|uncorrectable ECC|NVML_SUCCESS"
)
"""Texts of the errors of torch, the driver and NVIDIA's libraries after which a process cannot use the GPU any more."""
DRIVER = Path("/proc/driver/nvidia/version")


@dataclass(frozen=True)
class Devices:
    """Device, number of processes and cluster that compute tasks."""

    device: str = "cpu"
    """"cpu" or "cuda"."""
    workers: int | None = None
    """Processes on each machine; None: one for each GPU, or one on CPUs."""
    address: str | None = None
    """Of a Ray cluster: "auto" (the one that this machine is part of) or HOST:PORT; None or "local": this machine."""

    @property
    def is_local(self) -> bool:
        """Return True if only this machine computes."""
        return self.address in (None, "local")

    def count_workers(self) -> int:
        """Return the number of processes on this machine.

        Raises:
            UserError: it has fewer GPUs.
        """
        if self.device == "cpu":
            return self.workers or 1
        gpus = count_gpus()
        if self.is_local and (self.workers or 1) > max(gpus, 1):
            raise UserError(f"--workers is {self.workers}, but this machine has {gpus} GPUs", "lower --workers")
        return self.workers or max(gpus, 1)


def count_gpus() -> int:
    """Return the number of GPUs that torch can use."""
    import torch

    return torch.cuda.device_count()


def resolve_device(device: str) -> str:
    """Return ``device``, which must be usable; for "auto" a GPU, or the CPU if no GPU is visible.

    Raises:
        UserError: the device is missing, or torch cannot use the visible GPU.
    """
    if device == "auto":
        import torch

        device = "cuda" if torch.cuda.is_available() or look_for_gpus() else "cpu"
    check_device_exists(device)
    return device


def look_for_gpus(root: Path = Path("/")) -> bool:
    """Return True if the operating system shows this process an NVIDIA GPU, whether torch can use it or not."""
    has_gpus = any(re.fullmatch(r"nvidia\d+", path.name) for path in (root / "dev").glob("nvidia*"))
    return has_gpus and not describe_hiding()


def check_device_exists(device: str, *, computes: bool = False) -> None:
    """Raise UserError, with torch's reason, unless torch can use a device.

    With ``computes`` it computes there, which takes memory of a GPU until the process ends, and finds a torch without
    code for the GPU.
    """
    if not _DEVICE.fullmatch(device):
        raise UserError(f"unknown device {device!r}", "use cpu, cuda or cuda:N")
    if device == "cpu":
        return
    import torch

    # base images set TORCH_ALLOW_TF32_CUBLAS_OVERRIDE, with which float32 has the precision of 10 bits
    torch.set_float32_matmul_precision("highest")
    try:
        torch.cuda.get_device_properties(device)
        if computes:
            torch.ones(1, device=device).add(1).item()
    except (RuntimeError, AssertionError) as e:  # no GPU, an old driver, or no code for this GPU or for any
        cuda, driver = torch.version.cuda, find_driver()
        what = f"torch {torch.__version__} for CUDA {cuda} cannot use {device}{_describe_variable()}"
        remedy = "use the device cpu, or install a driver and a torch that fit the GPU"
        if driver is not None and driver < find_needed_driver(cuda):
            what += f" with driver {driver}"
            remedy = (
                f"install driver {find_needed_driver(cuda)} or newer, or build the image with TORCH_INDEX_URL of an "
                "index with wheels for CUDA 12.6 (see docs/tira.md)"
            )
        raise UnusableDeviceError(f"{what}: {get_first_line(e)}", remedy) from e


def describe_device(device: str) -> str:
    """Return the name of an existing device as a user knows it."""
    if device == "cpu":
        return device
    import torch

    major, minor = torch.cuda.get_device_capability(device)
    return f"{torch.cuda.get_device_name(device)} (sm_{major}{minor})"


def describe_machine(device: str) -> dict[str, Any]:
    """Return what this machine computes with, by name: processor and threads, and the GPUs if models run on them."""
    return {"processor": find_processor(), "threads": count_threads(), "gpus": [] if device == "cpu" else list_gpus()}


def list_gpus() -> list[str]:
    """Return the names of the visible GPUs."""
    import torch

    return [torch.cuda.get_device_name(number) for number in range(torch.cuda.device_count())]


def choose_dtype(settings: "ModelSettings", device: str) -> "ModelSettings":
    """Return ``settings`` with the dtype in which ``device`` really computes.

    A GPU without bfloat16 (Turing and older) computes in float16, unless the attention needs bfloat16; a score that is
    not finite is an error. Whatever is loaded, stored and reported must use the returned settings.

    Raises:
        UserError: the device does not exist, or torch has no code for it.
    """
    check_device_exists(device)
    is_possible = device != "cpu" and settings.attention not in NEEDS_BF16
    if settings.dtype != "bfloat16" or not is_possible or can_compute("bfloat16", device):
        return settings
    say(["note: this GPU has no bfloat16: computing in float16"])
    return settings.model_copy(update={"dtype": "float16"})


def choose_encoder_dtype(device: str) -> "EncoderDtype":
    """Return the dtype of an encoder whose vectors are only searched: bfloat16 if ``device`` computes faster in it.

    That is a GPU, and a processor of `computes_bfloat16`. Rankings hardly differ (``benchmarks/results/encoding.md``).
    """
    return "bfloat16" if device != "cpu" or computes_bfloat16() else "float32"


def computes_bfloat16() -> bool:
    """Return True if the processor has instructions for bfloat16, and torch uses them.

    On another one bfloat16 is several times as slow as float32.
    """
    import torch

    used = torch.backends.cpu.get_cpu_capability() not in ("DEFAULT", "NO AVX", "AVX2")  # a variable can limit them
    return used and not {"amx_bf16", "avx512_bf16"}.isdisjoint(list_cpu_features())


@cache
def list_cpu_features() -> frozenset[str]:
    """Return the instruction sets of this processor by torch's names for them; none before torch 2.10."""
    import torch

    list_all = getattr(torch.cpu, "get_capabilities", dict)
    return frozenset(name for name, value in list_all().items() if value is True)


def check_device(settings: "ModelSettings", device: str) -> None:
    """Raise UserError unless ``device`` is usable and can compute with the profile's dtype and attention."""
    check_device_exists(device)
    if not can_compute(settings.dtype, device):
        remedy = "choose another dtype in the profile"
        if settings.dtype == "bfloat16" and device == "cpu":
            remedy = 'set dtype = "float32" in the profile, or unset ATEN_CPU_CAPABILITY'
        elif settings.dtype == "bfloat16":
            remedy = 'set dtype = "float16" or "float32" in the profile, or use a GPU of the Ampere generation or newer'
        raise UserError(f"{describe_device(device)} cannot compute in {settings.dtype}", remedy)
    if settings.attention in NEEDS_BF16:
        _check_flash(settings, device)


def can_compute(dtype: str, device: str) -> bool:
    """Return True if ``device`` has native arithmetic in ``dtype``; the emulated bfloat16 of a GPU does not count."""
    import torch

    if device != "cpu":  # asked, not tried: the process may only wait for another one
        with torch.cuda.device(device):
            return dtype != "bfloat16" or bool(torch.cuda.is_bf16_supported(including_emulation=False))
    n = TRIED_POSITIONS
    try:
        ones = torch.ones(1, 1, n, n, dtype=getattr(torch, dtype), device=device)
        attended = torch.nn.functional.scaled_dot_product_attention(ones, ones, ones)
        # kernels may round a mean of ones
        return bool((ones @ ones == n).all() and torch.allclose(attended, ones, atol=0.01))
    except RuntimeError:
        return False


def is_out_of_memory(error: BaseException) -> bool:
    """Return True for an exception that reports a lack of memory."""
    import torch

    if isinstance(error, torch.OutOfMemoryError | MemoryError):
        return True
    return isinstance(error, RuntimeError) and MEMORY_ERRORS.search(str(error)) is not None


def is_device_error(error: BaseException) -> bool:
    """Return True for an exception that reports a fault of the device, not a lack of memory."""
    if isinstance(error, DeviceError):
        return True
    if not isinstance(error, RuntimeError) or MEMORY_ERRORS.search(str(error)):
        return False
    return type(error).__name__ == "AcceleratorError" or DEVICE_ERRORS.search(str(error)) is not None


_halved = False


def halve_calls() -> None:
    """Make the models that this process loads from now on compute half as many tokens a call: the device failed."""
    global _halved
    _halved = True


def are_calls_halved() -> bool:
    """Return True after `halve_calls`."""
    return _halved


def limit_call(size: int) -> int:
    """Return the number of tokens or texts of a call that a profile permits, or half of it after `halve_calls`."""
    return max(1, size // 2) if _halved else size


def free_memory(device: str) -> None:
    """Give the memory that torch keeps for later calls back to a GPU."""
    if device != "cpu":
        import torch

        torch.cuda.empty_cache()


def explain_too_large(length: int, device: str) -> InputError:
    """Return the error for a single input that exceeds the memory."""
    return InputError(
        f"an input of {length} tokens does not fit in the memory of {device}",
        'use over_long = "segments" or a smaller context or limit in the profile, or a larger GPU',
    )


def explain_model_too_large(what: str, device: str, folder: Path) -> UserError:
    """Return the error for a model whose loading exceeds the memory."""
    return UserError(
        f"the {what} does not fit in the free memory of {device}",
        "check whether another process uses it, or choose a smaller model, another dtype or device",
        folder,
    )


def _check_flash(settings: "ModelSettings", device: str) -> None:
    """Raise UserError unless a device, the dtype and the installed packages allow FlashAttention."""
    import torch

    remedy = 'set attention = "sdpa" in the profile'
    if device == "cpu":
        raise UserError(f"{settings.attention} needs a GPU", remedy)
    if settings.dtype == "float32":
        raise UserError(f"{settings.attention} cannot compute in float32", remedy + ", or a dtype of 16 bits")
    if torch.cuda.get_device_capability(device) < FLASH_CAPABILITY:
        what = f"{settings.attention} needs a GPU of the Ampere generation or newer, not {describe_device(device)}"
        raise UserError(what, remedy)
    if settings.attention == "flash_attention_2" and importlib.util.find_spec("flash_attn") is None:
        remedy = f"install the extra: pip install 'pan_scdg[gpu]', or {remedy}"
        raise UserError("flash_attention_2 needs the package flash-attn", remedy)


def find_needed_driver(cuda: str | None) -> int:
    """Return the oldest major version of the driver that runs torch for a version of CUDA; 0 for a CPU build."""
    return {"12": 525, "13": 580}.get((cuda or "").partition(".")[0], 0)


def find_driver() -> int | None:
    """Return the major version of NVIDIA's driver; None if none is installed."""
    try:
        match = re.search(r"Module.*?\b(\d{3,})\.\d", DRIVER.read_text(encoding="utf-8"))
    except OSError:
        return None
    return None if match is None else int(match[1])


def _describe_variable() -> str:
    """Return the variable that chooses GPUs, in brackets: in a container, a number of the host may name none."""
    numbers = os.environ.get(VISIBLE_DEVICES)
    return "" if numbers is None else f" ({VISIBLE_DEVICES} is {numbers!r})"


def describe_hiding() -> str:
    """Return the variable that hides all GPUs, in brackets; empty if it hides none."""
    numbers = os.environ.get(VISIBLE_DEVICES)
    return _describe_variable() if numbers is not None and numbers.split(",")[0].strip() in HIDING else ""
