"""The manifest of document pairs: ids, labels, annotations and token counts, and no text (paper, Data Appendix).

It is made once and shared by all methods and language models, so that all score the same pairs.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from pan_scdg.digests import hash_text
from studies.data.corpora import Names, TruePair, drop_folder
from studies.data.records import Count, Id, Label, Short, format_records, read_distinct

MOST_TOKENS = 128_000
"""Of both documents of a pair together; longer pairs are left out (Length filtering and resulting manifest)."""


@dataclass(frozen=True)
class PairRecord:
    """One pair, with the fields of the paper in its order.

    Raises:
        ValueError: the label or the number of annotations does not follow from the annotations.
    """

    pair_id: Id
    susp_file: Id
    src_file: Id
    xml_file: Short
    xml_exists: bool
    doc_label: Label
    """1: at least one ``plagiarism`` annotation names this source."""
    num_annotations_for_pair: Count
    annotations: tuple[dict[Short, Short | int | float | bool | None], ...]
    """In ours: this_offset, this_length, source_offset, source_length in characters, and obfuscation."""
    susp_tokens: Count
    src_tokens: Count
    total_tokens: Count

    def __post_init__(self) -> None:
        count = len(self.annotations)
        if self.num_annotations_for_pair != count:
            raise ValueError(f"num_annotations_for_pair is {self.num_annotations_for_pair}, and there are {count}")
        if self.doc_label != bool(count):
            raise ValueError(
                f"doc_label is {self.doc_label} with {count} annotations; a positive pair has at least one"
            )

    @property
    def names(self) -> Names:
        """Return the names of both documents without folders."""
        return drop_folder(self.susp_file), drop_folder(self.src_file)


@dataclass(frozen=True)
class ExcludedPair:
    """A pair that is too long for the manifest, in its exclusion log."""

    pair_id: str
    susp_tokens: int
    src_tokens: int
    total_tokens: int
    reason: str


def read_manifest(path: Path) -> tuple[PairRecord, ...]:
    """Return the pairs of a manifest, ours or the paper's, in the order of the file.

    Raises:
        UserError: a record is invalid, a pair or its id occurs twice, or the file holds no pair.
    """
    return read_distinct(path, PairRecord, "pair", lambda record: (record.pair_id, record.names))


def make_manifest(
    corpus: Sequence[TruePair], tokens: Mapping[Path, int], most_tokens: int = MOST_TOKENS
) -> tuple[tuple[PairRecord, ...], tuple[ExcludedPair, ...]]:
    """Return the manifest of a corpus, and the pairs that are too long for it.

    Args:
        corpus: the pairs with their truth.
        tokens: length of every document, by its file.
        most_tokens: limit on both documents of a pair together.
    """
    records, excluded = [], []
    for true in corpus:
        susp, src = tokens[true.pair.suspicious.path], tokens[true.pair.source.path]
        if susp + src > most_tokens:
            reason = f"more than {most_tokens} tokens"
            excluded.append(ExcludedPair(true.pair_id, susp, src, susp + src, reason))
        else:
            records.append(_make_record(true, susp, src))
    return tuple(records), tuple(excluded)


def _make_record(true: TruePair, susp_tokens: int, src_tokens: int) -> PairRecord:
    return PairRecord(
        pair_id=true.pair_id,
        susp_file=true.pair.suspicious.reference,
        src_file=true.pair.source.reference,
        xml_file=true.xml_name,
        xml_exists=true.xml is not None,
        doc_label=1 if true.passages else 0,
        num_annotations_for_pair=len(true.passages),
        annotations=tuple(dict(passage._asdict()) for passage in true.passages),
        susp_tokens=susp_tokens,
        src_tokens=src_tokens,
        total_tokens=susp_tokens + src_tokens,
    )


def digest_manifest(records: Iterable[PairRecord]) -> str:
    """Return the SHA-256 of a manifest as we write it, by which a split names it; the format read does not matter."""
    return hash_text(format_records(records))


def count_classes(records: Sequence[PairRecord]) -> dict[str, int]:
    """Return the numbers of positive, negative and all pairs."""
    positive = sum(record.doc_label for record in records)
    return {"positive": positive, "negative": len(records) - positive, "total": len(records)}
