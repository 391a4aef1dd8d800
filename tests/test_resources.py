"""Cores and memory that a control group leaves to this process, and the threads that follow from them."""

import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from threadpoolctl import ThreadpoolController

from pan_scdg.resources import count_cores, limit_threads, measure_memory

torch = pytest.importorskip("torch")

RAM = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
MIB = 1 << 20


@pytest.fixture(autouse=True)
def eight_cores(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: set(range(8)), raising=False)


def machine(root: Path, groups: str, **files: str) -> Path:
    """A file system with these groups of the process; ``__`` in a file's name stands for a slash."""
    for name, text in {"proc__self__cgroup": groups, **files}.items():
        path = root / name.replace("__", "/")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text + "\n")
    return root


def v1(folder: str, **values: object) -> dict[str, str]:
    return {f"sys__fs__cgroup__{folder}__{name.replace('_', '.', 1)}": str(value) for name, value in values.items()}


@pytest.mark.parametrize(
    ("quota", "expected"),
    [("max 100000", 8), ("300000 100000", 3), ("250000 100000", 3), ("20000 100000", 1), ("9900000 100000", 8)],
)
def test_cores_of_a_container_with_cgroup_v2(tmp_path: Path, quota: str, expected: int) -> None:
    assert count_cores(machine(tmp_path, "0::/", **{"sys__fs__cgroup__cpu.max": quota})) == expected


@pytest.mark.parametrize(("limit", "expected"), [("max", RAM), (str(64 * MIB), 64 * MIB), (str(1 << 62), RAM)])
def test_memory_of_a_container_with_cgroup_v2(tmp_path: Path, limit: str, expected: int) -> None:
    assert measure_memory(machine(tmp_path, "0::/", **{"sys__fs__cgroup__memory.max": limit})) == expected


def test_the_least_of_all_groups_around_counts(tmp_path: Path) -> None:
    files = {
        "sys__fs__cgroup__jobs__cpu.max": "200000 100000",
        "sys__fs__cgroup__jobs__7__cpu.max": "500000 100000",
        "sys__fs__cgroup__jobs__memory.max": str(96 * MIB),
        "sys__fs__cgroup__jobs__7__memory.max": "max",
        "sys__fs__cgroup__others__cpu.max": "100000 100000",
    }
    root = machine(tmp_path, "0::/jobs/7", **files)
    assert (count_cores(root), measure_memory(root)) == (2, 96 * MIB)


@pytest.mark.parametrize("folder", ["cpu,cpuacct", "cpu"])
@pytest.mark.parametrize("path", ["/", "/docker/abc", "/../../abc"])
def test_cgroup_v1_also_where_the_path_is_that_of_the_host(tmp_path: Path, folder: str, path: str) -> None:
    """In the container its own group lies at the top, whatever the path says."""
    files = v1(folder, cpu_cfs_quota_us=350000, cpu_cfs_period_us=100000)
    files |= v1("memory", memory_limit_in_bytes=80 * MIB)
    root = machine(tmp_path, f"5:memory:{path}\n4:cpu,cpuacct:{path}\n1:name=systemd:{path}", **files)
    assert (count_cores(root), measure_memory(root)) == (4, 80 * MIB)


def test_cgroup_v1_without_limits(tmp_path: Path) -> None:
    files = v1("cpu", cpu_cfs_quota_us=-1, cpu_cfs_period_us=100000)
    files |= v1("memory", memory_limit_in_bytes=9223372036854771712)
    root = machine(tmp_path, "5:memory:/\n4:cpu:/", **files)
    assert (count_cores(root), measure_memory(root)) == (8, RAM)


@pytest.mark.parametrize("text", ["", "odd", "1 2 3", "100000 0", "-1 100000", "\0\0"])
def test_files_that_cannot_be_read_are_no_limit(tmp_path: Path, text: str) -> None:
    files = {"sys__fs__cgroup__cpu.max": text, "sys__fs__cgroup__memory.max": text}
    assert count_cores(machine(tmp_path / "odd", "0::/\nodd", **files)) == 8
    assert measure_memory(tmp_path / "odd") == RAM
    assert (count_cores(tmp_path / "missing"), measure_memory(tmp_path / "missing")) == (8, RAM)


@pytest.fixture
def threads() -> Iterator[None]:
    """As many threads as the affinity has, for torch and BLAS, and what there was before afterwards."""
    pools = ThreadpoolController().lib_controllers
    before = torch.get_num_threads(), [pool.num_threads for pool in pools]
    torch.set_num_threads(8)
    for pool in pools:
        pool.set_num_threads(8)
    yield
    torch.set_num_threads(before[0])
    for pool, number in zip(pools, before[1], strict=True):
        pool.set_num_threads(number)


@pytest.mark.usefixtures("threads")
@pytest.mark.parametrize(
    ("quota", "variable", "expected"),
    [
        *(("300000 100000", None, 3), ("300000 100000", "8", 8), ("max 100000", None, 8)),
        *(("300000 100000", variable, 8) for variable in ("", "many", "2,1")),  # for the libraries to read
    ],
)
def test_threads_follow_a_quota_and_the_user(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, quota: str, variable: str | None, expected: int
) -> None:
    monkeypatch.delenv("OMP_NUM_THREADS", raising=False)
    if variable is not None:
        monkeypatch.setenv("OMP_NUM_THREADS", variable)
    limit_threads(machine(tmp_path, "0::/", **{"sys__fs__cgroup__cpu.max": quota}))
    blas = [pool.num_threads for pool in ThreadpoolController().lib_controllers if pool.user_api == "blas"]
    assert torch.get_num_threads() == expected
    assert set(blas) == {expected}


@pytest.mark.usefixtures("threads")
def test_fewer_threads_than_cores_stay(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("OMP_NUM_THREADS", raising=False)
    torch.set_num_threads(2)
    limit_threads(machine(tmp_path, "0::/", **{"sys__fs__cgroup__cpu.max": "300000 100000"}))
    assert torch.get_num_threads() == 2


def test_this_machine_has_a_core_and_memory() -> None:
    assert 1 <= count_cores() <= 8
    assert 0 < measure_memory() <= RAM
