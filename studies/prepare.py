"""``prepare``: write the data of the studies as folders that ``run`` takes, with manifests, splits and folds.

    OUT/pan25/       pairs, susp/, src/, truth/, manifest.jsonl, splits/*.csv with manifest_index.json
    OUT/pan26/       folds.jsonl, pan2026_pairs_manifest.jsonl; the corpus stays where it is
    OUT/multinews/   pairs, susp/, src/, manifest.jsonl, split.csv
    OUT/retention/   pairs, susp/, src/ (the contexts), manifest.jsonl, exclusion_log.jsonl
    OUT/index.md     the counts of the paper's data tables, and what was made here and is not the paper's

Where the paper leaves it open: the eligible clusters of news, in the order of the file, are shuffled by
``random.Random(42)``, the first 8,000 of them give one pair each, and the same generator draws two articles of a
cluster, the first as the suspicious one. The auxiliary pairs of PAN26 are the judged documents of each query and 20
others, drawn from the sorted ids by one generator. The authors' own files replace what is drawn; see `authors`.
"""

import json
import random
import shutil
import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict
from itertools import groupby
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from pan_scdg.bundled import find_bundled
from pan_scdg.errors import UserError
from pan_scdg.models.find import find_model
from pan_scdg.notices import Notices
from pan_scdg.pan.source_retrieval import Corpus, find_qrels, read_qrels, read_queries
from pan_scdg.pan.text_alignment import format_detection, read_text
from pan_scdg.progress import Progress
from pan_scdg.records import Passage
from studies import authors as published
from studies.authors import NewsRecord, PairRecord, find_file
from studies.beside import SPLIT_COUNTS, WARNING, Counts, count_contexts, count_quantities, warn_about_counts
from studies.contexts import MAX_INSTANCES, SEEDS, make_contexts, read_pool, select_instances
from studies.corpora import DataFolders, TruePair, collect_reused, read_clusters, read_corpora
from studies.results import MANIFEST, Names, strip_name
from studies.splits import (
    FOLD_SEED,
    FOLDS,
    Split,
    count_classes,
    count_shared,
    count_shared_clusters,
    format_split,
    make_folds,
    make_splits,
    read_folds,
    read_split,
    read_splits,
    split_news,
)
from studies.tables import Row, Section, Table, check_output, write_report

PARTS = ("pan25", "pan26", "multinews", "retention")
READ = {part: (part,) for part in PARTS} | {"retention": ("pan25", "multinews")}
"""The folders of the data that each part is made from."""
MAX_TOKENS = 128_000
"""Of both documents of a pair together; longer pairs are left out (paper, Length filtering)."""
PAPER_TOKENIZER, BUNDLED_TOKENIZER = "Qwen3-8B-Base", "scdg-mini"
COUNTED_TOGETHER = 32
"""Documents whose tokens are counted at once, on all cores."""
NEWS_SEED, MAX_NEWS_PAIRS = 42, 8000
SPLIT_INDEX, AUXILIARY_PAIRS, EXCLUSIONS = "manifest_index.json", "pan2026_pairs_manifest.jsonl", "exclusion_log.jsonl"
DRAWN_DOCUMENTS = 20
"""Of each query, in the auxiliary pairs: with the 614 judged ones the paper's 4,614."""
MAX_LENGTH_DIFFERENCE = 50
"""Characters by which the contexts of a pair and seed may differ (paper, Length control)."""


MANIFEST_NEEDED = (
    "The paper takes its pairs from the validation part of PAN 2025, which has 7,976. It keeps 6,791, by a filter of "
    f"{MAX_TOKENS:,} tokens that its longest input, 65,868 tokens, is far below: without the authors' manifest "
    "(--authors) these are other pairs than the paper's."
)


class Source(NamedTuple):
    """The sources of the parts."""

    folders: DataFolders
    authors: Path | None
    """Folder of the authors' files."""
    tokenizer: Path | None
    instances: int
    seeds: Sequence[int]


