"""BERT without padding, against the library's own computation."""

from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from sentence_transformers import SentenceTransformer

from pan_scdg.models.bert import pack_bert, plan_calls
from pan_scdg.models.devices import computes_bfloat16
from pan_scdg.models.encoder import load_encoder
from tests.conftest import SMALL_ENCODER
from tests.tolerances import check_vectors

needs_avx = pytest.mark.skipif(
    "AVX" not in torch.backends.cpu.get_cpu_capability(), reason="this processor has no AVX instructions"
)
TEXTS = ["A cat sits on the mat.", "x", "", "Quarks carry colour.", "A dog sits on the mat.", "words " * 200]


@pytest.fixture
def folder(encoder_package: Path) -> Path:
    return encoder_package / SMALL_ENCODER / "model"


@needs_avx
def test_vectors_are_those_of_the_library(folder: Path) -> None:
    encoder = load_encoder(folder, "cpu")
    assert encoder._packed is not None
    library = SentenceTransformer(str(folder), device="cpu", local_files_only=True)
    expected = library.encode(TEXTS, normalize_embeddings=True)
    vectors = encoder.encode(TEXTS)
    check_vectors(folder, vectors, expected)
    for vector, text in zip(vectors, TEXTS, strict=True):
        check_vectors(folder, encoder.encode([text])[0], vector)


@pytest.mark.skipif(not computes_bfloat16(), reason="this processor has no instructions for bfloat16")
def test_vectors_in_bfloat16_are_nearly_those_in_float32(folder: Path) -> None:
    encoder = load_encoder(folder, "cpu", dtype="bfloat16")
    assert encoder._packed is not None
    cosines = (encoder.encode(TEXTS) * load_encoder(folder, "cpu").encode(TEXTS)).sum(axis=1)
    assert 0.999 < cosines.min() < 0.9999999


def test_bfloat16_without_its_instructions_is_left_to_the_library(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(torch.ops.mkldnn, "_is_mkldnn_bf16_supported", lambda: False)
    assert load_encoder(folder, "cpu", dtype="bfloat16")._packed is None


@needs_avx
def test_a_prompt_is_a_part_of_the_text(folder: Path) -> None:
    encoder = load_encoder(folder, "cpu")
    np.testing.assert_array_equal(encoder.encode(["b c"], prompt="a "), encoder.encode(["a b c"]))


@pytest.mark.parametrize(
    "change", [{"hidden_act": "relu"}, {"position_embedding_type": "relative_key"}, {"pooling_mode": "cls"}]
)
def test_other_models_are_left_to_the_library(change: dict[str, str], folder: Path) -> None:
    model = SentenceTransformer(str(folder), device="cpu", local_files_only=True)
    for module in (model[0].auto_model.config, model[1]):
        for name, value in change.items():
            if hasattr(module, name):
                setattr(module, name, value)
    assert pack_bert(model) is None
    assert len(model[0].auto_model.encoder.layer) > 0


@given(lengths=st.lists(st.integers(2, 300), max_size=60), max_tokens=st.integers(1, 2000))
def test_calls_have_each_text_once_longest_first(lengths: list[int], max_tokens: int) -> None:
    calls = list(plan_calls(lengths, max_tokens))
    order = [index for call in calls for index in call]
    assert sorted(order) == list(range(len(lengths)))
    assert [lengths[index] for index in order] == sorted(lengths, reverse=True)
    assert all(len(call) == 1 or sum(lengths[index] for index in call) <= max_tokens for call in calls)
    assert all(
        sum(lengths[index] for index in call) + lengths[after[0]] > max_tokens for call, after in zip(calls, calls[1:])
    )
