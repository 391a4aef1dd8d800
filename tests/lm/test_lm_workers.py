"""Workers in processes of their own against the engine in this one; workers that die, fail or lose their parent."""

import multiprocessing
import os
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from itertools import count, islice
from pathlib import Path

import numpy as np
import pytest

sys.path.append(str(Path(__file__).parent))  # which a worker takes over

from works_for_workers import Fatal, Faulty, Ids, Slow, start_and_tell, until

from pan_scdg.errors import UserError, UserErrors
from pan_scdg.lm.engine import make_engine
from pan_scdg.lm.workers import AHEAD, DEATHS, Values, Workers
from pan_scdg.models.load import LanguageModel, load_model
from pan_scdg.profile import ModelSettings

torch = pytest.importorskip("torch")

ROOT = Path(__file__).parents[2]
SETTINGS = ModelSettings(name="tiny", dtype="float32", pack_tokens=64)
TWO = ("cpu", "cpu")
PARENT = """
import sys
from pathlib import Path
folder, works = sys.argv[1:]
sys.path.append(works)
from pan_scdg.lm.workers import Workers
from pan_scdg.profile import ModelSettings
from works_for_workers import Endless
settings = ModelSettings(name="tiny", dtype="float32")
list(Workers(Path(folder), settings, "packed", ["cpu"], "").map([Endless(), Endless()]))
"""


def pids() -> set[int]:
    return {child.pid for child in multiprocessing.active_children() if child.pid is not None}


@pytest.fixture(scope="module")
def lm(tiny_folder: Callable[[str], Path]) -> Iterator[LanguageModel]:
    before = torch.get_num_threads()
    torch.set_num_threads(1)  # as each worker then has, so that sums have the same order
    yield load_model(tiny_folder("qwen3"), SETTINGS, "cpu")
    torch.set_num_threads(before)


@pytest.fixture(scope="module")
def workers(lm: LanguageModel, tiny_folder: Callable[[str], Path]) -> Iterator[Workers]:
    """Two workers for all tests, since each takes seconds to start."""
    with Workers(tiny_folder("qwen3"), SETTINGS, "packed", TWO, "") as both:
        yield both


def assert_computed(found: list[Values], lm: LanguageModel, seeds: range) -> int:
    """What was found is to the bit what the engine in this process gives for these seeds; the tokens it took."""
    engine = make_engine("packed", lm, SETTINGS)
    assert len(found) == len(seeds)
    for values, seed in zip(found, seeds, strict=True):
        items = Ids(seed).make_inputs(lm.tokenizer)
        for (ids, log_probs), item, expected in zip(values, items, engine.compute_log_probs(items), strict=True):
            assert ids.dtype == np.int64
            assert log_probs.dtype == np.float32
            np.testing.assert_array_equal(ids, item.target_ids)
            np.testing.assert_array_equal(log_probs, expected)
    return engine.tokens


def test_the_engine_in_this_process_is_repeated_in_order(workers: Workers, lm: LanguageModel) -> None:
    before = workers.tokens
    found = list(workers.map(map(Ids, range(25))))
    assert workers.tokens - before == assert_computed(found, lm, range(25))
    assert len(pids()) == len(TWO)
    assert workers.splits == []
    assert list(workers.map([])) == []


def test_a_killed_worker_is_replaced_and_nothing_changes(workers: Workers, lm: LanguageModel, tmp_path: Path) -> None:
    before, tokens, lost = pids(), workers.tokens, len(workers.deaths)
    works = [Fatal(seed, int(seed == 3), tmp_path / str(seed)) for seed in range(8)]
    found = list(workers.map(works))
    assert workers.tokens - tokens == assert_computed(found, lm, range(8))
    assert [(tmp_path / str(seed)).stat().st_size for seed in range(8)] == [1, 1, 1, 2, 1, 1, 1, 1]
    assert workers.deaths[lost:] == ["worker on cpu: SIGKILL"]
    assert len(before & pids()) == len(TWO) - 1


def test_works_are_asked_for_only_when_needed(workers: Workers, lm: LanguageModel, tmp_path: Path) -> None:
    gate, asked = tmp_path / "gate", list[int]()
    asked_before_the_first_was_done = list[int]()

    def works() -> Iterator[Slow]:
        for seed in count():
            asked.append(seed)
            yield Slow(seed, gate)

    def open_gate() -> None:
        until(lambda: len(asked) == AHEAD * len(TWO))
        time.sleep(0.3)
        asked_before_the_first_was_done.extend(asked)
        gate.touch()

    thread = threading.Thread(target=open_gate)
    thread.start()
    assert_computed(list(islice(workers.map(works()), 6)), lm, range(6))
    thread.join()
    assert asked_before_the_first_was_done == list(range(AHEAD * len(TWO)))


