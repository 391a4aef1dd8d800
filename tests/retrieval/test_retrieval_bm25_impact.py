"""The fast BM25 against a restatement of the formula, and against PyTerrier where that is installed."""

import gzip
import json
import math
import random
import shutil
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pan_scdg.retrieval.bm25.impact import ImpactIndex, sum_exactly
from pan_scdg.retrieval.bm25.impact_build import build_index
from pan_scdg.retrieval.bm25.terrier_terms import TermPipeline

from pan_scdg.errors import UserError
from pan_scdg.models.terrier_jars import start_terrier
from pan_scdg.profile import Bm25Settings
from pan_scdg.retrieval.bm25 import impact_build
from pan_scdg.retrieval.bm25 import terrier as bm25_terrier
from pan_scdg.retrieval.ranking import Ranking, fuse_by_rrf, rank_best
from pan_scdg.retrieval.sentences import split_sentences

SPOT_CHECK = Path(__file__).parents[3] / "shared" / "data" / "pan26-spot-check"
STOPWORDS = frozenset({"the", "of", "and"})


class Doc(NamedTuple):
    doc_id: str
    text: str


def made_up_documents(count: int, seed: int) -> list[Doc]:
    """Texts of words wa0 (in nearly all documents) to wk7 (rare), of different lengths; some texts come twice."""
    rng = random.Random(seed)
    words = [f"w{c}{d}" for c in "abcdfgkmpr" for d in range(8)]
    weights = [1 / (rank + 1) for rank in range(len(words))]
    texts = [" ".join(rng.choices(words, weights, k=rng.randint(0, 60))) for _ in range(count)]
    texts[1::7] = texts[: len(texts[1::7])]
    return [Doc(f"doc/{i * 7919 % 100_003}", text) for i, text in enumerate(texts)]


def made_up_query(seed: int, count: int) -> str:
    rng = random.Random(seed)
    words = [f"w{c}{d}" for c in "abcdfgkmpr" for d in range(8)] + ["unheard", "the"]
    return " ".join(" ".join(rng.choices(words, k=rng.randint(1, 12))).capitalize() + "." for _ in range(count))


def literal_bm25(documents: Sequence[Doc], unit: str, limit: int) -> dict[str, float]:
    """Terrier's formula in steps of 1e-9 for the rarest terms of a unit, each once; documents with any of them."""
    k1, b = 1.2, 0.75
    pipeline = TermPipeline(STOPWORDS)
    words = {d.doc_id: pipeline.count_terms(d.text) for d in documents}
    average = sum(sum(counts.values()) for counts in words.values()) / len(words)
    frequencies = Counter(term for counts in words.values() for term in counts)
    scores: dict[str, float] = {}
    for n, term in sorted((frequencies[t], t) for t in pipeline.count_terms(unit) if t in frequencies)[:limit]:
        for doc_id, counts in words.items():
            if term in counts:
                idf = math.log2((len(words) - n + 0.5) / (n + 0.5))
                tf, length = counts[term], sum(counts.values())
                part = idf * (k1 + 1) * tf / (k1 * ((1 - b) + b * length / average) + tf)
                scores[doc_id] = scores.get(doc_id, 0.0) + part
    return {doc_id: round(score, 9) for doc_id, score in scores.items()}


def search(tmp_path: Path, documents: Sequence[Doc], query: str, **chosen: int) -> Ranking:
    build_index(documents, tmp_path / "index", STOPWORDS)
    with ImpactIndex(tmp_path / "index", Bm25Settings(engine="impact", **chosen)) as index:
        return index.search_sentences(query)


@pytest.mark.parametrize(("count", "depth"), [(60, 1000), (700, 20), (700, 1), (3, 5), (1, 1)])
def test_scores_are_terriers_formula(tmp_path: Path, count: int, depth: int) -> None:
    documents = made_up_documents(count, seed=count)
    build_index(documents, tmp_path / "index", STOPWORDS)
    with ImpactIndex(tmp_path / "index", Bm25Settings(engine="impact", depth=depth, full_terms=9)) as index:
        for seed in range(12):
            unit = made_up_query(seed, 2)
            literal = literal_bm25(documents, unit, 9)
            found = index.search_full(unit)
            assert [r.doc_id for r in found] == [r.doc_id for r in rank_best(literal, depth)]
            assert dict(found) == pytest.approx({r.doc_id: literal[r.doc_id] for r in found}, abs=2e-9)


def test_a_query_is_the_fusion_of_its_sentences(tmp_path: Path) -> None:
    documents = made_up_documents(300, seed=1)
    build_index(documents, tmp_path / "index", STOPWORDS)
    query = made_up_query(5, 40) + " --- Unheard things. The and of."
    with ImpactIndex(tmp_path / "index", Bm25Settings(engine="impact", terms=4, depth=50)) as index:
        literal = [literal_bm25(documents, sentence, 4) for sentence in split_sentences(query)]
        assert index.search_sentences(query) == fuse_by_rrf([rank_best(scores, 50) for scores in literal if scores], 50)


