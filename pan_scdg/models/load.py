"""Load frozen causal language models from local checkpoints (paper, Frozen Backends, Checkpoints, and Tokenizers)."""

import logging
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from inspect import Parameter, signature
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from pan_scdg.errors import UserError, get_first_line
from pan_scdg.models.checkpoint import (
    FETCH_AGAIN,
    POSITIONS,
    PUBLISHED,
    TOKENIZER,
    TOKENIZER_CONFIG,
    ModelConfig,
    check_library,
    check_weights,
    diagnose_tokenizer,
    drop_chance,
    make_library_config,
    read_config,
    read_object,
)
from pan_scdg.models.devices import (
    check_device,
    check_device_exists,
    explain_model_too_large,
    is_device_error,
    is_out_of_memory,
)
from pan_scdg.models.fingerprint import fingerprint_weights
from pan_scdg.models.norms import use_fused_norms
from pan_scdg.scdg.sequences import Tokenizer

if TYPE_CHECKING:
    from pan_scdg.settings import ModelSettings

MISTRAL3 = "Mistral3ForConditionalGeneration"
GENERIC_TOKENIZERS = ("PreTrainedTokenizerFast", "TokenizersBackend")
"""Names, in transformers 4 and 5, of the class that follows ``tokenizer.json`` and adds nothing."""
ALTERED_LOGITS = {
    "final_logit_softcapping": None,
    "logits_soft_cap": None,
    "logit_scale": 1,
    "logits_scaling": 1,
    "lm_head_multiplier": 1,
}
"""Fields of a config that change logits after the output head, with the value that changes nothing."""


EAGER_FIELDS = ("attn_logit_softcapping", "scale_attn_by_inverse_layer_idx")
"""Fields of a config that change the scores of attention, which transformers ignores in sdpa."""


@dataclass(frozen=True)
class LanguageModel:
    """A loaded model and the tokenizer of the same folder; ``model`` is a transformers model in evaluation mode."""

    tokenizer: Tokenizer
    model: Any
    device: str
    name: str
    fingerprint: str
    has_plain_logits: bool = True
    """The output head, applied to the decoder's hidden states, gives the model's logits."""

    @property
    def positions(self) -> int | None:
        """Return the longest input in tokens under the profile's position rule, None if the checkpoint has no limit."""
        text = self.model.config.get_text_config()
        limits = (getattr(text, field, None) for field in POSITIONS)
        return next((int(limit) for limit in limits if limit is not None), None)


def load_tokenizer(
    folder: Path, settings: "ModelSettings", config: ModelConfig | None = None, *, raw_text: bool = False
) -> Tokenizer:
    """Return the fast tokenizer of a checkpoint; needs no weights in memory.

    The slow tokenizer that the paper names for Qwen gives the same ids (``benchmarks/results/tokenizer.md``).

    Args:
        folder: a local checkpoint.
        settings: recorded hashes and probes.
        config: the result of `read_config` for this folder, if known; None: read here.
        raw_text: a special token that a text spells, such as ``<|endoftext|>``, is that token, as in the paper. False:
            it is split like any other word, so that no document can end itself.

    Raises:
        UserError: it cannot be loaded, is not a fast one, encodes a probe of the profile differently, or a file is not
            the one that the profile records.
    """
    check_library(read_config(folder) if config is None else config)
    with _explain_failure(folder, "tokenizer"):
        try:
            tokenizer = _read_tokenizer(folder)
        except Exception:
            if damage := diagnose_tokenizer(folder):
                raise damage from None
            raise
    if not getattr(tokenizer, "is_fast", True):
        remedy = f"add the {TOKENIZER} that was published with the checkpoint"
        raise UserError("the checkpoint has no fast tokenizer", remedy, folder)
    # We compare lengths with the model ourselves; a smaller number here would only print a warning for long texts.
    tokenizer.model_max_length = 10**9
    tokenizer.split_special_tokens = not raw_text
    drop_chance(tokenizer)
    check_probes(tokenizer, settings.probes, folder)
    return cast(Tokenizer, tokenizer)


