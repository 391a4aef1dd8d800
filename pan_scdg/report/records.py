"""The content of a report: documents, judged pairs and their passages, independent of the method that judged them."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, NamedTuple

from pan_scdg.align.passages import Evidence

Judgement = Literal["likely", "unclear", "no sign"]
"""A verdict in ordinary language: the score reaches the threshold; it is near it, or the text is too short; neither."""


class ReportText(NamedTuple):
    """A text that was compared."""

    name: str
    """As shown; unique among the suspicious texts and among the sources."""
    text: str
    warnings: tuple[str, ...] = ()


class TokenGains(NamedTuple):
    """Gains of the tokens of a suspicious text: the places ``[begin, end)`` in characters and the values in nats."""

    spans: tuple[tuple[int, int], ...]
    gains: tuple[float, ...]


@dataclass(frozen=True)
class ReportPair:
    """A judged pair; both names are keys of the report's texts."""

    suspicious: str
    source: str
    score: float | None
    judgement: Judgement
    passages: tuple[Evidence, ...] = ()
    warnings: tuple[str, ...] = ()
    gains: TokenGains | None = None


@dataclass(frozen=True)
class Report:
    """All that ``report.html`` shows; the pairs come best first."""

    title: str
    suspicious: Mapping[str, ReportText]
    sources: Mapping[str, ReportText]
    """Also holds the suspicious texts where they were compared among each other."""
    pairs: tuple[ReportPair, ...]
    threshold: float | None
    facts: Mapping[str, Any] = field(default_factory=dict)
    """Profile, model, fingerprint, version and the like, shown as they are, by name."""
    warnings: tuple[str, ...] = ()
    among: bool = False
    """The texts were compared among each other: which one of a pair came first is unknown."""
    table_file: str = ""
    """The file beside the page that lists all pairs; empty if no such file is written."""
    passages_file: str = ""
    """The same for passages."""
