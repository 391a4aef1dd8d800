"""The fast BM25 against a restatement of Terrier's formula, and against Terrier itself where it is installed."""

import gzip
import json
import math
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pan_scdg.errors import UserError
from pan_scdg.records import Document
from pan_scdg.retrieval import bm25_impact, bm25_terrier
from pan_scdg.retrieval.bm25 import LexicalIndex
from pan_scdg.retrieval.ranking import Ranking, fuse_by_rrf, rank_best
from pan_scdg.retrieval.terrier_jars import start_terrier
from pan_scdg.retrieval.terrier_terms import TermPipeline
from pan_scdg.text.sentences import split_sentences
from tests.retrieval.bm25_corpus import make_documents, make_query, open_new

SPOT_CHECK = Path(__file__).parents[3] / "shared" / "data" / "pan26-spot-check"


def open_fast(documents: Sequence[Document], folder: Path) -> LexicalIndex:
    return open_new(bm25_impact.build_index, bm25_impact.ImpactIndex, documents, folder / "fast")


def open_terrier(documents: Sequence[Document], folder: Path) -> LexicalIndex:
    try:
        start_terrier()
    except UserError as e:
        pytest.skip(str(e))
    return open_new(bm25_terrier.build_index, bm25_terrier.TerrierIndex, documents, folder / "terrier")


def literal_bm25(documents: Sequence[Document], unit: str, limit: int) -> dict[str, float]:
    """Terrier's formula in steps of 1e-9 for the rarest terms of a unit, each once; documents with any of them."""
    k1, b = 1.2, 0.75
    pipeline = TermPipeline()
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


def check_same(ranking: Ranking, expected: Ranking, tolerance: float = 2e-9) -> None:
    assert [r.doc_id for r in ranking] == [r.doc_id for r in expected]
    assert [r.score for r in ranking] == pytest.approx([r.score for r in expected], abs=tolerance)


@pytest.mark.parametrize(("count", "depth"), [(60, 1000), (700, 20), (700, 1), (3, 5), (1, 1)])
@pytest.mark.parametrize("block", [50, 1 << 20])
def test_scores_are_terriers_formula(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, count: int, depth: int, block: int
) -> None:
    monkeypatch.setattr(bm25_impact, "BLOCK_POSTINGS", block)
    documents = make_documents(count, seed=count)
    with open_fast(documents, tmp_path) as index:
        for seed in range(12):
            unit = make_query(seed, 2)
            check_same(index.search_full(unit, 9, depth), rank_best(literal_bm25(documents, unit, 9), depth))


def test_a_query_is_the_fusion_of_its_sentences(tmp_path: Path) -> None:
    documents = make_documents(300, seed=1)
    query = make_query(5, 40) + " --- Unheard things. The and of."
    with open_fast(documents, tmp_path) as index:
        literal = [literal_bm25(documents, sentence, 4) for sentence in split_sentences(query)]
        expected = fuse_by_rrf([rank_best(scores, 50) for scores in literal if scores], 50)
        check_same(index.search_sentences(query, 4, 50), expected, 1e-12)


@pytest.mark.parametrize("depth", [3, 6, 7])
def test_documents_of_nearly_the_same_score(tmp_path: Path, depth: int) -> None:
    alike = [Document(f"d{i:03}", "zebra " * 5 + "filler " * (1000 + i)) for i in range(14)]
    others = [Document(f"e{i:03}", "other") for i in range(40)]
    documents = [*alike, *others, Document("last", "zebra " + "filler " * 9000)]
    with open_fast(documents, tmp_path) as index:
        check_same(index.search_full("zebra", depth=depth), rank_best(literal_bm25(documents, "zebra", 9), depth))


def test_counts_beyond_two_bytes(tmp_path: Path) -> None:
    documents = [Document("a", "word " * 70_000), Document("b", "word other"), *make_documents(5, 1)]
    with open_fast(documents, tmp_path) as index:
        assert dict(index.search_full("word")) == pytest.approx(literal_bm25(documents, "word", 64), abs=2e-9)


def test_ties_across_the_cut_go_by_document_id(tmp_path: Path) -> None:
    documents = [Document(doc_id, "same words") for doc_id in ("z", "b", "ä", "a", "B", "10", "9")]
    others = [Document(f"other{i}", "else") for i in range(9)]
    with open_fast([*documents, *others], tmp_path) as index:
        assert [r.doc_id for r in index.search_sentences("same words", depth=4)] == ["10", "9", "B", "a"]


