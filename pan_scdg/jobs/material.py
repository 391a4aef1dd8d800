"""Read the texts of a check, mask the template, and note the reasons that make a decision uncertain."""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from pan_scdg.align.seeds import find_runs
from pan_scdg.align.shared import SharedStretch, count_required, find_shared
from pan_scdg.align.units import PreparedText, count_words, prepare_text
from pan_scdg.digests import hash_text
from pan_scdg.errors import UserError, escape_controls
from pan_scdg.methods.alignment import MIN_WORDS
from pan_scdg.notices import Notices
from pan_scdg.pan.documents import ReadDocument, read_any_document, read_documents
from pan_scdg.records import TextFile
from pan_scdg.report.records import Excluded, ReportText, blank_out

WORD = re.compile(r"[^\W\d_]+")
FREQUENT_WORDS = frozenset(
    re.findall(
        r"\w+",
        """
the of and to in a is that was it for on with as be at by this are from or have an not which were they their but has had
his her its we you can all one there been if more when who will would so what about into than them these
""",
    )
)
"""Words of every English text, about two of five; of other languages that share some, at most one of eight."""
MIN_ENGLISH_SHARE, MIN_ENGLISH_WORDS = 0.2, 20
"""Least share of frequent words in an English text, and the least words for which it is measured."""
NOT_ENGLISH = "not calibrated for this language: the text does not seem to be English"
_EMBEDDED = re.compile(r"data:[\w/+.-]{1,99};base64,[A-Za-z0-9+/=\s]*(?=[)\"'>]|\Z)")
"""A picture within Markdown."""
MIN_TEMPLATE_RUN = 5
"""Words in a row that mark a part of the template: fewer occur in any text."""
MAX_QUESTIONS, FIRST_WORDS = 5, 8
"""Excluded passages that are named, and the words of each that are quoted."""


class CheckedText(NamedTuple):
    """A text as it is shown and as it is compared."""

    shown: ReportText
    """As it was read."""
    compared: TextFile
    """The same, with blanks for what is excluded."""
    words: int
    """Number of words that are compared."""
    extracted: bool
    """The text was taken out of another format."""


@dataclass(frozen=True)
class Material:
    """All texts of a check."""

    suspicious: tuple[CheckedText, ...]
    sources: tuple[CheckedText, ...]
    """The suspicious texts themselves if they are compared with each other."""
    among: bool
    excluded: tuple[str, ...] = ()
    """Lines about what many suspicious texts share and no source has: it is not compared."""

    def list_texts(self) -> list[tuple[str, CheckedText]]:
        """Return each text once, with the folder that it is kept in."""
        sides = {"texts": self.suspicious}
        if not self.among:
            sides = {"suspicious": self.suspicious, "sources": self.sources}
        return [(side, text) for side, texts in sides.items() for text in texts]

    def hash(self) -> str:
        """Return the hash of all names and texts, as they are compared."""
        lines = [f"{side}\0{t.shown.name}\0{hash_text(t.compared.text or '')}" for side, t in self.list_texts()]
        return hash_text("\0\0".join([*lines, *(hash_text(t.shown.text) for _, t in self.list_texts())]))


def collect_texts(suspicious: Path, sources: Path | None, template: Path | None, notices: Notices) -> Material:
    """Read the texts of both sides, and exclude what all authors received.

    Args:
        suspicious: a folder or a file.
        sources: the same; None: the suspicious texts are compared with each other.
        template: a text that all authors received; None without one.
        notices: counts what is unusual.

    Raises:
        UserError: a file cannot be read, a folder has no texts, or there is nothing to compare.
    """
    received = None
    if template is not None:
        received = prepare_text(read_any_document(template).text, 1)
        if not received.forms:
            raise UserError("contains no words", "give the text that all authors received", template)
    side = "texts" if sources is None else "suspicious"
    left = tuple(_make_texts(read_documents(suspicious, notices), side, received, notices))
    if sources is None and len(left) < 2:
        raise UserError("contains only one text", "give at least two with --among", suspicious)
    others = (
        () if sources is None else tuple(_make_texts(read_documents(sources, notices), "sources", received, notices))
    )
    left, excluded = _exclude_questions(left, others)
    left = tuple(_warn(text, notices) for text in left)
    others = tuple(_warn(text, notices) for text in others)
    return Material(left, left if sources is None else others, sources is None, excluded)


