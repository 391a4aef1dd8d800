"""How many shapes the plain rows of a GPU have, and what their padding changes."""

from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from pan_scdg.lm.engine import LENGTH_STEP, PackedEngine
from pan_scdg.models.load import load_model
from pan_scdg.scdg.sequences import ScoringInput
from pan_scdg.settings import ModelSettings
from tests.tolerances import STEPS_OF_A_LAYER, relative_error

torch = pytest.importorskip("torch")


@pytest.fixture
def packed(tiny_folder: Callable[[str], Path]) -> PackedEngine:
    """An engine on a CPU that computes every input alone and pads it as on a GPU."""
    lm = load_model(tiny_folder("qwen3"), ModelSettings(name="tiny", dtype="float32"), "cpu")
    engine = PackedEngine(lm, "sdpa", 1)
    engine._length_step = LENGTH_STEP
    return engine


def test_lengths_up_to_32_768_give_at_most_128_shapes(packed: PackedEngine, monkeypatch: pytest.MonkeyPatch) -> None:
    draw, shapes = np.random.default_rng(0).integers, set()

    def decode(input_ids: Any, **_: Any) -> SimpleNamespace:
        shapes.add(tuple(input_ids.shape))
        return SimpleNamespace(last_hidden_state=torch.zeros(*input_ids.shape, 32))

    decode.config = packed._decoder.config  # type: ignore[attr-defined]
    packed._decoder = decode
    packed._lm.model.config.max_position_embeddings = 32_768
    packed.compute_log_probs(
        [ScoringInput(draw(60, size=n), draw(60, size=1)) for n in draw(1, 32_768, size=1000).tolist()]
    )
    assert 100 < len(shapes) <= 32_768 // LENGTH_STEP


def test_padding_changes_hidden_states_by_rounding_only(packed: PackedEngine) -> None:
    draw, states, decoder = np.random.default_rng(1).integers, list[Any](), packed._decoder

    def decode(**inputs: Any) -> Any:
        outputs = decoder(**inputs)
        states.append(outputs.last_hidden_state[0])
        return outputs

    decode.config = packed._decoder.config  # type: ignore[attr-defined]
    packed._decoder = decode
    for length in (1, 90, 254, 255, 256, 600):
        item = ScoringInput(draw(60, size=length), draw(60, size=2))
        padded = packed.compute_log_probs([item])[0]
        packed._length_step = 1
        np.testing.assert_allclose(padded, packed.compute_log_probs([item])[0], atol=1e-5)
        packed._length_step = LENGTH_STEP
        with_padding, without = states[-2:]
        assert len(with_padding) % LENGTH_STEP == 0
        apart = (with_padding[: len(without)] - without).norm(dim=-1) / without.norm(dim=-1)
        assert apart.max() <= relative_error("float32", STEPS_OF_A_LAYER * 2 + 2, max(48, len(without)))
