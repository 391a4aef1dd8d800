"""The position rule of a profile, against transformers with an edited ``config.json``."""

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from pydantic import ValidationError

from pan_scdg.errors import UserError
from pan_scdg.lm.engine import make_engine
from pan_scdg.models.checkpoint import count_positions, read_config
from pan_scdg.models.load import LanguageModel, load_model
from pan_scdg.profile import load_profile
from pan_scdg.scdg.sequences import Passes, build_pair_passes
from pan_scdg.settings import EngineName, ModelSettings
from tests.tolerances import log_prob_tolerance

torch = pytest.importorskip("torch")
transformers = pytest.importorskip("transformers")

PUBLISHED, FACTOR = 64, 4.0
SOURCE = "The third was lost, and nobody on the quay said a word about the salt. " * 4
TARGET = "Nobody said a word.\n\nThe tide turned twice: 17.5 grams of salt were lost on the quay. " * 2
YARN = {"rope_type": "yarn", "factor": FACTOR, "original_max_position_embeddings": PUBLISHED}
Rule = Any


def make_settings(rule: Rule, **more: Any) -> ModelSettings:
    factor = None if rule == "as-published" else FACTOR
    return ModelSettings(name="tiny", dtype="float32", positions=rule, position_factor=factor, **more)


def edit_text_config(folder: Path, change: Callable[[dict[str, Any]], None]) -> None:
    config = json.loads((folder / "config.json").read_text())
    change(config.get("text_config") or config)
    (folder / "config.json").write_text(json.dumps(config))


@pytest.fixture(params=["qwen3", "llama", "mistral3"])
def short(request: pytest.FixtureRequest, tiny_folder: Callable[[str], Path], tmp_path: Path) -> Path:
    """A checkpoint with few positions."""
    folder = Path(shutil.copytree(tiny_folder(request.param), tmp_path / "short"))
    edit_text_config(folder, lambda text: text.update(max_position_embeddings=PUBLISHED))
    return folder


def load_edited(short: Path, rule: Rule) -> Any:
    """Load, with transformers alone, a copy of the checkpoint whose config.json has more positions."""
    folder = Path(shutil.copytree(short, short.parent / f"edited-{rule}"))

    def change(text: dict[str, Any]) -> None:
        text["max_position_embeddings"] = int(PUBLISHED * FACTOR)
        if rule == "yarn" and "rope_parameters" in text:  # transformers 5
            text["rope_parameters"] |= YARN
        elif rule == "yarn":
            text["rope_scaling"] = YARN

    edit_text_config(folder, change)
    kind = json.loads((folder / "config.json").read_text())["architectures"][0]
    return getattr(transformers, kind).from_pretrained(folder, dtype=torch.float32, attn_implementation="eager").eval()


def compute_literal_gains(model: Any, passes: Passes) -> npt.NDArray[Any]:
    """Return the difference of the log-probabilities of two whole forward passes, in float64."""
    log_probs = []
    for item in (passes.unconditional, passes.conditional):
        ids = torch.tensor([[*item.context_ids.tolist(), *item.target_ids.tolist()]])
        with torch.no_grad():
            rows = model(input_ids=ids).logits[0].double().log_softmax(-1)
        log_probs.append(rows[:-1].gather(-1, ids[0, 1:, None])[len(item.context_ids) - 1 :, 0].numpy())
    return np.asarray(log_probs[1] - log_probs[0])


def compute_gains(lm: LanguageModel, passes: Passes, engine: EngineName) -> npt.NDArray[Any]:
    alone, behind = make_engine(engine, lm, make_settings("as-published")).compute_log_probs(list(passes))
    return np.asarray(behind - alone)


