"""The embedded language model: its size, its tokenizer, and that it copies."""

import json
from functools import cache
from pathlib import Path

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from pan_scdg.lm.logprobs import compute_target_log_probs
from pan_scdg.models.load import LanguageModel, load_model, load_tokenizer
from pan_scdg.profile import load_profile
from pan_scdg.scdg.sequences import Tokenizer, build_pair_passes

FOLDER = Path(__file__).parents[2] / "model_cache" / "scdg-mini"
SETTINGS = load_profile("offline").need_model()


@cache
def tokenizer() -> Tokenizer:
    return load_tokenizer(FOLDER, SETTINGS)


@cache
def model() -> LanguageModel:
    return load_model(FOLDER, SETTINGS, "cpu")


def test_size_architecture_and_format() -> None:
    assert json.loads((FOLDER / "config.json").read_text())["architectures"] == ["Qwen2ForCausalLM"]
    assert sum(f.stat().st_size for f in FOLDER.iterdir()) <= 40e6
    assert 5e6 <= sum(p.numel() for p in model().model.parameters()) <= 15e6
    assert sorted(f.suffix for f in FOLDER.iterdir() if f.stat().st_size > 2e6) == [".safetensors"]


def test_model_card_names_data_licences_recipe_loss_and_limits() -> None:
    card = (FOLDER / "MODEL_CARD.md").read_text(encoding="utf-8")
    for heading in ("## Data", "## Recipe", "## Held-out loss", "## Limits", "## Licence"):
        assert heading in card


@settings(max_examples=200, deadline=None)
@given(st.text(min_size=0, max_size=60), st.text(min_size=1, max_size=60))
def test_any_target_ends_the_combined_ids(source: str, target: str) -> None:
    for text in (target, " " + target, "\n" + target, "\n \t" + target):
        passes = build_pair_passes(tokenizer(), source, text)
        assert passes.unconditional.target_ids.tolist() == passes.conditional.target_ids.tolist()


def test_every_text_survives_its_tokens() -> None:
    text = "  Two  spaces,\ta tab, 12345, naïve café, 漢字, 🙂\n\nand\n newlines "
    assert tokenizer().decode(tokenizer().encode(text, add_special_tokens=False)) == text


def test_a_text_behind_itself_costs_a_fraction() -> None:
    half = Path(__file__).parents[2] / "examples" / "pan25-pairs" / "calibration"
    text = min((half / "src").iterdir()).read_text(encoding="utf-8")[:2000]
    passes = build_pair_passes(tokenizer(), text, text)
    alone, given = (-float(np.mean(compute_target_log_probs(model(), p, 512))) for p in passes)
    assert alone > 3
    assert given < alone / 2
