"""The content of a report: texts, pairs with their decisions in ordinary language, and passages of any method."""

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, NamedTuple

from pan_scdg.methods import UNKNOWN_SCRIPT, load_settings
from pan_scdg.progress import format_count
from pan_scdg.records import MeasuredPassage, PartKind, Passage, Span, TokenGains
from pan_scdg.text.units import find_excluded

Finding = Literal["likely", "unclear", "no sign"]
"""Likely: the score reaches the threshold. Unclear: it is near it, there is none, or a text is too short."""
MIN_WORDS = 15
"""A text with fewer words is hardly more than a sentence, which may be any text's by chance."""
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
        """Return the text with its quotations and the like excluded if the method leaves them out."""
        if not method or not load_settings(method).excludes_parts:
            return self
        parts = [
            Excluded(*span, QUOTED[kind])
            for begin, end, kind in find_excluded(hide_excluded(self.text, self.excluded))
            for span in subtract_spans(begin, end, self.excluded)
        ]
        return self._replace(excluded=tuple(sorted([*self.excluded, *parts])))


@dataclass(frozen=True)
class ReportPair:
    """A decided pair as a page shows it; both names are keys of the report's texts."""

    suspicious: str
    source: str
    score: float | None
    finding: Finding
    """What people read of the decision, which is True, False or None."""
    passages: tuple[MeasuredPassage, ...] = ()
    warnings: tuple[str, ...] = ()
    gains: TokenGains | None = None
    too_short: tuple[str, ...] = ()
    """Names of the texts that are too short for a decision; the pair is unclear for no other reason."""
    evidence: str = ""
    """What was measured, in words; empty if the method has none."""


@dataclass(frozen=True)
class Report:
    """All that ``report.html`` shows; the pairs come best first."""

    title: str
    suspicious: Mapping[str, ReportText]
    sources: Mapping[str, ReportText]
    """Also contains the suspicious texts if they were compared with each other."""
    pairs: tuple[ReportPair, ...]
    threshold: float | None
    facts: Mapping[str, Any] = field(default_factory=dict)
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

    def to_html(self) -> str:
        """Return the page, which needs no other file."""
        from pan_scdg.report.html import render_report

        return render_report(self)


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


def make_report_pair(record: Mapping[str, Any], names: tuple[str, str], words: tuple[int, int]) -> ReportPair:
    """Return the pair as a report shows it, without passages.

    Args:
        record: the decision, as `run` writes it.
        names: of the suspicious text and of the source.
        words: the numbers of their words that were compared.
    """
    warnings = [w for w in record.get("warnings", ()) if not w.startswith("unclear:")]  # said below for both texts
    numbers = dict(zip(names, words))
    too_short = {name: number for name, number in numbers.items() if number < MIN_WORDS}
    if len(warnings) < len(record.get("warnings", ())):
        target = int(record.get("swapped", False))  # the better score is that of the second text as the target
        too_short |= {names[target]: words[target]}
    if record["decision"] and "method" in record and load_settings(record["method"]).decides_short_texts:
        too_short = {}  # a short target whose alignment decides is a copy
    is_short = bool(too_short)
    if record["score"] is not None:  # without a score, a warning says why
        warnings += [f"{name} has {format_count(n, 'word')}: too short to tell" for name, n in too_short.items()]
    if record["decision"] or record["unclear"] is not None:
        too_short = {}  # the score itself is a sign
    finding: Finding = "no sign"
    is_unread = any(w.startswith(UNKNOWN_SCRIPT) for w in warnings) and not record["decision"]
    if record["score"] is None or record["threshold"] is None or is_short or is_unread:
        finding = "unclear"
    elif record["decision"]:
        finding = "likely"
    elif record["unclear"] is not None:
        finding = "unclear"
        warnings.append(record["unclear"])
    evidence = record.get("evidence", "")
    return ReportPair(
        *names, record["score"], finding, warnings=tuple(warnings), too_short=tuple(too_short), evidence=evidence
    )


def rank_pair(pair: ReportPair) -> tuple[int, bool, float]:
    """Return the key by which pairs are sorted, best first: those that are only too short after other unclear ones."""
    score = float("inf") if pair.score is None else -pair.score
    return FINDING_ORDER[pair.finding], bool(pair.too_short), score


def read_evidence(line: Mapping[str, Any]) -> MeasuredPassage:
    """Return the passage of a line of ``passages.jsonl`` or ``evidence.jsonl``."""
    passage = Passage(Span(line["begin"], line["end"]), Span(line["begin2"] or 0, line["end2"] or 0))
    more = {name: line[name] for name in ("gain", "within", "counts", "note") if name in line}
    return MeasuredPassage(passage, line["similarity"], line["verbatim"], **more)
