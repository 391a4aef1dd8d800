"""``studies prepare``: the manifests, splits and folds of all studies, read from given files or made."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any, NamedTuple

from pan_scdg.digests import hash_text
from pan_scdg.errors import UserError
from pan_scdg.jobs.lifecycle import ReadyJob, Scored, carry_out
from pan_scdg.jobs.shards import Shards
from pan_scdg.notices import Notices
from pan_scdg.pan.source_retrieval import read_queries
from pan_scdg.records import TextFile
from studies.data.corpora import PairDocuments, TruePair, read_corpora
from studies.data.folders import PARTS, DataFolders, check_given
from studies.data.news import (
    NewsPair,
    check_articles,
    count_shared_clusters,
    find_clusters,
    format_news_split,
    make_news_pairs,
    read_clusters,
    read_news_pairs,
    read_news_split,
    split_clusters,
)
from studies.data.pair_manifest import (
    MOST_TOKENS,
    PairRecord,
    count_classes,
    make_manifest,
    read_manifest,
)
from studies.data.prepared import Artefact, describe_origin, list_texts
from studies.data.queries import format_folds, make_folds, read_folds
from studies.data.records import format_records
from studies.data.splits import (
    OVERLAPS,
    PairSplit,
    count_shared,
    find_components,
    format_splits,
    make_splits,
    read_splits,
)
from studies.data.token_counter import list_counted
from studies.retention.contexts import DistractorPool, read_pool
from studies.retention.instances import Instance, check_instances, read_instances, select_instances
from studies.study import write_files

CountTokens = Callable[[Iterable[TextFile]], tuple[dict[Path, int], dict[str, Any]]]
"""Returns the number of tokens of each document by its file, and the tokenizer; see `token_counter.count_tokens`."""


@dataclass(frozen=True)
class Sources:
    """The data of a study; data for several steps are read once."""

    folders: DataFolders
    given: Mapping[str, Path] = field(default_factory=dict)
    """The user's files, by kind; see `check_given`."""
    count_tokens: CountTokens | None = None
    """Called only if a manifest of pairs is made."""
    notices: Notices = field(default_factory=Notices)

    @cached_property
    def corpus(self) -> list[TruePair]:
        """Return the PAN25 pairs with their truth."""
        return read_corpora(self.folders.pan25, self.notices)

    @cached_property
    def pool(self) -> DistractorPool:
        """Return the news sentences that replace evidence."""
        return read_pool(self.folders.multinews)


class Pan25(NamedTuple):
    """The PAN25 pairs and their splits."""

    records: tuple[PairRecord, ...]
    splits: tuple[PairSplit, ...]
    artefacts: list[Artefact]


class News(NamedTuple):
    """The news pairs, and ``train`` or ``test`` of each by pair id."""

    pairs: tuple[NewsPair, ...]
    parts: dict[str, str]
    artefacts: list[Artefact]


def prepare(sources: Sources, parts: Sequence[str], output: Path, overwrite: bool = False) -> list[str]:
    """Prepare ``parts`` (none: all whose data exists) in ``output``; return one line per artefact.

    The same data and files give the same bytes.

    Raises:
        UserError: data is missing or damaged, a given file belongs to other data, or ``output`` holds something else
            or cannot be written; see `carry_out`.
    """
    read = {part: (part,) for part in PARTS} | {"retention": ("pan25", "multinews")}
    wanted = parts or [part for part in PARTS if all(getattr(sources.folders, of).is_dir() for of in read[part])]
    if not wanted:
        folders = ", ".join(sorted({folder.name for folder in sources.folders}))
        raise UserError(f"no data for any study: looked for {folders}", "correct --data")
    check_given(sources.given, wanted)
    prepared = {part: _PREPARE[part](sources) for part in PARTS if part in wanted}
    texts = list_texts(prepared)
    job = ReadyJob(
        scoring={"task": "studies prepare", "files": {name: hash_text(text) for name, text in texts.items()}},
        places={},
        models=[],
        summary=[],
        notices=sources.notices,
        score=lambda store, shard: Scored(texts),
        write=lambda scored, store, result: write_files(result.staged, scored.values),
    )
    carry_out(job, output, overwrite, None, Shards(), None)
    lines = [artefact.describe(part) for part, artefacts in prepared.items() for artefact in artefacts]
    return [*lines, *list_counted(prepared)]


def prepare_pan25(sources: Sources) -> Pan25:
    """Read or make the manifest of the PAN25 pairs and its splits.

    Raises:
        UserError: data is missing or damaged, or a given file belongs to other data.
    """
    file, splits_file = sources.given.get("pan25-manifest"), sources.given.get("pan25-splits")
    if file is None:
        records, counted, logs = _make_pan25_manifest(sources)
    else:
        records, counted, logs = read_manifest(file), {}, []
        PairDocuments(sources.corpus).check((record.names for record in records), file)
    files = {
        "suspicious_files": len({r.susp_file for r in records}),
        "source_files": len({r.src_file for r in records}),
    }
    facts = {**count_classes(records), **files, **counted, **describe_origin(file)}
    manifest = Artefact("manifest", {"pan25/manifest.jsonl": format_records(records)}, facts)
    splits = make_splits(records) if splits_file is None else read_splits(splits_file, records)
    return Pan25(records, splits, [manifest, *logs, _describe_splits(records, splits, splits_file)])