def load_model(
    folder: Path,
    settings: "ModelSettings",
    device: str,
    *,
    fingerprint: str | None = None,
    tokenizer: Tokenizer | None = None,
    fused_norms: bool = True,
) -> LanguageModel:
    """Return the model of a checkpoint on a device, frozen, with its tokenizer.

    Args:
        folder: a local checkpoint with safetensors and without code of its own; nothing is fetched.
        settings: dtype, attention, positions, recorded hashes and probes.
        device: "cpu", "cuda" or "cuda:N".
        fingerprint: the result of `fingerprint_weights` for this folder, if known; None: computed here.
        tokenizer: the result of `load_tokenizer` for this folder, if known; None: loaded here.
        fused_norms: on a GPU, compute norms by one kernel, whose rounding is not that of the paper's transformers.

    Raises:
        UserError: folder, device and settings do not fit together, or the model is not causal.
    """
    config = read_config(folder)
    check_device(settings, device)
    check_device_exists(device, computes=True)
    tokenizer = load_tokenizer(folder, settings, config) if tokenizer is None else tokenizer
    fingerprint = fingerprint_weights(folder) if fingerprint is None else fingerprint
    with _explain_failure(folder, "model", device):
        model = _load_weights(folder, config, settings).to(device).eval().requires_grad_(False)
        check_weights(model.named_parameters(), folder)
        if fused_norms and device != "cpu":
            use_fused_norms(model)
        _check_vocabulary(model, tokenizer, folder)
        has_plain_logits = _check_logits(model, folder)
    return LanguageModel(tokenizer, model, device, settings.name, fingerprint, has_plain_logits)


def get_decoder_and_head(model: Any) -> tuple[Any, Any]:
    """Return the text decoder, whose last hidden states include the final norm, and the output head."""
    decoder, head = model.get_decoder(), model.get_output_embeddings()
    # `get_decoder` returns what has the name `decoder` or `model`: GPT-2 and GPT-NeoX have neither, and it returns
    # themselves; the `decoder` of ModernBERT is its output head
    return model.base_model if decoder in (model, head) else decoder, head


def needs_cache(model: Any) -> bool:
    """Return True if layers read the keys and values of others from the cache, and compute other ones without it."""
    return bool(getattr(model.config.get_text_config(), "num_kv_shared_layers", 0))  # Gemma 3n


def call(module: Any, **arguments: Any) -> Any:
    """Return the output of a model or decoder, called with those arguments that it takes."""
    taken = signature(module.forward).parameters
    takes_all = any(one.kind is Parameter.VAR_KEYWORD for one in taken.values())
    return module(**{name: value for name, value in arguments.items() if takes_all or name in taken})


def check_probes(tokenizer: Tokenizer, probes: Mapping[str, Sequence[int]], folder: Path) -> None:
    """Raise UserError for the first text that a tokenizer encodes differently from the probes.

    A vocabulary of another family, or a pre-tokenizer that was replaced on loading, changes every score and breaks
    nothing, so nothing else would notice it.
    """
    for text, expected in probes.items():
        ids = list(tokenizer.encode(text, add_special_tokens=False))
        if ids != list(expected):
            raise UserError(
                f"the tokenizer encodes {text!r} as {ids}, but the profile expects {list(expected)}",
                "use the tokenizer files that were published with the checkpoint",
                folder,
            )


def _read_tokenizer(folder: Path) -> Any:
    import transformers

    # it warns of a wrong pattern for every vocabulary above 100,000, with a flag that nobody can set here
    logging.getLogger("transformers.tokenization_utils_base").setLevel(logging.ERROR)

    config = folder / TOKENIZER_CONFIG
    name = read_object(config).get("tokenizer_class") if config.exists() else None
    if name in GENERIC_TOKENIZERS and (folder / TOKENIZER).is_file():
        # AutoTokenizer of transformers 5 would use the class of the model's family instead, with that class's own
        # pre-tokenizer, and for Mistral another package where that is installed.
        return transformers.PreTrainedTokenizerFast.from_pretrained(str(folder), local_files_only=True)
    load: Any = transformers.AutoTokenizer.from_pretrained
    return load(str(folder), use_fast=True, local_files_only=True, trust_remote_code=False)