def test_hostile_texts(tmp_path: Path) -> None:
    texts = ["\x00\x07\x1bbell", "w" * 100_000 + " long", "語 \u202e right", "\ud800 lone \udfff", "Zürich", ""]
    documents = [Document(f"doc{i}\ud800\x85\n", text) for i, text in enumerate(texts)]
    with open_fast(documents, tmp_path) as index:
        for word, i in (("bell", 0), ("long", 1), ("right", 2), ("lone", 3), ("zürich", 4)):
            assert [r.doc_id for r in index.search_sentences(f"{word}\x00 \ud800")] == [documents[i].doc_id]
        for query in ("", "\x00", "the of", "unheard 語", "w" * 100_000, "12345"):
            assert index.search_sentences(query) == []


@settings(max_examples=20, deadline=None)
@given(st.lists(st.text(max_size=30), min_size=1, max_size=5))
def test_a_document_is_found_by_any_of_its_terms(tmp_path_factory: pytest.TempPathFactory, texts: list[str]) -> None:
    documents = [Document(str(i), text) for i, text in enumerate(texts)]
    with open_fast(documents, tmp_path_factory.mktemp("impact")) as index:
        for document in documents:
            if TermPipeline().count_terms(document.text):
                assert document.doc_id in {r.doc_id for r in index.search_full(document.text)}


@pytest.mark.parametrize("texts", [[""], ["", "the"]])
def test_empty_documents(tmp_path: Path, texts: list[str]) -> None:
    with open_fast([Document(str(i), text) for i, text in enumerate(texts)], tmp_path) as index:
        assert index.search_sentences("words the") == []


def check_engines(documents: Sequence[Document], queries: Sequence[str], folder: Path, depth: int) -> None:
    """Both engines give the same ids and scores."""
    reference = open_terrier(documents, folder)
    with reference, open_fast(documents, folder) as fast:
        for query in queries:
            check_same(fast.search_sentences(query, depth=depth), reference.search_sentences(query, depth=depth), 1e-12)
            check_same(fast.search_full(query, depth=depth), reference.search_full(query, depth=depth), 1e-9)


@pytest.mark.parametrize("depth", [pytest.param(1000, marks=pytest.mark.long), 10])
def test_rankings_are_terriers_on_a_generated_corpus(tmp_path: Path, depth: int) -> None:
    texts = ["", "Zürich wa0 İwb1 outing", "the of", "x" * 50_000, "\ud800 lone \udfff", '"\\u0000{} brace']
    odd = [Document(f"odd\ud800/{i}\x85", text) for i, text in enumerate(texts)]
    signs = '+text^2 -grey #combine:0=9(x) wmodel:PL2 "brace lone"~ wa1'
    queries = [*(make_query(seed, 8) + " Outing in Zürich controlling." for seed in range(3)), signs, "\x00 ...", ""]
    check_engines([*make_documents(2000, seed=11), *odd], queries, tmp_path, depth)


def test_rankings_are_terriers_without_any_term(tmp_path: Path) -> None:
    check_engines([Document("a", ""), Document("b", "the of")], ["words", ""], tmp_path, 10)


def test_rankings_are_terriers_on_the_spot_check(tmp_path: Path) -> None:
    if not SPOT_CHECK.is_dir():
        pytest.skip("the official spot check is not here")
    with gzip.open(SPOT_CHECK / "corpus.jsonl.gz", "rt", encoding="utf-8") as file:
        records = [json.loads(line) for line in file]
    documents = [Document(str(i), r.get("default_text", r.get("text"))) for i, r in enumerate(records)]
    lines = (SPOT_CHECK / "queries.jsonl").read_text(encoding="utf-8").splitlines()
    check_engines(documents, [json.loads(line)["query"] for line in lines], tmp_path, 1000)


@pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")
def test_an_error_while_documents_are_read_is_not_hidden_by_terrier(tmp_path: Path) -> None:
    try:
        start_terrier()
    except UserError as e:
        pytest.skip(str(e))

    def read_some():
        yield Document("a", "text")
        raise ValueError("broken")

    with pytest.raises((UserError, ValueError)):
        bm25_terrier.build_index(read_some(), tmp_path)
