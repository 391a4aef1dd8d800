"""Compare both engines with a plain forward pass, for many architectures.

    python -m benchmarks.architectures --write 4.json
    PYTHONPATH=FOLDER_WITH_TRANSFORMERS_5:. python -m benchmarks.architectures --write 5.json
    python -m benchmarks.architectures --table 4.json --table 5.json

Every model is tiny and random, saved, and loaded as a user's checkpoint is. The plain pass is the whole model in
float32 with the attention that is written out, without a mask or slices; its log-softmax is float64. The inputs are
some alone and some with a common context, longer than the sliding windows. The last command prints the table of
``docs/architectures.md``, which `tests/lm/test_architectures.py` compares with the engines.
"""

import json
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple, cast

import click
import numpy as np
import numpy.typing as npt

from pan_scdg.errors import UserError, get_first_line
from pan_scdg.lm.engine import PackedEngine, ReferenceEngine
from pan_scdg.models.load import LanguageModel, load_model
from pan_scdg.scdg.sequences import ScoringInput, Tokenizer
from pan_scdg.settings import ModelSettings

VOCABULARY, WINDOW, BUDGET = 60, 8, 100
SMALL = {
    "hidden_size": 32,
    "intermediate_size": 48,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "head_dim": 8,
}
"""The sizes of a tiny model, here and in the tests."""
SIZE = SMALL | {
    "vocab_size": VOCABULARY,
    "max_position_embeddings": 128,
    "initializer_range": 0.3,
    "pad_token_id": 0,
    "bos_token_id": 1,
    "eos_token_id": 2,
}
"""A large range keeps the random logits far from uniform, so that a mistake shows."""
TOLERANCE = 2e-5
"""Largest difference in nats, which rounding explains."""
PACKED, ONE_AT_A_TIME = "packed", "one at a time"
EXPERTS = {"num_experts": 4, "num_local_experts": 4, "num_experts_per_tok": 2, "moe_intermediate_size": 16}
SAME_HEADS = {"num_key_value_heads": 4}
DEEPSEEK = {
    **EXPERTS,
    **SAME_HEADS,
    "head_dim": 4,
    "q_lora_rank": 8,
    "kv_lora_rank": 8,
    "qk_rope_head_dim": 4,
    "qk_nope_head_dim": 4,
    "v_head_dim": 8,
    "n_routed_experts": 4,
    "n_group": 1,
    "topk_group": 1,
    "first_k_dense_replace": 1,
}
WINDOWED = {"sliding_window": WINDOW}
SLIDING, FULL = "sliding_attention", "full_attention"
MIXED = {**WINDOWED, "layer_types": [SLIDING, FULL]}
MAMBA = {"mamba_n_heads": 8, "mamba_d_head": 8, "mamba_d_state": 8, "mamba_n_groups": 1}
FAMILIES: dict[str, dict[str, Any]] = {
    "apertus": {},
    "arcee": {},
    "bamba": {**MAMBA, "attn_layer_indices": [1]},
    "biogpt": {},
    "bitnet": {},
    "bloom": {},
    "codegen": {"rotary_dim": 4},
    "cohere": {},
    "cohere2": MIXED,
    "ctrl": {"dff": 48},
    "dbrx": {"attn_config": {"clip_qkv": 8, "kv_n_heads": 2}, "ffn_config": {"ffn_hidden_size": 48}, "d_model": 32},
    "deepseek_v2": DEEPSEEK,
    "deepseek_v3": DEEPSEEK,
    "diffllama": {},
    "doge": {},
    "dots1": {**MIXED, **DEEPSEEK, "n_shared_experts": 1, "head_dim": 8},
    "ernie4_5": {},
    "ernie4_5_moe": {**EXPERTS, "moe_num_experts": 4, "moe_k": 2},
    "exaone4": MIXED,
    "falcon": {"alibi": False, "head_dim": None},
    "falcon_h1": {**MAMBA, "mamba_d_ssm": 64},
    "falcon_mamba": {"state_size": 8},
    "flex_olmo": EXPERTS,
    "gemma": {},
    "gemma2": MIXED,
    "gemma3_text": MIXED,
    "gemma3n_text": {
        **MIXED,
        "num_hidden_layers": 4,
        "layer_types": [SLIDING, FULL] * 2,
        "num_kv_shared_layers": 2,
    },
    "glm": {},
    "glm4": {},
    "glm4_moe": {**EXPERTS, "n_routed_experts": 4, "first_k_dense_replace": 1},
    "gpt2": {},
    "gpt_bigcode": {},
    "gpt_neo": {"attention_types": [[["global", "local"], 1]], "num_layers": 2, "window_size": WINDOW},
    "gpt_neox": {},
    "gpt_neox_japanese": {},
    "gpt_oss": {**MIXED, **EXPERTS},
    "gptj": {"rotary_dim": 4},
    "granite": {"logits_scaling": 8.0},
    "granitemoe": {"logits_scaling": 8.0},
    "granitemoehybrid": {**MAMBA, "layer_types": ["mamba", "attention"]},
    "helium": {},
    "hunyuan_v1_dense": {},
    "hunyuan_v1_moe": {"num_experts": 4, "moe_topk": 2},
    "jamba": {
        "use_mamba_kernels": False,
        "num_experts": 2,
        "mamba_dt_rank": 4,
        "attn_layer_offset": 1,
        "attn_layer_period": 2,
    },
    "jetmoe": {"kv_channels": 8},
    "lfm2": {"layer_types": ["conv", "full_attention"], "conv_L_cache": 3},
    "llama": {},
    "llama4_text": {"intermediate_size_mlp": 48, "num_local_experts": 2},
    "mamba": {"state_size": 8},
    "mamba2": {"num_heads": 8, "head_dim": 8, "state_size": 8, "n_groups": 2, "expand": 2},
    "minimax": {"layer_types": ["linear_attention", "full_attention"], **EXPERTS},
    "ministral": MIXED,
    "mistral": WINDOWED,
    "mixtral": {**WINDOWED, **EXPERTS},
    "modernbert-decoder": {"local_attention": WINDOW, "global_attn_every_n_layers": 2},
    "mpt": {"d_model": 32, "n_heads": 4, "n_layers": 2, "max_seq_len": 128},
    "nemotron": {},
    "olmo": {},
    "olmo2": {},
    "olmo3": MIXED,
    "olmoe": EXPERTS,
    "openai-gpt": {},
    "opt": {"ffn_dim": 48, "word_embed_proj_dim": 32},
    "persimmon": SAME_HEADS,
    "phi": SAME_HEADS,
    "phi3": WINDOWED,
    "phimoe": EXPERTS,
    "qwen2": {"use_sliding_window": True, **MIXED},
    "qwen2_moe": {**EXPERTS, "shared_expert_intermediate_size": 16},
    "qwen3": {},
    "qwen3_moe": EXPERTS,
    "qwen3_next": {
        **EXPERTS,
        "layer_types": ["linear_attention", "full_attention"],
        "linear_num_value_heads": 4,
        "linear_num_key_heads": 2,
        "linear_key_head_dim": 8,
        "linear_value_head_dim": 8,
        "shared_expert_intermediate_size": 16,
    },
    "recurrent_gemma": {
        "max_position_embeddings": None,
        "lru_width": 32,
        "attention_window_size": 64,
        "block_types": ["recurrent", "attention"],
    },
    "rwkv": {"attention_hidden_size": 32},
    "seed_oss": {},
    "smollm3": {},
    "stablelm": {},
    "starcoder2": WINDOWED,
    "vaultgemma": MIXED,
    "xglm": {"d_model": 32, "ffn_dim": 48, "num_layers": 2, "attention_heads": 4},
    "xlnet": {"max_position_embeddings": None, "d_model": 32, "n_layer": 2, "n_head": 4, "d_inner": 48},
    "zamba2": {
        "num_hidden_layers": 3,
        "layers_block_type": ["mamba", "mamba", "hybrid"],
        "n_mamba_heads": 8,
        "mamba_headdim": 8,
        "mamba_d_state": 8,
        "mamba_ngroups": 1,
        "num_mem_blocks": 1,
        "hybrid_layer_ids": [2],
    },
}
"""Architectures by their ``model_type``, with further fields of the config."""