def _make_texts(
    texts: Mapping[str, ReadDocument], side: str, template: PreparedText | None, notices: Notices
) -> Iterator[CheckedText]:
    for name, document in texts.items():
        for warning in document.warnings:
            notices.add(warning.partition(",")[0], str(document.path))
        shown = ReportText(name, document.text, document.warnings)
        compared = _EMBEDDED.sub(lambda match: " " * len(match[0]), document.text)
        file = TextFile(f"{side}/{name}", Path(name).name, document.path, compared)
        text = CheckedText(shown, file, 0, document.extracted)
        if template is not None:
            runs = find_runs(prepare_text(compared, 1), template, MIN_TEMPLATE_RUN)
            text = _exclude(text, [Excluded(run.start, run.end, "in the template") for run in runs])
        yield text


def _exclude(text: CheckedText, parts: Iterable[Excluded]) -> CheckedText:
    """Return a text with blanks for some parts where it is compared."""
    excluded = tuple(sorted([*text.shown.excluded, *parts]))
    file = text.compared._replace(text=blank_out(text.compared.text or "", excluded))
    return text._replace(shown=text.shown._replace(excluded=excluded), compared=file)


def _exclude_questions(
    texts: Sequence[CheckedText], sources: Sequence[CheckedText]
) -> tuple[tuple[CheckedText, ...], tuple[str, ...]]:
    """Return the texts without what many share and no source has, and lines about what that is."""
    compared = [text.compared.text or "" for text in texts]
    shared = find_shared(compared, (text.compared.text or "" for text in sources), count_required(len(texts)))
    masked = tuple(
        _exclude(
            text, [Excluded(one.begin, one.end, f"shared by {one.documents} of {len(texts)} texts") for one in own]
        )
        for text, own in zip(texts, shared)
    )
    stretches = {one.words: (one, text) for own, text in zip(shared, compared) for one in own}
    ranked = sorted(stretches.values(), key=lambda item: (-item[0].documents, -len(item[0].words), item[0].words))
    lines: list[str] = []
    named: list[str] = []
    for one, text in ranked:
        words = " ".join(one.words)
        if not any(words in other for other in named):  # else a part of it, as in a text with a slip
            named.append(words)
            lines.append(_describe_question(one, text, len(texts)))
    more = len(lines) - MAX_QUESTIONS
    return masked, (*lines[:MAX_QUESTIONS], *([f"Excluded: {more} more passages that many share."] if more > 0 else []))


def _describe_question(part: SharedStretch, text: str, texts: int) -> str:
    words = text[part.begin : part.end].split()
    first = " ".join(words[:FIRST_WORDS]) + (" ..." if len(words) > FIRST_WORDS else "")
    return escape_controls(f"Excluded: {len(part.words)} words that {part.documents} of {texts} texts share: {first}")


def _warn(text: CheckedText, notices: Notices) -> CheckedText:
    """Return a text with its number of words, and warnings about its language and its length."""
    compared = text.compared.text or ""
    words, warnings = count_words(compared), list(text.shown.warnings)
    if not _seems_english(compared):
        notices.add("not calibrated for this language (English is)", str(text.compared.path))
        warnings.append(NOT_ENGLISH)
    if words < MIN_WORDS:
        warnings.append(f"{words} words, fewer than {MIN_WORDS}: too short for a decision")
    return text._replace(shown=text.shown._replace(warnings=tuple(warnings)), words=words)


def _seems_english(text: str) -> bool:
    """Return True if enough words of a text are frequent English words, or the text is very short."""
    words = WORD.findall(text.lower())
    return len(words) < MIN_ENGLISH_WORDS or sum(word in FREQUENT_WORDS for word in words) >= MIN_ENGLISH_SHARE * len(
        words
    )
