"""Answers of a model to chats: each is asked for once, stored as it comes, and never asked for again."""

import json
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from queue import Empty, SimpleQueue
from threading import Thread
from typing import Any

from pydantic import TypeAdapter

from pan_scdg.baselines.endpoint import NEW_TOKENS, Reply
from pan_scdg.baselines.prompts import Messages
from pan_scdg.own_files import OwnRecord, parse_as
from pan_scdg.store import Store, key_of

SIDE_BY_SIDE = 4
"""Requests that are under way at a time."""
AHEAD = 4
"""Chats per request under way that are looked at while the first of them has no answer yet."""


class _Answer(OwnRecord):
    """A `Reply` as it is stored."""

    text: str
    model: str


_REPLY = TypeAdapter(_Answer)

Complete = Callable[[Messages], Reply]
"""Gives the answer to a chat; raises UserError where it never will, Interrupted where it may another time."""


@dataclass(frozen=True)
class Answerer:
    """A model that answers chats at temperature zero.

    Args:
        identity: what its answers depend on besides the chat, as JSON values.
        opened: makes it ready; called when the first question is asked that has no stored answer, and never for none.
        side_by_side: how many chats it takes at a time; with 1 it is called in the thread of the caller.
    """

    identity: dict[str, Any]
    opened: Callable[[], Complete]
    side_by_side: int = SIDE_BY_SIDE

    def key(self, messages: Messages) -> str:
        """The store's key of its answer: the digest of the whole request."""
        request = {"temperature": 0, "max_tokens": NEW_TOKENS, "messages": messages}
        return key_of("chat answer", {"by": self.identity, **request})


def replies(chats: Iterable[Messages], answerer: Answerer, store: Store) -> Iterator[Reply]:
    """The answer to each chat, in order, from the store where it is known.

    An answer is stored the moment it is there, whichever is first. After a failure no further question is asked, and
    what is under way is waited for and stored before the failure is raised; an interruption waits for nothing.

    Raises:
        UserError: a chat is refused.
        Interrupted: the answerer is down; what it has answered is stored.
    """
    desk = _Desk(answerer, store)
    window: deque[str] = deque()
    try:
        for chat in chats:
            window.append(desk.want(chat, window))
            while window and (window[0] in desk.known or len(window) >= AHEAD * answerer.side_by_side):
                yield desk.take(window)
        while window:
            yield desk.take(window)
    finally:
        desk.close()


class _Desk:
    """What is known of the chats that are looked at, and the threads that ask for the rest."""

    def __init__(self, answerer: Answerer, store: Store) -> None:
        self._answerer, self._store = answerer, store
        self.known: dict[str, Reply] = {}
        self._complete: Complete | None = None
        self._crew: _Crew | None = None

    def want(self, chat: Messages, window: Iterable[str]) -> str:
        """The key of a chat; its answer is known or asked for, and within the ``window`` of keys never twice."""
        key = self._answerer.key(chat)
        if key in window:
            return key
        stored = self._store.read(key, lambda data: parse_as(data, _REPLY))
        if stored is not None:
            self.known[key] = Reply(**stored.model_dump())
            return key
        if self._complete is None:
            self._complete = self._answerer.opened()
        if self._answerer.side_by_side == 1:
            self._keep(key, self._complete(chat))
            return key
        if self._crew is None:
            self._crew = _Crew(self._complete, self._answerer.side_by_side)
        self._crew.ask(key, chat)
        return key

    def take(self, window: deque[str]) -> Reply:
        """The answer to the first chat of the window, waited for if need be; it leaves the window."""
        key = window.popleft()
        while key not in self.known:
            if self._crew is None:
                raise ValueError("an answer is waited for that nobody was asked for")
            asked, outcome = self._crew.next()
            if isinstance(outcome, BaseException):
                self._crew.forget()
                while self._crew.busy:
                    self._store_next(self._crew)
                raise outcome
            self._keep(asked, outcome)
        return self.known[key] if key in window else self.known.pop(key)

    def close(self) -> None:
        """Store what has come in the meantime, and let the threads end."""
        if self._crew is not None:
            self._crew.forget()
            while self._crew.ready():
                self._store_next(self._crew)
            self._crew.close()

    def _store_next(self, crew: "_Crew") -> None:
        key, outcome = crew.next()
        if isinstance(outcome, Reply):
            self._keep(key, outcome)

    def _keep(self, key: str, reply: Reply) -> None:
        self._store.put([(key, json.dumps(reply._asdict()).encode())])
        self.known[key] = reply


class _Crew:
    """Threads that ask. They are daemons, so that a process that is stopped does not wait for a server first."""

    def __init__(self, complete: Complete, count: int) -> None:
        self._complete, self._count = complete, count
        self._todo: SimpleQueue[tuple[str, Messages] | None] = SimpleQueue()
        self._done: SimpleQueue[tuple[str, Reply | BaseException]] = SimpleQueue()
        self.busy = 0
        """Questions whose outcome has not been taken."""
        for _ in range(count):
            Thread(target=self._work, daemon=True).start()

    def _work(self) -> None:
        while (task := self._todo.get()) is not None:
            key, chat = task
            try:
                self._done.put((key, self._complete(chat)))
            except BaseException as e:
                self._done.put((key, e))

    def ask(self, key: str, chat: Messages) -> None:
        self.busy += 1
        self._todo.put((key, chat))

    def next(self) -> tuple[str, Reply | BaseException]:
        """The next outcome; waits for it."""
        outcome = self._done.get()
        self.busy -= 1
        return outcome

    def ready(self) -> bool:
        """Whether an outcome can be taken without waiting."""
        return not self._done.empty()

    def forget(self) -> None:
        """Drop the questions that nobody has begun to ask."""
        with suppress(Empty):  # how the loop ends: the others only take
            while True:
                self._todo.get_nowait()
                self.busy -= 1

    def close(self) -> None:
        for _ in range(self._count):
            self._todo.put(None)