@pytest.mark.parametrize("depth", [3, 6, 7])
def test_documents_of_nearly_the_same_score(tmp_path: Path, depth: int) -> None:
    alike = [Doc(f"d{i:03}", "zebra " * 5 + "filler " * (1000 + i)) for i in range(14)]
    documents = [*alike, *(Doc(f"e{i:03}", "other") for i in range(40)), Doc("last", "zebra " + "filler " * 9000)]
    build_index(documents, tmp_path / "index", STOPWORDS)
    with ImpactIndex(tmp_path / "index", Bm25Settings(engine="impact", depth=depth)) as index:
        found = index.search_full("zebra")
    assert [r.doc_id for r in found] == [r.doc_id for r in rank_best(literal_bm25(documents, "zebra", 9), depth)]


def test_blocks_and_order_of_documents_change_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    documents = made_up_documents(200, seed=4)
    build_index(documents, tmp_path / "one", STOPWORDS)
    monkeypatch.setattr(impact_build, "BLOCK", 50)
    build_index(iter(sorted(documents, key=lambda d: d.text)), tmp_path / "many", STOPWORDS)
    for path in (tmp_path / "one").iterdir():
        assert path.read_bytes() == (tmp_path / "many" / path.name).read_bytes(), path.name
    assert {p.name for p in (tmp_path / "many").iterdir()} == {p.name for p in (tmp_path / "one").iterdir()}


def test_counts_beyond_two_bytes(tmp_path: Path) -> None:
    documents = [Doc("a", "word " * 70_000), Doc("b", "word other"), *(Doc(f"c{i}", "else") for i in range(5))]
    build_index(documents, tmp_path / "index", STOPWORDS)
    with ImpactIndex(tmp_path / "index", Bm25Settings(engine="impact")) as index:
        literal = literal_bm25(documents, "word", 64)
        assert dict(index.search_full("word")) == pytest.approx(literal, abs=2e-9)


def test_ties_across_the_cut_go_by_document_id(tmp_path: Path) -> None:
    documents = [Doc(doc_id, "same words") for doc_id in ("z", "b", "ä", "a", "B", "10", "9")]
    others = [Doc(f"other{i}", "else") for i in range(9)]
    assert [r.doc_id for r in search(tmp_path, documents + others, "same words", depth=4)] == ["10", "9", "B", "a"]


def test_hostile_texts(tmp_path: Path) -> None:
    texts = ["\x00\x07\x1bbell", "w" * 100_000 + " long", "語 \u202e right", "\ud800 lone \udfff", "Zürich", ""]
    documents = [Doc(f"doc{i}\ud800\x85\n", text) for i, text in enumerate(texts)]
    for word, i in (("bell", 0), ("long", 1), ("right", 2), ("lone", 3), ("zürich", 4)):
        assert [r.doc_id for r in search(tmp_path, documents, f"{word}\x00 \ud800")] == [documents[i].doc_id]
    for query in ("", "\x00", "the of", "unheard 語", "w" * 100_000, "12345"):
        assert search(tmp_path, documents, query) == []


@settings(max_examples=25, deadline=None)
@given(st.lists(st.text(max_size=30), min_size=1, max_size=5))
def test_a_document_is_found_by_any_of_its_terms(tmp_path_factory: pytest.TempPathFactory, texts: list[str]) -> None:
    documents = [Doc(str(i), text) for i, text in enumerate(texts)]
    build_index(documents, path := tmp_path_factory.mktemp("impact") / "index", STOPWORDS)
    with ImpactIndex(path, Bm25Settings(engine="impact")) as index:
        for document in documents:
            if TermPipeline(STOPWORDS).count_terms(document.text):
                assert document.doc_id in {r.doc_id for r in index.search_full(document.text)}


def test_empty_corpus_and_empty_documents(tmp_path: Path) -> None:
    assert search(tmp_path, [], "words") == []
    assert search(tmp_path, [Doc("a", ""), Doc("b", "the")], "the words") == []
    assert [r.doc_id for r in search(tmp_path, [Doc("a", ""), Doc("b", "words")], "words")] == ["b"]


def test_nothing_is_left_when_building_fails(tmp_path: Path) -> None:
    def broken():
        yield Doc("a", "text")
        raise UserError("bad line", "mend it")

    (tmp_path / "index.part").mkdir()
    (tmp_path / "index.part" / "docs.npy").write_text("left by a killed run")
    with pytest.raises(UserError, match="bad line"):
        build_index(broken(), tmp_path / "index", STOPWORDS)
    assert list(tmp_path.iterdir()) == []
    (tmp_path / "file").touch()
    with pytest.raises(UserError, match="writable"):
        build_index([Doc("a", "x")], tmp_path / "file" / "index", STOPWORDS)


