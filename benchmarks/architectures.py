"""Compare both engines with a plain forward pass, for many architectures: ``python -m benchmarks.architectures``.

Every model is tiny and random, saved, and loaded as a user's checkpoint is. The plain pass is the whole model in
float32 with the attention that is written out, without a mask, cache or slices; its log-softmax is float64. The inputs
are some alone and some with a common context, all longer than the sliding windows. The table is
``docs/architectures.md``.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple, cast

import numpy as np
import numpy.typing as npt

from pan_scdg.errors import UserError
from pan_scdg.lm.engine import PackedEngine, ReferenceEngine
from pan_scdg.models.load import LanguageModel, load_model
from pan_scdg.scdg.sequences import ScoringInput, Tokenizer
from pan_scdg.settings import ModelSettings

VOCABULARY, WINDOW, BUDGET = 60, 8, 100
SIZE = {
    "vocab_size": VOCABULARY,
    "hidden_size": 32,
    "intermediate_size": 48,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "head_dim": 8,
    "max_position_embeddings": 128,
    "initializer_range": 0.3,
    "pad_token_id": 0,
    "bos_token_id": 1,
    "eos_token_id": 2,
}
"""A large range keeps the random logits far from uniform, so that a mistake shows."""
EXPERTS = {"num_experts": 4, "num_local_experts": 4, "num_experts_per_tok": 2, "moe_intermediate_size": 16}
NOT_TESTED = "bart"
FAMILIES: dict[str, dict[str, Any]] = {}


class Comparison(NamedTuple):
    """The result of an architecture; a text says why it does not work."""

    architecture: str
    packed: float | str
    reference: float | str
    """Largest difference from the plain pass, in nats."""


def save_model(architecture: str, folder: Path) -> None:
    """Save a random model without a tokenizer."""
    import torch
    import transformers

    torch.manual_seed(0)
    config: Any = transformers.AutoConfig.for_model(architecture, **SIZE | FAMILIES.get(architecture, {}))
    model = transformers.AutoModelForCausalLM.from_config(config)
    with torch.no_grad():
        for weight in model.parameters():
            if not weight.any():  # biases
                weight.normal_(0, 0.3)
    model.save_pretrained(folder)


def draw_inputs() -> list[ScoringInput]:
    """Return three inputs alone and three with a common context."""
    rng = np.random.default_rng(0)
    shared = rng.integers(3, VOCABULARY, size=21)
    alone = [(12, 17), (3, 4), (1, 30)]
    return [
        *(ScoringInput(*(rng.integers(3, VOCABULARY, size=size) for size in sizes)) for sizes in alone),
        *(ScoringInput(shared, rng.integers(3, VOCABULARY, size=size)) for size in (5, 1, 19)),
    ]


def compute_plainly(folder: Path, items: Sequence[ScoringInput]) -> list[npt.NDArray[np.float64]]:
    """Return the log-probabilities of a plain forward pass."""
    import torch
    import transformers

    load: Any = transformers.AutoModelForCausalLM.from_pretrained
    model = load(folder, attn_implementation="eager", dtype=torch.float32).eval()
    results = []
    with torch.inference_mode():
        for item in items:
            ids = torch.from_numpy(np.concatenate(item))
            log_probs = model(input_ids=ids[None]).logits[0].double().log_softmax(-1)
            targets = log_probs[len(item.context_ids) - 1 : -1].gather(1, ids[len(item.context_ids) :, None])
            results.append(targets[:, 0].numpy())
    return results


def compare(architecture: str, folder: Path) -> Comparison:
    """Save a model into a folder, and compare both engines with its plain pass."""
    save_model(architecture, folder)
    items = draw_inputs()
    try:
        tokenizer = cast(Tokenizer, range(VOCABULARY))  # only its length is read
        settings = ModelSettings(name=architecture.replace("_", "-"), dtype="float32")
        lm = load_model(folder, settings, "cpu", fingerprint="", tokenizer=tokenizer)
    except UserError as e:
        return Comparison(architecture, e.what, e.what)
    expected = compute_plainly(folder, items)
    return Comparison(architecture, _measure(lm, True, items, expected), _measure(lm, False, items, expected))


def _measure(
    lm: LanguageModel, packed: bool, items: Sequence[ScoringInput], expected: Sequence[npt.NDArray[np.float64]]
) -> float | str:
    try:
        engine = PackedEngine(lm, "sdpa", BUDGET) if packed else ReferenceEngine(lm)
        log_probs = engine.compute_log_probs(items)
    except UserError as e:
        return e.what
    return max(float(np.abs(a - b).max()) for a, b in zip(log_probs, expected, strict=True))
