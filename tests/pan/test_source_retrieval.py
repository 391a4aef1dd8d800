import gzip
import hashlib
import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pan_scdg.errors import UserError
from pan_scdg.normal_form import compose
from pan_scdg.notices import Notices
from pan_scdg.pan import source_retrieval
from pan_scdg.pan.inputs import hash_input
from pan_scdg.pan.source_retrieval import Corpus, find_corpus, read_qrels, read_queries, stream_corpus
from pan_scdg.pan.untrusted import stream_lines
from pan_scdg.records import Document, Query

Write = Callable[..., Path]


def jsonl(*records: object) -> str:
    return "".join(json.dumps(r) + "\n" for r in records)


def test_spot_check(shared: Path) -> None:
    directory = shared / "pan26-spot-check"
    documents = list(stream_corpus(directory, Notices(strict=True)))
    queries = read_queries(directory, Notices(strict=True))
    assert len(documents) == 10
    assert {"1803.04393", "hep-ph/0407230"} <= {d.doc_id for d in documents}
    assert [q.query_id for q in queries] == ["1", "2", "3", "4"]
    assert queries[0].text == queries[2].text
    assert {len(q.text) for q in queries} == {10283, 14555}
    qrels = read_qrels(directory / "qrels.txt")
    assert qrels["1"]["1803.04393"] == 1
    assert qrels["2"]["hep-ph/0407230"] == 2


def test_agrees_with_the_official_reader(write: Write, monkeypatch: pytest.MonkeyPatch) -> None:
    loader = pytest.importorskip("tira.third_party_integrations")
    if loader.ir_datasets is None:
        pytest.skip("the optional ir_datasets is not installed")
    monkeypatch.delenv("TIRA_INPUT_DATASET", raising=False)
    directory = write(
        {
            "corpus.jsonl.gz": gzip.compress(
                jsonl({"doc_id": "a/1", "default_text": "é\r\n\u2028"}, {"docno": "b", "text": "x"}).encode()
            ),
            "queries.jsonl": jsonl({"qid": "1", "query": "q\u00a0 1"}, {"qid": "2", "query": "q2"}),
        }
    )
    official = loader.ir_datasets.load(str(directory))
    documents = list(stream_corpus(directory, Notices()))
    assert [(d.doc_id, d.default_text()) for d in official.docs_iter()] == [
        (d.doc_id, d.original or d.text) for d in documents
    ]
    queries = read_queries(directory, Notices())
    assert [(q.query_id, q.default_text()) for q in official.queries_iter()] == [q[:2] for q in queries]


@pytest.mark.parametrize("name", ["documents.jsonl.gz", "corpus.jsonl.gz", "documents.jsonl", "corpus.jsonl"])
@pytest.mark.parametrize("id_field", ["docno", "docid", "doc_id"])
@pytest.mark.parametrize("text_field", ["text", "default_text"])
def test_every_name_and_field(write: Write, name: str, id_field: str, text_field: str) -> None:
    data = jsonl({id_field: "hep-ph/1", text_field: "a"}, {id_field: 2, text_field: "b"}).encode()
    directory = write({name: gzip.compress(data) if name.endswith(".gz") else data})
    assert list(stream_corpus(directory, Notices(strict=True))) == [Document("hep-ph/1", "a"), Document("2", "b")]


def test_the_corpus_is_streamed(write: Write, monkeypatch: pytest.MonkeyPatch) -> None:
    directory = write({"corpus.jsonl": jsonl(*({"doc_id": str(i), "text": "t"} for i in range(5)))})
    read: list[int] = []

    def watched(path: Path, *limits: int, **options: Any) -> Iterator[tuple[int, str]]:
        for number, line in stream_lines(path, *limits, **options):
            read.append(number)
            yield number, line

    monkeypatch.setattr(source_retrieval, "stream_lines", watched)
    documents = stream_corpus(directory, Notices())
    assert next(documents).doc_id == "0"
    assert read == [1]


