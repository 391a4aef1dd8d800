"""Records that several packages share: documents, pairs of them, and passages."""

from pathlib import Path
from typing import NamedTuple


class Document(NamedTuple):
    """A document of a corpus, a candidate source."""

    doc_id: str
    text: str


class Query(NamedTuple):
    """A suspicious document for which sources are searched."""

    query_id: str
    text: str


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


class TextPair(NamedTuple):
    """The texts of a pair to be scored, with the ids of its documents."""

    target_id: str
    source_id: str
    target: str
    source: str


class Passage(NamedTuple):
    """A reused passage of a known pair, in characters of the suspicious document (``this``) and of the source."""

    this_offset: int
    this_length: int
    source_offset: int
    source_length: int
    obfuscation: str = ""
    """``simple``, ``medium``, ``hard``, ...; empty if the truth does not name it."""


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
