"""Every chat is asked for once, whatever happens, and what was answered is kept."""

import subprocess
import sys
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from pan_scdg.methods.answers import AHEAD, Answerer, Complete, answer_chats
from pan_scdg.methods.endpoint import Messages, Reply
from pan_scdg.errors import Interrupted, UserError
from pan_scdg.store import Store

PATIENCE = 20.0


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    with Store(tmp_path / "state") as opened:
        yield opened


class Oracle:
    """Answers a chat with its own words; where it was told to, it fails or waits first."""

    def __init__(self, fails: dict[str, BaseException] | None = None) -> None:
        self.fails = fails or {}
        self.gates: dict[str, threading.Event] = {}
        self.asked: Counter[str] = Counter()
        self.most = self._under_way = 0
        self._lock = threading.Lock()

    def complete(self, chat: Messages) -> Reply:
        words = chat[-1]["content"]
        with self._lock:
            self.asked[words] += 1
            self._under_way += 1
            self.most = max(self.most, self._under_way)
        try:
            if words in self.gates:
                self.gates[words].wait(PATIENCE)
            if words in self.fails:
                raise self.fails[words]
            return Reply(f"{words}?", "oracle")
        finally:
            with self._lock:
                self._under_way -= 1


def chat(words: object) -> Messages:
    return [{"role": "user", "content": str(words)}]


def answerer(oracle: Oracle, side_by_side: int = 4, model: str = "m") -> Answerer:
    return Answerer({"served": "endpoint", "model": model}, lambda: oracle.complete, side_by_side)


def texts(oracle: Oracle, words: object, store: Store, side_by_side: int = 4) -> list[str]:
    chats = [chat(word) for word in words]  # type: ignore[attr-defined]
    return [reply.text for reply in answer_chats(chats, answerer(oracle, side_by_side), store)]


def never() -> Complete:
    raise AssertionError("nothing had to be asked")


@pytest.mark.parametrize("side_by_side", [1, 2, 4, 9])
def test_answers_come_in_order_and_are_asked_for_once(store: Store, side_by_side: int) -> None:
    oracle = Oracle()
    expected = [f"{i}?" for i in range(40)]
    assert texts(oracle, range(40), store, side_by_side) == expected
    assert set(oracle.asked.values()) == {1}
    assert oracle.most <= side_by_side
    again = answer_chats(map(chat, range(40)), Answerer(answerer(oracle).identity, never), store)
    assert [reply.text for reply in again] == expected


def test_several_are_under_way_at_a_time(store: Store) -> None:
    oracle, met = Oracle(), threading.Barrier(4)

    def complete(asked: Messages) -> Reply:
        met.wait(PATIENCE)  # breaks unless four are there together
        return oracle.complete(asked)

    found = answer_chats(map(chat, range(8)), Answerer({}, lambda: complete, 4), store)
    assert [reply.text for reply in found] == [f"{i}?" for i in range(8)]


@pytest.mark.parametrize("side_by_side", [1, 3])
def test_the_same_chat_twice_is_asked_for_once(store: Store, side_by_side: int) -> None:
    oracle = Oracle()
    assert texts(oracle, "abaabcaa", store, side_by_side) == [f"{c}?" for c in "abaabcaa"]
    assert oracle.asked == Counter("abc")


def test_another_model_is_asked_anew(store: Store) -> None:
    oracle = Oracle()
    for model in ("one", "two", "one"):
        list(answer_chats([chat("x")], answerer(oracle, model=model), store))
    assert oracle.asked["x"] == 2


def test_the_key_is_the_whole_request(store: Store) -> None:
    by = answerer(Oracle())
    user, system = chat("x"), [{"role": "system", "content": "x"}]
    assert len({by.make_key(user), by.make_key(system), by.make_key(user + system), by.make_key(system + user)}) == 4
    assert by.make_key(user) == answerer(Oracle()).make_key(chat("x"))