def prepare(
    folders: DataFolders,
    output: Path,
    parts: Sequence[str] = (),
    *,
    authors: Path | None = None,
    tokenizer: Path | None = None,
    instances: int = MAX_INSTANCES,
    seeds: int = len(SEEDS),
    overwrite: bool = False,
) -> list[str]:
    """Write the folders of ``parts`` (none: all whose data exists) to the output; return warnings.

    The same data gives the same bytes. ``authors`` is a folder of the authors' files, ``tokenizer`` the folder of the
    tokenizer that counts (None: the paper's if it is there, else a bundled one). The retention study has so many
    ``instances``, each with so many orders of chunks (``seeds``). Raises UserError if data is damaged.
    """
    chosen = parts or [part for part in PARTS if all(getattr(folders, name).is_dir() for name in READ[part])]
    if not chosen:
        names = ", ".join(sorted(folder.name for folder in folders[:3]))
        raise UserError(f"no data for any study: looked for {names}", "correct --data")
    if authors is not None and not authors.is_dir():
        raise UserError("the directory does not exist", "correct --authors", authors)
    check_output(output, overwrite)
    notices, target = Notices(), output.resolve()
    corpus = read_corpora(folders.corpora, notices) if {"pan25", "retention"} & {*chosen} else []
    source = Source(folders, authors, tokenizer, instances, SEEDS[:seeds])
    prepare_part: dict[str, Callable[[Path], Section]] = {
        "pan25": lambda folder: _prepare_pan25(corpus, source, folder),
        "pan26": lambda folder: _prepare_pan26(source, notices, folder),
        "multinews": lambda folder: _prepare_news(source, folder),
        "retention": lambda folder: _prepare_retention(corpus, source, folder),
    }
    target.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=target.parent, prefix=f".{target.name}.") as scratch:
        staged = Path(scratch) / "staged"
        sections = [prepare_part[part](staged / part) for part in PARTS if part in chosen]
        others = [f"{part.heading}: {line}" for part in sections for line in part.points if line.startswith(WARNING)]
        write_report(staged, "Data of the studies", sections, {"parts": list(chosen)})
        if target.exists():
            shutil.rmtree(target)
        staged.rename(target)
    return [*notices.list_warnings(), *(f"warning: {line.replace('warning: ', '')}" for line in others)]


def write_texts(folder: Path, texts: Mapping[tuple[str, str], str]) -> None:
    """Write documents by their side (``susp`` or ``src``) and name, without ``.txt``."""
    for (side, name), text in texts.items():
        (folder / side).mkdir(parents=True, exist_ok=True)
        (folder / side / f"{name}.txt").write_bytes(text.encode())


def write_pairs(folder: Path, pairs: Iterable[Names]) -> None:
    """Write the list of pairs."""
    (folder / "pairs").write_text("".join(f"{susp}.txt {src}.txt\n" for susp, src in pairs), encoding="utf-8")


