"""Find the device that models run on, and check its abilities.

A GPU that is visible but unusable is an error with its cause: a run that used the CPU instead would be a hundred times
slower than its user expects. The CPU is chosen automatically only if no GPU is visible.
"""

import ctypes
import importlib.util
import os
import re
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from pan_scdg.errors import UserError, get_first_line

if TYPE_CHECKING:
    from pan_scdg.profile import EncoderDtype, ModelSettings

_DEVICE = re.compile(r"cpu|cuda(:\d+)?")
_ARCHITECTURE = re.compile(r"(sm|compute)_(\d+)(\d)[af]?")
CHOOSING = "CUDA_VISIBLE_DEVICES"
HIDING = {CHOOSING: ("", "-1", "NoDevFiles"), "NVIDIA_VISIBLE_DEVICES": ("", "void", "none")}
"""Variables that hide all GPUs from a process or a container, with the first entries that do so: the variable of CUDA
and Slurm, and that of the NVIDIA container toolkit."""
WSL_NODE = "dev/dxg"
"""The only device file of the Windows Subsystem for Linux, which exists for GPUs of other vendors too."""
DRIVER_LIBRARY = "libcuda.so.1"
PROBED = 64
"""Positions of the attention that is tried: on a processor with AMX, torch's fails in bfloat16 from this number on if
``ATEN_CPU_CAPABILITY`` hides its AVX-512."""
FLASH_CAPABILITY = (8, 0)
"""The compute capability (Ampere) that FlashAttention-2 needs."""


class Seen(NamedTuple):
    """NVIDIA GPUs as the operating system shows them, independent of torch."""

    visible: bool
    """A process may expect to compute on a GPU."""
    why_not: str = ""
    """The reason, in brackets, why existing GPUs are not visible; empty if the machine has no GPU."""


def look_for_gpus(root: Path = Path("/"), environment: Mapping[str, str] = os.environ) -> Seen:
    """Look for NVIDIA GPUs without torch."""
    nodes = any(re.fullmatch(r"nvidia\d+", path.name) for path in (root / "dev").glob("nvidia*"))
    if not nodes and not ((root / WSL_NODE).exists() and _has_library()):
        return Seen(False)
    for name, values in HIDING.items():
        if name in environment and environment[name].split(",")[0].strip() in values:
            return Seen(False, f" ({name} hides the existing ones)")
    # a privileged container without a GPU has the device files of its host, but the NVIDIA container toolkit adds the
    # library only to containers that are given a GPU
    if not _has_library():
        why_not = f" (there are device files, but {DRIVER_LIBRARY} is missing: a container started without --gpus?)"
        return Seen(False, why_not)
    return Seen(True)


def resolve_device(wanted: str) -> str:
    """Return ``wanted``, which must be usable; for "auto" a GPU, or the CPU if no GPU is visible.

    Raises:
        UserError: the device is missing, or torch cannot use the visible GPU.
    """
    if wanted == "auto":
        import torch

        wanted = "cuda" if torch.cuda.is_available() or look_for_gpus().visible else "cpu"
    check_device_exists(wanted)
    return wanted


def check_device_exists(device: str) -> None:
    """Raise UserError unless a device exists and this build of torch has code for it."""
    if not _DEVICE.fullmatch(device):
        raise UserError(f"unknown device {device!r}", "use cpu, cuda or cuda:N")
    if device == "cpu":
        return
    import torch

    seen = look_for_gpus()
    if seen.visible or torch.cuda.is_available():
        _start_cuda()
    if int(device.partition(":")[2] or 0) >= torch.cuda.device_count():
        what = "no GPU was found" if device == "cuda" else f"the GPU {device} was not found"
        raise UserError(f"{what}{seen.why_not}", "use the device cpu or a machine with a GPU")
    if not is_supported(device):
        raise UserError(
            f"this build of torch has no code for {describe_device(device)}",
            "use the device cpu or another GPU, or install a torch that was built for this one",
        )


