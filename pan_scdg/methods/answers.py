"""Request the answers of a model to chats; each is requested once, and stored as soon as it arrives."""

import json
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from multiprocessing.pool import ThreadPool
from queue import SimpleQueue
from threading import Event
from typing import Any

from pydantic import TypeAdapter

from pan_scdg.methods.endpoint import NEW_TOKENS, Messages, Reply
from pan_scdg.own_files import EXACT, parse_as
from pan_scdg.store import Store, make_key

SIDE_BY_SIDE = 4
"""Requests sent at the same time."""
AHEAD = 4
"""Chats per such request that are read while the first of them has no answer yet."""


_REPLY = TypeAdapter(Reply, config=EXACT)

Complete = Callable[[Messages], Reply]
"""Returns the answer to a chat; raises UserError if the model refuses it, Interrupted if it may answer later."""


@dataclass(frozen=True)
class Answerer:
    """A model that answers chats at temperature zero.

    Args:
        identity: JSON values, besides the chat, that its answers depend on.
        open: loads it or connects to it; called for the first chat without a stored answer.
        side_by_side: how many chats it answers at the same time; with 1 it is called in the thread of the caller.
    """

    identity: dict[str, Any]
    open: Callable[[], Complete]
    side_by_side: int = SIDE_BY_SIDE

    def make_key(self, messages: Messages) -> str:
        """Return the store's key of an answer: the hash of the whole request."""
        request = {"temperature": 0, "max_tokens": NEW_TOKENS, "messages": messages}
        return make_key("chat answer", {"by": self.identity, **request})


def answer_chats(chats: Iterable[Messages], answerer: Answerer, store: Store) -> Iterator[Reply]:
    """Yield the answer to each chat, in order, from the store if possible.

    After a failure no further chat is sent; the answers to requests under way are stored before the failure is raised.
    An interruption does not wait for them.

    Raises:
        UserError: the model refuses a chat.
        Interrupted: the model cannot be reached; its answers so far are stored.
    """
    desk = _Desk(answerer, store)
    window: deque[str] = deque()
    try:
        for chat in chats:
            window.append(desk.ask(chat, window))
            while window and (window[0] in desk.answers or len(window) >= AHEAD * answerer.side_by_side):
                yield desk.take_first(window)
        while window:
            yield desk.take_first(window)
    finally:
        desk.close()


class _Desk:
    """Answers to the chats of a window, and threads that request missing ones.

    The threads of this pool are daemons, unlike those of `concurrent.futures`, so that the process can end while
    a server is silent.
    """

    def __init__(self, answerer: Answerer, store: Store) -> None:
        self._answerer, self._store = answerer, store
        self.answers: dict[str, Reply] = {}
        self._complete: Complete | None = None
        self._pool: ThreadPool | None = None
        self._pending, self._stopped = 0, Event()
        self._done: SimpleQueue[tuple[str, Reply | BaseException | None]] = SimpleQueue()

    def ask(self, chat: Messages, window: Iterable[str]) -> str:
        """Return the key of a chat; request its answer unless it is stored or the ``window`` has the same chat."""
        key = self._answerer.make_key(chat)
        if key in window:
            return key
        stored = self._store.read(key, lambda data: parse_as(data, _REPLY))
        if stored is not None:
            self.answers[key] = stored
            return key
        if self._complete is None:
            self._complete = self._answerer.open()
        if self._answerer.side_by_side == 1:
            self._keep(key, self._complete(chat))
            return key
        if self._pool is None:
            self._pool = ThreadPool(self._answerer.side_by_side)
        self._pool.apply_async(self._request, (key, chat, self._complete))
        self._pending += 1
        return key

    def take_first(self, window: deque[str]) -> Reply:
        """Remove the first chat from the window and return its answer, waiting if necessary."""
        key = window.popleft()
        while key not in self.answers:
            failure = self._receive()
            if failure is not None:
                self._stopped.set()
                while self._pending:
                    self._receive()
                raise failure
        return self.answers[key] if key in window else self.answers.pop(key)

    def close(self) -> None:
        """Store the answers that have arrived, and let the threads end."""
        self._stopped.set()
        while not self._done.empty():
            self._receive()
        if self._pool is not None:
            self._pool.terminate()

    def _request(self, key: str, chat: Messages, complete: Complete) -> None:
        """Request an answer, in a thread; nothing after a failure."""
        try:
            self._done.put((key, None if self._stopped.is_set() else complete(chat)))
        except BaseException as e:
            self._done.put((key, e))

    def _receive(self) -> BaseException | None:
        """Wait for the next outcome; store an answer, return a failure."""
        key, outcome = self._done.get()
        self._pending -= 1
        if isinstance(outcome, BaseException):
            return outcome
        if outcome is not None:
            self._keep(key, outcome)
        return None

    def _keep(self, key: str, reply: Reply) -> None:
        self._store.put([(key, json.dumps(reply._asdict()).encode())])
        self.answers[key] = reply