def write_records(path: Path, records: Iterable[Mapping[str, Any]]) -> None:
    """Write JSON Lines."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(f"{json.dumps(record)}\n" for record in records), encoding="utf-8")


def _prepare_pan25(true_pairs: Sequence[TruePair], source: Source, folder: Path) -> Section:
    corpus = {_name_documents(true): true for true in true_pairs}
    given = find_file(source.authors, published.PAIRS)
    if given is None:
        pairs, points = _make_manifest(true_pairs, source.tokenizer)
    else:
        pairs, points = _read_given_manifest(given, corpus), [f"The pairs are those of {given.name}."]
    write_records(folder / MANIFEST, map(PairRecord.to_json, pairs))
    (folder / "truth").mkdir()
    for pair in pairs:
        true = corpus[pair.names]
        texts = (read_text(true.pair.suspicious), read_text(true.pair.source))
        write_texts(folder, dict(zip(zip(("susp", "src"), pair.names), texts, strict=True)))
        xml = format_detection(true.pair, (), "plagiarism") if true.xml is None else true.xml.read_bytes()
        (folder / "truth" / f"{true.pair_id}.xml").write_bytes(xml)
    write_pairs(folder, [pair.names for pair in pairs])
    given = find_file(source.authors, published.SPLITS)
    splits = make_splits(pairs) if given is None else read_splits(given, pairs)
    points.append(
        f"The splits are made here, from the paper's seeds: {splits[0].name} to {splits[-1].name}."
        if given is None
        else f"The splits are those of the authors: {len(splits)}."
    )
    by_split = _write_splits(folder / "splits", splits, pairs)
    names = [pair.names for pair in pairs]
    classes = count_classes(pairs)
    statistics = {
        **{f"{name} pairs".replace("Total", "All"): classes[name] for name in ("Total", "Positive", "Negative")},
        **{f"Unique {side} files": len({own[i] for own in names}) for i, side in enumerate(("suspicious", "source"))},
    }
    first = by_split[0]
    sizes = {"Training": first["train"], "Test": first["test"], "All": classes}
    overlaps: list[Row] = [{k: v for k, v in row.items() if not isinstance(v, dict)} for row in by_split]
    counts = [count_quantities("tab:supp-pan25-pair-statistics", statistics), Counts(SPLIT_COUNTS, sizes)]
    others = warn_about_counts(counts)
    if others and find_file(source.authors, published.PAIRS) is None:
        points.append(MANIFEST_NEEDED)
    tables = [
        Table("pan25-pairs", "The manifest of pairs", counts[0].list_rows("Quantity")),
        Table("pan25-splits", "Both parts of the first split", counts[1].list_rows("Partition")),
        Table("pan25-overlaps", "What both parts of each split share", overlaps),
    ]
    return Section("PAN25", points=[*others, *points], tables=tables)


def _write_splits(folder: Path, splits: Sequence[Split], pairs: Sequence[PairRecord]) -> list[dict[str, Any]]:
    """Write the splits and their index; return what it records of each."""
    folder.mkdir()
    by_id = {pair.pair_id: pair for pair in pairs}
    index = []
    for split in splits:
        (folder / f"{split.name}.csv").write_text(format_split(split, pairs), encoding="utf-8")
        parts = {
            part: dict(count_classes([by_id[i] for i in ids]))
            for part, ids in (("train", split.train), ("test", split.test))
        }
        index.append({"file": f"{split.name}.csv", **parts, **count_shared(pairs, split)})
    (folder / SPLIT_INDEX).write_text(json.dumps({"splits": index}, indent=1) + "\n", encoding="utf-8")
    return index


def _name_documents(true: TruePair) -> Names:
    return strip_name(true.pair.suspicious.reference), strip_name(true.pair.source.reference)


def _make_manifest(true_pairs: Sequence[TruePair], tokenizer: Path | None) -> tuple[list[PairRecord], list[str]]:
    """Return the pairs that are not too long, and sentences on how they were measured."""
    count_tokens, points = _open_tokenizer(tokenizer)
    documents = list({file.path: file for true in true_pairs for file in true.pair[:2]}.values())
    tokens: dict[Path, int] = {}
    with Progress("counting tokens", len(documents)) as progress:
        for start in range(0, len(documents), COUNTED_TOGETHER):
            files = documents[start : start + COUNTED_TOGETHER]
            for file, count in zip(files, count_tokens([read_text(file) for file in files]), strict=True):
                tokens[file.path] = count
                progress.update()
    records = []
    for true in true_pairs:
        sizes = [tokens[file.path] for file in true.pair[:2]]
        if sum(sizes) <= MAX_TOKENS:
            susp, src = _name_documents(true)
            annotations = [_make_annotation(src, passage) for passage in true.passages]
            records.append(
                PairRecord(
                    pair_id=true.pair_id,
                    susp_file=f"{susp}.txt",
                    src_file=f"{src}.txt",
                    doc_label=int(bool(annotations)),
                    xml_file=f"{true.pair_id}.xml",
                    xml_exists=true.xml is not None,
                    num_annotations_for_pair=len(annotations),
                    annotations=annotations,
                    susp_tokens=sizes[0],
                    src_tokens=sizes[1],
                    total_tokens=sum(sizes),
                )
            )
    if not records:
        raise UserError(f"every pair has more than {MAX_TOKENS} tokens", "give shorter pairs")
    points.append(f"Pairs left out with more than {MAX_TOKENS:,} tokens: {len(true_pairs) - len(records)}.")
    return records, points


def _make_annotation(source: str, passage: Passage) -> dict[str, Any]:
    """Return a passage with the attributes of its XML feature."""
    this, other = passage.target, passage.source
    return {
        "source_reference": f"{source}.txt",
        **{"this_offset": this.begin, "this_length": this.length},
        **{"source_offset": other.begin, "source_length": other.length},
        "obfuscation": passage.obfuscation,
    }


def _open_tokenizer(folder: Path | None) -> tuple[Callable[[list[str]], list[int]], list[str]]:
    """Return a function that counts the tokens of texts, and a sentence if it is not the paper's tokenizer.

    Special tokens are not counted.

    The paper counts with the tokenizer of Qwen3-8B-Base whatever model scores, so that all models have the same pairs.
    """
    from tokenizers import Tokenizer

    points = []
    if folder is None:
        try:
            folder = find_model(PAPER_TOKENIZER).folder
        except UserError:
            folder = find_bundled("model_cache") / BUNDLED_TOKENIZER
            points.append(
                f"Tokens were counted with the tokenizer of {BUNDLED_TOKENIZER}: that of {PAPER_TOKENIZER}, with which "
                "the paper counts for every model, was not found. --tokenizer names its folder."
            )
    path = folder / "tokenizer.json"
    try:
        tokenizer = Tokenizer.from_file(str(path))
    except Exception as e:  # the library raises nothing more specific
        raise UserError(f"the tokenizer cannot be read: {e}", "give a folder with tokenizer.json", path) from e
    return lambda texts: [len(one) for one in tokenizer.encode_batch_fast(texts, add_special_tokens=False)], points


def _read_given_manifest(path: Path, corpus: Mapping[Names, TruePair]) -> list[PairRecord]:
    """Return the pairs of the authors' manifest, whose documents and labels must be those of the data."""
    records = published.read_pair_records(path)
    for pair in records:
        true = corpus.get(pair.names)
        if true is None:
            raise UserError(f"the pair {pair.pair_id!r} is not in the data", "give the manifest of this data", path)
        if bool(pair.doc_label) != bool(true.passages):
            what = f"the pair {pair.pair_id!r} has the label {pair.doc_label}, but {len(true.passages)} annotations"
            raise UserError(what, "give the manifest of this data", path)
    return list(records)


