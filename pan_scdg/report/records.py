"""The content of a report: texts, pairs with their decisions in ordinary language, and passages of any method."""

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from pan_scdg.methods import METHODS, load_settings
from pan_scdg.records import PartKind
from pan_scdg.results.records import DecidedPair, Finding
from pan_scdg.text.units import find_excluded

FINDING_ORDER: dict[Finding, int] = {"likely": 0, "unclear": 1, "no sign": 2}
QUOTED: dict[PartKind, str] = {
    "quotation": "in a quotation",
    "references": "in a list of references",
    "formal": "in a title page, a table of contents, a declaration, acknowledgements or comments",
    "table": "in a table",
    "code": "in program code",
}
"""Why a stretch of a text is compared and does not count."""
_NOT_BREAK = re.compile(r"[^\n]")


class Excluded(NamedTuple):
    """A part of a text that does not count, in characters, such as the question that all were given."""

    begin: int
    end: int
    reason: str
    """Such as "shared by 6 of 30 texts"."""


class ReportText(NamedTuple):
    """A text that was compared."""

    name: str
    """As shown; unique among the suspicious texts and among the sources."""
    text: str
    warnings: tuple[str, ...] = ()
    excluded: tuple[Excluded, ...] = ()
    """In order and without overlap."""

    def exclude_quotations(self, method: str) -> "ReportText":
        """Return the text with its quotations and the like excluded if the method leaves them out.

        A method of a user's file that is not registered leaves nothing out.
        """
        if method not in METHODS or not load_settings(method).excludes_parts:
            return self
        parts = [
            Excluded(*span, QUOTED[kind])
            for begin, end, kind in find_excluded(hide_excluded(self.text, self.excluded))
            for span in subtract_spans(begin, end, self.excluded)
        ]
        return self._replace(excluded=tuple(sorted([*self.excluded, *parts])))


@dataclass(frozen=True)
class Report:
    """All that ``report.html`` shows; the pairs come best first."""

    title: str
    suspicious: Mapping[str, ReportText]
    sources: Mapping[str, ReportText]
    """Also contains the suspicious texts if they were compared with each other."""
    pairs: tuple[DecidedPair, ...]
    """With the names of their texts, which are keys of `suspicious` and `sources`."""
    threshold: float | None
    facts: Mapping[str, object] = field(default_factory=dict)
    """Profile, model, fingerprint, version and the like, shown as they are, by name."""
    warnings: tuple[str, ...] = ()
    within_class: bool = False
    """The texts were compared with each other: which one of a pair came first is unknown."""
    not_listed: int = 0
    """Pairs that the first stage left out, for they cannot reach the threshold."""
    not_read: Mapping[str, str] = field(default_factory=dict)
    """Files that could not be read, with the reason; they are part of no pair."""
    table_file: str = ""
    """The file next to the page that lists all pairs; empty if no such file is written."""
    passages_file: str = ""
    """The same for passages."""


def subtract_spans(begin: int, end: int, excluded: Iterable[Excluded]) -> Iterator[tuple[int, int]]:
    """Yield the parts of a stretch outside of others, which are in order and without overlap."""
    for first, last, _ in excluded:
        if first >= end:
            break
        if begin < first:
            yield begin, first
        begin = max(begin, last)
    if begin < end:
        yield begin, end


def hide_excluded(text: str, excluded: Iterable[Excluded]) -> str:
    """Return a text with blanks for what was not compared; no offset changes, and line breaks stay."""
    parts, last = [], 0
    for begin, end, reason in excluded:
        if reason not in QUOTED.values():
            parts += [text[last:begin], _NOT_BREAK.sub(" ", text[begin:end])]
            last = end
    return "".join([*parts, text[last:]])


def rank_pair(pair: DecidedPair) -> tuple[float, int]:
    """Return the key by which pairs are sorted: the highest score first, and of equal ones the likely pair."""
    return (float("inf") if pair.score is None else -pair.score), FINDING_ORDER[pair.finding]
