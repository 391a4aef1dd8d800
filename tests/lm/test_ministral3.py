"""Ministral 3: unknown to the pinned transformers 4, loaded and scored with 5."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

from pan_scdg.errors import UserError
from pan_scdg.lm.engine import make_engine
from pan_scdg.lm.logprobs import compute_target_log_probs
from pan_scdg.lm.packing import _scales_by_row, check_config
from pan_scdg.models.load import LanguageModel, load_model, load_tokenizer
from pan_scdg.scdg.sequences import ScoringInput, build_pair_passes
from pan_scdg.settings import ModelSettings
from tests.tolerances import log_prob_tolerance

transformers = pytest.importorskip("transformers")

OLD = int(transformers.__version__.partition(".")[0]) < 5
FP32 = ModelSettings(name="tiny", dtype="float32")
SOURCE = "The third was lost, and nobody on the quay said a word about the salt."
TARGET = " Nobody said a word.\n\nThe tide turned twice: 17.5 grams of Übermut."


@pytest.mark.skipif(not OLD, reason="transformers 5 has the architecture")
@pytest.mark.parametrize("load", [load_tokenizer, lambda folder, s: load_model(folder, s, "cpu")])
def test_transformers_4_says_what_it_lacks(load: Callable[..., Any], tmp_path: Path) -> None:
    config = {"architectures": ["Mistral3ForConditionalGeneration"], "model_type": "mistral3"}
    text = {"model_type": "ministral3", "rope_parameters": {"rope_type": "yarn"}}
    (tmp_path / "config.json").write_text(json.dumps(config | {"text_config": text}))
    (tmp_path / "model.safetensors").write_bytes(b"")
    expected = r"config\.json: transformers 4\.\S+ has no text architecture 'ministral3'. Install transformers 5\."
    with pytest.raises(UserError, match=expected):
        load(tmp_path, FP32)


PUBLISHED = {
    "rope_type": "yarn",
    "rope_theta": 1e6,
    "factor": 16.0,
    "original_max_position_embeddings": 16384,
    "beta_fast": 32.0,
    "beta_slow": 1.0,
    "mscale": 1.0,
    "mscale_all_dim": 1.0,
    "llama_4_scaling_beta": 0.1,
}
"""Rotary parameters of the published checkpoint."""


@pytest.fixture
def write(tmp_path: Path, tiny_tokenizer: Callable[..., Any]) -> Callable[[int], Path]:
    """``write(positions)``: a random checkpoint whose YaRN begins at that number of tokens."""
    import torch

    def call(positions: int) -> Path:
        torch.manual_seed(0)
        vision = {"hidden_size": 16, "intermediate_size": 16, "num_hidden_layers": 1, "num_attention_heads": 2}
        image = transformers.PixtralVisionConfig(**vision, image_size=28, patch_size=14, head_dim=8)
        heads = {"num_attention_heads": 4, "num_key_value_heads": 2, "head_dim": 8, "num_hidden_layers": 2}
        size = {"vocab_size": 400, "hidden_size": 32, "intermediate_size": 48}
        size |= {"max_position_embeddings": 16 * positions}
        rope = PUBLISHED | {"original_max_position_embeddings": positions}
        text = transformers.Ministral3Config(**size, **heads, initializer_range=0.3, rope_parameters=rope)
        config = transformers.Mistral3Config(vision_config=image, text_config=text, tie_word_embeddings=False)
        transformers.Mistral3ForConditionalGeneration(config).save_pretrained(tmp_path)
        tiny_tokenizer().save_pretrained(tmp_path)
        return tmp_path

    return call


def compute_literal(lm: LanguageModel, item: ScoringInput) -> npt.NDArray[Any]:
    """Return the log-probabilities of the target from one call of the whole model."""
    import torch

    ids = torch.tensor([[*item.context_ids.tolist(), *item.target_ids.tolist()]])
    with torch.no_grad():
        logits = lm.model(input_ids=ids).logits[0].double()
    log_probs = logits.log_softmax(-1)[:-1].gather(-1, ids[0, 1:, None])
    return np.asarray(log_probs[len(item.context_ids) - 1 :, 0].numpy())


@pytest.mark.skipif(OLD, reason="the architecture ministral3 came with transformers 5")
def test_transformers_5_loads_and_scores_it(write: Callable[[int], Path]) -> None:
    lm = load_model(write(16), FP32, "cpu")
    assert (type(lm.model).__name__, lm.positions) == ("Mistral3ForConditionalGeneration", 256)
    assert lm.model.config.get_text_config().model_type == "ministral3"
    item = build_pair_passes(lm.tokenizer, SOURCE, TARGET).conditional
    assert item.length > 3 * 16, "long enough for YaRN and for queries that are scaled by position"
    bound = 2 * log_prob_tolerance(lm.model, item.length)
    np.testing.assert_allclose(compute_target_log_probs(lm, item, 7), compute_literal(lm, item), atol=bound)


@pytest.mark.skipif(OLD, reason="the architecture ministral3 came with transformers 5")
def test_packed_rows_beyond_16384_positions_equal_one_call_each(write: Callable[[int], Path]) -> None:
    """A query is scaled by its position in its own input, wherever that stands in a row."""
    lm = load_model(write(16384), FP32, "cpu")
    if _scales_by_row(lm, PUBLISHED):
        with pytest.raises(UserError, match="queries scaled by their place in the row"):
            make_engine("packed", lm, FP32)
        return
    draw = np.random.default_rng(1).integers
    shared = draw(400, size=16_400)
    items = [ScoringInput(shared, draw(400, size=40)), ScoringInput(draw(400, size=30), draw(400, size=40))]
    items.append(ScoringInput(shared, draw(400, size=30)))
    engine = make_engine("packed", lm, FP32.model_copy(update={"pack_tokens": 60_000}))
    found = engine.compute_log_probs(items)
    for item, values in zip(items, found, strict=True):
        np.testing.assert_allclose(
            values, compute_literal(lm, item), atol=2 * log_prob_tolerance(lm.model, item.length)
        )


def test_an_attention_that_scales_by_the_place_in_the_row_is_not_packed(tiny_folder: Callable[[str], Path]) -> None:
    """As in transformers 5.0; the attention of Llama stands in for it: it is not given the positions."""
    lm = load_model(tiny_folder("llama"), FP32, "cpu")
    assert not _scales_by_row(lm, {"llama_4_scaling_beta": None})

    def forward(self: Any, hidden_states: Any, cache_position: Any = None) -> None: ...

    attention = lm.model.model.layers[0].self_attn
    attention.__class__ = type("Attention", (type(attention),), {"forward": forward})
    assert _scales_by_row(lm, PUBLISHED)
    lm.model.config.rope_scaling = lm.model.config.rope_parameters = PUBLISHED
    with pytest.raises(UserError, match="queries scaled by their place in the row .* Use the engine reference"):
        check_config(lm)
