"""PyTerrier's BM25 against a restatement of its formula. Skipped where Terrier's jars or Java are not installed."""

import json
import math
import random
import shutil
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import pytest
from pan_scdg.retrieval.bm25.terrier import TerrierIndex, build_index

from pan_scdg.errors import UserError
from pan_scdg.models.terrier_jars import start_terrier
from pan_scdg.profile import Bm25Settings
from pan_scdg.retrieval.bm25 import terrier as bm25_terrier
from pan_scdg.retrieval.ranking import Ranking, fuse_by_rrf, rank_best


class Doc(NamedTuple):
    doc_id: str
    text: str


@pytest.fixture(scope="module", autouse=True)
def _terrier() -> None:
    try:
        start_terrier()
    except UserError as e:
        pytest.skip(str(e))


def made_up_documents(count: int, seed: int) -> list[Doc]:
    """Texts of words wa (in nearly all documents) to wx7 (rare), none of which is stopped or stemmed."""
    rng = random.Random(seed)
    words = [f"w{c}{d}" for c in "abcdfgk" for d in range(8)]
    weights = [1 / (rank + 1) for rank in range(len(words))]
    return [Doc(f"doc/{i}", " ".join(rng.choices(words, weights, k=rng.randint(0, 80)))) for i in range(count)]


def literal_bm25(documents: Sequence[Doc], terms: set[str]) -> dict[str, float]:
    """The formula that the design notes give for Terrier, each term once in the query; documents with any term."""
    k1, b = 1.2, 0.75
    words = {d.doc_id: d.text.split() for d in documents}
    average = sum(map(len, words.values())) / len(words)
    scores: dict[str, float] = {}
    for term in terms:
        n = sum(term in tokens for tokens in words.values())
        for doc_id, tokens in words.items():
            tf = Counter(tokens)[term]
            if tf:
                idf = math.log2((len(words) - n + 0.5) / (n + 0.5))
                part = idf * (k1 + 1) * tf / (k1 * ((1 - b) + b * len(tokens) / average) + tf)
                scores[doc_id] = scores.get(doc_id, 0.0) + part
    return scores


def search(tmp_path: Path, documents: Sequence[Doc], query: str, **settings: int) -> Ranking:
    build_index(documents, tmp_path / "index")
    with TerrierIndex(tmp_path / "index", Bm25Settings(engine="terrier", **settings)) as index:
        return index.search_sentences(query)


def test_scores_are_terriers_formula(tmp_path: Path) -> None:
    documents = made_up_documents(200, seed=1)
    build_index(documents, tmp_path / "index")
    for depth in (1000, 20, 1):
        with TerrierIndex(tmp_path / "index", Bm25Settings(engine="terrier", depth=depth)) as index:
            for terms in ({"wa0"}, {"wa0", "wa1", "wk7"}, {"wa2", "wd3", "wg5", "absent"}):
                literal = {i: round(s, 9) for i, s in literal_bm25(documents, terms).items()}
                found = index.search_full(" ".join(terms))
                assert [r.doc_id for r in found] == [r.doc_id for r in rank_best(literal, depth)]
                assert dict(found) == pytest.approx({r.doc_id: literal[r.doc_id] for r in found}, abs=2e-9)


def test_sentences_are_searched_alone_and_fused_by_rank(tmp_path: Path) -> None:
    documents = [Doc("a", "red apple"), Doc("b", "green pear"), Doc("c", "green apple tart"), Doc("d", "grey stone")]
    first, second = search(tmp_path, documents, "An apple."), search(tmp_path, documents, "Green colours.")
    assert {r.doc_id for r in first} == {"a", "c"}
    assert {r.doc_id for r in second} == {"b", "c"}
    fused = search(tmp_path, documents, "An apple. Unheard words. Green colours. ---")
    assert fused == fuse_by_rrf([first, second], 1000)


def test_only_the_rarest_terms_are_searched(tmp_path: Path) -> None:
    documents = [Doc("a", "xx yy zz"), Doc("b", "xx yy"), Doc("c", "xx"), Doc("d", "qq")]
    assert [r.doc_id for r in search(tmp_path, documents, "xx xx yy zz qq absent", terms=1)] == ["d"]
    assert {r.doc_id for r in search(tmp_path, documents, "xx xx yy zz qq absent", terms=2)} == {"a", "d"}
    assert len(search(tmp_path, documents, "xx xx yy zz qq absent", terms=4)) == 4


