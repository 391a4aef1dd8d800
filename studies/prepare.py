"""``prepare``: write the data of the studies as folders that ``run`` takes, with manifests, splits and folds.

    OUT/pan25/       pairs, susp/, src/, truth/, manifest.jsonl, splits/*.csv
    OUT/pan26/       folds.jsonl; the corpus stays where it is
    OUT/multinews/   pairs, susp/, src/, manifest.jsonl, split.csv
    OUT/retention/   pairs, susp/, src/ (the contexts), manifest.jsonl
    OUT/index.md     the counts of the paper's data tables, and what was made here and is not the paper's

Where the paper leaves it open: the eligible clusters of news, in the order of the file, are shuffled by
``random.Random(42)``, the first 8,000 of them give one pair each, and the same generator draws two articles of a
cluster, the first as the suspicious one.
"""

import json
import random
import shutil
import tempfile
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from pan_scdg.bundled import find_bundled
from pan_scdg.errors import UserError
from pan_scdg.models.find import find_model
from pan_scdg.notices import Notices
from pan_scdg.pan.detections import format_detection
from pan_scdg.pan.source_retrieval import read_qrels, read_queries
from pan_scdg.pan.text_alignment import read_text
from pan_scdg.progress import Progress
from studies.contexts import MAX_INSTANCES, SEEDS, make_contexts, read_pool, select_instances
from studies.corpora import DataFolders, TruePair, read_clusters, read_corpora
from studies.results import MANIFEST, Names, read_manifest, strip_name
from studies.splits import FOLDS, count_classes, count_shared, format_split, make_folds, make_splits, split_news
from studies.tables import Row, Section, Table, check_output, write_report

PARTS = ("pan25", "pan26", "multinews", "retention")
READ = {part: (part,) for part in PARTS} | {"retention": ("pan25", "multinews")}
"""The folders of the data that each part is made from."""
MAX_TOKENS = 128_000
"""Of both documents of a pair together; longer pairs are left out (paper, Length filtering)."""
PAPER_TOKENIZER, BUNDLED_TOKENIZER = "Qwen3-8B-Base", "scdg-mini"
NEWS_SEED, MAX_NEWS_PAIRS = 42, 8000


def prepare(
    folders: DataFolders,
    output: Path,
    parts: Sequence[str] = (),
    *,
    manifest: Path | None = None,
    tokenizer: Path | None = None,
    instances: int = MAX_INSTANCES,
    seeds: int = len(SEEDS),
    overwrite: bool = False,
) -> list[str]:
    """Write the folders of ``parts`` (none: all whose data exists) to the output; return warnings.

    The same data gives the same bytes. ``manifest`` is the authors' manifest of the PAN25 pairs, ``tokenizer`` the
    folder of the tokenizer that counts (None: the paper's if it is there, else a bundled one). The retention study has
    so many ``instances``, each with so many orders of chunks (``seeds``). Raises UserError if data is damaged.
    """
    chosen = parts or [part for part in PARTS if all(getattr(folders, name).is_dir() for name in READ[part])]
    if not chosen:
        names = ", ".join(sorted({folder.name for folder in folders}))
        raise UserError(f"no data for any study: looked for {names}", "correct --data")
    check_output(output, overwrite)
    notices, target = Notices(), output.resolve()
    corpus = read_corpora(folders.pan25, notices) if {"pan25", "retention"} & {*chosen} else []
    prepare_part: dict[str, Callable[[Path], Section]] = {
        "pan25": lambda folder: _prepare_pan25(corpus, manifest, tokenizer, folder),
        "pan26": lambda folder: _prepare_pan26(folders.pan26, notices, folder),
        "multinews": lambda folder: _prepare_news(folders.multinews, folder),
        "retention": lambda folder: _prepare_retention(corpus, folders.multinews, instances, SEEDS[:seeds], folder),
    }
    target.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=target.parent, prefix=f".{target.name}.") as scratch:
        staged = Path(scratch) / "staged"
        sections = [prepare_part[part](staged / part) for part in PARTS if part in chosen]
        write_report(staged, "Data of the studies", sections, {"parts": list(chosen)})
        if target.exists():
            shutil.rmtree(target)
        staged.rename(target)
    return notices.list_warnings()


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


