"""The time until a deadline."""

import time
from collections.abc import Callable

from pan_scdg.logs import say
from pan_scdg.progress import Progress

LIMIT_HOURS = 24
"""TIRA's limit."""
WRITING_SHARE = 0.02
"""Share of the time until a deadline that is left for the last tasks and the results."""
FIRST_STAGE_SHARE = 0.75
"""Share of it that indexes and first stage may take: candidates by BM25 alone are worth more scored than others not."""

MEASURED_SHARE = 0.005
"""Share of it, seven minutes of 24 hours, after which the speed of an index says whether it can end in time."""


class Clock:
    """Measures the time until a deadline, of which some is left for what follows.

    Args:
        hours: until the results have to be written.
    """

    def __init__(self, hours: float) -> None:
        self._began, self._seconds = time.monotonic(), hours * 3600

    def is_late(self) -> bool:
        """Return True if the results have to be written now."""
        return self._measure() >= 1 - WRITING_SHARE

    def is_late_to_score(self) -> bool:
        """Return True if what is not searched yet would leave too little time for the scores."""
        return self._measure() >= FIRST_STAGE_SHARE

    def watch(self, progress: Progress, rerank: bool) -> Callable[[], bool]:
        """Return a function that returns True as soon as a stage is late, or cannot end in time at its speed.

        Args:
            progress: of the stage, which has not begun; the time of its first items, with that of loading, is no speed.
            rerank: the stage has to leave time for scores.
        """
        share, start = FIRST_STAGE_SHARE if rerank else 1 - WRITING_SHARE, progress.done
        first: list[tuple[float, int]] = []

        def is_late() -> bool:
            now = self._measure()
            if now >= share:
                return True
            if progress.total is None or progress.done == start:
                return False
            first.append((now, progress.done))
            began, done = first[0]
            del first[1:]
            if now - began < MEASURED_SHARE or progress.done == done:
                return False
            end = now + (progress.total - progress.done) * (now - began) / (progress.done - done)
            if end > share:
                hours, limit = (value * self._seconds / 3600 for value in (end, share))
                say([f"warning: {progress.stage} would take until hour {hours:.3g} of {limit:.3g}: it is left out"])
            return end > share

        return is_late

    def _measure(self) -> float:
        """Return the share of the time that has passed."""
        return (time.monotonic() - self._began) / self._seconds
