"""``studies prepare``: the manifests, splits and folds of all studies, taken from files or made.

Each part gives the texts of its files; they are written when all parts are done, so that a fault leaves none behind.
"""

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from pan_scdg.errors import UserError
from pan_scdg.notices import Notices
from pan_scdg.pan.source_retrieval import read_qrels, read_queries, stream_corpus
from pan_scdg.research.data.data_folders import GIVEN, DataFolders, check_kinds, ready_file
from pan_scdg.research.data.multinews import read_clusters, source_file
from pan_scdg.research.data.pair_corpus import PairDocuments, TruePair, make_manifest, read_corpora
from pan_scdg.research.data.pair_manifest import MOST_TOKENS, PairRecord, class_counts, manifest_text, read_manifest
from pan_scdg.research.data.pair_splits import Audit, PairSplit, components_of, make_splits, read_splits, split_files
from pan_scdg.research.data.pair_splits import audit as audit_split
from pan_scdg.research.data.prepared import Artefact, check_output, origin, write_parts
from pan_scdg.research.data.query_folds import folds_text, make_folds, read_folds
from pan_scdg.research.data.query_pairs import check_query_pairs, make_query_pairs, read_query_pairs
from pan_scdg.research.data.records import json_lines
from pan_scdg.research.data.same_topic_pairs import (
    audit,
    check_articles,
    make_news_pairs,
    read_cluster_split,
    read_news_pairs,
    split_clusters,
    split_text,
)
from pan_scdg.research.data.token_counts import TokenCounts
from pan_scdg.research.retention.instances import (
    Check,
    Instance,
    check_instances,
    read_instances,
    select_instances,
)

PARTS = ("pan25", "pan26", "multinews", "retention")
MANIFEST, LOG, INSTANCES = "manifest.jsonl", "exclusion_log.jsonl", "instances.jsonl"
CONTEXTS_KIND = "retention-contexts"
FOLDS_FILE, QUERY_PAIRS, NEWS_SPLIT = "folds.jsonl", "pan26_pairs_manifest.jsonl", "multinews_split.csv"


class Sources(NamedTuple):
    """What the parts are prepared from."""

    folders: DataFolders
    given: Mapping[str, Path]
    """The user's files, by the names of `data_folders.GIVEN`."""
    counts: Callable[[], TokenCounts]
    """Loads the tokenizer; called only when a manifest of pairs is made."""
    checks: Callable[[DataFolders], tuple[Check, Check]]
    """Conditions 5 and 6 of a retention instance; called only when instances are selected."""
    notices: Notices

    def ready(self, kind: str) -> Path | None:
        """The file that is taken for ``kind``, if there is one."""
        return ready_file(kind, self.folders, self.given)


def prepare(sources: Sources, parts: Sequence[str], output: Path) -> list[str]:
    """Prepare ``parts`` (none: all whose data is there) into ``output``; what was made or taken, in lines.

    The same data and files give the same bytes. Parts that were prepared before and are not asked for stay.

    Raises:
        UserError: ``output`` holds something else or cannot be written, data is missing or damaged, a file is of
            other data.
    """
    check_output(output)
    if CONTEXTS_KIND in sources.given:
        raise UserError(f"{CONTEXTS_KIND!r} has no part in this", "give it to `studies retention`", "--given")
    prepared = make_parts(sources, parts)
    write_parts(output, prepared)
    return [artefact.line(part) for part, artefacts in prepared.items() for artefact in artefacts]


def make_parts(sources: Sources, parts: Sequence[str]) -> dict[str, list[Artefact]]:
    """The artefacts of ``parts`` (none: all whose data is there), by part; nothing is written.

    Raises:
        UserError: data is missing or damaged, a file is of other data.
    """
    check_kinds(sources.given)
    wanted = parts or [part for part in PARTS if all(folder.is_dir() for folder in _needed(part, sources.folders))]
    if not wanted:
        folders = ", ".join(sorted({folder.name for folder in sources.folders}))
        raise UserError(f"there is no data for any study: looked for {folders}", "correct --data")
    if needless := sorted(kind for kind in sources.given if GIVEN[kind].folder not in wanted):
        what = f"{needless[0]!r} is for {GIVEN[needless[0]].folder}, which is not among {', '.join(wanted)}"
        raise UserError(what, "leave it out", "--given")
    return {part: _OF_PART[part](sources) for part in PARTS if part in wanted}


def _needed(part: str, folders: DataFolders) -> tuple[Path, ...]:
    if part == "retention":
        return folders.pan25, folders.multinews
    return (getattr(folders, part),)


def _pan25(sources: Sources) -> list[Artefact]:
    corpus = read_corpora(sources.folders.pan25, sources.notices)
    file, splits_from = sources.ready("pan25-manifest"), sources.ready("pan25-splits")
    if file is None:
        records, counted, logs = _made_manifest(sources, corpus)
    else:
        records, counted, logs = read_manifest(file), {}, []
        PairDocuments(corpus).check(records, file)
    files = {
        "suspicious_files": len({r.susp_file for r in records}),
        "source_files": len({r.src_file for r in records}),
    }
    facts = {**class_counts(records), **files, **counted, **origin(file)}
    splits = make_splits(records) if splits_from is None else read_splits(splits_from, records)
    manifest = Artefact("manifest", {f"pan25/{MANIFEST}": manifest_text(records)}, facts)
    return [manifest, *logs, _splits(records, splits, origin(splits_from))]


