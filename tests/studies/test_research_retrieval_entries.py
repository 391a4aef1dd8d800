"""The rows of the retrieval study: the paper's eight, the same without its models, and what the user adds."""

from pathlib import Path

import pytest

from pan_scdg.errors import UserError
from pan_scdg.models.needs import find_needs
from pan_scdg.profile import load_profile
from studies.retrieval.rows import Ranking, choose_rows, list_defaults, make_profile_row

PAPER = [
    ("BM25-full", ("bm25-full",), "none", False),
    ("BM25-sentence", ("bm25-sentence",), "none", False),
    ("BGE-M3 Dense-full", ("dense-full",), "none", False),
    ("BGE-M3 Dense-sentence", ("dense-sentence",), "none", False),
    ("Four-way CombSUM", ("bm25-full", "bm25-sentence", "dense-full", "dense-sentence"), "combsum", False),
    ("Linq sentence-to-chunk dense", ("dense-sentence",), "none", False),
    ("Three-route RRF", ("bm25-sentence", "dense-sentence", "abstract"), "rrf", True),
    ("DAAC", ("bm25-sentence", "dense-sentence", "abstract"), "daac", True),
]


def shape(entry: Ranking) -> tuple[object, ...]:
    assert entry.settings is not None
    return entry.name, entry.settings.routes, entry.settings.fusion, entry.reranked


def test_a_profile_of_the_papers_family_has_the_papers_rows() -> None:
    entries = list_defaults(load_profile("pan26-qwen3-8b"))
    assert [shape(entry) for entry in entries] == PAPER
    encoders = [entry.settings.dense.model for entry in entries if entry.settings and entry.settings.dense]
    assert encoders == ["bge-m3"] * 3 + ["Linq-Embed-Mistral"] * 3
    assert all(entry.settings is not None and entry.settings.depth == 1000 for entry in entries)


@pytest.mark.parametrize("name", ["offline", "pan26-qwen3-0.6b"])
def test_others_have_the_same_rows_with_the_models_they_have(name: str) -> None:
    profile = load_profile(name)
    found = [shape(entry) for entry in list_defaults(profile)]
    expected = [(row.replace("BGE-M3 ", ""), *rest) for row, *rest in PAPER if not row.startswith("Linq")]
    assert found == expected
    needed = set(find_needs(profile).models)
    for entry in list_defaults(profile):
        assert set(find_needs(profile.model_copy(update={"retrieval": entry.settings})).models) <= needed


def test_without_dense_routes_or_a_language_model_there_is_less() -> None:
    lexical = load_profile("pan26-bm25-full")
    assert [(e.name, e.reranked) for e in list_defaults(lexical)] == [("BM25-full", False), ("BM25-sentence", False)]
    with_model = lexical.model_copy(update={"model": load_profile("offline").model})
    assert [e.reranked for e in list_defaults(with_model)] == [False, True]


def test_the_row_of_a_profile_is_reranked_where_the_profile_does_so_with_the_same_model() -> None:
    ours = load_profile("pan26-qwen3-8b")
    assert make_profile_row(load_profile("pan26-rrf-qwen3-8b"), ours).reranked
    assert not make_profile_row(load_profile("pan26-rrf"), ours).reranked
    with pytest.raises(UserError, match="reranks with Qwen3-8B-Base, but the gains are those of scdg-mini"):
        make_profile_row(load_profile("pan26-rrf-qwen3-8b"), load_profile("offline"))
    with pytest.raises(UserError, match="retrieval"):
        make_profile_row(load_profile("pan25-bm25"), ours)


def test_the_grid_is_searched_on_rrf_or_where_the_user_says() -> None:
    firsts = list_defaults(load_profile("offline"))
    entries, where = choose_rows(firsts, {"theirs": Path("run.txt")}, [], None)
    assert (entries[0].name, entries[0].reranked, where) == ("theirs", False, "Three-route RRF")
    entries, where = choose_rows(firsts, {"theirs": Path("run.txt")}, ["BM25-full"], "theirs")
    assert ([e.name for e in entries if e.reranked], where) == (
        ["theirs", "BM25-full", "Three-route RRF", "DAAC"],
        "theirs",
    )
    assert choose_rows(firsts[:2], {}, ["BM25-sentence"], None)[1] == "BM25-sentence"
    assert choose_rows(firsts[:2], {}, [], None)[1] is None


def test_names_that_are_not_clear_are_refused() -> None:
    firsts = list_defaults(load_profile("offline"))
    with pytest.raises(UserError, match="two rows are named 'DAAC'"):
        choose_rows(firsts, {"DAAC": Path("x")}, [], None)
    with pytest.raises(UserError, match="unknown row 'RRF'.*one of BM25-full"):
        choose_rows(firsts, {}, [], "RRF")
    with pytest.raises(UserError, match="no ranking to study was given"):
        choose_rows([], {}, [], None)