def _prepare_pan26(source: Source, notices: Notices, folder: Path) -> Section:
    data = source.folders.pan26
    queries, qrels, corpus = read_queries(data, notices), read_qrels(find_qrels(data)), Corpus(data, notices)
    ids = [query.query_id for query in queries]
    given = find_file(source.authors, published.FOLDS)
    folds = make_folds(ids) if given is None else list(read_folds(given, {*ids}).values())
    records = ({"query_id": fold.query_id, "fold": fold.fold, "role": fold.role} for fold in folds)
    write_records(folder / "folds.jsonl", records)
    auxiliary = list(_draw_auxiliary_pairs(ids, qrels, sorted(corpus.ids)))
    write_records(folder / AUXILIARY_PAIRS, auxiliary)
    grades = [grade for judged in qrels.values() for grade in judged.values()]
    quantities = {
        "Suspicious queries": len(queries),
        "Candidate source documents": len(corpus),
        "All relevance judgments": len(grades),
        **{f"Grade-{grade} judgments": grades.count(grade) for grade in sorted({1, 2, 3, *grades})},
    }
    by_fold = {f"Fold {number}": [fold for fold in folds if fold.fold == number] for number in range(FOLDS)}
    sizes = {**{number: {"Queries": len(own)} for number, own in by_fold.items()}, "All": {"Queries": len(folds)}}
    counts = [
        count_quantities("tab:supp-pan26-statistics", quantities),
        Counts("tab:supp-pan26-folds", sizes),
        Counts("tab:supp-data-artifacts", {AUXILIARY_PAIRS: {"Rows": len(auxiliary)}}),
    ]
    roles: dict[str, str] = {number: own[0].role for number, own in by_fold.items() if own}
    points = [
        "The folds are made here, from a seed: the paper's are in a file."
        if given is None
        else "The folds are those of the authors."
    ]
    rows = [{**row, "Role": roles.get(str(row["Fold"]))} for row in counts[1].list_rows("Fold")]
    tables = [
        Table("pan26", "Queries and judgements", counts[0].list_rows("Quantity")),
        Table("pan26-folds", "Folds of the queries", rows),
        Table("pan26-auxiliary", "Auxiliary pairs", counts[2].list_rows("File")),
    ]
    return Section("PAN26", points=[*warn_about_counts(counts), *points], tables=tables)