def _prepare_pan25(
    true_pairs: Sequence[TruePair], manifest: Path | None, tokenizer: Path | None, folder: Path
) -> Section:
    corpus = {_name_documents(true): true for true in true_pairs}
    if manifest is None:
        records, points = _make_manifest(true_pairs, tokenizer)
    else:
        records, points = _read_given_manifest(manifest, corpus), [f"The pairs are those of {manifest.name}."]
    write_records(folder / MANIFEST, records)
    pairs = read_manifest(folder / MANIFEST)
    (folder / "truth").mkdir()
    for pair in pairs:
        true = corpus[pair.names]
        texts = (read_text(true.pair.suspicious), read_text(true.pair.source))
        write_texts(folder, dict(zip(zip(("susp", "src"), pair.names), texts, strict=True)))
        xml = format_detection(true.pair, (), "plagiarism") if true.xml is None else true.xml.read_bytes()
        (folder / "truth" / f"{true.pair_id}.xml").write_bytes(xml)
    write_pairs(folder, [pair.names for pair in pairs])
    splits = make_splits(pairs)
    (folder / "splits").mkdir()
    for split in splits:
        (folder / "splits" / f"{split.name}.csv").write_text(format_split(split, pairs), encoding="utf-8")
    by_id = {pair.pair_id: pair for pair in pairs}
    names = [pair.names for pair in pairs]
    statistics: list[Row] = [{"Quantity": f"{name} pairs", "Count": n} for name, n in count_classes(pairs).items()]
    statistics += [
        {"Quantity": what, "Count": len({name[side] for name in names})}
        for side, what in enumerate(("Suspicious documents", "Sources"))
    ]
    sizes: list[Row] = [
        {"Part": part, **count_classes([by_id[i] for i in ids]), **count_shared(pairs, splits[0])}
        for part, ids in (("train", splits[0].train), ("test", splits[0].test))
    ]
    points.append(f"The splits are made here, from the paper's seeds: {splits[0].name} to {splits[-1].name}.")
    tables = [
        Table("pan25-pairs", "The manifest of pairs", statistics),
        Table("pan25-splits", "Both parts of the first split, and what they share", sizes),
    ]
    return Section("PAN25", points=points, tables=tables)


def _name_documents(true: TruePair) -> Names:
    return strip_name(true.pair.suspicious.reference), strip_name(true.pair.source.reference)


def _make_manifest(true_pairs: Sequence[TruePair], tokenizer: Path | None) -> tuple[list[dict[str, Any]], list[str]]:
    """Return the records of the pairs that are not too long, and sentences on how they were measured."""
    count_tokens, points = _open_tokenizer(tokenizer)
    documents = {file.path: file for true in true_pairs for file in true.pair[:2]}
    tokens: dict[Path, int] = {}
    with Progress("counting tokens", len(documents)) as progress:
        for path, file in documents.items():
            tokens[path] = count_tokens(read_text(file))
            progress.update()
    records = []
    for true in true_pairs:
        total = sum(tokens[file.path] for file in true.pair[:2])
        if total <= MAX_TOKENS:
            record = _make_record(true.pair_id, _name_documents(true), int(bool(true.passages)))
            records.append({**record, "total_tokens": total})
    if not records:
        raise UserError(f"every pair has more than {MAX_TOKENS} tokens", "give shorter pairs")
    points.append(f"Pairs left out with more than {MAX_TOKENS:,} tokens: {len(true_pairs) - len(records)}.")
    return records, points


def _open_tokenizer(folder: Path | None) -> tuple[Callable[[str], int], list[str]]:
    """Return a function that counts tokens without special ones, and a sentence if it is not the paper's tokenizer.

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
    return lambda text: len(tokenizer.encode(text, add_special_tokens=False).ids), points


def _read_given_manifest(path: Path, corpus: Mapping[Names, TruePair]) -> list[dict[str, Any]]:
    """Return the records of the authors' manifest, whose documents and labels must be those of the data."""
    records = []
    for pair in read_manifest(path):
        true = corpus.get(pair.names)
        if true is None:
            raise UserError(f"the pair {pair.pair_id!r} is not in the data", "give the manifest of this data", path)
        if bool(pair.doc_label) != bool(true.passages):
            what = f"the pair {pair.pair_id!r} has the label {pair.doc_label}, but {len(true.passages)} annotations"
            raise UserError(what, "give the manifest of this data", path)
        records.append(_make_record(pair.pair_id, pair.names, pair.doc_label))
    return records


def _make_record(pair_id: str, names: Names, label: int) -> dict[str, Any]:
    return {"pair_id": pair_id, "susp_file": f"{names[0]}.txt", "src_file": f"{names[1]}.txt", "doc_label": label}


