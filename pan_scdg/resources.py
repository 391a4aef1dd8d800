"""Measure the cores and the memory that this process may use, within the limits of its control group (cgroup).

A container sees all cores and all memory of its host. Its limits are in files of the kernel, those of
cgroup v2 or of v1; a limit of any group around the process counts.
"""

import math
import os
import platform
import re
import subprocess
from collections.abc import Iterator
from pathlib import Path, PurePosixPath

ROOT = Path("/")
CGROUPS = "sys/fs/cgroup"


def count_cores(root: Path = ROOT) -> int:
    """Return the cores this process may use at once: its affinity, or a cgroup's quota, rounded up, if that is less.

    Args:
        root: of the file system that holds ``proc`` and ``sys``.
    """
    return min([_count_affinity(), *(max(1, math.ceil(quota)) for quota in _list_quotas(root))])


def find_processor(root: Path = ROOT) -> str:
    """Return the processor's model by name; its architecture where the system does not name the model."""
    if match := re.search(r"^model name\s*:\s*(.+)$", _read_text(root / "proc/cpuinfo"), re.MULTILINE):
        return " ".join(match[1].split())
    if platform.system() == "Darwin":
        words = ["sysctl", "-n", "machdep.cpu.brand_string"]
        return subprocess.run(words, capture_output=True, text=True, check=False).stdout.strip() or platform.machine()
    return platform.machine()


def count_threads() -> int:
    """Return the threads of a matrix product: as many as OMP_NUM_THREADS says, else one for each core."""
    given = os.environ.get("OMP_NUM_THREADS", "").partition(",")[0]
    return int(given) if given.isdecimal() else count_cores()


def measure_memory(root: Path = ROOT) -> int:
    """Return the bytes of memory this process may use: the machine's, or a cgroup's limit if that is less.

    Swap does not count.
    """
    return min([os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"), *_list_limits(root)])


def limit_threads(root: Path = ROOT) -> None:
    """Limit the threads of torch and BLAS to the cores that this process may use.

    Both count the processors that they may run on and ignore a quota: with more threads than that allows, all
    wait in each product for those that have no core. A user's OMP_NUM_THREADS takes precedence.
    """
    allowed = count_cores(root)
    if allowed >= _count_affinity() or "OMP_NUM_THREADS" in os.environ:
        return
    import numpy  # noqa: F401 - brings the BLAS that is looked for
    import torch
    from threadpoolctl import ThreadpoolController

    if torch.get_num_threads() > allowed:
        torch.set_num_threads(allowed)
    for pool in ThreadpoolController().lib_controllers:
        if pool.num_threads > allowed:
            pool.set_num_threads(allowed)


def _count_affinity() -> int:
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def _list_quotas(root: Path) -> Iterator[float]:
    """Yield the cores that each group around this process may keep busy."""
    for folder in _list_groups(root, "cpu"):
        if len(words := _read_text(folder / "cpu.max").split()) == 2:
            quota, period = words
        else:
            quota, period = _read_text(folder / "cpu.cfs_quota_us"), _read_text(folder / "cpu.cfs_period_us")
        if quota.isdecimal() and period.isdecimal() and int(period):  # no limit: "max", or -1
            yield int(quota) / int(period)


def _list_limits(root: Path) -> Iterator[int]:
    """Yield the bytes that each group around this process may use; v1 writes a very large number for no limit."""
    for folder in _list_groups(root, "memory"):
        for name in ("memory.max", "memory.limit_in_bytes"):
            if (text := _read_text(folder / name)).isdecimal():
                yield int(text)


def _list_groups(root: Path, controller: str) -> Iterator[Path]:
    """Yield the folders of the groups that limit this process by ``controller``: its own, and all that contain it.

    A container may be shown its path on the host, where its own file system has nothing; the topmost folder then is
    that of the container itself.
    """
    for line in _read_text(root / "proc/self/cgroup").splitlines():
        names, _, path = line.partition(":")[2].partition(":")
        below = PurePosixPath(path.lstrip("/"))
        if names and controller not in names.split(","):  # no names: v2
            continue
        tops = {root / CGROUPS / names, root / CGROUPS / controller} if names else {root / CGROUPS}
        for top in sorted(tops):
            yield from (top / part for part in [below, *below.parents] if ".." not in part.parts)


def _read_text(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8").strip()
    except (OSError, ValueError):
        return ""