def _load_weights(folder: Path, config: ModelConfig, settings: "ModelSettings") -> Any:
    import torch
    import transformers

    mistral3 = MISTRAL3 in config.architectures
    family: Any = transformers.Mistral3ForConditionalGeneration if mistral3 else transformers.AutoModelForCausalLM
    attention = "sdpa" if settings.attention == "varlen" else settings.attention
    if attention == "sdpa" and any(config.text.get(field) for field in EAGER_FIELDS):
        attention = "eager"
    load = partial(
        family.from_pretrained,
        str(folder),
        **({} if settings.positions == PUBLISHED else {"config": make_library_config(config, settings)}),
        dtype=getattr(torch, settings.dtype),
        local_files_only=True,
        trust_remote_code=False,
        use_safetensors=True,
        output_loading_info=True,
    )
    try:
        model, info = load(attn_implementation=attention)
    except ValueError as e:
        if "does not support" not in str(e):
            raise
        model, info = load()  # with an attention that the architecture has
    # transformers would fill these with random numbers and only print a warning
    if missing := sorted(info["missing_keys"]):
        raise UserError(f"{len(missing)} weights are missing, {missing[0]} first", "complete the checkpoint", folder)
    return model


@contextmanager
def _explain_failure(folder: Path, part: str, device: str = "cpu") -> Iterator[None]:
    """Turn the exceptions of the libraries for a damaged or unknown checkpoint into a UserError.

    They may be of any type: the libraries trust the files, so a text instead of a list causes an AttributeError.
    """
    try:
        yield
    except UserError:
        raise
    except Exception as e:
        if is_device_error(e):
            raise
        if is_out_of_memory(e):
            raise explain_model_too_large(part, device, folder) from e
        raise UserError(
            f"the {part} cannot be loaded: {get_first_line(e)}", "check the checkpoint folder", folder
        ) from e


def _check_vocabulary(model: Any, tokenizer: Any, folder: Path) -> None:
    rows = model.get_input_embeddings().num_embeddings
    if len(tokenizer) > rows:
        raise UserError(
            f"the tokenizer has {len(tokenizer)} tokens, but the model has {rows}",
            "use the files of one checkpoint",
            folder,
        )


def _check_logits(model: Any, folder: Path) -> bool:
    """Return True if the head, applied to the decoder's hidden states, gives the model's own logits.

    The names in `ALTERED_LOGITS` catch what random or tiny weights would hide; the forward pass on a few tokens catches
    alterations under other names.

    Raises:
        UserError: the logits are damaged, or those of a token depend on the tokens after it.
    """
    import torch

    ids = torch.arange(4, device=model.device)[None]
    relative = 1e-4 if model.dtype == torch.float32 else 2e-2

    def compute(module: Any, count: int) -> Any:
        tokens = ids[:, :count]
        return call(module, input_ids=tokens, attention_mask=torch.ones_like(tokens), use_cache=needs_cache(model))

    def is_same(logits: Any, expected: Any) -> bool:
        return logits.shape == expected.shape and bool((logits - expected).abs().max() <= relative * largest)

    with torch.inference_mode():
        own = compute(model, 4).logits.float()
        if not own.isfinite().all() or bool((own == own[..., :1]).all()):
            what = "the model gives all tokens the same probability, or values that are not finite"
            raise UserError(f"{what}: its weights are damaged", FETCH_AGAIN, folder)
        largest = own.abs().max()
        if not is_same(compute(model, 3).logits.float(), own[:, :3]):
            former = model.config._attn_implementation
            model.set_attn_implementation("eager")  # Doge has a mask of its own, with which sdpa is not causal
            if model.config._attn_implementation != former:  # some architectures keep theirs
                return _check_logits(model, folder)
            what = f"{type(model).__name__} is not causal: a token changes the probabilities of those before it"
            raise UserError(what, "use a causal language model", folder)
        text = model.config.get_text_config()
        decoder, head = get_decoder_and_head(model)
        if any(getattr(text, f, plain) not in (None, plain) for f, plain in ALTERED_LOGITS.items()) or head is None:
            return False
        hidden = getattr(compute(decoder, 4), "last_hidden_state", None)
        return hidden is not None and is_same(head(hidden).float(), own)
