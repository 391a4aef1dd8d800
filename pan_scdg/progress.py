"""Progress on stderr: a bar on a terminal, otherwise a plain line when a stage begins and then one a minute."""

import sys
import time
from types import TracebackType
from typing import Any

INTERVAL = 60.0  # seconds between plain lines
HOUR = 3600.0


class Forecast:
    """Says once that a stage will take more than an hour, as soon as a minute of typical work has shown it.

    Args:
        what: what takes so long ("200000 pairs").
        total: the size of all of it, in any unit.
        untypical: so many updates tell nothing of the speed: the first has the loading of the model in it.
    """

    def __init__(self, what: str, total: float, untypical: int = 1) -> None:
        self._what, self._left, self._done, self._untypical = what, total, 0.0, untypical
        self._first = self._began = time.monotonic()
        self._told = False

    def skip(self, size: float) -> None:
        """So much need not be done."""
        self._left -= size

    def update(self, size: float) -> str | None:
        """So much more is done; the line to print, once."""
        now = time.monotonic()
        self._left -= size
        if self._untypical > 0:
            self._untypical -= 1
            self._began = now
            return None
        self._done += size
        passed = now - self._began
        if self._told or passed < INTERVAL or not self._done:
            return None
        needed = now - self._first + self._left / self._done * passed
        self._told = needed > HOUR
        return f"about {needed / HOUR:.1f} hours for {self._what}" if self._told else None


class Progress:
    """Counts what is done of one stage; a context manager.

    Args:
        stage: what is being done, as the reader sees it.
        total: how many items there are, None when that is not known beforehand.
    """

    def __init__(self, stage: str, total: int | None) -> None:
        self.stage, self.total, self.done, self.tokens = stage, total, 0, 0
        self._began = self._told = time.monotonic()
        self._bar: Any = None

    def __enter__(self) -> "Progress":
        if sys.stderr.isatty():
            from tqdm import tqdm

            self._bar = tqdm(total=self.total, desc=self.stage, unit="", delay=2, leave=False)
        else:
            print(
                f"{self.stage}: {'begins' if self.total is None else f'0 of {self.total}'}", file=sys.stderr, flush=True
            )
        return self

    def update(self, items: int = 1, tokens: int = 0) -> None:
        """Say that ``items`` more are done, for which ``tokens`` tokens went through a model."""
        self.done += items
        self.tokens += tokens
        if self._bar is not None:
            if self.tokens:
                self._bar.set_postfix_str(f"{self._rate():.0f} tokens/s", refresh=False)
            self._bar.update(items)
        elif time.monotonic() - self._told >= INTERVAL:
            self._told = time.monotonic()
            print(self.line(), file=sys.stderr, flush=True)

    def say(self, line: str | None) -> None:
        """Print a line of its own, if there is one."""
        if line is None:
            return
        if self._bar is not None:
            self._bar.write(line, file=sys.stderr)
        else:
            print(line, file=sys.stderr, flush=True)

    def _rate(self) -> float:
        return self.tokens / max(time.monotonic() - self._began, 1e-9)

    def line(self) -> str:
        """Stage, done of total, tokens per second, time left."""
        parts = [f"{self.stage}: {self.done}" + ("" if self.total is None else f" of {self.total}")]
        if self.tokens:
            parts.append(f"{self._rate():.0f} tokens/s")
        if self.total and self.done:
            left = (time.monotonic() - self._began) / self.done * (self.total - self.done)
            parts.append(f"{left / 60:.0f} min left")
        return ", ".join(parts)

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._bar is not None:
            self._bar.close()