def _draw_auxiliary_pairs(
    query_ids: Sequence[str], qrels: Mapping[str, Mapping[str, int]], doc_ids: Sequence[str]
) -> Iterator[dict[str, Any]]:
    """Yield the judged documents of each query as pairs, and then those that are drawn of the others."""
    generator = np.random.default_rng(FOLD_SEED)
    for query_id in query_ids:
        judged = qrels.get(query_id, {})
        others = [doc_id for doc_id in doc_ids if doc_id not in judged]
        drawn = generator.choice(len(others), min(DRAWN_DOCUMENTS, len(others)), replace=False)
        for doc_id, grade in [*judged.items(), *((others[i], None) for i in drawn)]:
            yield {
                "pair_id": f"{query_id}-{doc_id}",
                "susp_file": query_id,
                "src_file": doc_id,
                "doc_label": int((grade or 0) > 0),
                "grade": grade,
            }


def _prepare_news(source: Source, folder: Path) -> Section:
    given = find_file(source.authors, published.NEWS)
    data = source.folders.multinews
    pairs = _draw_news(data) if given is None else sorted(published.read_news_records(given), key=lambda p: p.cluster)
    write_records(folder / MANIFEST, map(asdict, pairs))
    _write_articles(data, pairs, folder)
    write_pairs(folder, [pair.names for pair in pairs])
    clusters = {pair.pair_id: pair.cluster for pair in pairs}
    given_split = find_file(source.authors, published.NEWS_SPLIT)
    split = split_news(pairs, clusters) if given_split is None else read_split(given_split, pairs)
    shared = count_shared_clusters(split, clusters)
    if any(shared.values()):
        raise UserError(f"training and test have clusters in common: {shared}", "give another split", given_split)
    (folder / "split.csv").write_text(format_split(split, pairs), encoding="utf-8")
    parts = {"Training": split.train, "Test": split.test, "All": tuple(clusters)}
    sizes = {part: {"Pairs": len(ids), "Clusters": len({clusters[i] for i in ids})} for part, ids in parts.items()}
    counts = Counts("tab:supp-multinews-split", sizes)
    points = [
        *warn_about_counts([counts]),
        "The pairs are drawn here, one of each cluster: the paper does not say in which order it draws."
        if given is None
        else f"The pairs are those of {given.name} of the authors.",
        f"Both parts of the split share: {', '.join(f'{name}={count}' for name, count in shared.items())}.",
    ]
    table = Table("multinews", "Pairs and their clusters", counts.list_rows("Partition"))
    return Section("Multi-News", points=points, tables=[table])


def _draw_news(folder: Path) -> list[NewsRecord]:
    """Return a pair of each of the chosen clusters."""
    eligible = {cluster.cluster_id: cluster.list_eligible() for cluster in read_clusters(folder)}
    ids = [name for name, places in eligible.items() if len(places) > 1]
    if not ids:
        raise UserError("no cluster has two articles of 200 to 32,000 characters", "give the Multi-News source side")
    generator = random.Random(NEWS_SEED)
    generator.shuffle(ids)
    chosen = {name: generator.sample(eligible[name], 2) for name in ids[:MAX_NEWS_PAIRS]}
    return [
        NewsRecord(
            pair_id=f"{cluster}-{susp}-{src}",
            susp_file=f"{cluster}-{susp}.txt",
            src_file=f"{cluster}-{src}.txt",
            doc_label=0,
            cluster_id=cluster,
            susp_article=susp,
            src_article=src,
        )
        for cluster, (susp, src) in sorted(chosen.items())
    ]


def _write_articles(data: Path, pairs: Sequence[NewsRecord], folder: Path) -> None:
    """Write the articles of the pairs, or raise UserError if one does not exist."""
    by_cluster: dict[str, list[NewsRecord]] = {}
    for pair in pairs:
        by_cluster.setdefault(pair.cluster, []).append(pair)
    for cluster in read_clusters(data):
        for pair in by_cluster.pop(cluster.cluster_id, ()):
            for side, name, place in zip(("susp", "src"), pair.names, (pair.susp_article, pair.src_article)):
                if place >= len(cluster.articles):
                    what = f"{cluster.cluster_id} has {len(cluster.articles)} articles, {pair.pair_id!r} names {place}"
                    raise UserError(what, "give the manifest of this data", data)
                write_texts(folder, {(side, name): cluster.articles[place]})
    if by_cluster:
        what = f"there is no {min(by_cluster)}, which {by_cluster[min(by_cluster)][0].pair_id!r} names"
        raise UserError(what, "give the manifest of this data", data)


