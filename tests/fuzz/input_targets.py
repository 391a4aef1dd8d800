"""Readers of what users and organisers give: corpora, truth, runs, tables, profiles, manifests of the studies."""

from pathlib import Path

from formats import CSV, JSON, LINES, TOML, XML, YAML, gzipped, npy
from pan_scdg.jobs.compare import read_result
from pan_scdg.retrieval.candidate_files import read_candidates
from studies.data import news, pair_manifest, queries, splits
from target import Target

from pan_scdg.jobs import tira as tira_submission
from pan_scdg.methods.vectors import find_vector_file, read_vector
from pan_scdg.notices import Notices
from pan_scdg.pan import documents, inputs, prepare, runs, source_retrieval, text_alignment, truth
from pan_scdg.pan.truth import read_spans
from pan_scdg.profile import load_profile
from studies.retention import instances

SETTINGS = load_profile("offline").need_retrieval()
UNTRUSTED = "pan_scdg.pan.untrusted"
RECORDS = "studies.data.records"


def _pairs(folder: Path) -> None:
    for pair in text_alignment.read_pairs(folder, Notices()).pairs:
        text_alignment.read_text(pair.suspicious)
        text_alignment.read_text(pair.source)


def _digest(folder: Path) -> None:
    inputs.hash_input(folder, inputs.detect_task(folder))


def _document(name: str) -> text_alignment.TextFile:
    return text_alignment.TextFile(name, f"{name}.txt", Path(f"{name}.txt"))


PAIRS = [
    text_alignment.DocumentPair(_document(s), _document(r), 1) for s, r in (("s1", "r1"), ("s2", "r2"), ("s3", "r1"))
]


def _truth(folder: Path) -> None:
    truth.read_truth(folder, PAIRS)


def _corpus(folder: Path) -> None:
    for document in source_retrieval.stream_corpus(folder, Notices()):
        document.text.encode("utf-8")


def _run(folder: Path) -> None:
    queries = [source_retrieval.Query(f"q{i}", "text") for i in (1, 2, 3)]
    read_candidates(folder, queries, SETTINGS, Notices())
    read_result(folder)


def _spans(folder: Path) -> None:
    read_spans(folder, "plagiarism")


def _table(folder: Path) -> None:
    prepare.prepare_pairs(folder / "pairs.csv", folder / "made")
    _pairs(folder / "made")
    prepare.read_names(folder / "made")


def _splits(folder: Path) -> None:
    splits.read_splits(folder / "splits", pair_manifest.read_manifest(folder / "manifest.jsonl"))


def _clusters(folder: Path) -> None:
    clusters = list(news.read_clusters(news.find_clusters(folder)))
    news.read_articles(folder / "train.src", [cluster.cluster_id for cluster in clusters])


def _vectors(folder: Path) -> None:
    read_vector(find_vector_file(folder, "susp/a.txt"))


def _cluster_split(folder: Path) -> None:
    pairs = news.read_news_pairs(folder / "pairs.jsonl")
    news.read_news_split(folder / "split.csv", pairs)


