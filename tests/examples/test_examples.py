"""The examples are what their README says, and the official checks take them."""

import re
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

import pytest

from pan_scdg.notices import Notices
from pan_scdg.pan.inputs import detect_task
from pan_scdg.pan.source_retrieval import read_qrels, read_queries, stream_corpus
from pan_scdg.pan.text_alignment import PairCorpus, read_pairs, read_text
from pan_scdg.pan.truth import find_truth, read_truth
from pan_scdg.records import Passage, Query, TextFile

EXAMPLES = Path(__file__).parents[2] / "examples"
RETRIEVAL = EXAMPLES / "pan26-retrieval"
HALVES = ("calibration", "test")
LONG_SPAN = 2000  # characters of a source


class Half(NamedTuple):
    """One half of the pairs, read by this project's own readers; anything odd in it would raise."""

    corpus: PairCorpus
    truth: dict[tuple[str, str], tuple[Passage, ...]]

    @property
    def passages(self) -> list[Passage]:
        return [p for found in self.truth.values() for p in found]

    @property
    def files(self) -> dict[str, TextFile]:
        return {f.doc_id: f for p in self.corpus.pairs for f in (p.suspicious, p.source)}


@pytest.fixture(scope="module")
def halves() -> dict[str, Half]:
    return {name: _half(EXAMPLES / "pan25-pairs" / name) for name in HALVES}


def _half(directory: Path) -> Half:
    corpus = read_pairs(directory, Notices(strict=True))
    truth = find_truth(directory)
    assert truth == directory / "truth"
    return Half(corpus, read_truth(truth, corpus.pairs))


@pytest.mark.parametrize("name", HALVES)
def test_each_half_has_as_many_positive_as_negative_pairs(name: str, halves: Mapping[str, Half]) -> None:
    half = halves[name]
    assert len(half.corpus.pairs) == len(half.truth) == 24
    assert sum(map(bool, half.truth.values())) == 12
    # every document lies there for a pair, and every truth file belongs to one
    directory = EXAMPLES / "pan25-pairs" / name
    assert {p.path for p in half.files.values()} == {*directory.glob("susp/*"), *directory.glob("src/*")}
    assert len(list((directory / "truth").iterdir())) == 24


@pytest.mark.parametrize("name", HALVES)
def test_passages_lie_inside_both_texts_and_do_not_overlap(name: str, halves: Mapping[str, Half]) -> None:
    for pair in halves[name].corpus.pairs:
        passages = halves[name].truth[pair.suspicious.doc_id, pair.source.doc_id]
        target, source = read_text(pair.suspicious), read_text(pair.source)
        for spans, text in (
            ([(p.target.begin, p.target.length) for p in passages], target),
            ([(p.source.begin, p.source.length) for p in passages], source),
        ):
            ordered = sorted((start, start + length) for start, length in spans)
            assert all(0 <= start < end <= len(text) for start, end in ordered)
            assert all(end <= start for (_, end), (start, _) in zip(ordered, ordered[1:]))
            assert all(text[start:end].strip() for start, end in ordered)
        assert sum(p.target.length for p in passages) < len(target), "there is new text around the reused"


def test_one_to_four_passages_in_three_strengths(halves: Mapping[str, Half]) -> None:
    reused = [found for half in halves.values() for found in half.truth.values() if found]
    assert {1 <= len(found) <= 4 for found in reused} == {True}
    for half in halves.values():
        strengths = Counter(p.obfuscation for p in half.passages)
        assert set(strengths) == {"simple", "medium", "hard"}
        assert min(strengths.values()) >= 5
    assert sum(map(len, reused)) == 62