def _prepare_pan26(data: Path, notices: Notices, folder: Path) -> Section:
    queries, qrels = read_queries(data, notices), read_qrels(data / "qrels.txt")
    folds = make_folds([query.query_id for query in queries])
    records = ({"query_id": fold.query_id, "fold": fold.fold, "role": fold.role} for fold in folds)
    write_records(folder / "folds.jsonl", records)
    grades = [grade for judged in qrels.values() for grade in judged.values()]
    rows: list[Row] = [
        {"Quantity": "Queries", "Count": len(queries)},
        {"Quantity": "Judgements", "Count": len(grades)},
    ]
    rows += [{"Quantity": f"Grade {grade}", "Count": grades.count(grade)} for grade in sorted({*grades})]
    sizes: list[Row] = []
    for number in range(FOLDS):
        members = [fold for fold in folds if fold.fold == number]
        sizes.append({"Fold": number, "Queries": len(members), "Role": members[0].role})
    points = ["The folds are made here, from a seed; the paper's are in a file, which --folds of `retrieval` takes."]
    tables = [Table("pan26", "Queries and judgements", rows), Table("pan26-folds", "Folds of the queries", sizes)]
    return Section("PAN26", points=points, tables=tables)


def _prepare_news(data: Path, folder: Path) -> Section:
    articles, chosen = _choose_articles(data)
    records = [
        _make_record(f"{cluster}-{susp}-{src}", (f"{cluster}-{susp}", f"{cluster}-{src}"), 0)
        for cluster, (susp, src) in sorted(chosen.items())
    ]
    texts = {
        (side, f"{cluster}-{place}"): articles[cluster][place]
        for cluster, places in sorted(chosen.items())
        for side, place in zip(("susp", "src"), places)
    }
    write_records(folder / MANIFEST, records)
    pairs = read_manifest(folder / MANIFEST)
    write_texts(folder, texts)
    write_pairs(folder, [pair.names for pair in pairs])
    split = split_news(pairs)
    (folder / "split.csv").write_text(format_split(split, pairs), encoding="utf-8")
    rows: list[Row] = [
        {"Partition": part, "Pairs": len(ids)}
        for part, ids in (("train", split.train), ("test", split.test), ("all", pairs))
    ]
    points = ["The pairs are drawn here, one of each cluster: the paper does not say in which order it draws."]
    return Section("Multi-News", points=points, tables=[Table("multinews", "Pairs, each of a cluster", rows)])


def _choose_articles(folder: Path) -> tuple[dict[str, Sequence[str]], dict[str, list[int]]]:
    """Return the articles of the chosen clusters, and the two that make the pair of each."""
    eligible = {cluster.cluster_id: cluster.list_eligible() for cluster in read_clusters(folder)}
    ids = [name for name, places in eligible.items() if len(places) > 1]
    if not ids:
        raise UserError("no cluster has two articles of 200 to 32,000 characters", "give the Multi-News source side")
    generator = random.Random(NEWS_SEED)
    generator.shuffle(ids)
    chosen = {name: generator.sample(eligible[name], 2) for name in ids[:MAX_NEWS_PAIRS]}
    articles = {c.cluster_id: c.articles for c in read_clusters(folder) if c.cluster_id in chosen}
    return articles, chosen


def _prepare_retention(
    corpus: Sequence[TruePair], news: Path, count: int, seeds: Sequence[int], folder: Path
) -> Section:
    pool = read_pool(news)
    instances, rejected = select_instances(corpus, pool, count)
    if len(instances) < 2:
        what = f"{len(instances)} pairs meet the conditions of an instance, and intervals need two"
        raise UserError(what, "give more pairs")
    records: list[dict[str, Any]] = []
    with Progress("making contexts", len(instances)) as progress:
        for instance in instances:
            texts = {("susp", strip_name(instance.susp_file)): instance.target}
            for context in make_contexts(instance, pool, seeds):
                records.append(context.make_record(instance))
                texts["src", strip_name(records[-1]["src_file"])] = context.text
            write_texts(folder, texts)
            progress.update()
    write_records(folder / MANIFEST, records)
    write_pairs(folder, [(strip_name(record["susp_file"]), strip_name(record["src_file"])) for record in records])
    rows: list[Row] = [
        {"Quantity": "Instances", "Count": len(instances)},
        {"Quantity": "Candidates before them that were not taken", "Count": len(rejected)},
        {"Quantity": "Contexts", "Count": len(records)},
    ]
    reasons: list[Row] = [{"Pair": pair_id, "Reason": reason} for pair_id, reason in rejected.items()]
    points = [
        "The seed of a pair is made from a SHA-256 of its id, for Python's hash differs from process to process.",
        f"Seeds: {len(seeds)} of the paper's {len(SEEDS)}. The distractors are from {len(pool)} sentences of news.",
    ]
    tables = [
        Table("retention", "Instances and contexts of the retention study", rows),
        Table("retention-rejected", "Candidates that were not taken", reasons, on_page=False),
    ]
    return Section("Retention", points=points, tables=tables)
