"""Slow and fast tokenizers of the Qwen family, from the files that its checkpoints have."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from pan_scdg.errors import UserError
from pan_scdg.models.load import load_tokenizer
from pan_scdg.profile import ModelSettings

transformers = pytest.importorskip("transformers")

OLD = int(transformers.__version__.partition(".")[0]) < 5
TEXTS = ("The tide turned.\n\nNobody said 17.5 words.", "  Übermut, Ka\u0308se\n", "\n\n", " x")
SLOW = ModelSettings(name="tiny", tokenizer="slow")
FAST = ModelSettings(name="tiny", tokenizer="fast")


@pytest.fixture
def folder(tiny_tokenizer: Callable[..., Any], tmp_path: Path) -> Path:
    """``vocab.json`` and ``merges.txt`` with the class that Qwen's tokenizer_config.json names; weights stay unread."""
    model = json.loads(tiny_tokenizer().backend_tokenizer.to_str())["model"]
    (tmp_path / "vocab.json").write_text(json.dumps(model["vocab"]))
    (tmp_path / "merges.txt").write_text("#version: 0.2\n" + "\n".join(map(" ".join, model["merges"])) + "\n")
    (tmp_path / "tokenizer_config.json").write_text(json.dumps({"tokenizer_class": "Qwen2Tokenizer"}))
    (tmp_path / "config.json").write_text(json.dumps({"model_type": "qwen3", "architectures": ["Qwen3ForCausalLM"]}))
    (tmp_path / "model.safetensors").write_bytes(b"")
    return tmp_path


@pytest.mark.skipif(not OLD, reason="transformers 5 has no slow tokenizer of Qwen")
def test_the_slow_tokenizer_is_slow_and_agrees_with_the_fast_one(folder: Path) -> None:
    slow, fast = load_tokenizer(folder, SLOW), load_tokenizer(folder, FAST)
    assert (type(slow).__name__, type(fast).__name__) == ("Qwen2Tokenizer", "Qwen2TokenizerFast")
    for text in TEXTS:
        ids = slow.encode(text, add_special_tokens=True)
        assert ids == slow.encode(text, add_special_tokens=False), "Qwen adds no special token"
        assert ids == fast.encode(text, add_special_tokens=True)
    assert slow.bos_token_id is None


@pytest.mark.skipif(OLD, reason="transformers 4 has the slow tokenizer")
def test_without_a_slow_tokenizer_the_fast_one_is_no_substitute(folder: Path) -> None:
    with pytest.raises(UserError, match=r"no slow tokenizer; use tokenizer = \"fast\", or transformers 4\.57\.3"):
        load_tokenizer(folder, SLOW)
    assert load_tokenizer(folder, FAST).encode(TEXTS[2], add_special_tokens=False)
