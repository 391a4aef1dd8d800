"""Records that several packages share: documents, pairs of them, and passages."""

from pathlib import Path
from typing import NamedTuple

from pan_scdg.normal_form import compose, restore_spans


class Document(NamedTuple):
    """A document of a corpus, a candidate source."""

    doc_id: str
    text: str
    """In the Unicode form NFC, unless the profile has ``raw_text``."""
    original: str | None = None
    """The text in the file if it is in another form: results count its characters."""


class Query(NamedTuple):
    """A suspicious document for which sources are searched."""

    query_id: str
    text: str
    """In the Unicode form NFC, unless the profile has ``raw_text``."""
    original: str | None = None
    """The text in the file if it is in another form: results count its characters."""


class TextFile(NamedTuple):
    """A document of a pair; `pan.text_alignment.read_text` returns its text."""

    doc_id: str
    """As written in ``pairs``, without a trailing ``.txt``; may contain a folder (``susp/s1``)."""
    reference: str
    """File name in XML attributes: the last part of ``doc_id`` with ``.txt``."""
    path: Path
    """Path of the file; error messages name it."""
    text: str | None = None
    """The text itself if it does not come from a file."""


class DocumentPair(NamedTuple):
    """A suspicious document and a source."""

    suspicious: TextFile
    source: TextFile
    line: int = 0
    """First line of ``pairs`` that names the pair, counted from 1; 0 if no such file does."""

    @property
    def key(self) -> tuple[str, str]:
        """Return the ids of its documents, by which results name the pair."""
        return self.suspicious.doc_id, self.source.doc_id


class Span(NamedTuple):
    """A stretch of a text, in characters."""

    begin: int
    end: int
    """The character after the last."""

    @property
    def length(self) -> int:
        """Return the number of characters."""
        return self.end - self.begin

    def overlaps(self, other: "Span") -> bool:
        """Return True if both have a character in common."""
        return self.begin < other.end and other.begin < self.end


class Passage(NamedTuple):
    """A reused passage of a pair, as spans of the suspicious document and of the source."""

    target: Span
    source: Span
    obfuscation: str = ""
    """``simple``, ``medium``, ``hard``, ...; empty if the truth does not name it."""


class TokenGains(NamedTuple):
    """Gains of the tokens of a suspicious text: the places ``[begin, end)`` in characters and the values in nats."""

    spans: tuple[tuple[int, int], ...]
    gains: tuple[float, ...]


class TextPair(NamedTuple):
    """The texts of a pair to be scored, with the ids of its documents."""

    target_id: str
    source_id: str
    target: str
    """In the Unicode form NFC, as the source is, unless the profile has ``raw_text``."""
    source: str
    original_target: str | None = None
    """The target in the file if it is in another form: results count its characters."""
    original_source: str | None = None

    @classmethod
    def compose(cls, target_id: str, source_id: str, target: str, source: str, raw_text: bool = False) -> "TextPair":
        """Return the pair of two texts in any form."""
        target, original_target = compose(target, raw_text)
        source, original_source = compose(source, raw_text)
        return cls(target_id, source_id, target, source, original_target, original_source)

    @property
    def originals(self) -> tuple[str, str]:
        """Return target and source as they are in the files."""
        return self.original_target or self.target, self.original_source or self.source

    def restore(self, passage: Passage) -> Passage:
        """Return a passage in characters of the files."""
        (target,) = restore_spans(self.original_target, passage.target).tolist()
        (source,) = restore_spans(self.original_source, passage.source).tolist()
        return passage._replace(target=Span(*target), source=Span(*source))


class Feature(NamedTuple):
    """A passage as an XML file describes it, with the names of its documents."""

    suspicious: str
    target: Span
    source: str | None
    """None for a feature without source attributes; its span in the source is empty."""
    source_span: Span
