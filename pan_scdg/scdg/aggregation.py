"""Which number of a target's gains is its score: Top-q (paper, Eligible Tokens and Aggregation) or its best window."""

from typing import NamedTuple

from pan_scdg.profile import Aggregation, PairSettings, RetrievalSettings
from pan_scdg.scdg.gains import GainStatistics


class Aggregate(NamedTuple):
    """An aggregation and its parameter: q in percent for ``top``, w in tokens for the windows."""

    kind: Aggregation
    parameter: float

    @property
    def name(self) -> str:
        """How results call it: ``average``, ``top-2%``, ``window-128``, ``window-median-192``."""
        if self.kind == "top":
            return "average" if self.parameter == 100 else f"top-{self.parameter:g}%"
        return f"{self.kind}-{int(self.parameter)}"

    @property
    def windows(self) -> tuple[int, ...]:
        """The widths of which `statistics` must know the largest mean."""
        return (int(self.parameter),) if self.kind == "window" else ()

    @property
    def medians(self) -> tuple[int, ...]:
        """The widths of which `statistics` must know the largest median."""
        return (int(self.parameter),) if self.kind == "window-median" else ()

    @property
    def bounded(self) -> tuple[int, ...]:
        """The widths of which `statistics` must know the largest bounded mean."""
        return (int(self.parameter),) if self.kind == "window-bounded" else ()

    def of(self, statistics: GainStatistics) -> float:
        """The score, in nats per token.

        Raises:
            KeyError: the statistics were made without this parameter.
        """
        if self.kind == "top":
            return statistics.top[float(self.parameter)]
        values = {
            "window": statistics.window,
            "window-median": statistics.window_median,
            "window-bounded": statistics.window_bounded,
        }
        return values[self.kind][int(self.parameter)]


def aggregate_of(settings: PairSettings | RetrievalSettings) -> Aggregate | None:
    """The aggregation of a profile; None where its parameter was not chosen yet, and for ``share``, which is no number
    of one candidate's gains alone."""
    if settings.aggregation == "share":
        return None
    parameter = settings.q if settings.aggregation == "top" else settings.w
    return None if parameter is None else Aggregate(settings.aggregation, parameter)
