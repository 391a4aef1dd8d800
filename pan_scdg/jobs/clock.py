"""The time until a deadline."""

import time

WRITING_SHARE = 0.02
"""Share of the time until a deadline that is left for the last tasks and the results."""
FIRST_STAGE_SHARE = 0.75
"""Share of it that indexes and first stage may take: candidates by BM25 alone are worth more scored than others not."""


class Clock:
    """Measures the time until a deadline, of which some is left for what follows.

    Args:
        hours: until the results have to be written.
    """

    def __init__(self, hours: float) -> None:
        self._began, self._seconds = time.monotonic(), hours * 3600

    def is_late(self) -> bool:
        """Return True if the results have to be written now."""
        return self._has_passed(1 - WRITING_SHARE)

    def is_late_to_score(self) -> bool:
        """Return True if what is not searched yet would leave too little time for the scores."""
        return self._has_passed(FIRST_STAGE_SHARE)

    def _has_passed(self, share: float) -> bool:
        return time.monotonic() - self._began >= self._seconds * share