def test_a_slow_first_answer_holds_up_few_others(store: Store) -> None:
    oracle, taken = Oracle(), list[int]()
    oracle.gates["0"] = threading.Event()

    def chats() -> Iterator[Messages]:
        for i in range(100):
            taken.append(i)
            if i == AHEAD * 2 - 1:
                oracle.gates["0"].set()
            yield chat(i)

    found = answer_chats(chats(), answerer(oracle, 2), store)
    assert next(found).text == "0?"
    assert len(taken) <= 2 * AHEAD * 2
    assert [reply.text for reply in found] == [f"{i}?" for i in range(1, 100)]


def test_what_overtakes_a_slow_answer_is_stored_and_so_is_the_slow_one(store: Store) -> None:
    oracle = Oracle({"bad": Interrupted("down")})
    gate = oracle.gates["slow"] = threading.Event()
    threading.Thread(target=lambda: until(lambda: oracle.asked["bad"]) and gate.set()).start()
    with pytest.raises(Interrupted, match="down"):
        texts(oracle, ["slow", 1, 2, 3, "bad"], store, side_by_side=2)
    by = answerer(oracle)
    kept = [words for words in ("slow", 1, 2, 3, "bad") if store.get(by.make_key(chat(words)))]
    assert kept == ["slow", 1, 2, 3]


def until(happened: Callable[[], object]) -> bool:
    """Wait until something is so."""
    pause, limit = threading.Event(), int(PATIENCE / 0.005)
    return any(happened() or pause.wait(0.005) for _ in range(limit))


@pytest.mark.parametrize("failure", [UserError("refused", "change it"), Interrupted("down"), RuntimeError("a mistake")])
@pytest.mark.parametrize("side_by_side", [1, 4])
def test_after_a_failure_the_rest_is_asked_for_later_and_nothing_twice(
    store: Store, side_by_side: int, failure: BaseException
) -> None:
    oracle = Oracle({"17": failure})
    with pytest.raises(type(failure)):
        texts(oracle, range(40), store, side_by_side)
    assert oracle.asked["39"] == 0
    oracle.fails.clear()
    assert texts(oracle, range(40), store, side_by_side) == [f"{i}?" for i in range(40)]
    assert oracle.asked.pop("17") == 2
    assert set(oracle.asked.values()) == {1}


def test_an_interruption_waits_for_nobody(store: Store) -> None:
    oracle = Oracle()
    oracle.gates["2"] = threading.Event()

    def chats() -> Iterator[Messages]:
        yield from map(chat, range(3))
        assert until(lambda: oracle.asked["2"])
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        list(answer_chats(chats(), answerer(oracle), store))
    assert not oracle.gates["2"].is_set()
    oracle.gates["2"].set()
    assert texts(oracle, range(3), store) == ["0?", "1?", "2?"]
    assert (oracle.asked["0"], oracle.asked["1"]) == (1, 1)


SILENT = """
import sys, threading
from pathlib import Path
from pan_scdg.methods.answers import Answerer, answer_chats
from pan_scdg.store import Store

asked = threading.Event()

def chats():
    yield [{"role": "user", "content": "x"}]
    asked.wait()
    sys.exit(7)

def complete(chat):
    asked.set()
    threading.Event().wait()

with Store(Path(sys.argv[1])) as store:
    list(answer_chats(chats(), Answerer({}, lambda: complete, 4), store))
"""


def test_a_process_ends_while_a_server_is_silent(tmp_path: Path) -> None:
    done = subprocess.run([sys.executable, "-c", SILENT, tmp_path / "state"], timeout=6 * PATIENCE, check=False)
    assert done.returncode == 7


def test_odd_texts_are_kept_as_they_are(store: Store) -> None:
    odd = "\x1b[31m\0\ud800 \u2028 '); DROP TABLE entries; -- \U0001f469"
    by = Answerer({}, lambda: lambda _: Reply(odd, "m"), 1)
    assert [r.text for _ in range(2) for r in answer_chats([chat("x")], by, store)] == [odd, odd]