def test_terms_are_not_stemmed_twice(tmp_path: Path) -> None:
    # "outing" becomes "out", a stopword; "accelerations" becomes "acceler", and a second time "accel".
    documents = [Doc("a", "outing"), Doc("b", "accelerations"), Doc("c", "accel")]
    for word, doc_id in (("outing", "a"), ("accelerations", "b"), ("accel", "c")):
        assert [r.doc_id for r in search(tmp_path, documents, word)] == [doc_id]


def test_ties_across_the_cut_go_by_document_id(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bm25_terrier, "MARGIN", 1)
    equal = [Doc(f"{i * 37 % 100:03}", "gold coins") for i in range(100)]
    others = [Doc(f"other{i}", "silver spoons") for i in range(150)]
    found = search(tmp_path, [*equal, Doc("best", "gold coins gold coins"), *others], "gold coins", depth=4)
    assert [r.doc_id for r in found] == ["best", "000", "001", "002"]


def test_query_syntax_and_letters_beyond_ascii_are_only_words(tmp_path: Path) -> None:
    documents = [Doc('a "quoted" id/with * signs\n', "Zürich NEAR here"), Doc("b", "grey AND words"), Doc("ü", "text")]
    assert [r.doc_id for r in search(tmp_path, documents, "zürich")] == [documents[0].doc_id]
    assert [
        r.doc_id for r in search(tmp_path, documents, '+text^2 -grey #combine:0=9(x) wmodel:PL2 "grey words"~')
    ] == [
        "b",
        "ü",
    ]
    assert search(tmp_path, documents, "") == []
    assert search(tmp_path, documents, "\x00 ... unheard") == []


def test_hostile_texts(tmp_path: Path) -> None:
    texts = [
        "\x00\x07\x1bbell",
        "w" * 100_000 + " long",
        "語 \u202e right",
        "\ud800 lone \udfff",
        '"\\u0000{} brace',
        "",
    ]
    documents = [Doc(f"doc{i}\ud800\x85", text) for i, text in enumerate(texts)]
    for word, i in (("bell", 0), ("long", 1), ("right", 2), ("lone", 3), ("brace", 4)):
        assert [r.doc_id for r in search(tmp_path, documents, f"{word}\x00 \ud800")] == [documents[i].doc_id]


def test_empty_documents(tmp_path: Path) -> None:
    assert search(tmp_path, [Doc("a", "")], "words") == []
    found = search(tmp_path, [Doc("a", ""), Doc("b", "words"), Doc("c", "the of"), Doc("d", "")], "words")
    assert [r.doc_id for r in found] == ["b"]


def test_nothing_is_left_when_building_fails(tmp_path: Path) -> None:
    def broken():
        yield Doc("a", "text")
        raise UserError("bad line", "mend it")

    (tmp_path / "index.part").mkdir()
    with pytest.raises(UserError, match="bad line"):
        build_index(broken(), tmp_path / "index")
    assert list(tmp_path.iterdir()) == []


def test_what_is_no_index_is_refused(tmp_path: Path) -> None:
    build_index(made_up_documents(5, seed=2), tmp_path / "good")
    for name, damage in (
        ("missing", lambda folder: shutil.rmtree(folder)),
        ("manifest", lambda folder: (folder / "manifest.json").write_text("{}")),
        ("ids", lambda folder: (folder / "documents.jsonl").write_text('"a"\n"b')),
        ("count", lambda folder: _fewer(folder)),
        ("properties", lambda folder: (folder / "index" / "data.properties").unlink()),
    ):
        shutil.copytree(tmp_path / "good", tmp_path / name)
        damage(tmp_path / name)
        with pytest.raises(UserError, match=rf"{name}.*delete it and run again"):
            TerrierIndex(tmp_path / name, Bm25Settings(engine="terrier"))


def _fewer(folder: Path) -> None:
    """An index whose ids are those of another corpus."""
    manifest = json.loads((folder / "manifest.json").read_text())
    (folder / "manifest.json").write_text(json.dumps(manifest | {"documents": 1}))
    (folder / "documents.jsonl").write_text('"a"\n')