def test_an_endless_row_does_not_fill_the_memory_behind_a_slow_work(
    workers: Workers, lm: LanguageModel, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("pan_scdg.lm.workers.HELD", 5)
    gate, asked = tmp_path / "gate", list[int]()

    def works() -> Iterator[Ids]:
        for seed in count():
            asked.append(seed)
            if seed == 9:
                gate.touch()
            yield Slow(seed, gate) if seed == 0 else Ids(seed)

    mapped = workers.map(works())
    assert_computed([next(mapped)], lm, range(1))
    assert len(asked) == 5 * len(TWO)


def test_maps_within_maps(workers: Workers, lm: LanguageModel) -> None:
    inner, outer = list[Values](), list[Values]()

    def works() -> Iterator[Ids]:
        for seed in range(5):
            inner.extend(workers.map([Ids(100 + len(inner))]))
            yield Ids(seed)

    unfinished = workers.map(map(Ids, count(200)))
    first = next(unfinished)
    for values in workers.map(works()):
        outer.append(values)
        inner.extend(workers.map(Ids(100 + len(inner) + i) for i in range(3)))
    assert_computed([first, *islice(unfinished, 4)], lm, range(200, 205))
    unfinished.close()  # what is under way for it disturbs nobody
    outer.extend(workers.map(map(Ids, range(5, 8))))
    assert_computed(outer, lm, range(8))
    assert_computed(inner, lm, range(100, 120))


@pytest.mark.parametrize("errors", [0, 1, 2])
def test_an_exception_travels_and_the_workers_stay(workers: Workers, lm: LanguageModel, errors: int) -> None:
    before, mapped = pids(), workers.map([Ids(0), Faulty(errors), Ids(1)])
    assert_computed([next(mapped)], lm, range(1))
    with pytest.raises((UserError, KeyError)) as caught:
        next(mapped)
    if errors:
        told = caught.value.errors if isinstance(caught.value, UserErrors) else [caught.value]
        parts = [(e.what, e.remedy, e.where, e.line) for e in told if isinstance(e, UserError)]
        assert parts == [("a token\nis odd", "correct it", "there", line) for line in range(errors)]
    else:
        assert str(caught.value) == "'of no use'"
        assert "works_for_workers.py" in str(caught.value.__cause__)
    assert_computed(list(workers.map(map(Ids, range(3)))), lm, range(3))
    assert pids() == before


def test_ctrl_c_is_the_parents_business(workers: Workers, lm: LanguageModel) -> None:
    before = pids()
    mapped = workers.map(map(Ids, range(9)))
    found = [next(mapped)]
    for pid in before:
        os.kill(pid, signal.SIGINT)
    assert_computed([*found, *mapped], lm, range(9))
    assert pids() == before


@pytest.mark.long
def test_a_work_that_kills_every_worker_is_an_error_and_then_nothing_is_left(workers: Workers, tmp_path: Path) -> None:
    with pytest.raises(UserError, match=f"{DEATHS} workers died while computing the same batch, the last with SIGKILL"):
        list(workers.map([Fatal(0, 100, tmp_path / "deaths")]))
    assert (tmp_path / "deaths").stat().st_size == DEATHS
    unfinished = workers.map([Ids(0)])
    workers.close()
    workers.close()
    assert pids() == set()
    with pytest.raises(ValueError, match="closed"):
        next(unfinished)


def test_a_model_that_cannot_be_loaded_is_told_at_once(tmp_path: Path) -> None:
    folder, before = tmp_path / "none", pids()
    with Workers(folder, SETTINGS, "packed", ["cpu"], "") as one, pytest.raises(UserError) as caught:
        list(one.map([Ids(0)]))
    assert (caught.value.what, caught.value.where) == ("the model folder does not exist", folder)
    assert pids() == before


@pytest.mark.long
def test_one_worker_loads_after_the_other_and_none_reads_the_weights_for_a_fingerprint(
    lm: LanguageModel, tiny_folder: Callable[[str], Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The first dies of it, and still the others' turn comes."""
    monkeypatch.setattr("pan_scdg.lm.workers._start_worker", start_and_tell)
    folder = Path(shutil.copytree(tiny_folder("qwen3"), tmp_path / "model"))
    (folder / "fatal").write_text("x")
    works = [Slow(seed, folder / "loaded2") for seed in range(5)]  # which waits for the second worker
    with Workers(folder, SETTINGS, "packed", TWO, "known") as both:
        assert_computed(list(both.map(works)), lm, range(5))
        assert both.deaths == ["worker on cpu: SIGKILL"]
    told = (folder / "told").read_text().splitlines()
    assert told == ["begins", *["begins", "ends known"] * 2]


def test_no_devices(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="no devices"):
        Workers(tmp_path, SETTINGS, "packed", [], "")


@pytest.mark.long
def test_workers_end_with_a_parent_that_is_killed(tiny_folder: Callable[[str], Path]) -> None:
    command = [sys.executable, "-c", PARENT, str(tiny_folder("qwen3")), str(Path(__file__).parent)]
    with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as parent:
        assert parent.stdout is not None
        assert parent.stdout.readline() == "under way\n"
        parent.kill()
        # Workers write to the same pipes: these end when the last of them has.
        out, err = parent.communicate(timeout=60)
    assert out in ("", "under way\n")
    assert [
        line for line in err.splitlines() if "resource_tracker" not in line and line.strip() != "warnings.warn("
    ] == []
