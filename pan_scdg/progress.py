"""Report the progress of a stage: a bar on a terminal, otherwise a line after two seconds and then one a minute.

Of a stage that ends sooner nothing is shown.
"""

import logging
import sys
import threading
import time
from collections.abc import Callable
from contextlib import ExitStack
from typing import Any, NamedTuple

from pan_scdg.logs import LOGGER, say, shows_notes

DELAY = 2.0  # seconds before a stage is shown
INTERVAL = 60.0  # seconds between plain lines
TICKS = logging.getLogger("pan_scdg.progress")
"""Gets a record with the `Progress` as its field ``progress`` whenever one begins or advances."""
TICKS.propagate = False
TICKS.setLevel(logging.DEBUG)
HOUR = 3600.0


def format_duration(seconds: float) -> str:
    """Return a duration in words: "9 s", "12 min", "3.5 h"."""
    if seconds < 90:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 90 * 60 else f"{seconds / HOUR:.1f} h"


def format_count(number: int, noun: str) -> str:
    """Return a number and what it counts: "1 query", "2,000 queries"."""
    plural = f"{noun[:-1]}ies" if noun.endswith("y") else f"{noun}s"
    return f"{number:,} {noun if number == 1 else plural}"


class Crew(NamedTuple):
    """The processes and machines that compute."""

    processes: int
    nodes: int
    lost: int
    """Machines that were used and are gone."""
    ended: int
    """Processes that ended before their work was done."""
    retried: int
    """Tasks that a process or machine had when it ended; others compute them."""
    computed: dict[str, int]
    """Tasks that each machine has computed, by its name."""

    def __str__(self) -> str:
        """Return the numbers as text."""
        return f"{self.processes} processes, {self.nodes} nodes" + (f", {self.lost} lost" if self.lost else "")


class Progress:
    """A context manager that counts the finished items of one stage.

    Args:
        stage: what is being done, as the user sees it.
        total: the number of items; None if it is not known beforehand.
        count: returns the processes and machines that compute; None if it is this process.
    """

    def __init__(self, stage: str, total: int | None, count: Callable[[], Crew | None] = lambda: None) -> None:
        self.stage, self.total, self.done, self.tokens = stage, total, 0, 0
        self.count = count
        self._began = self._told = time.monotonic()
        self._open = ExitStack()
        self._bar: Any = None

    def __enter__(self) -> "Progress":
        self._tick()
        if not shows_notes():
            return self
        if sys.stderr.isatty():
            from tqdm import tqdm
            from tqdm.contrib.logging import logging_redirect_tqdm

            self._bar = self._open.enter_context(
                tqdm(total=self.total, desc=self.stage, unit="", delay=DELAY, leave=False)
            )
            self._open.enter_context(logging_redirect_tqdm([LOGGER]))
        elif self.total is None or self.total > 1:  # one thing needs no count
            first = threading.Timer(DELAY, self._say_first)  # the first item may take minutes
            first.daemon = True
            first.start()
            self._open.callback(first.cancel)
        return self

    def _say_first(self) -> None:
        say([f"{self.stage}: {'started' if self.total is None else f'{self.done} of {self.total}'}"])

    def update(self, items: int = 1, tokens: int = 0) -> None:
        """Count ``items`` more as done, for which the model read ``tokens`` tokens."""
        self.done += items
        self.tokens += tokens
        self._tick()
        if self._bar is not None:
            if self._list_details():
                self._bar.set_postfix_str(", ".join(self._list_details()), refresh=False)
            self._bar.update(items)
        elif time.monotonic() - self._told >= INTERVAL:
            self._told = time.monotonic()
            say([self.describe()])

    def describe(self) -> str:
        """Return stage, done of total, tokens per second and time left, as far as they are known."""
        parts = [f"{self.stage}: {self.done}" + ("" if self.total is None else f" of {self.total}")]
        parts += self._list_details()
        if self.seconds_left is not None:
            parts.append(f"about {format_duration(self.seconds_left)} left")
        return ", ".join(parts)

    @property
    def seconds_left(self) -> float | None:
        """Return the time that the rest will take at the speed so far; None if nothing is done or the total unknown."""
        if not self.total or not self.done:
            return None
        return (time.monotonic() - self._began) / self.done * (self.total - self.done)

    def _list_details(self) -> list[str]:
        rate = [f"{self.tokens / max(time.monotonic() - self._began, 1e-9):.0f} tokens/s"] if self.tokens else []
        return rate if (crew := self.count()) is None else [*rate, str(crew)]

    def _tick(self) -> None:
        TICKS.debug("", extra={"progress": self})

    def __exit__(self, *_: object) -> None:
        self._open.close()