def _make_pan25_manifest(sources: Sources) -> tuple[tuple[PairRecord, ...], dict[str, Any], list[Artefact]]:
    """Return the pairs, the facts on how they were counted, and the exclusion log."""
    if sources.count_tokens is None:
        raise ValueError("a manifest of pairs needs a tokenizer")
    pairs = [true.pair for true in sources.corpus]
    tokens, tokenizer = sources.count_tokens(document for pair in pairs for document in (pair.suspicious, pair.source))
    records, excluded = make_manifest(sources.corpus, tokens)
    if not records:
        what = f"every pair has more than {MOST_TOKENS} tokens"
        raise UserError(what, "give shorter pairs", sources.folders.pan25)
    facts = {"pairs": len(excluded), "pair_ids": [pair.pair_id for pair in excluded], **describe_origin(None)}
    log = Artefact("exclusion log", {"pan25/exclusion_log.jsonl": format_records(excluded)}, facts)
    return records, {"most_tokens": MOST_TOKENS, "tokenizer": tokenizer}, [log]


def _describe_splits(records: Sequence[PairRecord], splits: Sequence[PairSplit], file: Path | None) -> Artefact:
    components = find_components(records)
    counted = [count_shared(records, components, split) for split in splits]
    overlaps = {name: sum(shared[name] for shared in counted) for name in OVERLAPS}
    files = {f"pan25/splits/{name}": text for name, text in format_splits(records, splits).items()}
    return Artefact("splits", files, {"splits": len(splits), **overlaps, **describe_origin(file)})


def prepare_pan26(sources: Sources) -> list[Artefact]:
    """Read or make the folds of the queries; raises UserError as `prepare_pan25`."""
    query_ids = [query.query_id for query in read_queries(sources.folders.pan26, sources.notices)]
    file = sources.given.get("pan26-folds")
    folds = make_folds(query_ids) if file is None else read_folds(file, set(query_ids))
    held = sum(fold.role == "holdout" for fold in folds)
    counts = {"queries": len(folds), "holdout": held, "development": len(folds) - held, **describe_origin(file)}
    return [Artefact("folds", {"pan26/folds.jsonl": format_folds(folds)}, counts)]


def prepare_news(sources: Sources) -> News:
    """Read or make the news pairs and their division; raises UserError as `prepare_pan25`."""
    clusters = find_clusters(sources.folders.multinews)
    file, split_file = sources.given.get("multinews-manifest"), sources.given.get("multinews-split")
    if file is None:
        pairs = make_news_pairs(read_clusters(clusters))
    else:
        pairs = read_news_pairs(file)
        check_articles(pairs, read_clusters(clusters), file)
    parts = split_clusters(pairs) if split_file is None else read_news_split(split_file, pairs)
    counts = {"pairs": len(pairs), "clusters": len({pair.cluster_id for pair in pairs}), **describe_origin(file)}
    sizes = {part: sum(of == part for of in parts.values()) for part in ("train", "test")}
    facts = {**sizes, **count_shared_clusters(pairs, parts), **describe_origin(split_file)}
    artefacts = [
        Artefact("manifest", {"multinews/manifest.jsonl": format_records(pairs)}, counts),
        Artefact("split", {"multinews/multinews_split.csv": format_news_split(pairs, parts)}, facts),
    ]
    return News(pairs, parts, artefacts)


def prepare_instances(sources: Sources) -> tuple[tuple[Instance, ...], list[Artefact]]:
    """Read or select the instances of the retention study, with artefacts; raises UserError as `prepare_pan25`."""
    file = sources.given.get("retention-instances")
    logs: list[Artefact] = []
    if file is not None:
        instances = read_instances(file)
        check_instances(instances, PairDocuments(sources.corpus), file)
    else:
        instances, rejected = select_instances(sources.corpus, sources.pool.explain_lack)
        if not instances:
            raise UserError("no pair meets the conditions of an instance", "give more pairs", sources.folders.pan25)
        text, facts = format_records(rejected), {"candidates": len(rejected), **describe_origin(None)}
        logs = [Artefact("exclusion log", {"retention/exclusion_log.jsonl": text}, facts)]
    facts = {"instances": len(instances), **describe_origin(file)}
    manifest = Artefact("instances", {"retention/instances.jsonl": format_records(instances)}, facts)
    return instances, [manifest, *logs]


_PREPARE: dict[str, Callable[[Sources], list[Artefact]]] = {
    "pan25": lambda sources: prepare_pan25(sources).artefacts,
    "pan26": prepare_pan26,
    "multinews": lambda sources: prepare_news(sources).artefacts,
    "retention": lambda sources: prepare_instances(sources)[1],
}