@pytest.mark.parametrize("engine", ["packed", "reference"])
@pytest.mark.parametrize("rule", ["extended", "yarn"])
def test_gains_are_those_of_transformers_with_an_edited_config(short: Path, rule: Rule, engine: EngineName) -> None:
    before = (short / "config.json").read_bytes()
    lm = load_model(short, make_settings(rule), "cpu")
    passes = build_pair_passes(lm.tokenizer, SOURCE, TARGET)
    assert 2 * PUBLISHED < passes.conditional.length <= PUBLISHED * FACTOR == lm.positions
    expected = compute_literal_gains(load_edited(short, rule), passes)
    bound = 4 * log_prob_tolerance(lm.model, passes.conditional.length)
    np.testing.assert_allclose(compute_gains(lm, passes, engine), expected, atol=bound)
    assert (short / "config.json").read_bytes() == before, "the folder may be read-only"


def test_extended_changes_no_score_within_the_published_positions_and_yarn_does(short: Path) -> None:
    published = load_model(short, make_settings("as-published"), "cpu")
    passes = build_pair_passes(published.tokenizer, SOURCE[:40], TARGET[:60])
    assert passes.conditional.length < PUBLISHED
    models = {rule: load_model(short, make_settings(rule), "cpu") for rule in ("extended", "yarn")}
    gains = {rule: compute_gains(lm, passes, "reference") for rule, lm in models.items()}
    expected = compute_gains(published, passes, "reference")
    np.testing.assert_array_equal(gains["extended"], expected)
    assert np.abs(gains["yarn"] - expected).max() > 0.01


def test_published_positions_refuse_what_exceeds_them(short: Path) -> None:
    lm = load_model(short, make_settings("as-published"), "cpu")
    passes = build_pair_passes(lm.tokenizer, SOURCE, TARGET)
    with pytest.raises(UserError, match="exceeds the 64 positions"):
        compute_gains(lm, passes, "reference")


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"rope_scaling": {"rope_type": "llama3", "factor": 8.0}}, r"scales its positions itself \(llama3\)"),
        ({"rope_parameters": {"rope_type": "yarn"}, "rope_scaling": None}, r"scales its positions itself \(yarn\)"),
        ({"max_position_embeddings": None}, "needs a checkpoint that names its positions"),
    ],
)
def test_a_rule_is_refused_where_it_does_not_apply(
    change: dict[str, Any], says: str, tiny_folder: Callable[[str], Path], tmp_path: Path
) -> None:
    folder = Path(shutil.copytree(tiny_folder("llama"), tmp_path / "model"))
    edit_text_config(folder, lambda text: text.update(change))
    with pytest.raises(UserError, match=says):
        count_positions(read_config(folder), make_settings("extended"))


def test_learned_positions_cannot_be_extended(tmp_path: Path, tiny_tokenizer: Callable[..., Any]) -> None:
    size = {"n_embd": 16, "n_layer": 1, "n_head": 2, "n_positions": 64, "vocab_size": 400}
    transformers.GPT2LMHeadModel(transformers.GPT2Config(**size)).save_pretrained(tmp_path)
    tiny_tokenizer().save_pretrained(tmp_path)
    edit_text_config(tmp_path, lambda text: text.update(max_position_embeddings=64))
    with pytest.raises(UserError, match="needs rotary positions, which GPT2Config lacks"):
        load_model(tmp_path, make_settings("extended"), "cpu")


@pytest.mark.parametrize(("rule", "factor"), [("as-published", 4.0), ("extended", None), ("yarn", None), ("yarn", 1.0)])
def test_a_factor_goes_with_a_rule(rule: Rule, factor: float | None) -> None:
    with pytest.raises(ValidationError):
        ModelSettings(name="tiny", positions=rule, position_factor=factor)


def test_the_leaderboard_profile_covers_its_limit_on_the_published_checkpoint() -> None:
    profile = load_profile("pan25-qwen3-8b")
    settings = profile.need_model()
    assert settings.positions == "extended"
    assert settings.position_factor is not None
    assert profile.gains is not None
    assert profile.gains.limit <= 32768 * settings.position_factor