PACKED = JSON.packed_by(gzipped)
_SPLITS = ("studies.data.splits",)
INPUTS = (
    Target(
        "pairs",
        _pairs,
        {"pairs": LINES, "susp/s1.txt": LINES, "src/r1.txt": LINES},
        ("pan_scdg.pan.text_alignment", UNTRUSTED),
        rate=0.4,
    ),
    Target(
        "texts",
        lambda folder: documents.read_texts(folder, Notices()),
        {"a.txt": LINES, "in/b.html": XML},
        ("pan_scdg.pan.documents", UNTRUSTED),
        rate=0.4,
    ),
    Target("input", _digest, {"pairs": LINES}, ("pan_scdg.pan.inputs",), rate=0.1),
    Target(
        "truth",
        _truth,
        {"truth/s1-r1.xml": XML, "truth/s2-r2.xml": XML, "truth/s3-r1.xml": XML},
        ("pan_scdg.pan.truth", UNTRUSTED),
        rate=0.5,
    ),
    Target(
        "spans",
        _spans,
        {"found/s1-r1.xml": XML, "found/s2-r2.xml": XML},
        ("pan_scdg.pan.truth", UNTRUSTED),
    ),
    Target("corpus", _corpus, {"corpus.jsonl": JSON}, ("pan_scdg.pan.source_retrieval", UNTRUSTED)),
    Target(
        "corpus-packed",
        _corpus,
        {"documents.jsonl.gz": PACKED},
        ("pan_scdg.pan.source_retrieval", UNTRUSTED),
    ),
    Target(
        "queries",
        lambda folder: source_retrieval.read_queries(folder, Notices()),
        {"queries.jsonl": JSON},
        ("pan_scdg.pan.source_retrieval", UNTRUSTED),
    ),
    Target(
        "qrels",
        lambda folder: source_retrieval.read_qrels(folder / "qrels.txt"),
        {"qrels.txt": LINES},
        ("pan_scdg.pan.source_retrieval", UNTRUSTED),
    ),
    Target("run", _run, {"run.txt": LINES}, ("pan_scdg.pan.runs", "pan_scdg.retrieval.candidate_files")),
    Target(
        "run-packed",
        lambda folder: runs.read_run(runs.find_run(folder)),
        {"run.txt.gz": LINES.packed_by(gzipped)},
        ("pan_scdg.pan.runs", UNTRUSTED),
    ),
    Target(
        "table",
        _table,
        {"pairs.csv": CSV, "susp/s1.txt": LINES},
        ("pan_scdg.pan.prepare", UNTRUSTED),
        writes=True,
        rate=0.1,
    ),
    Target("names", prepare.read_names, {"names.csv": CSV}, ("pan_scdg.pan.prepare",)),
    Target(
        "profile",
        lambda folder: (load_profile(str(folder / "pairs.toml")), load_profile(str(folder / "baseline.toml"))),
        {"pairs.toml": TOML, "baseline.toml": TOML},
        ("pan_scdg.profile.files", "pan_scdg.profile.pairs", "pan_scdg.profile.retrieval", "pan_scdg.profile.baseline"),
        rate=0.1,
    ),
    Target(
        "tira",
        lambda folder: tira_submission.read_manifest(folder / "tira.yml"),
        {"tira.yml": YAML},
        ("pan_scdg.jobs.tira",),
        rate=0.1,
    ),
    Target("vectors-given", _vectors, {"a.txt.npy": LINES.packed_by(npy)}, ("pan_scdg.methods.vectors",)),
    Target(
        "pair-manifest",
        lambda folder: pair_manifest.read_manifest(folder / "manifest.jsonl"),
        {"manifest.jsonl": JSON},
        ("studies.data.pair_manifest", RECORDS),
        rate=0.3,
    ),
    Target(
        "pair-splits",
        _splits,
        {"splits/split_seed1.csv": CSV, "splits/split_seed2.csv": CSV},
        _SPLITS,
        rate=0.15,
    ),
    Target(
        "cluster-split",
        _cluster_split,
        {"pairs.jsonl": JSON, "split.csv": CSV},
        ("studies.data.news", "studies.data.splits", RECORDS),
        rate=0.4,
    ),
    Target(
        "instances",
        lambda folder: instances.read_instances(folder / "instances.jsonl"),
        {"instances.jsonl": JSON},
        ("studies.retention.instances", RECORDS),
        rate=0.4,
    ),
    Target(
        "folds",
        lambda folder: queries.read_folds(folder / "folds.jsonl", {"q0", "q1", "q2", "q3", "4"}),
        {"folds.jsonl": JSON},
        ("studies.data.queries", RECORDS),
    ),
    Target("clusters", _clusters, {"train.src": LINES}, ("studies.data.news", UNTRUSTED)),
)