def test_enough_positives_reuse_a_long_span_of_their_single_source(halves: Mapping[str, Half]) -> None:
    passages = [p for half in halves.values() for p in half.passages]
    assert sum(p.source.length >= LONG_SPAN for p in passages) == 23
    suitable = 0
    for half in halves.values():
        sources = Counter(suspicious for (suspicious, _), found in half.truth.items() if found)
        for (suspicious, _), found in half.truth.items():
            suitable += sources[suspicious] == 1 and any(p.source.length >= LONG_SPAN for p in found)
    assert suitable >= 12


def test_no_document_is_in_both_halves(halves: Mapping[str, Half]) -> None:
    first, second = (half.files for half in halves.values())
    assert not set(first) & set(second)
    texts = [read_text(file) for file in (*first.values(), *second.values())]
    assert len(set(texts)) == len(texts), "nor under another name"


@pytest.fixture(scope="module")
def documents() -> dict[str, str]:
    return {d.doc_id: d.text for d in stream_corpus(RETRIEVAL, Notices(strict=True))}


@pytest.fixture(scope="module")
def queries() -> list[Query]:
    return read_queries(RETRIEVAL, Notices(strict=True))


@pytest.fixture(scope="module")
def qrels() -> dict[str, dict[str, int]]:
    return read_qrels(RETRIEVAL / "qrels.txt")


def test_the_corpus_has_48_documents_of_moderate_length(documents: Mapping[str, str]) -> None:
    assert len(documents) == 48
    assert all(250 <= len(text.split()) <= 600 for text in documents.values())
    assert any("/" in doc_id for doc_id in documents), "ids with a slash are part of the format"
    assert len(set(documents.values())) == 48


def test_every_query_has_two_to_four_graded_sources(
    documents: Mapping[str, str], queries: list[Query], qrels: Mapping[str, Mapping[str, int]]
) -> None:
    assert len(queries) == 15
    assert {q.query_id for q in queries} == set(qrels)
    assert {2 <= len(grades) <= 4 for grades in qrels.values()} == {True}
    assert sum(map(len, qrels.values())) == 44
    assert {g for grades in qrels.values() for g in grades.values()} == {1, 2, 3}
    assert {d for grades in qrels.values() for d in grades} <= set(documents)


def _four_grams(text: str) -> list[tuple[str, ...]]:
    words = re.findall(r"\w+", text.lower())
    return list(zip(*(words[i:] for i in range(4))))


def test_queries_hardly_copy_their_sources(
    documents: Mapping[str, str], queries: list[Query], qrels: Mapping[str, Mapping[str, int]]
) -> None:
    for query in queries:
        own = _four_grams(query.text)
        known = {gram for doc_id in qrels[query.query_id] for gram in _four_grams(documents[doc_id])}
        assert sum(gram in known for gram in own) / len(own) < 0.00135, query.query_id


def test_the_readme_states_these_counts() -> None:
    text = (EXAMPLES / "README.md").read_text(encoding="utf-8")
    assert text.count("| 24 pairs, 12 positive |") == 2
    assert "| 48 sources, 15 queries, 44 judgments |" in text
    assert "62 passages, 23 of them" in " ".join(text.split())


@pytest.mark.parametrize(
    ("directory", "task"),
    [("pan25-pairs/calibration", "pairs"), ("pan25-pairs/test", "pairs"), ("pan26-retrieval", "retrieval")],
)
def test_the_job_is_found_out(directory: str, task: str) -> None:
    assert detect_task(EXAMPLES / directory) == task


@pytest.mark.parametrize(
    ("directory", "form"),
    [
        *((f"pan25-pairs/{half}", "text-alignment-corpus") for half in HALVES),
        *((f"pan25-pairs/{half}/truth", "text-alignment-features") for half in HALVES),
        ("pan26-retrieval", "lsr-benchmark-inputs"),
        ("pan26-retrieval", "qrels.txt"),
    ],
)
def test_the_official_check_accepts_it(directory: str, form: str) -> None:
    tira = pytest.importorskip("tira.check_format", reason="the package tira is not installed")
    code, message = tira.check_format(EXAMPLES / directory, form)
    assert code.value == 0, message
