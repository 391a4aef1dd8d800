"""Read the files that the paper's authors publish, which replace what ``prepare`` draws (paper, Released Manifests).

AUTHORS/pan25val_filtered_normal_manifest_128k_6791.jsonl   the PAN25 pairs, with the fields of `PairRecord`
AUTHORS/splits/*.csv                                        their twenty splits: pair_id, split
AUTHORS/folds.jsonl                                         the folds of the PAN26 queries: query_id, fold
AUTHORS/manifest.jsonl                                      the pairs of news: `NewsRecord`
AUTHORS/multinews_split_manifest_seed20260714.csv           their split: pair_id, split
AUTHORS/intervention_manifest.jsonl                         the contexts of the retention study: `ContextRecord`

The paper names the fields of the first file alone. For the others the fields are ours, and some other names are read.
"""

from collections import defaultdict
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Annotated, Any

from pydantic import AliasChoices, Field

from pan_scdg.errors import UserError
from pan_scdg.pan.untrusted import is_file, read_document
from pan_scdg.records import Span
from studies.contexts import LEVELS, SEEDS
from studies.results import Id, ManifestPair, Short, read_records

PAIRS = "pan25val_filtered_normal_manifest_128k_6791.jsonl"
SPLITS = "splits"
FOLDS = "folds.jsonl"
NEWS = "manifest.jsonl"
NEWS_SPLIT = "multinews_split_manifest_seed20260714.csv"
CONTEXTS = "intervention_manifest.jsonl"
Count = Annotated[int, Field(ge=0)]


def find_file(authors: Path | None, name: str) -> Path | None:
    """Return a file or folder of the authors, None if there is none of this name."""
    path = None if authors is None else authors / name
    return path if path is not None and path.exists() else None


@dataclass(frozen=True)
class PairRecord(ManifestPair):
    """A pair of PAN25 with all fields of the paper's manifest."""

    xml_file: Short
    xml_exists: bool
    num_annotations_for_pair: Count
    annotations: list[dict[str, Any]]
    susp_tokens: Count
    """Without special tokens, by the tokenizer of Qwen3-8B-Base."""
    src_tokens: Count
    total_tokens: Count

    def to_json(self) -> dict[str, Any]:
        """Return the line of the manifest, with the fields in the paper's order."""
        own = asdict(self)
        names = ("pair_id", "susp_file", "src_file", "xml_file", "xml_exists", "doc_label")
        return {name: own.pop(name) for name in names} | own

    def __post_init__(self) -> None:
        """Check that the number of annotations is that of their list."""
        if self.num_annotations_for_pair != len(self.annotations):
            what = f"num_annotations_for_pair is {self.num_annotations_for_pair}, but there are {len(self.annotations)}"
            raise UserError(what, "correct the line")


@dataclass(frozen=True)
class NewsRecord(ManifestPair):
    """A pair of articles of one cluster."""

    cluster_id: Annotated[int | str, Field(validation_alias=AliasChoices("cluster_id", "topic_id", "cluster"))]
    """``cluster-000001`` for the first line of the file of clusters; a whole number counts its lines from 0."""
    susp_article: Annotated[Count, Field(validation_alias=AliasChoices("susp_article", "susp_index", "susp_idx"))]
    """Place of the article in its cluster, from 0."""
    src_article: Annotated[Count, Field(validation_alias=AliasChoices("src_article", "src_index", "src_idx"))]

    @property
    def cluster(self) -> str:
        """Return the id as `corpora.read_clusters` has it."""
        return f"cluster-{self.cluster_id + 1:06d}" if isinstance(self.cluster_id, int) else self.cluster_id


@dataclass(frozen=True)
class ContextRecord:
    """A context of the retention study, with its text or the name of a file in ``src/`` beside the manifest."""

    pair_id: Id
    seed: Annotated[int, Field(ge=0, lt=len(SEEDS), validation_alias=AliasChoices("seed", "seed_index", "seed_idx"))]
    retention: Annotated[float, Field(validation_alias=AliasChoices("retention", "r", "retention_ratio"))]
    source_context: Annotated[
        str | None, Field(validation_alias=AliasChoices("source_context", "context", "source_text"))
    ] = None
    src_file: Id | None = None
    selected: Span | None = None
    """The characters of the target that reuse the evidence; None: those of all annotations count alike."""

    def __post_init__(self) -> None:
        """Check level and text."""
        if self.retention not in LEVELS:
            raise UserError(f"retention: {self.retention} is none of {', '.join(map(str, LEVELS))}", "correct the line")
        if self.source_context is None and self.src_file is None:
            raise UserError("has neither source_context nor src_file", "add the text of the context, or its file")


def read_pair_records(path: Path) -> tuple[PairRecord, ...]:
    """Return the authors' pairs of PAN25, or raise UserError naming the line with a wrong field."""
    return read_records(path, PairRecord, "pair", lambda pair: (pair.pair_id, pair.names))


def read_news_records(path: Path) -> tuple[NewsRecord, ...]:
    """Return the authors' pairs of news, or raise UserError naming the line with a wrong field."""
    return read_records(path, NewsRecord, "pair", lambda pair: (pair.pair_id, pair.names))


def read_context_records(path: Path) -> tuple[ContextRecord, ...]:
    """Return the authors' contexts, those of a pair together; raise UserError unless every pair has all of them."""
    records = read_records(path, ContextRecord, "context", lambda one: ((one.pair_id, one.seed, one.retention),))
    by_pair: dict[str, list[ContextRecord]] = defaultdict(list)
    for record in records:
        by_pair[record.pair_id].append(record)
    seeds = {record.seed for record in records}
    for pair_id, own in by_pair.items():
        if len(own) < len(seeds) * len(LEVELS):
            what = f"the pair {pair_id!r} has {len(own)} of {len(seeds) * len(LEVELS)} contexts"
            raise UserError(what, "give every level of retention for every seed", path)
    return tuple(one for own in by_pair.values() for one in sorted(own, key=lambda one: (one.seed, one.retention)))


def read_context_texts(path: Path, records: tuple[ContextRecord, ...]) -> Iterator[str]:
    """Yield the text of each context."""
    for record in records:
        if record.source_context is not None:
            yield record.source_context
            continue
        file = path.parent / "src" / f"{record.src_file}"
        if not is_file(file):
            raise UserError("the file of a context does not exist", f"add it, or source_context in {path.name}", file)
        yield read_document(file)