def _start_cuda() -> None:
    """Raise UserError with torch's reason if it cannot use a visible GPU: an old driver, or a build without CUDA.

    torch counts GPUs by the driver's management library, which also works where CUDA does not start.
    """
    import torch

    start: Any = torch.cuda.init
    try:
        start()
    except (RuntimeError, AssertionError) as e:
        what = f"torch {torch.__version__} for CUDA {torch.version.cuda} cannot use the NVIDIA GPU"
        remedy = "install a torch that fits the driver, update the driver, or use the device cpu"
        if (chosen := os.environ.get(CHOOSING)) is not None:  # a number of the host may mean nothing in a container
            what += f" ({CHOOSING} is {chosen!r})"
            remedy = f"check that {CHOOSING} names an existing GPU, {remedy}"
        raise UserError(f"{what}: {get_first_line(e)}", remedy) from e


def is_supported(device: str) -> bool:
    """Return True if this build of torch has code for an existing GPU, judged by its list of architectures.

    Code for one compute capability runs on those with the same first number and a second number that is not smaller;
    ``compute_XY`` is an intermediate form that the driver translates for all later ones.
    """
    import torch

    gpu = torch.cuda.get_device_capability(device)
    built = [_ARCHITECTURE.fullmatch(name) for name in torch.cuda.get_arch_list()]
    codes = [(found[1], (int(found[2]), int(found[3]))) for found in built if found]
    if not codes:  # ROCm has other names
        return True
    return any(code <= gpu and (form == "compute" or code[0] == gpu[0]) for form, code in codes)


def describe_device(device: str) -> str:
    """Return the name of an existing device as a user knows it."""
    if device == "cpu":
        return device
    import torch

    major, minor = torch.cuda.get_device_capability(device)
    return f"{torch.cuda.get_device_name(device)} (sm_{major}{minor})"


def choose_dtype(settings: "ModelSettings", device: str) -> "ModelSettings":
    """Return ``settings`` with the dtype in which ``device`` really computes.

    The dtype changes only for a profile with ``dtype_without_bf16``, and only on a device without bfloat16. Whatever is
    loaded, stored and reported must use the returned settings.

    Raises:
        UserError: the device does not exist, or torch has no code for it.
    """
    check_device_exists(device)
    if settings.dtype_without_bf16 is None or can_compute("bfloat16", device):
        return settings
    return settings.model_copy(update={"dtype": settings.dtype_without_bf16, "dtype_without_bf16": None})


def choose_encoder_dtype(device: str) -> "EncoderDtype":
    """Return the dtype of an encoder whose vectors are only searched: bfloat16 if ``device`` computes faster in it.

    That is a GPU, and a processor with instructions for bfloat16 that torch uses; on another one bfloat16 is several
    times as slow as float32. Rankings hardly differ (``benchmarks/results/encoding.md``).
    """
    import torch

    if device != "cpu":
        return "bfloat16"
    used = torch.backends.cpu.get_cpu_capability() not in ("DEFAULT", "NO AVX", "AVX2")  # a variable can limit them
    return "bfloat16" if used and not {"amx_bf16", "avx512_bf16"}.isdisjoint(list_cpu_features()) else "float32"


@cache
def list_cpu_features() -> frozenset[str]:
    """Return the instruction sets of this processor by torch's names for them; none before torch 2.10."""
    import torch

    find = getattr(torch.cpu, "get_capabilities", dict)
    return frozenset(name for name, value in find().items() if value is True)


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
    if settings.attention in ("flash_attention_2", "varlen"):
        _check_flash(settings, device)


def can_compute(dtype: str, device: str) -> bool:
    """Return True if ``device`` has native arithmetic in ``dtype``; the emulated bfloat16 of a GPU does not count."""
    import torch

    if dtype == "bfloat16" and device != "cpu":
        with torch.cuda.device(device):
            return bool(torch.cuda.is_bf16_supported(including_emulation=False))
    try:
        ones = torch.ones(1, 1, PROBED, PROBED, dtype=getattr(torch, dtype), device=device)
        attended = torch.nn.functional.scaled_dot_product_attention(ones, ones, ones)
        # kernels may round a mean of ones
        return bool((ones @ ones == PROBED).all() and torch.allclose(attended, ones, atol=0.01))
    except RuntimeError:
        return False


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


def _has_library() -> bool:
    try:
        ctypes.CDLL(DRIVER_LIBRARY)
    except OSError:
        return False
    return True
