"""Records that several packages share: documents, pairs of them, and passages."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal, NamedTuple

from pan_scdg.normal_form import compose, restore_spans

PartKind = Literal["quotation", "references", "formal", "table", "code"]
"""A part of a text that may not count."""


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


class Ranked(NamedTuple):
    """A document and its score in one route; its rank is its position in the ranking, counted from 1."""

    doc_id: str
    score: float


Ranking = list[Ranked]


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


Identity = Mapping[str, object]
"""What identifies a model in ``job.json``: ``weights``, the hash of its files, and what else its numbers depend on."""
Identities = Mapping[str, Identity]
"""The same of several models, by their names in the job."""


def find_dtype(models: Identities) -> str | None:
    """Return the dtype of the language model among these; None without one."""
    dtype = models.get("language_model", {}).get("dtype")
    return None if dtype is None else str(dtype)


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


class MeasuredPassage(NamedTuple):
    """A passage, and the similarity of its two sides."""

    passage: Passage
    similarity: float
    """Cosine of the TF-ISF vectors of both sides, 0 to 1."""
    verbatim: float
    """Share of the target's words in verbatim runs from the source side, 0 to 1."""
    gain: float | None = None
    """Gain of the passage from the source side, in nats per token; None: not measured."""
    within: PartKind | None = None
    """The kind of part that contains most of the target's side, if any."""
    counts: bool = True
    """False if the score of an alignment leaves the passage out: see `parts`."""
    reasons: tuple["Reason", ...] = ()
    """What a check found out about it."""

    @property
    def target(self) -> Span:
        """Return its span in the target."""
        return self.passage.target

    @property
    def source(self) -> Span:
        """Return its span in the source."""
        return self.passage.source

    def __repr__(self) -> str:
        """Return the fields by the names that they have in ``passages.jsonl``."""
        return f"MeasuredPassage({', '.join(f'{name}={value!r}' for name, value in self.to_json().items())})"

    def to_json(self) -> dict[str, int | float | str | None]:
        """Return the fields of a line of ``passages.jsonl``."""
        spans = {"begin": self.target.begin, "end": self.target.end}
        spans |= {"begin2": self.source.begin, "end2": self.source.end}
        measured = {name: value for name, value in self._asdict().items() if name not in ("passage", "reasons")}
        return {**spans, **measured}

    @classmethod
    def from_json(cls, line: Mapping[str, Any]) -> "MeasuredPassage":
        """Return the passage of a line; one without a place in the source has an empty one."""
        passage = Passage(Span(line["begin"], line["end"]), Span(line["begin2"] or 0, line["end2"] or 0))
        more = {name: line[name] for name in ("gain", "within", "counts") if name in line}
        reasons = tuple(map(Reason.from_json, line.get("reasons", ())))
        return cls(passage, line["similarity"], line["verbatim"], **more, reasons=reasons)


class Reason(NamedTuple):
    """A fact about a decision or a passage; `report.wording` makes a sentence of it."""

    code: str
    """See the table in docs/formats.md."""
    numbers: Mapping[str, float | str] = {}

    def to_json(self) -> dict[str, float | str]:
        """Return the fields of an object in JSON."""
        return {"code": self.code, **self.numbers}

    @classmethod
    def from_json(cls, line: Mapping[str, Any]) -> "Reason":
        """Return the reason of an object in JSON."""
        return cls(line["code"], {name: value for name, value in line.items() if name != "code"})


class TokenGains(NamedTuple):
    """Gains of the tokens of a suspicious text: the places ``[begin, end)`` in characters and the values in nats."""

    spans: tuple[tuple[int, int], ...]
    gains: tuple[float, ...]

    def to_json(self) -> dict[str, Any]:
        """Return the fields of a line."""
        return {"gains": self.gains, "offsets": self.spans}

    @classmethod
    def from_json(cls, line: Mapping[str, Any]) -> "TokenGains":
        """Return the gains of a line."""
        return cls(tuple((begin, end) for begin, end in line["offsets"]), tuple(line["gains"]))


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
