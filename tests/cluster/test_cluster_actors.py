"""Actors of a cluster on this machine: order, ends, errors, memory, and the bytes of one process."""

import os
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator
from importlib.util import find_spec
from itertools import count, islice
from pathlib import Path
from typing import Any

import numpy as np
import pytest

sys.path.append(str(Path(__file__).parent))

from marked import list_listening, list_marked
from works_for_actors import Fatal, Faulty, Ids, Plain, Run, Slow, until

from pan_scdg.cluster.actors import AHEAD, DEATHS, Actors
from pan_scdg.cluster.session import Cluster
from pan_scdg.errors import Interrupted, UserError, UserErrors
from pan_scdg.lm.engine import make_engine
from pan_scdg.lm.works import ScoringOrders
from pan_scdg.models.load import load_model
from pan_scdg.profile import ModelSettings
from pan_scdg.records import Document
from pan_scdg.retrieval.bm25.impact_build import build_from_postings, build_index
from pan_scdg.retrieval.document_groups import GroupOrders, GroupValues, GroupWork

torch = pytest.importorskip("torch")
if find_spec("ray") is None:  # imported by what is tested, after its settings
    pytest.skip("needs ray", allow_module_level=True)

ROOT = Path(__file__).parents[2]
SETTINGS = ModelSettings(name="tiny", dtype="float32", pack_tokens=64)
TWO = 2
MARK = f"mark-of-actors-{os.getpid()}"


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    """Ray for all tests, since it takes seconds to start."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PYTHONPATH", str(Path(__file__).parent), prepend=os.pathsep)
        patch.setenv("MARK", MARK)
        cluster = Cluster("local", TWO)
        cluster.connect()  # some tests list its machines
        yield cluster
        cluster.close()


@pytest.fixture(scope="module")
def actors(cluster: Cluster) -> Iterator[Actors[Plain, tuple[int, int]]]:
    with Actors[Plain, tuple[int, int]](cluster, Run(), "cpu") as both:
        yield both


Both = Actors[Plain, tuple[int, int]]


def run(actors: Both, *works: Plain) -> set[int]:
    """Compute tasks; return the numbers of the processes. Results come in the order of the tasks."""
    found = list(actors.map(works))
    assert [number for number, _ in found] == [work.number for work in works]
    return {pid for _, pid in found}


def listen(caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch) -> None:
    """Keep what is said."""
    caplog.set_level("INFO", "pan_scdg")
    monkeypatch.setattr("pan_scdg.logs.LOGGER.propagate", True)


def find_pids(actors: Both, folder: Path) -> set[int]:
    """Return the numbers of both processes, each of which has to take one of these tasks."""
    while str(actors.count()) != "2 processes, 1 nodes":
        list(actors.map([Plain(0)]))
    gate = folder / "gate"
    thread = threading.Thread(target=lambda: (until(lambda: len(list(folder.glob("waits*"))) == TWO), gate.touch()))
    folder.mkdir()
    thread.daemon = True
    thread.start()
    found = run(actors, *(Slow(number, gate) for number in range(AHEAD * TWO)))
    thread.join()
    assert len(found) == TWO
    return found


def test_scores_are_to_the_bit_those_of_this_process(cluster: Cluster, tiny_folder: Callable[[str], Path]) -> None:
    before = torch.get_num_threads()
    torch.set_num_threads(1)  # as each actor then has, so that sums have the same order
    lm = load_model(tiny_folder("qwen3"), SETTINGS, "cpu")
    orders = ScoringOrders(tiny_folder("qwen3"), SETTINGS, "packed", lm.fingerprint)
    with Actors[Ids, Any](cluster, orders, "cpu") as both:
        found = list(both.map(map(Ids, range(25))))
        assert list(both.map([])) == []
    engine = make_engine("packed", lm, SETTINGS)
    for computed, seed in zip(found, range(25), strict=True):
        items = Ids(seed).make_inputs(lm.tokenizer)
        for (ids, log_probs), item, expected in zip(
            computed.values, items, engine.compute_log_probs(items), strict=True
        ):
            assert (ids.dtype, log_probs.dtype) == (np.int64, np.float32)
            np.testing.assert_array_equal(ids, item.target_ids)
            np.testing.assert_array_equal(log_probs, expected)
    assert sum(computed.tokens for computed in found) == engine.tokens
    assert [computed.splits for computed in found] == [[]] * 25
    torch.set_num_threads(before)


def test_terms_are_those_of_this_process(cluster: Cluster, tmp_path: Path) -> None:
    stopwords, groups = frozenset({"the"}), [[f"The word{n} stands {m} times." for n in range(m)] for m in range(1, 9)]
    documents = [Document(f"{m}-{n}", text) for m, group in enumerate(groups) for n, text in enumerate(group)]
    build_index(documents, tmp_path / "one", stopwords)
    orders = GroupOrders(None, stopwords)
    with Actors[GroupWork, GroupValues](cluster, orders, "cpu", at_once=AHEAD) as both:
        found = both.map(GroupWork([], group) for group in groups)
        names = ([f"{m}-{n}" for n in range(len(group))] for m, group in enumerate(groups))
        build_from_postings(zip(names, (values.postings for values in found)), tmp_path / "two", stopwords)
    for path in (tmp_path / "one").iterdir():
        assert path.read_bytes() == (tmp_path / "two" / path.name).read_bytes(), path.name


@pytest.mark.skipif(not Path("/proc/net/tcp").exists(), reason="needs /proc")
def test_only_this_machine_reaches_ray_and_nothing_is_reported(actors: Both) -> None:
    run(actors, Plain(0))
    pids = list_marked(MARK)
    commands = [Path(f"/proc/{pid}/cmdline").read_bytes().decode(errors="replace") for pid in pids]
    assert any("raylet" in command for command in commands)
    assert all("--disable-frontend" in command for command in commands if "dashboard.py" in command)
    assert list_listening([*pids, os.getpid()]) == {"127.0.0.1"}
    assert os.environ["RAY_USAGE_STATS_ENABLED"] == "0"
    assert (os.environ["RAY_AUTH_MODE"], len(os.environ["RAY_AUTH_TOKEN"])) == ("token", 64)


def test_an_actor_that_ends_is_replaced_and_nothing_is_lost(actors: Both, tmp_path: Path) -> None:
    before, lost, retried = find_pids(actors, tmp_path / "before"), len(actors.deaths), actors.retried
    run(actors, *(Fatal(number, int(number == 3), tmp_path / str(number)) for number in range(8)))
    times = [(tmp_path / str(number)).stat().st_size for number in range(8)]
    assert times[3] == 2
    assert sum(times) <= 8 + AHEAD  # the answer to the work before may end with its actor
    assert actors.deaths[lost:] == ["cpu: it ended"]
    assert 1 <= actors.retried - retried <= AHEAD
    assert len(before & find_pids(actors, tmp_path / "after")) == TWO - 1
    assert actors.count().ended == len(actors.deaths)


def test_a_work_without_memory_goes_to_another_actor(actors: Both, tmp_path: Path) -> None:
    lost = len(actors.deaths)
    run(actors, Plain(0), Fatal(1, 1, tmp_path / "counter", memory=True), Plain(2))
    assert actors.deaths[lost:] == ["cpu: out of memory"]


def test_a_result_that_is_lost_is_computed_again(actors: Both, monkeypatch: pytest.MonkeyPatch) -> None:
    import ray

    run(actors, Plain(0))  # actors are loaded, so that the next values are results
    asked, deaths, get = list[Any](), len(actors.deaths), ray.get

    def lose_the_first(reference: Any, timeout: float | None = None) -> Any:
        asked.append(reference)
        if reference == asked[0]:  # as Ray says of an object whose machine is gone
            raise ray.exceptions.ObjectLostError(reference.hex(), None, "")
        return get(reference, timeout=timeout)

    monkeypatch.setattr(ray, "get", lose_the_first)
    run(actors, *map(Plain, range(4)))
    assert actors.deaths[deaths:] == ["cpu: its result was lost"]


def test_works_are_asked_for_only_when_needed(actors: Both, tmp_path: Path) -> None:
    gate, asked, asked_before = tmp_path / "gate", list[int](), list[int]()

    def works() -> Iterator[Plain]:
        for number in count():
            asked.append(number)
            yield Slow(number, gate)

    def open_gate() -> None:
        until(lambda: len(asked) == AHEAD * TWO)
        time.sleep(0.3)
        asked_before.extend(asked)
        gate.touch()

    thread = threading.Thread(target=open_gate)
    thread.start()
    assert [number for number, _ in islice(actors.map(works()), 6)] == list(range(6))
    thread.join()
    assert asked_before == list(range(AHEAD * TWO))


def test_an_actor_with_threads_takes_the_next_work_meanwhile(cluster: Cluster, tmp_path: Path) -> None:
    gate = tmp_path / "gate"
    with Actors[Plain, tuple[int, int]](cluster, Run(), "cpu", at_once=AHEAD) as both:
        run(both, Plain(0), Plain(1))
        waits = threading.Thread(
            target=lambda: (until(lambda: len(list(tmp_path.glob("waits*"))) == AHEAD * TWO), gate.touch())
        )
        waits.start()
        run(both, *(Slow(number, gate) for number in range(AHEAD * TWO)))
        waits.join()


def test_an_endless_row_does_not_fill_the_memory_behind_a_slow_work(
    actors: Both, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("pan_scdg.cluster.actors.HELD", 5)
    gate, asked = tmp_path / "gate", list[int]()

    def works() -> Iterator[Plain]:
        for number in count():
            asked.append(number)
            if number == 9:
                gate.touch()
            yield Slow(number, gate) if number == 0 else Plain(number)

    assert next(actors.map(works()))[0] == 0
    assert len(asked) == 5 * TWO


def test_maps_within_maps(actors: Both) -> None:
    inner, outer = list[int](), list[int]()

    def compute(*numbers: int) -> list[int]:
        return [number for number, _ in actors.map(map(Plain, numbers))]

    def works() -> Iterator[Plain]:
        for number in range(5):
            inner.extend(compute(len(inner)))
            yield Plain(number)

    unfinished = actors.map(map(Plain, count(200)))
    first = next(unfinished)
    for number, _ in actors.map(works()):
        outer.append(number)
        inner.extend(compute(*(len(inner) + i for i in range(3))))
    assert [first[0], *(number for number, _ in islice(unfinished, 4))] == list(range(200, 205))
    unfinished.close()  # what is under way for it disturbs nobody
    assert compute(7, 8) == [7, 8]
    assert outer == list(range(5))
    assert inner == list(range(20))


@pytest.mark.parametrize("errors", [0, 1, 2])
def test_an_exception_travels_and_the_actors_stay(actors: Both, errors: int, tmp_path: Path) -> None:
    before, mapped = find_pids(actors, tmp_path / "before"), actors.map([Plain(0), Faulty(errors), Plain(1)])
    assert next(mapped)[0] == 0
    with pytest.raises((UserError, KeyError)) as caught:
        next(mapped)
    if errors:
        told = caught.value.errors if isinstance(caught.value, UserErrors) else [caught.value]
        parts = [(e.what, e.remedy, e.where, e.line) for e in told if isinstance(e, UserError)]
        assert parts == [("a token\nis odd", "correct it", "there", line) for line in range(errors)]
    else:
        assert str(caught.value) == "'of no use'"
        assert "works_for_actors.py" in str(caught.value.__cause__)
    assert find_pids(actors, tmp_path / "after") == before


def test_ctrl_c_is_the_business_of_this_process(actors: Both, tmp_path: Path) -> None:
    """Ctrl-C reaches all processes of a terminal."""
    before = find_pids(actors, tmp_path / "before")
    mapped = actors.map(map(Plain, range(9)))
    next(mapped)
    for pid in before:
        os.kill(pid, signal.SIGINT)
    assert len(list(mapped)) == 8
    assert find_pids(actors, tmp_path / "after") == before


@pytest.mark.long
def test_a_work_that_ends_every_actor_stops_the_run_and_closed_actors_take_nothing(
    cluster: Cluster, tmp_path: Path
) -> None:
    with Actors[Plain, tuple[int, int]](cluster, Run(), "cpu") as both:
        with pytest.raises(Interrupted, match=f"{DEATHS} processes ended while computing the same batch, the last"):
            list(both.map([Fatal(0, 100, tmp_path / "deaths")]))
        assert (tmp_path / "deaths").stat().st_size == DEATHS
        unfinished = both.map([Plain(0)])
    with pytest.raises(ValueError, match="closed"):
        next(unfinished)


@pytest.mark.long
def test_a_model_that_cannot_be_loaded_is_told_at_once(cluster: Cluster, tmp_path: Path) -> None:
    orders = ScoringOrders(tmp_path / "none", SETTINGS, "packed", "")
    with Actors[Ids, Any](cluster, orders, "cpu") as both, pytest.raises(UserError) as caught:
        list(both.map([Ids(0)]))
    assert (caught.value.what, caught.value.where) == ("the model folder does not exist", tmp_path / "none")


@pytest.mark.long
@pytest.mark.parametrize("here", [True, False])
def test_a_package_that_is_missing_is_told(
    here: bool, cluster: Cluster, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    nodes = [node._replace(here=here, name="node7") for node in cluster.list_nodes()]
    monkeypatch.setattr(cluster, "list_nodes", lambda: nodes)
    listen(caplog, monkeypatch)
    told = "a process cannot start: ModuleNotFoundError: No module named 'nowhere'"
    with Actors[Plain, Any](cluster, Run(imports="nowhere"), "cpu") as both, pytest.raises(UserError, match=told):
        list(both.map([Plain(0)]))
    assert any(f"node7 is not used: {told}" in message for message in caplog.messages) is not here


@pytest.mark.long
def test_a_machine_with_another_model_is_named_and_not_used(
    cluster: Cluster,
    tiny_folder: Callable[[str], Path],
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    elsewhere = [node._replace(here=False, name="node7") for node in cluster.list_nodes()]
    monkeypatch.setattr(cluster, "list_nodes", lambda: elsewhere)
    listen(caplog, monkeypatch)
    orders = ScoringOrders(tiny_folder("qwen3"), SETTINGS, "packed", "0" * 64)
    with Actors[Ids, Any](cluster, orders, "cpu") as both, pytest.raises(UserError, match="another model"):
        list(both.map([Ids(0)]))
    assert "warning: node7 is not used" in caplog.text


@pytest.mark.long
def test_one_actor_loads_after_the_other(
    cluster: Cluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The first dies of it, and still the others' turn comes; that nothing computes so long is said once."""
    monkeypatch.setattr("pan_scdg.cluster.actors.PATIENCE", 0.0)
    with Actors[Plain, tuple[int, int]](cluster, Run(tmp_path / "told"), "cpu") as both:
        find_pids(both, tmp_path / "works")
        assert both.deaths == ["cpu: it ended"]
    assert capsys.readouterr().err.count("waiting for a process to start") == 1
    assert (tmp_path / "told").read_text().splitlines() == ["begins", *["begins", "ends"] * 2]


def test_another_machine_that_cannot_compute_the_same_is_named_and_not_used(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    elsewhere = [node._replace(here=False, name="node7") for node in cluster.list_nodes()]
    monkeypatch.setattr(cluster, "list_nodes", lambda: elsewhere)
    listen(caplog, monkeypatch)
    orders = Run(error=UserError("another model", "copy it"))
    with Actors[Plain, Any](cluster, orders, "cpu") as both, pytest.raises(UserError, match="another model; copy it"):
        list(both.map([Plain(0)]))
    assert set(caplog.messages) == {"warning: node7 is not used: another model; copy it"}


def test_machines_that_are_lost_stop_a_run_that_can_be_resumed(
    cluster: Cluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("pan_scdg.cluster.actors.POLL", 0.2)
    gate = tmp_path / "gate"
    with Actors[Plain, Any](cluster, Run(), "cpu") as both:
        assert next(both.map([Plain(0)]))[0] == 0
        mapped = both.map([Slow(0, gate), Slow(1, gate)])
        monkeypatch.setattr(cluster, "list_nodes", list)
        with pytest.raises(Interrupted, match="all machines of the cluster that can compute are lost"):
            list(mapped)
        assert (both.count().lost, both.retried) == (1, 2)
