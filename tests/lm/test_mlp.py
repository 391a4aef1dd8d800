"""The MLP in slices: the same numbers, in products of at most so many rows."""

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from pan_scdg.lm import mlp
from pan_scdg.lm.engine import PackedEngine
from pan_scdg.models.load import load_model
from pan_scdg.scdg.sequences import ScoringInput
from pan_scdg.settings import ModelSettings

torch = pytest.importorskip("torch")
transformers = pytest.importorskip("transformers")


@pytest.mark.parametrize("architecture", ["qwen3", "llama", "mistral3"])
def test_slices_change_no_number(
    architecture: str, tiny_folder: Callable[[str], Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    lm = load_model(tiny_folder(architecture), ModelSettings(name="tiny", dtype="float32"), "cpu")
    packed, draw, rows = PackedEngine(lm, "sdpa", 100), np.random.default_rng(0).integers, list[int]()
    assert len(packed._mlps) == 2
    context = draw(60, size=9)
    items = [ScoringInput(context, draw(60, size=n)) for n in (30, 70, 20)]
    items += [ScoringInput(draw(60, size=1), draw(60, size=99))]  # a plain row, and a prefix kept for a second one
    expected = packed.compute_log_probs(items)
    hook = packed._mlps[0].gate_proj.register_forward_hook(lambda _, inputs, __: rows.append(inputs[0].shape[1]))
    monkeypatch.setattr(mlp, "SLICE_TOKENS", 7)
    sliced = packed.compute_log_probs(items)
    hook.remove()
    np.testing.assert_allclose(np.concatenate(sliced), np.concatenate(expected), rtol=1e-6)
    assert max(rows) == 7
    assert sum(rows) == 8 + 30 + 70 + 20 + 99
    assert all("forward" not in vars(module) for module in packed._mlps)


def test_experts_are_not_sliced() -> None:
    size = {"vocab_size": 60, "hidden_size": 16, "intermediate_size": 24, "num_hidden_layers": 2, "head_dim": 8}
    size |= {"num_attention_heads": 2, "num_key_value_heads": 2, "num_local_experts": 2}
    assert mlp.find_mlps(transformers.MixtralModel(transformers.MixtralConfig(**size))) == []


def test_a_row_that_fails_leaves_the_model_as_it_was() -> None:
    module = torch.nn.Linear(2, 2)
    with pytest.raises(RuntimeError, match="shapes"), mlp.slice_mlps([module]):
        module(torch.zeros(1, 1, 3))
    assert module(torch.zeros(1, mlp.SLICE_TOKENS + 1, 2)).shape == (1, mlp.SLICE_TOKENS + 1, 2)
    assert "forward" not in vars(module)
