"""The corpus in a temporary file has the documents of the input, whatever they are."""

import gzip
import hashlib
import json
import resource
import tempfile
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pan_scdg.errors import UserError
from pan_scdg.notices import Notices
from pan_scdg.pan.source_retrieval import Corpus
from pan_scdg.records import Document

Write = Callable[..., Path]
IDS = st.lists(st.text("abcé./-", min_size=1, max_size=8).filter(lambda x: x.strip(".") == x), unique=True, min_size=1)


def write_corpus(folder: Path, documents: list[Document]) -> bytes:
    lines = "".join(json.dumps({"docno": d.doc_id, "text": d.text}) + "\n" for d in documents)
    data = gzip.compress(lines.encode())
    (folder / "corpus.jsonl.gz").write_bytes(data)
    return data


@given(ids=IDS, data=st.data())
def test_documents_come_back_in_the_order_of_the_file(
    tmp_path_factory: pytest.TempPathFactory, ids: list[str], data: st.DataObject
) -> None:
    documents = [Document(name, data.draw(st.text(st.characters(exclude_categories=["Cs"])))) for name in ids]
    folder = tmp_path_factory.mktemp("corpus")
    written = write_corpus(folder, documents)
    corpus = Corpus(folder, Notices())
    assert corpus.digest == hashlib.sha256(written).hexdigest()
    assert (list(corpus), corpus.ids, len(corpus)) == (documents, set(ids), len(ids))
    wanted = set(data.draw(st.lists(st.sampled_from(ids)))) | {"unknown"}
    assert list(corpus.select(wanted)) == [d for d in documents if d.doc_id in wanted]


def test_two_readers_do_not_disturb_each_other(tmp_path: Path) -> None:
    documents = [Document(str(number), f"text {number} " * number) for number in range(50)]
    write_corpus(tmp_path, documents)
    corpus = Corpus(tmp_path, Notices())
    assert list(zip(corpus, corpus, strict=True)) == [(d, d) for d in documents]


def test_a_bad_line_is_refused_before_anything_else(write: Write) -> None:
    folder = write({"corpus.jsonl": '{"docno": "1", "text": "a"}\n{"docno": "2"}\n'})
    with pytest.raises(UserError, match="no text"):
        Corpus(folder, Notices())


def test_a_full_temporary_folder_is_named(tmp_path: Path) -> None:
    write_corpus(tmp_path, [Document("1", "".join(map(chr, range(256, 5000))))])
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (100, before[1]))
    try:
        with pytest.raises(OSError, match="File too large") as told:
            Corpus(tmp_path, Notices())
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
    assert told.value.filename == tempfile.gettempdir()