def test_a_new_index_takes_the_place_of_the_old(tmp_path: Path) -> None:
    assert len(search(tmp_path, [Doc("a", "old"), Doc("b", "old")], "old")) == 2
    assert [r.doc_id for r in search(tmp_path, [Doc("c", "new"), Doc("d", "else")], "new old")] == ["c"]
    assert [p.name for p in tmp_path.iterdir()] == ["index"]


def test_any_damage_is_found(tmp_path: Path) -> None:
    build_index(made_up_documents(20, seed=2), tmp_path / "good", STOPWORDS)
    for path in sorted((tmp_path / "good").iterdir()):
        whole = path.read_bytes()
        for damaged in (None, b"", whole[:-1], whole[:-1] + bytes([whole[-1] ^ 1]), whole + b"0"):
            path.unlink() if damaged is None else path.write_bytes(damaged)
            with pytest.raises(UserError, match=r"good.*delete it and run again"):
                ImpactIndex(tmp_path / "good", Bm25Settings(engine="impact"))
        path.write_bytes(whole)
    (tmp_path / "good" / "more.npy").touch()
    with pytest.raises(UserError, match="does not belong here"):
        ImpactIndex(tmp_path / "good", Bm25Settings(engine="impact"))
    (tmp_path / "good" / "more.npy").unlink()
    ImpactIndex(tmp_path / "good", Bm25Settings(engine="impact")).close()
    shutil.rmtree(tmp_path / "good")
    with pytest.raises(UserError, match="good"):
        ImpactIndex(tmp_path / "good", Bm25Settings(engine="impact"))


@given(st.lists(st.lists(st.integers(0, 7), unique=True), min_size=1, max_size=40), st.integers(1, 100_000))
def test_sums_are_rounded_once(rankings: list[list[int]], offset: int) -> None:
    owners = np.array([doc for ranking in rankings for doc in ranking], np.int64)
    values = np.array([1 / (60 + offset + rank) for ranking in rankings for rank in range(len(ranking))])
    if len(owners):
        expected = [math.fsum(values[owners == doc]) for doc in range(8)]
        assert sum_exactly(owners, values, 8, len(rankings)).tolist() == expected


def test_sums_that_would_be_rounded_are_refused() -> None:
    with pytest.raises(ValueError, match="rounded"):
        sum_exactly(np.zeros(1, np.int64), np.array([1e-9]), 1, 1 << 20)


def assert_same_rankings(documents: Sequence[Any], queries: Sequence[str], folder: Path, depth: int) -> None:
    """Both engines give identical ids, and scores of whole queries to 1e-6 (in fact to the last step)."""
    try:
        start_terrier()
    except UserError as e:
        pytest.skip(str(e))
    build_index(documents, folder / "impact")
    bm25_terrier.build_index(documents, folder / "terrier")
    chosen = Bm25Settings(depth=depth)
    with (
        ImpactIndex(folder / "impact", chosen) as fast,
        bm25_terrier.TerrierIndex(folder / "terrier", chosen) as reference,
    ):
        for query in queries:
            assert fast.search_sentences(query) == reference.search_sentences(query)
            found, expected = fast.search_full(query), reference.search_full(query)
            assert [r.doc_id for r in found] == [r.doc_id for r in expected]
            assert dict(found) == pytest.approx(dict(expected), abs=1e-6)


@pytest.mark.parametrize("depth", [pytest.param(1000, marks=pytest.mark.long), 10])
def test_rankings_are_terriers_on_a_generated_corpus(tmp_path: Path, depth: int) -> None:
    odd = [Doc("odd/1", ""), Doc("odd/2", "Zürich wa0 İwb1 outing"), Doc("odd/3", "the of"), Doc("odd/4", "x" * 50_000)]
    queries = [made_up_query(seed, 8) + " Outing in Zürich controlling." for seed in range(3)]
    assert_same_rankings([*made_up_documents(2000, seed=11), *odd], queries, tmp_path, depth)


def test_rankings_are_terriers_on_the_spot_check(tmp_path: Path) -> None:
    if not SPOT_CHECK.is_dir():
        pytest.skip("the official spot check is not here")
    with gzip.open(SPOT_CHECK / "corpus.jsonl.gz", "rt", encoding="utf-8") as file:
        records = [json.loads(line) for line in file]
    documents = [Doc(str(i), next(r[k] for k in ("default_text", "text") if k in r)) for i, r in enumerate(records)]
    lines = (SPOT_CHECK / "queries.jsonl").read_text(encoding="utf-8").splitlines()
    assert_same_rankings(documents, [json.loads(line)["query"] for line in lines], tmp_path, 1000)
