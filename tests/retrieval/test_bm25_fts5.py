"""BM25-Sentence1 on FTS5 against a restatement of SQLite's documented formula."""

import math
import random
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pan_scdg.errors import UserError
from pan_scdg.records import Document as Doc
from pan_scdg.retrieval import bm25_fts5
from pan_scdg.retrieval.bm25_fts5 import DATABASE, Fts5Index, build_index
from pan_scdg.retrieval.ranking import Ranking, fuse_by_rrf, rank_best
from tests.retrieval.bm25_corpus import open_new


def made_up_documents(count: int, seed: int) -> list[Doc]:
    """Texts of words w0 (in nearly all documents) to w59 (rare), of different lengths."""
    rng = random.Random(seed)
    weights = [1 / (rank + 1) for rank in range(60)]
    return [
        Doc(f"doc/{i}", " ".join(f"w{w}" for w in rng.choices(range(60), weights, k=rng.randint(0, 80))))
        for i in range(count)
    ]


def literal_bm25(documents: Sequence[Doc], terms: set[str]) -> dict[str, float]:
    """SQLite's documentation of bm25(), word by word, signs turned; only documents with a term."""
    words = {d.doc_id: d.text.split() for d in documents}
    frequencies = Counter(term for tokens in words.values() for term in set(tokens))
    average = sum(map(len, words.values())) / len(words)
    scores: dict[str, float] = {}
    for doc_id, tokens in words.items():
        counts = Counter(tokens)
        for term in sorted(terms & counts.keys()):
            n = frequencies[term]
            idf = max(math.log((len(words) - n + 0.5) / (n + 0.5)), 1e-6)
            tf = counts[term]
            part = idf * tf * (1.2 + 1) / (tf + 1.2 * (1 - 0.75 + 0.75 * len(tokens) / average))
            scores[doc_id] = scores.get(doc_id, 0.0) + part
    return scores


def open_index(documents: Sequence[Doc], folder: Path) -> Fts5Index:
    index = open_new(build_index, Fts5Index, documents, folder / str(len(list(folder.iterdir()))))
    assert isinstance(index, Fts5Index)
    return index


def search(tmp_path: Path, documents: Sequence[Doc], query: str, terms: int = 64, depth: int = 1000) -> Ranking:
    with open_index(documents, tmp_path) as index:
        return index.search_sentences(query, terms, depth)


@pytest.mark.parametrize(("count", "depth"), [(40, 1000), (300, 20), (300, 1), (3, 5), (2, 1)])
def test_scores_are_sqlites_formula(tmp_path: Path, count: int, depth: int) -> None:
    documents = made_up_documents(count, seed=count)
    with open_index(documents, tmp_path) as index:
        for terms in ({"w0"}, {"w0", "w1", "w40"}, {"w2", "w30", "w55", "absent"}, {f"w{i}" for i in range(50)}):
            found = index.search_full(" ".join(sorted(terms)), depth=depth)
            literal = literal_bm25(documents, terms)
            expected = rank_best(literal, depth) if literal else []
            assert [r.score for r in found] == pytest.approx([r.score for r in expected], rel=1e-9)
            assert dict(found) == pytest.approx({r.doc_id: literal[r.doc_id] for r in found})


def test_passing_over_documents_changes_nothing(tmp_path: Path) -> None:
    """Beyond the depth a search passes over documents that only common words match; a deep one passes over none."""
    documents = made_up_documents(400, seed=7) + [Doc(f"double/{i}", "w0 w1 w1 w50") for i in range(30)]
    rng = random.Random(1)
    queries = [" ".join(f"w{rng.randrange(60)}" for _ in range(rng.randint(2, 15))) for _ in range(40)]
    with open_index(documents, tmp_path) as index:
        every = [index.search_full(query) for query in queries]
        assert [index.search_full(query, depth=10) for query in queries] == [ranking[:10] for ranking in every]
    assert min(map(len, every)) > 10


def test_sentences_are_searched_alone_and_fused_by_rank(tmp_path: Path) -> None:
    documents = [Doc("a", "red apple"), Doc("b", "green pear"), Doc("c", "green apple tart"), Doc("d", "grey stone")]
    first = search(tmp_path, documents, "An apple.")
    second = search(tmp_path, documents, "Green things.")
    assert {r.doc_id for r in first} == {"a", "c"}
    assert {r.doc_id for r in second} == {"b", "c"}
    fused = search(tmp_path, documents, "An apple. Nothing known here. Green things. ---")
    assert fused == fuse_by_rrf([first, second], 1000)