def _prepare_retention(corpus: Sequence[TruePair], source: Source, folder: Path) -> Section:
    given = find_file(source.authors, published.CONTEXTS)
    if given is None:
        contexts, rows, points = _draw_contexts(corpus, source, folder)
    else:
        contexts, rows = _read_given_contexts(given, corpus), []
        points = [f"The contexts are those of {given.name} of the authors."]
    records: list[dict[str, Any]] = []
    sizes: list[int] = []
    targets: dict[str, str] = {}
    for record, target, text in contexts:
        records.append(record)
        sizes.append(len(text))
        targets[strip_name(record["susp_file"])] = target
        write_texts(folder, {("src", strip_name(record["src_file"])): text})
    write_texts(folder, {("susp", name): target for name, target in targets.items()})
    widest = _measure_lengths(records, sizes)
    write_records(folder / MANIFEST, records)
    write_pairs(folder, [(strip_name(record["susp_file"]), strip_name(record["src_file"])) for record in records])
    counts = count_contexts(len({record["pair_id"] for record in records}), records)
    rows = [
        *counts.list_rows("Quantity"),
        *rows,
        {"Quantity": "Largest difference of the lengths of contexts (characters)", "Count": widest},
    ]
    points = [*warn_about_counts([counts]), *points]
    return Section("Retention", points, [Table("retention", "Pairs and contexts of the retention study", rows)])


PreparedContext = tuple[dict[str, Any], str, str]
"""The record of a context, its target and its text."""


def _draw_contexts(
    corpus: Sequence[TruePair], source: Source, folder: Path
) -> tuple[Iterator[PreparedContext], list[Row], list[str]]:
    """Return the contexts of the instances, with rows of counts and points; write the log of what was not taken."""
    pool = read_pool(source.folders.multinews)
    instances, rejected = select_instances(corpus, pool, source.instances)
    if len(instances) < 2:
        what = f"{len(instances)} pairs meet the conditions of an instance, and intervals need two"
        raise UserError(what, "give more pairs")
    write_records(folder / EXCLUSIONS, ({"pair_id": name, "reason": reason} for name, reason in rejected.items()))

    def make() -> Iterator[PreparedContext]:
        with Progress("making contexts", len(instances)) as progress:
            for instance in instances:
                for context in make_contexts(instance, pool, source.seeds):
                    yield context.make_record(instance), instance.target, context.text
                progress.update()

    rows: list[Row] = [{"Quantity": "Candidates before these pairs that were not taken", "Count": len(rejected)}]
    points = [
        "The seed of a pair is made from a SHA-256 of its id, for Python's hash differs from process to process.",
        f"Seeds: {len(source.seeds)} of the paper's {len(SEEDS)}. "
        f"The distractors are from {len(pool)} sentences of news.",
    ]
    return make(), rows, points


def _read_given_contexts(path: Path, corpus: Sequence[TruePair]) -> Iterator[PreparedContext]:
    """Yield the authors' contexts with the targets of the data."""
    pairs, reused = {true.pair_id: true for true in corpus}, collect_reused(corpus)
    records = published.read_context_records(path)
    for record, text in zip(records, published.read_context_texts(path, records), strict=True):
        if record.pair_id not in pairs:
            raise UserError(f"the pair {record.pair_id!r} is not in the data", "give the contexts of this data", path)
        suspicious = pairs[record.pair_id].pair.suspicious
        fields = {
            "pair_id": record.pair_id,
            "susp_file": suspicious.reference,
            "src_file": f"{record.pair_id}-s{record.seed}-r{100 * record.retention:03.0f}.txt",
            "seed": record.seed,
            "retention": record.retention,
            "selected": record.selected or (0, 0),
            "reused": sorted(reused[suspicious.reference]),
        }
        yield fields, read_text(suspicious), text


def _measure_lengths(records: Sequence[Mapping[str, Any]], sizes: Sequence[int]) -> int:
    """Return the largest difference between the contexts of a pair and seed, or raise UserError if it is too large."""
    widest = 0
    for key, group in groupby(zip(records, sizes), lambda one: (one[0]["pair_id"], one[0]["seed"])):
        own = [size for _, size in group]
        if (difference := max(own) - min(own)) > MAX_LENGTH_DIFFERENCE:
            what = f"contexts of {key[0]!r}, seed {key[1]}, differ by {difference} characters"
            raise UserError(f"{what}, more than {MAX_LENGTH_DIFFERENCE}", "give contexts of one length")
        widest = max(widest, difference)
    return widest
