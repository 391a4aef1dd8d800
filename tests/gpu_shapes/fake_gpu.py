"""A GPU on which nothing is computed, and models in the shapes of the published configs without numbers.

A fake tensor knows its shape, type and device, so that an operation with tensors on two devices fails as on a GPU, and
the memory that is alive can be counted, on a machine without a GPU and in seconds.
"""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from pan_scdg.lm import engine

torch = pytest.importorskip("torch")
transformers = pytest.importorskip("transformers")
from torch._subclasses import FakeTensor, FakeTensorMode  # noqa: E402
from transformers import masking_utils, modeling_attn_mask_utils  # noqa: E402

STAND_INS = Path(__file__).parents[1] / "stand_ins"
LAYERS = 4
"""Instead of 36: layers are alike, and only kept keys and values grow with the number."""
SMALLER_QWEN = {
    "Qwen3-4B-Base": {"hidden_size": 2560, "intermediate_size": 9728},
    "Qwen3-1.7B-Base": {"hidden_size": 2048, "intermediate_size": 6144, "num_attention_heads": 16},
    "Qwen3-0.6B-Base": {"hidden_size": 1024, "intermediate_size": 3072, "num_attention_heads": 16},
}
"""What their published configs have instead of the numbers of Qwen3-8B-Base."""
GTE = {"model_type": "qwen2", "hidden_size": 3584, "intermediate_size": 18944, "num_hidden_layers": 28}
GTE |= {"num_attention_heads": 28, "num_key_value_heads": 4, "max_position_embeddings": 131072, "vocab_size": 151646}
GTE |= {"use_cache": False}
"""Of gte-Qwen2-7B-instruct."""


@contextmanager
def on_fake_gpu(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Give torch an H100 on which nothing is computed."""
    monkeypatch.setattr(torch.cuda, "get_device_capability", lambda *_: (9, 0))
    monkeypatch.setattr(FakeTensor, "numpy", lambda self: np.full(tuple(self.shape), -1, np.float32))
    # these read numbers; tests/lm tries them on a CPU
    monkeypatch.setattr(masking_utils, "_ignore_causal_mask_sdpa", lambda *_, **__: True)
    monkeypatch.setattr(modeling_attn_mask_utils, "is_torchdynamo_compiling", lambda: True)
    monkeypatch.setattr(engine, "reads_square", lambda *_: True)
    with FakeTensorMode():
        yield


def read_published(name: str) -> dict[str, Any]:
    """Return the fields of the text model in a published ``config.json``."""
    if name == "gte-Qwen2-7B-instruct":
        return GTE
    path = STAND_INS / f"{'Qwen3-8B-Base' if name in SMALLER_QWEN else name}.json"
    fields: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    fields = fields.get("text_config") or fields
    if fields["model_type"] == "ministral3" and transformers.__version__ < "5":
        fields = fields | {"model_type": "mistral", "sliding_window": None}  # has the same weights under another name
        del fields["rope_parameters"]
    return fields | ({"tie_word_embeddings": True} | SMALLER_QWEN[name] if name in SMALLER_QWEN else {})


def draw_layers(config: Any, encoder: bool = False) -> Any:
    """Return some layers of a model with a config, in bfloat16 and without numbers."""
    config.num_hidden_layers = LAYERS
    if getattr(config, "layer_types", None):
        config.layer_types = config.layer_types[:LAYERS]
    family: Any = transformers.AutoModel if encoder else transformers.AutoModelForCausalLM
    with torch.device("cuda"):
        model = family.from_config(config, dtype=torch.bfloat16, attn_implementation="sdpa")
    return model.eval().requires_grad_(False)


def make_fake_model(name: str) -> Any:
    """Return some layers of a language model with the published config and more positions than any input has."""
    fields = read_published(name) | {"max_position_embeddings": 1 << 18}
    return draw_layers(transformers.AutoConfig.for_model(**fields))
