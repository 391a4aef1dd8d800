"""The manifest of document pairs: ids, labels, annotations and token counts, and no text (paper, Data Appendix).

It is made once and shared by all methods and language models, so that the pairs do not change with who scores them.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

from pydantic import Field

from pan_scdg.digests import text_digest
from pan_scdg.errors import UserError
from pan_scdg.pan.untrusted import check_id
from pan_scdg.research.data.records import json_lines, read_records

MOST_TOKENS = 128_000
"""Of both documents of a pair together; longer pairs are left out (Length filtering and resulting manifest)."""

Count = Annotated[int, Field(ge=0)]
Label = Annotated[int, Field(ge=0, le=1)]  # not a Literal, which takes true for 1
Short = Annotated[str, Field(max_length=512)]
"""Longer strings could be document text, which no manifest holds."""
Scalar = Short | int | float | bool | None


@dataclass(frozen=True)
class PairRecord:
    """One pair, with the fields of the paper in its order."""

    pair_id: Short
    susp_file: Short
    src_file: Short
    xml_file: Short
    xml_exists: bool
    doc_label: Label
    """1: at least one ``plagiarism`` annotation is of this source."""
    num_annotations_for_pair: Count
    annotations: tuple[dict[Short, Scalar], ...]
    """Of ours: this_offset, this_length, source_offset, source_length in characters, and obfuscation."""
    susp_tokens: Count
    src_tokens: Count
    total_tokens: Count


@dataclass(frozen=True)
class ExcludedPair:
    """A pair that is too long for the manifest, in its exclusion log."""

    pair_id: str
    susp_tokens: int
    src_tokens: int
    total_tokens: int
    reason: str


def read_manifest(path: Path) -> tuple[PairRecord, ...]:
    """The pairs of a manifest, ours or the paper's, in the order of the file.

    Raises:
        UserError: a line is no record, an id cannot be used, a label does not follow from its annotations, a pair or
            its id is there twice, or there are none.
    """
    records: list[PairRecord] = []
    seen: dict[tuple[str, ...], int] = {}
    for number, record in read_records(path, PairRecord):
        _check(record, path, number)
        for key in ((record.pair_id,), (bare_name(record.susp_file), bare_name(record.src_file))):
            if (line := seen.setdefault(key, number)) != number:
                raise UserError(f"the pair {' '.join(key)!r} is in line {line} too", "keep one of them", path, number)
        records.append(record)
    if not records:
        raise UserError("the manifest holds no pairs", "add at least one", path)
    return tuple(records)


def _check(record: PairRecord, path: Path, number: int) -> None:
    for text in (record.pair_id, record.susp_file, record.src_file):
        check_id(text, path, number)
    if record.num_annotations_for_pair != len(record.annotations):
        raise UserError(
            f"num_annotations_for_pair is {record.num_annotations_for_pair}, and there are {len(record.annotations)}",
            "correct the line",
            path,
            number,
        )
    if record.doc_label != bool(record.annotations):
        raise UserError(
            f"doc_label is {record.doc_label} with {len(record.annotations)} annotations",
            "a pair is positive when it has at least one: correct the line",
            path,
            number,
        )


def bare_name(file: str) -> str:
    """What a document of a manifest is found by, whatever folder is named in front of it."""
    return file.rpartition("/")[2]


def manifest_text(records: Iterable[PairRecord]) -> str:
    """The text of a manifest file."""
    return json_lines(records)


def manifest_digest(records: Iterable[PairRecord]) -> str:
    """SHA-256 of `manifest_text`: what a split says it is of. Formatting of the file that was read does not matter."""
    return text_digest(manifest_text(records))


def class_counts(records: Sequence[PairRecord]) -> dict[str, int]:
    """The numbers of positive, negative and all pairs."""
    positive = sum(record.doc_label for record in records)
    return {"positive": positive, "negative": len(records) - positive, "total": len(records)}