def _made_manifest(
    sources: Sources, corpus: Sequence[TruePair]
) -> tuple[tuple[PairRecord, ...], dict[str, Any], list[Artefact]]:
    """The pairs, what the index says of how they were counted, and the exclusion log."""
    counts = sources.counts()
    records, excluded = make_manifest(corpus, counts)
    if not records:
        what = f"every pair has more than {MOST_TOKENS} tokens"
        raise UserError(what, "take shorter pairs", sources.folders.pan25)
    facts = {"pairs": len(excluded), "pair_ids": [pair.pair_id for pair in excluded], **origin(None)}
    log = Artefact("exclusion log", {f"pan25/{LOG}": json_lines(excluded)}, facts)
    return records, {"most_tokens": MOST_TOKENS, "tokenizer": counts.identity}, [log]


def _splits(records: Sequence[PairRecord], splits: Sequence[PairSplit], about: Mapping[str, str]) -> Artefact:
    components = components_of(records)
    audits = [audit_split(records, components, split) for split in splits]
    overlaps = {name: sum(getattr(found, name) for found in audits) for name in Audit._fields}
    files = {f"pan25/splits/{name}": text for name, text in split_files(records, splits).items()}
    return Artefact("splits", files, {"splits": len(splits), **overlaps, **about})


def _pan26(sources: Sources) -> list[Artefact]:
    folder = sources.folders.pan26
    query_ids = [query.query_id for query in read_queries(folder, sources.notices)]
    folds_from, pairs_from = sources.ready("pan26-folds"), sources.ready("pan26-pairs")
    folds = make_folds(query_ids) if folds_from is None else read_folds(folds_from, set(query_ids))
    held = sum(fold.role == "holdout" for fold in folds)
    told = {"queries": len(folds), "holdout": held, "development": len(folds) - held, **origin(folds_from)}
    corpus = [document.doc_id for document in stream_corpus(folder, sources.notices)]
    if pairs_from is None:
        qrels = folder / "qrels.txt"
        pairs = make_query_pairs(read_qrels(qrels), query_ids, corpus, where=qrels)
    else:
        pairs = read_query_pairs(pairs_from)
        check_query_pairs(pairs, query_ids, corpus, pairs_from)
    positive = sum(pair.doc_label for pair in pairs)
    about = {"pairs": len(pairs), "positive": positive, **origin(pairs_from)}
    return [
        Artefact("folds", {f"pan26/{FOLDS_FILE}": folds_text(folds)}, told),
        Artefact("pairs manifest", {f"pan26/{QUERY_PAIRS}": json_lines(pairs)}, about),
    ]


def _multinews(sources: Sources) -> list[Artefact]:
    clusters = source_file(sources.folders.multinews)
    file, split_from = sources.ready("multinews-manifest"), sources.ready("multinews-split")
    if file is None:
        pairs = make_news_pairs(read_clusters(clusters))
    else:
        pairs = read_news_pairs(file)
        check_articles(pairs, read_clusters(clusters), file)
    parts = split_clusters(pairs) if split_from is None else read_cluster_split(split_from, pairs)
    told = {"pairs": len(pairs), "clusters": len({pair.cluster_id for pair in pairs}), **origin(file)}
    sizes = {part: sum(of == part for of in parts.values()) for part in ("train", "test")}
    about = {**sizes, **audit(pairs, parts), **origin(split_from)}
    return [
        Artefact("manifest", {f"multinews/{MANIFEST}": json_lines(pairs)}, told),
        Artefact("split", {f"multinews/{NEWS_SPLIT}": split_text(pairs, parts)}, about),
    ]


def _retention(sources: Sources) -> list[Artefact]:
    file = sources.ready("retention-instances")
    corpus = read_corpora(sources.folders.pan25, sources.notices)
    if file is not None:
        instances = read_instances(file)
        check_instances(instances, PairDocuments(corpus), file)
        return [_instances(instances, file)]
    selection = select_instances(corpus, *sources.checks(sources.folders))
    if not selection.instances:
        raise UserError("no pair meets the conditions of an instance", "take more pairs", sources.folders.pan25)
    log = Artefact(
        "exclusion log",
        {f"retention/{LOG}": json_lines(selection.rejected)},
        {"candidates": len(selection.rejected), **origin(None)},
    )
    return [_instances(selection.instances, None), log]


def _instances(instances: Sequence[Instance], file: Path | None) -> Artefact:
    facts = {"instances": len(instances), **origin(file)}
    return Artefact("instances", {f"retention/{INSTANCES}": json_lines(instances)}, facts)


_OF_PART: dict[str, Callable[[Sources], list[Artefact]]] = {
    "pan25": _pan25,
    "pan26": _pan26,
    "multinews": _multinews,
    "retention": _retention,
}
