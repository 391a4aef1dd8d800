"""Which device models run on: what GPUs are visible, and whether this build of torch can use them.

A GPU that is visible and cannot be used is an error with its cause: a run that took the CPU instead would be a hundred
times slower than its user thinks. The CPU is taken unasked only where no GPU is visible.
"""

import ctypes
import os
import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import NamedTuple

from pan_scdg.errors import UserError

_DEVICE = re.compile(r"cpu|cuda(:\d+)?")
_ARCHITECTURE = re.compile(r"(sm|compute)_(\d+)(\d)[af]?")
HIDING = {"CUDA_VISIBLE_DEVICES": ("", "-1", "NoDevFiles"), "NVIDIA_VISIBLE_DEVICES": ("", "void", "none")}
"""Variables that leave a process, or a container, without a GPU, with their first entries that do so: those of CUDA
and of Slurm, and those of the NVIDIA container toolkit."""
WSL_NODE = "dev/dxg"
"""The one device file of the Windows Subsystem for Linux, which GPUs of other makes have, too."""
CHOOSING = "CUDA_VISIBLE_DEVICES"
DRIVER_LIBRARY = "libcuda.so.1"


class Seen(NamedTuple):
    """NVIDIA GPUs as the operating system shows them, whatever torch says."""

    nodes: bool
    """There are device files. Those of the host are also in a privileged container that was given no GPU, and
    ``/proc/driver/nvidia`` is in every container."""
    library: bool
    """The driver's library is there, which the NVIDIA container toolkit adds to containers that are given a GPU."""
    hidden_by: str | None = None
    """The variable that hides them."""
    driver: str = "unknown"
    """Version of the kernel's driver."""

    @property
    def visible(self) -> bool:
        """Whether a process may expect to compute on one."""
        return self.nodes and self.library and self.hidden_by is None

    @property
    def why_not(self) -> str:
        """Why GPUs that are there are not visible, in brackets; empty where there are none."""
        if not self.nodes:
            return ""
        if self.hidden_by is not None:
            return f" ({self.hidden_by} hides those that are there)"
        return f" (there are device files, but {DRIVER_LIBRARY} is missing: a container started without --gpus?)"


def seen_gpus(root: Path = Path("/"), environment: Mapping[str, str] = os.environ) -> Seen:
    """Look for NVIDIA GPUs without torch.

    Args:
        root: of the file system that holds ``dev`` and ``proc``.
        environment: where variables may hide them.
    """
    first = {name: environment[name].split(",")[0].strip() for name in HIDING if name in environment}
    hiding = (name for name, value in first.items() if value in HIDING[name])
    found = re.search(r"Kernel Module.*? ([0-9]+\.[0-9.]+)", _text(root / "proc/driver/nvidia/version"))
    nodes = any(re.fullmatch(r"nvidia\d+", path.name) for path in (root / "dev").glob("nvidia*"))
    if not nodes and (root / WSL_NODE).exists():
        nodes = _has_library()
    return Seen(nodes, nodes and _has_library(), next(hiding, None), found[1] if found else "unknown")


def best_device(wanted: str) -> str:
    """``wanted`` itself, which must be usable, or for "auto" a GPU, and the CPU only where no GPU is visible.

    Raises:
        UserError: what is wanted is not there, or torch cannot use the GPU that is visible.
    """
    if wanted != "auto":
        check_exists(wanted)
        return wanted
    import torch

    if torch.cuda.is_available():
        check_exists("cuda")
        return "cuda"
    _check_usable()
    return "cpu"


def check_exists(device: str) -> None:
    """Raise UserError unless ``device`` is there and this build of torch has code for it."""
    if not _DEVICE.fullmatch(device):
        raise UserError(f"unknown device {device!r}", "use cpu, cuda or cuda:N")
    if device == "cpu":
        return
    import torch

    if int(device.partition(":")[2] or 0) >= torch.cuda.device_count():
        if not torch.cuda.is_available():
            _check_usable()
        raise UserError(f"there is no GPU {device}{seen_gpus().why_not}", "use --device cpu or a machine with a GPU")
    try:
        there = has_code(device)
    except (RuntimeError, AssertionError) as e:
        # a GPU is counted by the driver's management library, too, which says nothing of whether CUDA can begin
        raise _unusable(_first_line(e)) from e
    if not there:
        raise UserError(
            f"this build of torch has no code for {in_words(device)}",
            "use --device cpu or another GPU, or install a torch that was built for this one",
        )


def has_code(device: str) -> bool:
    """Whether this build of torch has code for a GPU, as its list of architectures tells; ``device`` must be there.

    Code for one compute capability runs on those of the same first number and no smaller second one; ``compute_XY``
    is an intermediate form, which the driver translates for all later ones.
    """
    import torch

    gpu = torch.cuda.get_device_capability(device)
    built = [_ARCHITECTURE.fullmatch(name) for name in torch.cuda.get_arch_list()]
    codes = [(found[1], (int(found[2]), int(found[3]))) for found in built if found]
    if not codes:  # of ROCm, whose names are others
        return True
    return any(code <= gpu and (form == "compute" or code[0] == gpu[0]) for form, code in codes)


def in_words(device: str) -> str:
    """A device as a user knows it; ``device`` must be there."""
    if device == "cpu":
        return device
    import torch

    major, minor = torch.cuda.get_device_capability(device)
    return f"{torch.cuda.get_device_name(device)} (sm_{major}{minor})"


def _check_usable() -> None:
    """Raise UserError if a GPU is visible; torch has said that it can use none."""
    import torch

    found = seen_gpus()
    if not found.visible:
        return
    if torch.version.cuda is None:
        raise UserError(
            "there is an NVIDIA GPU, and this build of torch has no CUDA",
            "use --device cpu, or install torch with CUDA",
        )
    raise _unusable(_reason())


def _unusable(reason: str) -> UserError:
    """The GPU is there and CUDA does not begin."""
    import torch

    what = f"torch {torch.__version__} for CUDA {torch.version.cuda} cannot use the NVIDIA GPU"
    remedy = "update the driver or install a torch for an older CUDA"
    if (chosen := os.environ.get(CHOOSING)) is not None:  # a number of the host may mean nothing in a container
        what, remedy = f"{what} ({CHOOSING} is {chosen!r})", f"see that {CHOOSING} names a GPU that is there, {remedy}"
    return UserError(f"{what} with driver {seen_gpus().driver}: {reason}", f"{remedy}, or use --device cpu")


def _reason() -> str:
    """What torch itself says when it is asked to use a GPU."""
    import torch

    begin: Callable[[], None] = torch.cuda.init
    try:
        begin()
    except (RuntimeError, AssertionError) as e:
        return _first_line(e)
    return "no device is available"


def _first_line(fault: Exception) -> str:
    return str(fault).strip().partition("\n")[0]


def _has_library() -> bool:
    try:
        ctypes.CDLL(DRIVER_LIBRARY)
    except OSError:
        return False
    return True


def _text(path: Path) -> str:
    try:
        return path.read_text(encoding="ascii", errors="replace")
    except OSError:
        return ""
