"""Load frozen causal language models from local checkpoints (paper, Frozen Backends, Checkpoints, and Tokenizers)."""

import logging
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from pan_scdg.errors import UserError, get_first_line
from pan_scdg.models.checkpoint import (
    PUBLISHED,
    TOKENIZER,
    TOKENIZER_CONFIG,
    ModelConfig,
    check_library,
    diagnose_tokenizer,
    drop_chance,
    make_library_config,
    read_config,
    read_object,
)
from pan_scdg.models.devices import check_device, explain_model_too_large, is_out_of_memory
from pan_scdg.models.fingerprint import fingerprint_weights
from pan_scdg.models.norms import use_fused_norms
from pan_scdg.models.weights import FETCH_AGAIN, check_weights
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


@dataclass(frozen=True)
class LanguageModel:
    """A loaded model and the tokenizer of the same folder; ``model`` is a transformers model in evaluation mode."""

    tokenizer: Tokenizer
    model: Any
    device: str
    name: str
    fingerprint: str

    @property
    def positions(self) -> int | None:
        """Return the longest input in tokens under the profile's position rule, None if the checkpoint has no limit."""
        limit = getattr(self.model.config.get_text_config(), "max_position_embeddings", None)
        return None if limit is None else int(limit)


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
) -> LanguageModel:
    """Return the model of a checkpoint on a device, frozen, with its tokenizer.

    Args:
        folder: a local checkpoint with safetensors and without code of its own; nothing is fetched.
        settings: dtype, attention, positions, recorded hashes and probes.
        device: "cpu", "cuda" or "cuda:N".
        fingerprint: the result of `fingerprint_weights` for this folder, if known; None: computed here.
        tokenizer: the result of `load_tokenizer` for this folder, if known; None: loaded here.

    Raises:
        UserError: folder, device and settings do not fit together, or logits are altered after the output head.
    """
    config = read_config(folder)
    check_device(settings, device)
    tokenizer = load_tokenizer(folder, settings, config) if tokenizer is None else tokenizer
    fingerprint = fingerprint_weights(folder) if fingerprint is None else fingerprint
    with _explain_failure(folder, "model", device):
        model = _load_weights(folder, config, settings).to(device).eval().requires_grad_(False)
        check_weights(model.named_parameters(), folder)
        if device != "cpu":
            use_fused_norms(model)
        _check_vocabulary(model, tokenizer, folder)
        _check_logits(model, folder)
    return LanguageModel(tokenizer, model, device, settings.name, fingerprint)


def get_decoder_and_head(model: Any) -> tuple[Any, Any]:
    """Return the text decoder, whose last hidden states include the final norm, and the output head."""
    return model.get_decoder(), model.get_output_embeddings()


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
    published = settings.positions == PUBLISHED
    model, info = family.from_pretrained(
        str(folder),
        **({} if published else {"config": make_library_config(config, settings)}),
        dtype=getattr(torch, settings.dtype),
        attn_implementation="sdpa" if settings.attention == "varlen" else settings.attention,
        local_files_only=True,
        trust_remote_code=False,
        use_safetensors=True,
        output_loading_info=True,
    )
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


def _check_logits(model: Any, folder: Path) -> None:
    """Raise UserError unless the head, applied to the decoder's hidden states, gives the model's own logits.

    Log-probabilities are computed from head and decoder alone. The names in `ALTERED_LOGITS` catch what random or tiny
    weights would hide; the forward pass on a few tokens catches alterations under other names.
    """
    import torch

    text = model.config.get_text_config()
    altered = [f for f, plain in ALTERED_LOGITS.items() if getattr(text, f, plain) not in (None, plain)]
    decoder, head = get_decoder_and_head(model)
    if not altered and decoder is not model and head is not None:
        ids = torch.arange(4, device=model.device)[None]
        with torch.inference_mode():
            own = model(input_ids=ids, use_cache=False).logits.float()
            ours = head(decoder(input_ids=ids, use_cache=False).last_hidden_state).float()
        if not own.isfinite().all() or bool((own == own[..., :1]).all()):
            what = "the model gives all tokens the same probability, or values that are not finite"
            raise UserError(f"{what}: its weights are damaged", FETCH_AGAIN, folder)
        relative = 1e-4 if model.dtype == torch.float32 else 2e-2
        if own.shape == ours.shape and (own - ours).abs().max() <= relative * own.abs().max():
            return
    what = ", ".join(altered) or type(model).__name__
    raise UserError(f"logits are altered after the output head ({what})", "use a model with plain logits", folder)
