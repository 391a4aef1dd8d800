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


class Passage(NamedTuple):
    """A reused passage of a known pair, in characters of the suspicious document (``this``) and of the source."""

    this_offset: int
    this_length: int
    source_offset: int
    source_length: int
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
        this, other = passage.this_offset, passage.source_offset
        ((begin, end),) = restore_spans(self.original_target, (this, this + passage.this_length)).tolist()
        ((begin2, end2),) = restore_spans(self.original_source, (other, other + passage.source_length)).tolist()
        return Passage(begin, end - begin, begin2, end2 - begin2, passage.obfuscation)


class Span(NamedTuple):
    """A passage as an XML file describes it, in characters, with the names of its documents."""

    suspicious: str
    this_offset: int
    this_length: int
    source: str | None
    """None for a feature without source attributes; its source offset and length are 0."""
    source_offset: int
    source_length: int

    @property
    def this_interval(self) -> tuple[int, int]:
        """Return the first character in the suspicious document, and the one after the last."""
        return self.this_offset, self.this_offset + self.this_length

    @property
    def source_interval(self) -> tuple[int, int]:
        """Return the first character in the source, and the one after the last."""
        return self.source_offset, self.source_offset + self.source_length
