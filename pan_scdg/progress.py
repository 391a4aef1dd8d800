"""Report the progress of a stage: a bar on a terminal, otherwise a line after two seconds and then one a minute.

Of a stage that ends sooner nothing is shown.
"""

import sys
import threading
import time
from bisect import bisect_right
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

from pan_scdg.logs import LOGGER, say, shows_notes

DELAY = 2.0  # seconds before a stage is shown
INTERVAL = 60.0  # seconds between plain lines
HOUR = 3600.0
BAR = "{desc}: {percentage:3.0f}%|{bar}| {n_fmt}/{total_fmt} [{elapsed}{postfix}]"
COUNT = "{desc}: {n_fmt} [{elapsed}{postfix}]"
MIN_ITEMS = 10  # finished items before the time left is estimated
MAX_SPREAD = 2.0  # the time left is not shown while its two estimates differ by a larger factor
MARK_SECONDS = 1.0  # least time between two marks of the progress
_open: list["Progress"] = []
"""The stages that are shown, the innermost last."""
_forward: Callable[[int], object] | None = None


def count_tokens(number: int) -> None:
    """Show in the stage that is open that a model has computed so many tokens: its next item may take minutes."""
    if _forward is not None:
        _forward(number)
    for stage in _open[-1:]:
        stage.count_tokens(number)


def forward_tokens(send: Callable[[int], object]) -> None:
    """Call a function with the number of tokens of every call of a model: another process shows them."""
    global _forward
    _forward = send


def format_duration(seconds: float) -> str:
    """Return a duration in words: "9 s", "12 min", "3.5 h"."""
    if seconds < 90:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 90 * 60 else f"{seconds / HOUR:.1f} h"


def format_count(number: int, noun: str) -> str:
    """Return a number and what it counts: "1 query", "2,000 queries"."""
    plural = f"{noun[:-1]}ies" if noun.endswith("y") else f"{noun}s"
    return f"{number:,} {noun if number == 1 else plural}"


class Stopwatch:
    """Adds up the seconds of stages, by their names."""

    def __init__(self) -> None:
        self.seconds: dict[str, float] = {}

    @contextmanager
    def measure(self, stage: str) -> Iterator[None]:
        """Add the time of a block to a stage."""
        began = time.monotonic()
        yield
        self.add(stage, time.monotonic() - began)

    def add(self, stage: str, seconds: float) -> None:
        """Add time that was measured elsewhere to a stage."""
        self.seconds[stage] = self.seconds.get(stage, 0.0) + seconds


class Progress:
    """A context manager that counts the finished items of one stage.

    Args:
        stage: what is being done, as the user sees it.
        total: the number of items; None if it is not known beforehand.
    """

    def __init__(self, stage: str, total: int | None) -> None:
        self.stage, self.total, self.done, self.tokens = stage, total, 0, 0
        self._began = self._told = time.monotonic()
        self._marks = [(self._began, 0)]
        """Times and the items finished by then."""
        self._open = ExitStack()
        self._bar: Any = None

    def __enter__(self) -> "Progress":
        if not shows_notes():
            return self
        _open.append(self)
        self._open.callback(_open.remove, self)
        if sys.stderr.isatty():
            from tqdm import tqdm
            from tqdm.contrib.logging import logging_redirect_tqdm

            self._bar = self._open.enter_context(
                tqdm(
                    total=self.total, desc=self.stage, bar_format=BAR if self.total else COUNT, delay=DELAY, leave=False
                )
            )
            self._open.enter_context(logging_redirect_tqdm([LOGGER]))
        first = threading.Timer(DELAY, self._show_first)  # the first item may take minutes
        first.daemon = True
        first.start()
        self._open.callback(first.cancel)
        return self

    def _show_first(self) -> None:
        if self._bar is not None:
            self._bar.refresh()
        elif self.total is None or self.total > 1:  # one thing needs no count
            say([self.describe() if self.total is not None or self.tokens else f"{self.stage}: started"])

    def count_tokens(self, number: int) -> None:
        """Count tokens that a model computed of an item that is not finished yet."""
        self.tokens += number
        now = time.monotonic()
        if self._bar is not None:
            if now - self._began >= DELAY:
                self._bar.set_postfix_str(self._describe_rest())
        elif now - self._told >= INTERVAL:
            self._told = now
            say([self.describe()])

    def update(self, items: int = 1) -> None:
        """Count ``items`` more as done."""
        self.done += items
        now = time.monotonic()
        if now - self._marks[-1][0] >= MARK_SECONDS:
            self._marks.append((now, self.done))
        if self._bar is not None:
            self._bar.set_postfix_str(self._describe_rest(), refresh=False)
            self._bar.update(items)
        elif now - self._told >= INTERVAL:
            self._told = now
            say([self.describe()])

    def describe(self) -> str:
        """Return stage, done of total, the tokens that models computed, and the time left if it can be estimated."""
        text = f"{self.stage}: {self.done}" + ("" if self.total is None else f" of {self.total}")
        return f"{text}, {rest}" if (rest := self._describe_rest()) else text

    def _describe_rest(self) -> str:
        tokens = format_count(self.tokens, "token") if self.tokens else ""
        return ", ".join(filter(None, (tokens, self._estimate())))

    def _estimate(self) -> str:
        """Return the time left, between its estimates by the speed of the whole stage and of its last quarter.

        The first items may be the largest ones, or wait for a model: nothing is said before the estimates agree.
        """
        now, done = self._marks[-1]
        if not self.total or done < MIN_ITEMS:
            return ""
        recent = bisect_right(self._marks, ((self._began + 3 * now) / 4, self.total)) - 1
        left = self.total - self.done
        low, high = sorted((now - t) / (done - n) * left for t, n in (self._marks[0], self._marks[recent]))
        if high > MAX_SPREAD * low:
            return ""
        times = dict.fromkeys(map(format_duration, (low, high)))
        return f"about {' to '.join(times)} left"

    def __exit__(self, *_: object) -> None:
        self._open.close()