class Comparison(NamedTuple):
    """The result of an architecture; a text says why an engine does not compute it."""

    architecture: str
    packed: float | str
    reference: float | str
    """Largest difference from the plain pass, in nats."""

    @property
    def status(self) -> str:
        """Return how the model is computed, as the table says it."""
        if isinstance(self.packed, float) and self.packed < TOLERANCE:
            return PACKED
        return ONE_AT_A_TIME if isinstance(self.reference, float) and self.reference < TOLERANCE else "no"

    @property
    def reason(self) -> str:
        """Return why it is not packed; empty if it is."""
        if self.status == PACKED:
            return ""
        what = f"differs by {self.packed:.1g} nats" if isinstance(self.packed, float) else self.packed
        return what.removeprefix(f"{name_model(self.architecture)} ").removesuffix(" and cannot be packed")


def name_model(architecture: str) -> str:
    """Return the name of a model in a profile."""
    return architecture.replace("_", "-")


def save_model(architecture: str, folder: Path, **changes: Any) -> None:
    """Save a random model without a tokenizer; ``changes`` are fields of its config."""
    import torch
    import transformers

    torch.manual_seed(0)
    fields = SIZE | FAMILIES[architecture] | changes
    config: Any = transformers.AutoConfig.for_model(architecture, **{k: v for k, v in fields.items() if v is not None})
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
    try:
        save_model(architecture, folder)
    except Exception as e:  # of the library, for its own class
        what = f"transformers cannot make it ({get_first_line(e)})"
        return Comparison(architecture, what, what)
    items = draw_inputs()
    try:
        tokenizer = cast(Tokenizer, range(VOCABULARY))  # only its length is read
        settings = ModelSettings(name=name_model(architecture), dtype="float32")
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


def format_table(files: Sequence[Path]) -> str:
    """Return the table of results under several releases of transformers."""
    releases = [json.loads(path.read_text()) for path in files]
    heads = [f"transformers {release['transformers']}" for release in releases]
    lines = [f"| `model_type` | {' | '.join(heads)} | not packed, because it |", "| --- " * (len(heads) + 2) + "|"]
    for architecture in FAMILIES:
        results = [Comparison(*release["results"][architecture]) for release in releases]
        reason = next((result.reason for result in reversed(results) if result.reason), "")
        lines.append(f"| {architecture} | {' | '.join(result.status for result in results)} | {reason} |")
    return "\n".join(lines)


@click.command()
@click.option("--write", type=click.Path(path_type=Path), help="Compare all architectures, and write this file.")
@click.option("--table", "files", type=click.Path(path_type=Path, exists=True), multiple=True, help="File to print.")
def main(write: Path | None, files: tuple[Path, ...]) -> None:
    """Compare all architectures with the installed transformers, or print results as a table."""
    if write is not None:
        import transformers

        results = {}
        for architecture in FAMILIES:
            with tempfile.TemporaryDirectory() as folder:
                results[architecture] = compare(architecture, Path(folder))
            click.echo(results[architecture])
        write.write_text(json.dumps({"transformers": transformers.__version__, "results": results}))
    if files:
        click.echo(format_table(files))


if __name__ == "__main__":
    main()
