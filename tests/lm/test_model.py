"""The model as its users see it: found at once, loaded once, the same numbers as the engine, bad settings."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from pan_scdg.errors import UserError
from pan_scdg.jobs.cluster import open_workers
from pan_scdg.lm import model as module
from pan_scdg.lm.engine import ReferenceEngine
from pan_scdg.lm.model import ScoringModel
from pan_scdg.models.devices import Devices
from pan_scdg.models.fingerprint import fingerprint_weights
from pan_scdg.models.load import LanguageModel, load_model
from pan_scdg.scdg.sequences import ScoringInput
from pan_scdg.settings import ModelSettings
from tests.tolerances import check_log_probs

FP32 = ModelSettings(name="tiny", dtype="float32", pack_tokens=64)


def draw_inputs() -> list[ScoringInput]:
    rng = np.random.default_rng(0)
    shared = rng.integers(60, size=20)
    return [ScoringInput(shared, rng.integers(60, size=9)) for _ in range(8)]


@pytest.mark.parametrize("engine", ["packed", "reference"])
def test_the_weights_load_at_the_first_call(
    engine: str, tiny_folder: Callable[[str], Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    loads: list[str] = []

    def load(*arguments: Any, fingerprint: str, fused_norms: bool, **more: Any) -> LanguageModel:
        loads.append(fingerprint)
        assert fused_norms == (engine == "packed"), "the paper's norms are those of transformers"
        return load_model(*arguments, fingerprint=fingerprint, **more)

    monkeypatch.setattr(module, "load_model", load)
    folder, items = tiny_folder("qwen3"), draw_inputs()
    model = ScoringModel(FP32, "cpu", folder=folder, engine=engine)  # type: ignore[arg-type]
    assert (model.folder, model.settings.name, model.found.folder) == (folder, model.found.name, folder)
    assert model.fingerprint == fingerprint_weights(folder) == model.identify()["weights"]
    assert model.compute_log_probs([]) == []
    assert (loads, model.incidents) == ([], [])
    lm = load_model(folder, FP32, "cpu")
    expected = ReferenceEngine(lm).compute_log_probs(items)
    check_log_probs(lm.model, model.compute_log_probs(items), expected, items)
    check_log_probs(lm.model, model.compute_log_probs(items), expected, items)
    assert model._engine is not None
    assert (len(loads), model._engine.tokens) == (1, 2 * (19 + 8 * 9 if engine == "packed" else 8 * 29))


def test_a_model_that_cannot_be_packed_is_computed_one_input_at_a_time(
    tmp_path: Path, tiny_tokenizer: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    hf = pytest.importorskip("transformers")
    size = {"vocab_size": 400, "hidden_size": 16, "num_hidden_layers": 1}
    hf.MambaForCausalLM(hf.MambaConfig(**size)).save_pretrained(tmp_path)
    tiny_tokenizer().save_pretrained(tmp_path)
    lines: list[str] = []
    monkeypatch.setattr("pan_scdg.lm.engine.say", lines.extend)
    model = ScoringModel(FP32, "cpu", folder=tmp_path)
    model.compute_log_probs(draw_inputs())
    (line,) = lines
    reason = line.removeprefix("note: inputs are computed one at a time: ")
    assert reason.startswith(f"{model.found.name} ")
    assert reason.endswith(" and cannot be packed")
    assert model.take_incidents() == (f"inputs were computed one at a time: {reason}",)
    with pytest.raises(UserError, match=f"{reason}. Use the engine reference"):
        ScoringModel(FP32, "cpu", folder=tmp_path, engine="packed").compute_log_probs(draw_inputs())


def test_a_lack_of_memory_is_an_incident(tiny_folder: Callable[[str], Path]) -> None:
    model = ScoringModel(FP32, "cpu", folder=tiny_folder("qwen3"))
    model.compute_log_probs(draw_inputs()[:1])
    assert model._engine is not None
    model._engine.splits += [32, 16, 16]
    lines = [f"memory was short: from here on at most {tokens} tokens a call" for tokens in (32, 16)]
    assert model.incidents == lines
    assert (model.take_incidents(), model.take_incidents()) == (tuple(lines), ())


def test_settings_that_cannot_work_are_an_error(tiny_folder: Callable[[str], Path], tmp_path: Path) -> None:
    folder = tiny_folder("qwen3")
    model = ScoringModel(FP32, "cpu", folder=folder)
    assert model.positions is not None
    model.check_length(model.positions, "gains.limit")
    with pytest.raises(UserError, match=rf"gains.limit is {model.positions + 1} tokens, but .* reads at most"):
        model.check_length(model.positions + 1, "gains.limit")
    extended = FP32.model_copy(update={"positions": "extended", "position_factor": 2.0})
    longer = ScoringModel(extended, "cpu", folder=folder)
    assert (longer.positions, longer.identify()["positions"]) == (2 * model.positions, ["extended", 2.0])
    for settings, chosen, message in (
        (FP32.model_copy(update={"attention": "eager"}), folder, "eager.*cannot score packed.*reference"),
        (FP32, tmp_path / "missing", "missing"),
        (FP32.model_copy(update={"probes": {"The tide": (1, 2, 3)}}), folder, "The tide"),
    ):
        with pytest.raises(UserError, match=message):
            ScoringModel(settings, "cpu", folder=chosen)
    ScoringModel(FP32.model_copy(update={"attention": "eager"}), "cpu", folder=folder, engine="reference")


def test_one_worker_computes_with_the_model(tiny_folder: Callable[[str], Path]) -> None:
    folder, items = tiny_folder("qwen3"), draw_inputs()
    model = ScoringModel(FP32, "cpu", folder=folder)
    with open_workers(ScoringModel(FP32, "cpu", folder=folder).compute_log_probs, Devices()) as one:
        for log_probs, item in zip(one.map([item] for item in items), items, strict=True):
            np.testing.assert_array_equal(log_probs[0], model.compute_log_probs([item])[0])
