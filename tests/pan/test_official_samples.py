"""The readers take the official samples, where these are at hand; they are no part of this repository."""

import hashlib
from collections import Counter
from pathlib import Path

import pytest

from pan_scdg.evaluation.plagdet import compute_plagdet
from pan_scdg.notices import Notices
from pan_scdg.pan.inputs import detect_task
from pan_scdg.pan.source_retrieval import read_qrels, read_queries, stream_corpus
from pan_scdg.pan.text_alignment import read_pairs, read_text
from pan_scdg.pan.truth import find_truth, read_features, read_truth
from pan_scdg.records import DocumentPair, Passage

DATA = Path(__file__).parents[3] / "shared" / "data"
ORIGINAL = {"00004": 133, "00005": 26, "00013": 23}
"""Reused passages of the three sample pairs that hold any (README of the sample: simple, medium and hard together)."""


def _sample(name: str) -> Path:
    if not (DATA / name).is_dir():
        pytest.skip(f"the official sample {name} is not here")
    return DATA / name


@pytest.fixture(scope="module")
def pairs() -> tuple[DocumentPair, ...]:
    notices = Notices(strict=True)
    return read_pairs(_sample("pan25-sample") / "input", notices).pairs


@pytest.fixture(scope="module")
def truth(pairs: tuple[DocumentPair, ...]) -> dict[tuple[str, str], tuple[Passage, ...]]:
    return read_truth(_sample("pan25-sample") / "truth", pairs)


def test_fifteen_pairs_of_five_documents_each(pairs: tuple[DocumentPair, ...]) -> None:
    directory = _sample("pan25-sample") / "input"
    assert detect_task(directory) == "pairs"
    assert find_truth(directory) == (directory.parent / "truth").resolve()
    assert len(pairs) == 15
    assert len({p.suspicious.path for p in pairs}) == len({p.source.path for p in pairs}) == 5


def test_three_pairs_are_positive(truth: dict[tuple[str, str], tuple[Passage, ...]]) -> None:
    reused = {pair: len(found) for pair, found in truth.items() if found}
    assert reused == {(f"suspicious-document{n}", f"source-document{n}"): count for n, count in ORIGINAL.items()}
    strengths = Counter(p.obfuscation for found in truth.values() for p in found)
    assert strengths == {"simple": 106, "medium": 59, "hard": 17}


def test_offsets_are_characters_of_the_texts_as_read(
    pairs: tuple[DocumentPair, ...], truth: dict[tuple[str, str], tuple[Passage, ...]]
) -> None:
    lengths = {}
    for pair in pairs:
        target, source = read_text(pair.suspicious), read_text(pair.source)
        lengths[pair.suspicious.doc_id[-5:]] = len(target)
        for p in truth[pair.suspicious.doc_id, pair.source.doc_id]:
            this = target[p.target.begin : p.target.end]
            other = source[p.source.begin : p.source.end]
            assert (len(this), len(other)) == (p.target.length, p.source.length)
            # paragraphs: cut at white space on both sides, which an offset in bytes would miss
            assert this == this.strip()
            assert other == other.strip()
    assert lengths == {"00004": 174257, "00005": 29211, "00013": 58304, "00038": 49904, "00061": 17765}


def test_the_truth_given_as_detections_is_perfect() -> None:
    spans = read_features(_sample("pan25-sample") / "truth", "plagiarism")
    assert len(spans) == sum(ORIGINAL.values())
    assert compute_plagdet(spans, spans).score == pytest.approx(1.0)


def test_the_spot_check_is_read_whole() -> None:
    directory = _sample("pan26-spot-check")
    assert detect_task(directory) == "retrieval"
    documents = {d.doc_id: d.text for d in stream_corpus(directory, Notices(strict=True))}
    assert {k: len(v) for k, v in documents.items() if not k.startswith("doc-")} == {
        "1803.04393": 2812,
        "hep-ph/0407230": 24571,
    }
    assert len(documents) == 10
    queries = read_queries(directory, Notices(strict=True))
    assert [(q.query_id, len(q.text)) for q in queries] == [("1", 10283), ("2", 14555), ("3", 10283), ("4", 14555)]
    digests = [hashlib.sha256(q.text.encode()).hexdigest() for q in queries]
    assert digests[:2] == digests[2:]
    qrels = read_qrels(directory / "qrels.txt")
    assert sum(map(len, qrels.values())) == 11
    assert {query: [d for d, grade in grades.items() if grade > 0] for query, grades in qrels.items()} == {
        "1": ["1803.04393"],
        "2": ["hep-ph/0407230"],
        "3": ["1803.04393"],
        "4": ["hep-ph/0407230"],
    }
