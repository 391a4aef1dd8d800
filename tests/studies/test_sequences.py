"""Each study from data to tables by the commands that docs/studies.md lists, on small data."""

import json
import random
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
import transformers

from pan_scdg.cli import run_command
from pan_scdg.retrieval.candidates import read_stages
from studies.__main__ import main
from studies.retrieval import PAPER, make_candidates, read_ranking, rerank_by
from tests.studies.made_results import feature, read_tables, write_corpus

WORDS = [
    "tide",
    "noon",
    "nets",
    "empty",
    "quay",
    "salt",
    "litre",
    "dam",
    "river",
    "bed",
    "sample",
    "third",
    "gram",
    "lost",
    "water",
    "grey",
    "boat",
]
SMALL = Path(__file__).parents[1] / "profiles" / "small.toml"


def write_prose(words: int, seed: int) -> str:
    generator = random.Random(seed)
    return " ".join(f"{' '.join(generator.choices(WORDS, k=9)).capitalize()}." for _ in range(words // 9))


@pytest.fixture(scope="module")
def work(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with small data in ``data/``, and what `prepare` makes of them in ``prepared/``."""
    folder = tmp_path_factory.mktemp("work")
    texts, truth = {}, {}
    for i in range(12):
        texts |= {f"s{i}": write_prose(220, i), f"r{i}": write_prose(400, 100 + i)}
        if i % 2:
            texts[f"s{i}"] = texts[f"r{i}"][:400] + texts[f"s{i}"]
        truth[f"s{i}-r{i}"] = feature(f"r{i}.txt", (0, 400, 0, 2000)) if i % 2 else ""
    write_corpus(folder / "data" / "pan25", truth, texts)
    (folder / "data" / "multinews").mkdir()
    clusters = (f"{write_prose(60, 200 + i)} ||||| {write_prose(60, 300 + i)}\n" for i in range(10))
    (folder / "data" / "multinews" / "train.src").write_text("".join(clusters))
    (folder / "data" / "pan26").mkdir()
    queries = ({"qid": f"q{i}", "query": texts[f"s{i}"][:500]} for i in range(10))
    documents = ({"doc_id": f"d{i}", "text": texts[f"r{i}"][:500]} for i in range(12))
    for name, records in (("queries.jsonl", queries), ("corpus.jsonl", documents)):
        (folder / "data" / "pan26" / name).write_text("".join(f"{json.dumps(record)}\n" for record in records))
    (folder / "data" / "pan26" / "qrels.txt").write_text("".join(f"q{i} 0 d{i} 1\n" for i in range(10)))
    arguments = ["--data", folder / "data", "--output", folder / "prepared", "--seeds", 1, "--instances", 2]
    assert main(["prepare", *map(str, arguments)]) == 0
    return folder


@pytest.fixture(scope="module")
def run(work: Path, tiny_folder: Callable[[str], Path]) -> Callable[..., Path]:
    """``run(name, input, profile, *options)``: the folder of the result; a profile file has a tiny random model."""

    def call(name: str, source: Path, profile: str | Path, *options: object) -> Path:
        arguments = [
            "--input",
            source,
            "--output",
            work / "out" / name,
            "--profile",
            profile,
            *options,
        ]
        arguments += ["--model", tiny_folder("qwen2")] if isinstance(profile, Path) else []
        assert run_command(["run", *map(str, arguments)]) == 0
        return work / "out" / name

    return call


def study(work: Path, name: str, *arguments: object) -> Path:
    where = ["--prepared", work / "prepared"] if name != "retrieval" else []
    assert main([name, *map(str, [*where, "--output", work / name, *arguments])]) == 0
    assert (work / name / "index.md").is_file()
    return work / name


def test_pairs_and_same_topic(work: Path, run: Callable[..., Path]) -> None:
    folders = {
        (data, profile): run(f"{data}-{Path(profile).stem}", work / "prepared" / data, profile, "--scores-only")
        for data in ("pan25", "multinews")
        for profile in ("pan25-bm25", "pan25-char-ngrams", "pan25-gram-logistic", SMALL)
    }
    own = [folder for (data, _), folder in folders.items() if data == "pan25"]
    rows = read_tables(study(work, "pairs", *own))["medians"]
    assert [row["Method"] for row in rows] == [
        "BM25 pair score",
        "PAN12-style n-gram overlap",
        "4-token-gram logistic",
        "SCDG & tiny, Average",
        "SCDG & tiny, Top-q",
    ]
    page = (work / "pairs" / "index.md").read_text().replace("\\", "")
    how = "SCDG &amp; tiny: tiny with engine packed, attention sdpa, positions as-published, norm of transformers, "
    assert f"{how}type float32, torch {torch.__version__.partition('+')[0]}" in page
    assert f"transformers {transformers.__version__}" in page
    rows = read_tables(study(work, "same-topic", *folders.values()))["proxy-fpr"]
    assert [row["Method"] for row in rows[3:]] == [
        "Average SCDG",
        "Positive-gain rate SCDG",
        "Gain-distribution logistic",
    ]
    assert {row["News pairs"] for row in rows} == {2}


@pytest.mark.usefixtures("small_encoder")
def test_retrieval(work: Path, run: Callable[..., Path]) -> None:
    data, rest = work / "data" / "pan26", work / "rest.txt.gz"
    first, reranked = run("first", data, "pan26-bm25-full"), run("reranked", data, SMALL)
    assert main(["rest", "--scored", str(reranked), "--output", str(rest), str(first)]) == 0
    row = read_ranking(str(reranked))
    by_us = rerank_by(make_candidates(row, row.gains), PAPER)
    assert by_us == {query: [doc_id for doc_id, _ in ranked] for query, ranked in row.final.items()}
    stages = read_stages(reranked / "candidates.jsonl.gz")
    assert {query: list(scores.items()) for query, scores in row.coarse.items()} == {
        query: [tuple(one) for one in stage.candidates] for query, stage in stages.items()
    }, "all digits: DAAC's last candidates differ by 2e-9"
    more = run("rest", data, SMALL, "--candidates", rest)
    options = ["--folds", work / "prepared" / "pan26" / "folds.jsonl", "--gains", more, "--rerank", "First"]
    tables = read_tables(study(work, "retrieval", "--data", data, *options, f"First={first}", f"Second={reranked}"))
    rows = [row["Row"] for row in tables["rows"]]
    assert [row for row in rows if " + SCDG" not in row] == ["First", "Second"]
    assert {"First + SCDG", "Second + SCDG"} < {*rows}
    assert len(tables["grid"]) == 108


def test_retention(work: Path, run: Callable[..., Path]) -> None:
    result = run("retention", work / "prepared" / "retention", SMALL, "--scores-only", "--keep-gains")
    tables = read_tables(study(work, "retention", result))
    assert {row["Pairs"] for row in tables["retention-curves"]} == {2}
    assert (work / "retention" / "retention.svg").is_file()
