"""Estimate hours of scoring and indexing on GPUs of other machines, from the operations that the tokens cost."""

from collections.abc import Sequence
from itertools import chain

from pan_scdg.errors import UserError
from pan_scdg.jobs.plan.count import SAMPLED, Tokens, choose_evenly
from pan_scdg.models.config import ModelConfig, read_config
from pan_scdg.models.devices import resolve_device
from pan_scdg.models.encoder_folder import check_encoder
from pan_scdg.models.find import find_encoder
from pan_scdg.models.load import load_tokenizer
from pan_scdg.pan.source_retrieval import Corpus
from pan_scdg.profile import ModelSettings, Profile, RetrievalSettings
from pan_scdg.retrieval.document_groups import cut_texts

TFLOPS = {"A100": 312.0, "L40S": 362.0, "H100": 989.0, "H200": 989.0}
"""Published peak of dense bfloat16 products, in 10^12 operations a second (NVIDIA's data sheets; H100 and H200 SXM)."""
SHARE = 0.4
"""Share of the peak that is assumed; no GPU has been measured in this project."""
GATED = "silu"
"""The activation of decoders with gated MLPs, whose operations can be counted; encoders such as BERT have another."""


def choose_gpus(profile: Profile, named: str | None, device: str) -> tuple[str, ...]:
    """Return the GPUs that a plan is for: the named one, or all known ones for a profile that needs one and has none.

    Empty if the plan measures the device of this machine.

    Raises:
        UserError: the named GPU is not known.
    """
    if named is not None and named not in TFLOPS:
        raise UserError(
            f"the speed of the GPU {named[:40]!r} is not known", f"name one of {', '.join(TFLOPS)}", "--gpu"
        )
    if named is not None:
        return (named,)
    absent = device == "auto" and profile.needs_gpu and resolve_device("auto") == "cpu"
    return tuple(TFLOPS) if absent else ()


def count_operations(config: ModelConfig, tokens: Tokens) -> float | None:
    """Return the floating-point operations of a decoder with gated MLPs, as the default engine computes.

    Two operations for each weight of a layer and token, four for each pair of tokens and number of a query, and two for
    each weight of the output head and target. None if the config lacks a size, or has experts.
    """
    names = ("num_hidden_layers", "hidden_size", "intermediate_size", "num_attention_heads", "vocab_size")
    sizes = [config.text.get(name) for name in names]
    if any("expert" in name for name in config.text):
        return None
    layers, hidden, inner, heads, vocabulary = (size if isinstance(size, int) else 0 for size in sizes)
    if not all((layers, hidden, inner, heads, vocabulary)):
        return None
    width = int(config.text.get("head_dim") or hidden // heads)
    shared = int(config.text.get("num_key_value_heads") or heads)
    weights = hidden * width * (2 * heads + 2 * shared) + 3 * hidden * inner
    return layers * (2.0 * weights * tokens.packed + 4.0 * heads * width * tokens.attended) + (
        2.0 * vocabulary * hidden * tokens.targets
    )


def estimate_hours(config: ModelConfig, tokens: Tokens, gpus: Sequence[str], processes: int) -> dict[str, float]:
    """Return the hours of computing tokens on each kind of GPU in `TFLOPS`, at `SHARE` of its published peak.

    ``processes`` such GPUs share the work. No hours if the operations of the model are not known.
    """
    operations = count_operations(config, tokens)
    if operations is None:
        return {}
    return {gpu: operations / (TFLOPS[gpu] * 1e12 * SHARE) / processes / 3600 for gpu in gpus}


def estimate_indexing(
    corpus: Corpus, settings: RetrievalSettings, gpus: Sequence[str], processes: int
) -> dict[str, float]:
    """Return the hours of encoding a corpus on each kind of GPU; see `estimate_hours`.

    Tokens are counted on documents that are sampled evenly. No hours if the encoder is not installed, or no decoder
    with gated MLPs.
    """
    kinds = ["chunks"] * any(route.startswith("dense") for route in settings.routes)
    kinds += ["abstracts"] * ("abstract" in settings.routes)
    if not gpus or not kinds:
        return {}
    dense = settings.need_dense()
    try:
        folder = check_encoder(find_encoder(dense.model).folder)
        config = read_config(folder, encoder=True)
        tokenizer = load_tokenizer(folder, ModelSettings(name="encoder", tokenizer="fast"), config)
    except UserError:
        return {}
    if config.text.get("hidden_act") != GATED:
        return {}
    names = list(corpus.ids)
    chosen = {names[place] for place in choose_evenly(SAMPLED, len(names))}
    limit, tokens = dense.document_tokens or config.positions, Tokens(0, 0)
    for document in corpus.select(chosen):
        for text in chain(*(cut_texts(document, kind, dense) for kind in kinds)):
            length = len(tokenizer.encode(text, add_special_tokens=True))
            length = length if limit is None else min(length, limit)
            tokens += Tokens(length, length, length * (length + 1) / 2)
    return estimate_hours(config, tokens.multiply(len(names) / len(chosen) if chosen else 0.0), gpus, processes)
