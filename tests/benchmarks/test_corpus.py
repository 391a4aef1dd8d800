"""The generated corpus: the same for everyone, and of the shape it promises."""

import hashlib
from itertools import islice
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner

from benchmarks import corpus
from pan_scdg.notices import Notices
from pan_scdg.pan.source_retrieval import read_qrels, read_queries, stream_corpus
from pan_scdg.retrieval.sentences import split_sentences
from pan_scdg.retrieval.units import extract_title_abstract


def test_a_document_depends_on_its_number_and_the_seed_alone():
    three = list(corpus.generate(3, seed=7))
    assert list(islice(corpus.generate(86_822, seed=7), 3)) == three
    assert corpus.document(2, seed=7) == three[2]
    assert corpus.document(2, seed=8).text != three[2].text


def test_the_texts_are_these_on_every_machine():
    texts = "\f".join([corpus.document(5).text, corpus.queries(1, 100)[0].text])
    assert hashlib.sha256(texts.encode()).hexdigest()[:16] == "c30fdf6a2a034a03"


def test_documents_look_like_papers():
    documents = list(corpus.generate(200))
    words = [len(document.text.split()) for document in documents]
    assert 5000 < np.mean(words) < 7000
    assert 0.5 < np.std(np.log(words)) < 0.7
    text = documents[0].text
    title, blank, heading, abstract = text.split("\n")[:4]
    assert (blank, heading) == ("", "Abstract")
    assert extract_title_abstract(text).startswith(f"{title}\n{abstract[:100]}")
    assert [line for line in text.split("\n") if line in corpus.SECTIONS] == list(corpus.SECTIONS)
    assert 20 < np.mean([len(sentence.split()) for sentence in split_sentences(text)]) < 24


def test_words_follow_zipf():
    counts: dict[str, int] = {}
    for document in corpus.generate(50):
        for word in document.text.split():
            counts[word] = counts.get(word, 0) + 1
    often = sorted(counts.values(), reverse=True)
    assert often[0] / often[9] == pytest.approx(10, rel=0.3)
    assert sum(count == 1 for count in often) > len(often) / 4


def test_forms_and_ids_are_all_different():
    strings = corpus._vocabulary().strings[: corpus.FORMS]
    assert len(set(strings)) == corpus.FORMS
    assert len({corpus.document_id(i) for i in range(corpus.MOST_DOCUMENTS)}) == corpus.MOST_DOCUMENTS
    with pytest.raises(ValueError, match="at most"):
        next(corpus.generate(corpus.MOST_DOCUMENTS + 1))


def test_queries_are_made_of_their_sources():
    documents = list(corpus.generate(30))
    for number, query in enumerate(corpus.queries(3, 30)):
        assert 130 < len(split_sentences(query.text)) < 180
        assert query.text.startswith("# ")
        taken = corpus.sources(number, 30)
        assert 2 <= len(set(taken)) <= 5
        shared = [len(_pairs(query.text) & _pairs(document.text)) for document in documents]
        assert min(shared[i] for i in taken) > 2 * max(s for i, s in enumerate(shared) if i not in taken)


def _pairs(text: str) -> set[tuple[str, str]]:
    """Neighbours of which neither is a function word."""
    words = text.split()
    common = set(corpus.FUNCTION_WORDS.split())
    return {pair for pair in zip(words, words[1:]) if not common.intersection(pair)}


def test_a_corpus_smaller_than_the_sources_wanted():
    assert {len(corpus.sources(number, 1)) for number in range(5)} == {1}


def test_the_written_folder_is_a_retrieval_input(tmp_path: Path):
    options = ["--documents", "12", "--queries", "2", "--output"]
    for folder in ("a", "b"):
        found = CliRunner().invoke(corpus.main, [*options, str(tmp_path / folder)])
        assert found.exit_code == 0, found.output
    assert (tmp_path / "a/corpus.jsonl.gz").read_bytes() == (tmp_path / "b/corpus.jsonl.gz").read_bytes()
    notices = Notices()
    assert list(stream_corpus(tmp_path / "a", notices)) == list(corpus.generate(12))
    assert read_queries(tmp_path / "a", notices) == corpus.queries(2, 12)
    judged = read_qrels(tmp_path / "a/qrels.txt")
    assert judged["q00001"] == {corpus.document_id(i): 1 for i in corpus.sources(1, 12)}