def test_only_the_rarest_terms_are_searched(tmp_path: Path) -> None:
    documents = [Doc("a", "x y z"), Doc("b", "x y"), Doc("c", "x"), Doc("d", "q")]
    # Frequencies: q 1, z 1, y 2, x 3; equal ones by term.
    assert [r.doc_id for r in search(tmp_path, documents, "x x y z q absent", terms=1)] == ["d"]
    assert {r.doc_id for r in search(tmp_path, documents, "x x y z q absent", terms=2)} == {"a", "d"}
    assert len(search(tmp_path, documents, "x x y z q absent", terms=4)) == 4


def test_ties_across_the_cut_go_by_document_id(tmp_path: Path) -> None:
    documents = [Doc(doc_id, "same words") for doc_id in ("z", "b", "ä", "a", "B", "10", "9")] + [Doc("other", "else")]
    found = search(tmp_path, documents, "same words", depth=4)
    assert [r.doc_id for r in found] == ["10", "9", "B", "a"]


def test_query_syntax_and_diacritics_are_only_words(tmp_path: Path) -> None:
    documents = [Doc('a "quoted" id/with * signs', "Zürich NEAR here"), Doc("b", "or and not near"), Doc("c", "text")]
    assert [r.doc_id for r in search(tmp_path, documents, "ZURICH")] == ['a "quoted" id/with * signs']
    assert len(search(tmp_path, documents, '" OR text:* NEAR( ) AND NOT ^here -x')) == 3
    assert search(tmp_path, documents, "") == []
    assert search(tmp_path, documents, "\x00 ... unheard") == []


def test_512_terms_make_one_search(tmp_path: Path) -> None:
    documents = [Doc(f"d{i}", f"word{i}") for i in range(600)]
    found = search(tmp_path, documents, " ".join(f"word{i}" for i in range(600)), terms=512)
    assert len(found) == 512


@settings(max_examples=50, deadline=None)
@given(st.lists(st.text(st.characters(exclude_categories=["Cs"]), max_size=40), min_size=1, max_size=5))
def test_a_document_is_found_by_any_of_its_words(tmp_path_factory: pytest.TempPathFactory, texts: list[str]) -> None:
    documents = [Doc(str(i), text) for i, text in enumerate(texts)]
    with open_index(documents, tmp_path_factory.mktemp("fts")) as index:
        for document, terms in zip(documents, index._words.list_terms([d.text for d in documents])):
            for term in terms:
                assert index._count_documents(term) > 0
                assert document.doc_id in {r.doc_id for r in index._search_terms([term], 1000)}


def test_words_beyond_fts5s_limit_do_no_harm(tmp_path: Path) -> None:
    documents = [Doc("long", "語" * 20_000), Doc("short", "語")]
    assert [r.doc_id for r in search(tmp_path, documents, "語 " + "語" * 20_000)] == ["short"]


def test_empty_corpus_and_empty_documents(tmp_path: Path) -> None:
    assert search(tmp_path, [], "words") == []
    assert [r.doc_id for r in search(tmp_path, [Doc("a", ""), Doc("b", "words")], "words")] == ["b"]


def test_the_texts_are_not_stored(tmp_path: Path) -> None:
    build_index([Doc("a", "Eine GanzBesondere Wendung")], tmp_path)
    assert b"GanzBesondere" not in (tmp_path / DATABASE).read_bytes()


@pytest.mark.parametrize("content", [None, b"no database " * 100, b""])
def test_a_file_that_is_no_index_is_the_users_error(tmp_path: Path, content: bytes | None) -> None:
    folder = tmp_path / "odd # %3F"
    folder.mkdir()
    if content is not None:
        (folder / DATABASE).write_bytes(content)
    with pytest.raises(UserError, match=r"odd # %3F.*Delete it and run again"):
        Fts5Index(folder)


def test_sqlite_without_full_text_search_is_explained(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bm25_fts5, "_TABLE", "CREATE VIRTUAL TABLE {} USING no_such_module(text)")
    with pytest.raises(UserError, match=r"FTS5.*no such module.*Use a Python"):
        build_index([], tmp_path)


def test_paths_with_signs(tmp_path: Path) -> None:
    folder = tmp_path / "100% #1?"
    folder.mkdir()
    assert [r.doc_id for r in search(folder, [Doc("a", "x"), Doc("b", "y")], "y")] == ["b"]


def test_the_whole_query_is_ranked_by_the_bm25_of_its_rarest_terms(tmp_path: Path) -> None:
    documents = made_up_documents(200, 5)
    query = " ".join(f"w{w}" for w in (0, 3, 7, 20, 41, 58, 59))
    frequencies = Counter(term for d in documents for term in set(d.text.split()))
    indexed = sorted((frequencies[t], t) for t in set(query.split()) if frequencies[t])
    with open_index(documents, tmp_path) as index:
        found = index.search_full(query, 4, 30)
    expected = rank_best(literal_bm25(documents, {term for _, term in indexed[:4]}), 30)
    assert [d for d, _ in found] == [d for d, _ in expected]
    assert [s for _, s in found] == pytest.approx([s for _, s in expected], rel=1e-9)