def test_what_is_odd_is_counted(write: Write) -> None:
    notices = Notices()
    directory = write(
        {
            "corpus.jsonl": jsonl(
                {"doc_id": "a", "text": "x"}, {"doc_id": "b", "text": " "}, {"docno": "a", "text": "x"}
            )
            + "\n"
            + jsonl({"doc_id": "c", "text": "half \ud83d and whole 😀"})
        }
    )
    assert list(stream_corpus(directory, notices)) == [
        Document("a", "x"),
        Document("b", " "),
        Document("c", "half \ufffd and whole 😀"),
    ]
    path = directory / "corpus.jsonl"
    assert notices.list_warnings() == [
        f"warning: empty corpus document: 1 time, first at {path}:2",
        f"warning: duplicate corpus document, skipped: 1 time, first at {path}:3",
        f"warning: blank line in corpus.jsonl, skipped: 1 time, first at {path}:4",
        f"warning: unpaired surrogate in a text, read as U+FFFD: 1 time, first at {path}:5",
    ]
    with pytest.raises(UserError, match="--strict"):
        list(stream_corpus(directory, Notices(strict=True)))


def test_missing_and_several_corpora(write: Write) -> None:
    directory = write({"x": ""})
    assert find_corpus(directory) is None
    with pytest.raises(UserError, match=r"expected one of documents\.jsonl\.gz, corpus\.jsonl\.gz"):
        list(stream_corpus(directory, Notices()))
    with pytest.raises(UserError, match=r"several corpus files: documents\.jsonl, corpus\.jsonl"):
        find_corpus(write({"documents.jsonl": "", "corpus.jsonl": ""}))


def test_queries(write: Write) -> None:
    notices = Notices()
    directory = write({"queries.jsonl": jsonl({"qid": "1", "query": "a"}, {"query_id": 2, "query": "a"})})
    assert read_queries(directory, notices) == [Query("1", "a"), Query("2", "a")]
    assert "fewer than 3 queries: TIRA's check will refuse this output" in notices.list_warnings()[0]


def test_qrels(write: Write) -> None:
    directory = write({"qrels.txt": "\ufeff1 0 hep-ph/1 2\n1 0 b 0\n# comment\n#note\n2\t0\ta\u00a01\t-1\n\n"})
    assert read_qrels(directory / "qrels.txt") == {"1": {"hep-ph/1": 2, "b": 0}, "2": {"a\u00a01": -1}}


IDS = st.lists(st.text("abcé./-", min_size=1, max_size=8).filter(lambda x: x.strip(".") == x), unique=True, min_size=1)


@settings(max_examples=30, deadline=None)
@given(ids=IDS, data=st.data())
def test_a_corpus_has_the_documents_of_the_file_in_their_order(
    tmp_path_factory: pytest.TempPathFactory, ids: list[str], data: st.DataObject
) -> None:
    documents = [Document(name, *compose(data.draw(st.text(st.characters(exclude_categories=["Cs"]))))) for name in ids]
    folder = tmp_path_factory.mktemp("corpus")
    stored = gzip.compress(jsonl(*({"docno": d.doc_id, "text": d.original or d.text} for d in documents)).encode())
    (folder / "corpus.jsonl.gz").write_bytes(stored)
    (folder / "queries.jsonl").write_text('{"qid": "q", "query": "text"}\n')
    corpus = Corpus(folder, Notices())
    assert corpus.digest == hashlib.sha256(stored).hexdigest()
    assert hash_input(folder, "retrieval", corpus.digest) == hash_input(folder, "retrieval")
    assert (list(corpus), corpus.ids, len(corpus)) == (documents, set(ids), len(ids))
    assert list(zip(corpus, corpus, strict=True)) == [(d, d) for d in documents]
    chosen = set(data.draw(st.lists(st.sampled_from(ids)))) | {"unknown"}
    assert list(corpus.select(chosen)) == [d for d in documents if d.doc_id in chosen]
    groups = [chosen, set(ids) - chosen]
    in_order = [(d.doc_id, d.text) for group in groups for d in documents if d.doc_id in group]
    assert [(d.doc_id, d.text) for d in corpus.read_in_order(groups, folder / "spool")] == in_order


def test_queries_that_are_documents_are_found(write: Write) -> None:
    documents = ("The  cat\nsat.", "A dog.", "A bird.")
    lines = [json.dumps({"docno": str(i), "text": text}) for i, text in enumerate(documents)]
    folder = write({"corpus.jsonl": "\n".join(lines)})
    queries = [Query("q1", "The cat sat."), Query("q2", "The cat"), Query("q3", "A dog. ")]
    assert Corpus(folder, Notices(), queries=queries).queries_in_it == ["q1", "q3"]
