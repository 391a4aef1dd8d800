"""Ministral 3: unknown to the pinned transformers 4, loaded and scored with 5."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from pan_scdg.errors import UserError
from pan_scdg.lm.logprobs import compute_target_log_probs
from pan_scdg.models.load import load_model, load_tokenizer
from pan_scdg.profile import ModelSettings
from pan_scdg.scdg.sequences import build_pair_passes
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
    expected = r"config\.json: transformers 4\.\S+ has no text architecture 'ministral3'; install transformers 5\."
    with pytest.raises(UserError, match=expected):
        load(tmp_path, FP32)


@pytest.fixture
def folder(tmp_path: Path, tiny_tokenizer: Callable[..., Any]) -> Path:
    """A random checkpoint whose YaRN begins at 16 tokens, so that a text of this file reaches beyond it."""
    import torch

    torch.manual_seed(0)
    vision = {"hidden_size": 16, "intermediate_size": 16, "num_hidden_layers": 1, "num_attention_heads": 2}
    image = transformers.PixtralVisionConfig(**vision, image_size=28, patch_size=14, head_dim=8)
    heads = {"num_attention_heads": 4, "num_key_value_heads": 2, "head_dim": 8, "num_hidden_layers": 2}
    size = {"vocab_size": 400, "hidden_size": 32, "intermediate_size": 48, "max_position_embeddings": 256}
    rope = {"rope_type": "yarn", "rope_theta": 1e6, "factor": 16.0, "original_max_position_embeddings": 16}
    rope |= {"mscale": 1.0, "mscale_all_dim": 1.0, "llama_4_scaling_beta": 0.1}
    text = transformers.Ministral3Config(**size, **heads, initializer_range=0.3, rope_parameters=rope)
    config = transformers.Mistral3Config(vision_config=image, text_config=text, tie_word_embeddings=False)
    transformers.Mistral3ForConditionalGeneration(config).save_pretrained(tmp_path)
    tiny_tokenizer().save_pretrained(tmp_path)
    return tmp_path


@pytest.mark.skipif(OLD, reason="the architecture ministral3 came with transformers 5")
def test_transformers_5_loads_and_scores_it(folder: Path) -> None:
    import torch

    lm = load_model(folder, FP32, "cpu")
    assert (type(lm.model).__name__, lm.positions) == ("Mistral3ForConditionalGeneration", 256)
    assert lm.model.config.get_text_config().model_type == "ministral3"
    item = build_pair_passes(lm.tokenizer, SOURCE, TARGET).conditional
    assert item.length > 3 * 16, "long enough for YaRN and for queries that are scaled by position"
    ids = torch.tensor([[*item.context_ids.tolist(), *item.target_ids.tolist()]])
    with torch.no_grad():
        logits = lm.model(input_ids=ids).logits[0].double()
    literal = logits.log_softmax(-1)[:-1].gather(-1, ids[0, 1:, None])[len(item.context_ids) - 1 :, 0]
    bound = 2 * log_prob_tolerance(lm.model, item.length)
    np.testing.assert_allclose(compute_target_log_probs(lm, item, 7), literal.numpy(), atol=bound)
