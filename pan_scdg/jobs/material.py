"""Read the texts of a check, mask the template, and note the reasons that make a decision uncertain."""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from pan_scdg.align.seeds import find_runs
from pan_scdg.align.units import PreparedText, count_words, prepare_text
from pan_scdg.digests import hash_text
from pan_scdg.errors import UserError
from pan_scdg.methods.alignment import MIN_WORDS
from pan_scdg.notices import Notices
from pan_scdg.pan.documents import ReadDocument, read_any_document, read_documents
from pan_scdg.records import TextFile
from pan_scdg.report.records import ReportText

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


class CheckedText(NamedTuple):
    """A text as it is shown and as it is compared."""

    shown: ReportText
    """As it was read."""
    compared: TextFile
    """The same, with blanks for the words that are also in the template."""
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
    """Read the texts of both sides.

    Args:
        suspicious: a folder or a file.
        sources: the same; None: the suspicious texts are compared with each other.
        template: a text that all authors received; None without one.
        notices: counts what is unusual.

    Raises:
        UserError: a file cannot be read, a folder has no texts, or there is nothing to compare.
    """
    shared = None
    if template is not None:
        shared = prepare_text(read_any_document(template).text, 1)
        if not shared.forms:
            raise UserError("contains no words", "give the text that all authors received", template)
    side = "texts" if sources is None else "suspicious"
    left = tuple(_make_texts(read_documents(suspicious, notices), side, shared, notices))
    if sources is None and len(left) < 2:
        raise UserError("contains only one text", "give at least two with --among", suspicious)
    right = (
        left if sources is None else tuple(_make_texts(read_documents(sources, notices), "sources", shared, notices))
    )
    return Material(left, right, sources is None)


def _make_texts(
    texts: Mapping[str, ReadDocument], side: str, template: PreparedText | None, notices: Notices
) -> Iterable[CheckedText]:
    for name, document in texts.items():
        compared = _EMBEDDED.sub(lambda match: " " * len(match[0]), document.text)
        compared = compared if template is None else _mask_template(compared, template)
        words = count_words(compared)
        warnings = list(document.warnings)
        if not _seems_english(compared):
            notices.add("not calibrated for this language (English is)", str(document.path))
            warnings.append(NOT_ENGLISH)
        if words < MIN_WORDS:
            warnings.append(f"{words} words, fewer than {MIN_WORDS}: too short for a decision")
        for warning in document.warnings:
            notices.add(warning.partition(",")[0], str(document.path))
        shown = ReportText(name, document.text, tuple(warnings))
        yield CheckedText(
            shown, TextFile(f"{side}/{name}", Path(name).name, document.path, compared), words, document.extracted
        )


def _mask_template(text: str, template: PreparedText) -> str:
    """Return the text with blanks for each run of words that is also in the template.

    Offsets do not change. Punctuation between two runs is kept.
    """
    parts, last = [], 0
    for run in find_runs(prepare_text(text, 1), template, MIN_TEMPLATE_RUN):
        # line breaks stay, since they separate paragraphs
        blank = "".join("\n" if character == "\n" else " " for character in text[run.start : run.end])
        parts += [text[last : run.start], blank]
        last = run.end
    return "".join([*parts, text[last:]])


def _seems_english(text: str) -> bool:
    """Return True if enough words of a text are frequent English words, or the text is very short."""
    words = WORD.findall(text.lower())
    return len(words) < MIN_ENGLISH_WORDS or sum(word in FREQUENT_WORDS for word in words) >= MIN_ENGLISH_SHARE * len(
        words
    )
