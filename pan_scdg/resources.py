"""What this process may use of its machine: cores and memory, with the limits of its control group (cgroup).

A container sees all cores and all memory of its host. What it may use of them stands in files of the kernel, those of
cgroup v2 or of v1; a limit of any group around the process counts.
"""

import math
import os
from collections.abc import Iterator
from pathlib import Path, PurePosixPath

ROOT = Path("/")
CGROUPS = "sys/fs/cgroup"


def cores(root: Path = ROOT) -> int:
    """Cores that this process may use at one time: its affinity, or a cgroup's quota, rounded up, where that is less.

    Args:
        root: of the file system that holds ``proc`` and ``sys``.
    """
    return min([_affinity(), *(max(1, math.ceil(quota)) for quota in _quotas(root))])


def memory(root: Path = ROOT) -> int:
    """Bytes of memory that this process may use: all of the machine, or a cgroup's limit where that is less.

    Swap does not count.
    """
    return min([os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"), *_limits(root)])


def limit_threads(root: Path = ROOT) -> None:
    """Let torch and BLAS compute on no more threads than there are cores to run them.

    Both count the processors that they may run on and know nothing of a quota: with more threads than that allows, all
    wait in each product for those that have no core. A user's OMP_NUM_THREADS has the last word.
    """
    allowed = cores(root)
    if allowed >= _affinity() or "OMP_NUM_THREADS" in os.environ:
        return
    import numpy  # noqa: F401 - brings the BLAS that is looked for
    import torch
    from threadpoolctl import ThreadpoolController

    if torch.get_num_threads() > allowed:
        torch.set_num_threads(allowed)
    for pool in ThreadpoolController().lib_controllers:
        if pool.num_threads > allowed:
            pool.set_num_threads(allowed)


def _affinity() -> int:
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def _quotas(root: Path) -> Iterator[float]:
    """Cores that the groups around this process may keep busy."""
    for folder in _groups(root, "cpu"):
        if len(words := _text(folder / "cpu.max").split()) == 2:
            quota, period = words
        else:
            quota, period = _text(folder / "cpu.cfs_quota_us"), _text(folder / "cpu.cfs_period_us")
        if quota.isdecimal() and period.isdecimal() and int(period):  # no limit: "max", or -1
            yield int(quota) / int(period)


def _limits(root: Path) -> Iterator[int]:
    """Bytes that the groups around this process may use; where there is no limit, v1 gives a very large number."""
    for folder in _groups(root, "memory"):
        for name in ("memory.max", "memory.limit_in_bytes"):
            if (text := _text(folder / name)).isdecimal():
                yield int(text)


def _groups(root: Path, controller: str) -> Iterator[Path]:
    """The folders of the groups that limit this process by ``controller``: its own, and all that this one lies in.

    A container may be shown its path on the host, where its own file system has nothing; the topmost folder then is
    that of the container itself.
    """
    for line in _text(root / "proc/self/cgroup").splitlines():
        names, _, path = line.partition(":")[2].partition(":")
        below = PurePosixPath(path.lstrip("/"))
        if names and controller not in names.split(","):  # no names: v2
            continue
        tops = {root / CGROUPS / names, root / CGROUPS / controller} if names else {root / CGROUPS}
        for top in sorted(tops):
            yield from (top / part for part in [below, *below.parents] if ".." not in part.parts)


def _text(path: Path) -> str:
    try:
        return path.read_text(encoding="ascii").strip()
    except (OSError, ValueError):
        return ""
