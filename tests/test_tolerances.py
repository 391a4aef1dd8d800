"""The bounds of `tolerances`: rounding stays inside, mistakes do not."""

import copy
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from pan_scdg.lm.engine import PackedEngine, ReferenceEngine
from pan_scdg.models.load import LanguageModel, load_model
from pan_scdg.scdg.sequences import ScoringInput
from pan_scdg.settings import ModelSettings
from tests.tolerances import log_prob_tolerance

torch = pytest.importorskip("torch")

MINI = Path(__file__).parents[1] / "model_cache" / "scdg-mini"
ARCHITECTURES = ("qwen3", "qwen2", "llama", "mistral3", "scdg-mini")


@pytest.fixture(params=ARCHITECTURES)
def lm(request: pytest.FixtureRequest, tiny_folder: Callable[[str], Path]) -> LanguageModel:
    folder = MINI if request.param == "scdg-mini" else tiny_folder(request.param)
    return load_model(folder, ModelSettings(name=request.param, dtype="float32"), "cpu")


def exact(lm: LanguageModel, item: ScoringInput) -> np.ndarray:
    """The log-probabilities in float64."""
    ids = torch.from_numpy(np.concatenate([item.context_ids, item.target_ids]))
    with torch.no_grad():
        logits = copy.deepcopy(lm.model).double()(input_ids=ids[None]).logits[0]
    found = logits.log_softmax(-1)[:-1].gather(-1, ids[1:, None])[:, 0].numpy()
    return found[len(item.context_ids) - 1 :]


@pytest.mark.parametrize("length", [30, 300])
def test_rounding_stays_inside_and_mistakes_are_ten_times_outside(lm: LanguageModel, length: int) -> None:
    rng = np.random.default_rng(length)
    ids = rng.integers(5, 300, size=length)
    context, target = ids[: length // 2], ids[length // 2 :]
    expected = exact(lm, ScoringInput(context, target))
    bound = log_prob_tolerance(lm.model, length)
    for engine in (ReferenceEngine(lm, 100), PackedEngine(lm, "sdpa", 100, 100)):
        (found,) = engine.compute_log_probs([ScoringInput(context, target)])
        assert np.abs(found - expected).max() < bound / 2, "even two that err in opposite directions agree"
    changed = context.copy()
    changed[len(context) // 2] += 1
    mistakes = {
        "a shifted target": np.roll(expected, 1),
        "no separator": exact(lm, ScoringInput(context[:-2], target)),
        "another token in the source": exact(lm, ScoringInput(changed, target)),
        "no first token": exact(lm, ScoringInput(context[1:], target)),
    }
    for name, wrong in mistakes.items():
        assert np.abs(wrong - expected).max() > 10 * 2 * bound, name
