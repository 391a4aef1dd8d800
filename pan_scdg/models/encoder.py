"""Load sentence-transformers models from local folders, and encode texts as unit vectors."""

import gc
import logging
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, nullcontext
from functools import cached_property
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import regex

from pan_scdg.errors import UserError, get_first_line
from pan_scdg.models.bert import PackedBert, pack_bert, plan_calls
from pan_scdg.models.checkpoint import (
    check_weights,
    diagnose_tokenizer,
    drop_chance,
    list_weight_files,
)
from pan_scdg.models.devices import (
    check_device_exists,
    explain_model_too_large,
    explain_too_large,
    free_memory,
    is_device_error,
    is_out_of_memory,
    limit_call,
)
from pan_scdg.models.encoder_files import Base, check_encoder, find_encoder_folder
from pan_scdg.models.fingerprint import fingerprint_folder, fingerprint_weights
from pan_scdg.models.linear import MAX_CPU_TOKENS, use_onednn
from pan_scdg.progress import count_tokens
from pan_scdg.settings import EncoderDtype

MAX_PADDING = 1 / 6
"""Largest share of padding in a batch: less makes batches too small to be fast."""
EMBEDDINGS = "embeddings."
"""The beginning of the names of the weights that a model has from its base."""
SCRIPT_CHARACTERS = 20_000
"""Characters of a text that show its script."""
MAX_MISSING, MAX_SPELT = 0.25, 0.5
"""Shares of the letters of a text in words that the vocabulary lacks, and in words that it spells letter by letter. In
European languages MiniLM spells up to 0.14; in Greek or Hindi 0.6 or more, and of Thai or Chinese it lacks 0.5."""
_LETTER, _SPELT_LETTER, _LONE_LETTER = (
    regex.compile(pattern)
    for pattern in (
        r"\p{L}",
        r"(?V1)[\p{L}--[\p{Han}\p{Hiragana}\p{Katakana}]]",
        r"(?<![\p{L}\p{M}])\p{L}\p{M}*(?![\p{L}\p{M}])",
    )
)


class TokenisedTexts(NamedTuple):
    """Texts that are ready to be encoded."""

    inputs: list[dict[str, Any]]
    """Of the distinct texts, without padding: the token ids and what else the tokenizer returns."""
    characters: list[int]
    """Numbers of characters of the distinct texts."""
    rows: list[int]
    """Position of each text among the distinct ones."""
    prompt_length: int | None
    """Tokens of the prompt; None without one."""


class Encoder:
    """A loaded embedding model. Vectors depend only on the texts of one call, their order and ``batch``."""

    def __init__(
        self, model: Any, folder: Path, batch: int, dtype: EncoderDtype, packed: PackedBert | None = None
    ) -> None:
        """Wrap a ``SentenceTransformer`` that encodes at most ``batch`` texts together; use ``load_encoder``.

        Args:
            model: with tokenizer and settings.
            folder: of the model.
            batch: not used by packed layers, which limit tokens.
            dtype: of the weights.
            packed: the layers, if ``model`` has none.

        Raises:
            UserError: the model's folder does not give the maximal length of a text or the size of a vector.
            ValueError: ``batch`` is below 1.
        """
        if batch < 1:
            raise ValueError(f"batch must be at least 1, not {batch}")
        length, width = model.max_seq_length, model.get_embedding_dimension()
        if length is None or width is None:
            raise UserError("no maximal length or vector size is given", "complete the model's configuration", folder)
        self._model, self.batch, self.folder, self.dtype = model, batch, folder, dtype
        self._packed = packed
        self.device = str(model.device.type)
        self.max_tokens = int(length)
        """Longest input in tokens, special tokens included; longer texts are truncated."""
        self.dimension = int(width)

    def encode(self, texts: Sequence[str], max_tokens: int | None = None, prompt: str = "") -> npt.NDArray[np.float32]:
        """Return the unit vectors of texts, float32 ``[n, dimension]``.

        Args:
            texts: equal ones are encoded once, those of similar lengths together.
            max_tokens: where a text is truncated, special tokens and prompt included; None: the model's own limit.
            prompt: put in front of each text; prompts that the model's folder suggests are not used.

        Raises:
            UserError: ``max_tokens`` exceeds the model's limit.
            ValueError: a vector is not finite or zero.
        """
        return self.compute(self.tokenise(texts, max_tokens, prompt))

    def tokenise(self, texts: Sequence[str], max_tokens: int | None = None, prompt: str = "") -> TokenisedTexts:
        """Return what `compute` needs of texts; see `encode`. It uses no device."""
        if max_tokens is not None and max_tokens > self.max_tokens:
            raise UserError(
                f"the profile requests {max_tokens} tokens per text, but the encoder reads at most {self.max_tokens}",
                "lower document_tokens and query_tokens in the profile, or leave them out",
                self.folder,
            )
        if self._model is None:
            raise ValueError("the encoder was released")
        distinct = list(dict.fromkeys(texts))  # formulas, headings and page headers recur
        rows = {text: row for row, text in enumerate(distinct)}
        if not distinct:
            return TokenisedTexts([], [], [], None)
        limit = self.max_tokens if max_tokens is None else max_tokens
        columns = self.tokenizer([prompt + text for text in distinct], truncation=True, max_length=limit)
        inputs = [dict(zip(columns, values)) for values in zip(*columns.values())]
        # the pooling of some models leaves the prompt out
        length = self._model.preprocess(distinct[:1], prompt=prompt)["prompt_length"] if prompt else None
        return TokenisedTexts(inputs, list(map(len, distinct)), [rows[text] for text in texts], length)

    def compute(self, tokenised: TokenisedTexts) -> npt.NDArray[np.float32]:
        """Return the unit vectors of texts; see `encode`."""
        lengths = [len(one["input_ids"]) for one in tokenised.inputs]
        vectors = np.empty((len(lengths), self.dimension), np.float32)
        if self._packed is not None:
            batches = list(plan_calls(lengths))[::-1]
        else:
            batches = list(plan_batches(lengths, self.batch, MAX_CPU_TOKENS if self.device == "cpu" else None))
        while batches:
            indices = batches.pop()  # the longest first: all later ones use its memory
            if self._packed is None:  # the longest text comes first in a batch, as in sentence-transformers
                indices.sort(key=lambda index: -tokenised.characters[index])
            encoded = self._encode_batch([tokenised.inputs[index] for index in indices], tokenised.prompt_length)
            if encoded is not None:
                vectors[indices] = encoded
                count_tokens(sum(lengths[index] for index in indices))
            elif len(indices) > 1:
                middle = len(indices) // 2
                batches += [indices[:middle], indices[middle:]]
            else:
                raise explain_too_large(lengths[indices[0]], self.device)
        return vectors if tokenised.rows == list(range(len(vectors))) else vectors[tokenised.rows]

    def _encode_batch(self, inputs: list[dict[str, Any]], prompt_length: int | None) -> npt.NDArray[np.float32] | None:
        """Return the vectors of texts that are encoded together; None if memory is too short."""
        import torch

        try:
            with torch.inference_mode(), permit_kernels(self.device):
                tensor = self._compute_batch(inputs, prompt_length)
        except Exception as e:
            if not is_out_of_memory(e):
                raise
            tensor = None
        if tensor is None:  # outside the except block, whose exception holds memory
            free_memory(self.device)
            return None
        # vectors are normalised in float32 whatever the model computes in (paper, BGE-M3)
        pooled: npt.NDArray[np.float32] = tensor.float().cpu().numpy()
        norms = np.linalg.norm(pooled, axis=1, keepdims=True)
        if not np.isfinite(norms).all() or not norms.all():
            raise ValueError("the encoder gave a vector that is zero or not finite")
        unit: npt.NDArray[np.float32] = pooled / norms
        return unit

    def _compute_batch(self, inputs: list[dict[str, Any]], prompt_length: int | None) -> Any:
        """Return the tensor of pooled hidden states of texts."""
        if self._packed is not None:
            return self._packed([one["input_ids"] for one in inputs])
        features = dict(self.tokenizer.pad(inputs, return_tensors="pt").to(self._model.device))
        more = {"modality": "text"} | ({} if prompt_length is None else {"prompt_length": prompt_length})
        return self._model(features | more)["sentence_embedding"]

    def knows_script(self, text: str) -> bool:
        """See the function `knows_script`."""
        return knows_script(self.tokenizer, text)

    @property
    def tokenizer(self) -> Any:
        """Return the model's tokenizer, for cutting a text into pieces that the model reads completely."""
        return self._model.tokenizer

    def release(self) -> None:
        """Free the model's memory; the encoder is unusable afterwards."""
        self._model = self._packed = None
        gc.collect()  # the library's model refers to itself
        free_memory(self.device)

    @cached_property
    def fingerprint(self) -> str:
        """Return the SHA-256 of the model's folder; see ``fingerprint_folder``."""
        return fingerprint_folder(self.folder)


class EncoderUse(NamedTuple):
    """How a job loads an encoder and cuts the texts for it."""

    folder: Path
    batch: int = 32
    dtype: EncoderDtype | None = None
    max_tokens: int | None = None
    """Where texts are cut; None: the model's own limit."""

    def load(self, device: str, raw_text: bool = False) -> Encoder:
        """Return the encoder, loaded on a device; see `load_encoder`."""
        return load_encoder(self.folder, device, self.batch, self.dtype, raw_text=raw_text)


def knows_script(tokenizer: Any, text: str) -> bool:
    """Return False if the vocabulary lacks many words of a text, or has only the letters of most of them.

    To such a model all sentences in that script are alike.
    """
    if text.isascii() or not tokenizer.is_fast:
        return True
    sample = text[:SCRIPT_CHARACTERS]
    others = sum(len(word) for word in sample.split() if not word.isascii())
    if others <= MAX_MISSING * sum(map(str.isalpha, sample)):
        return True
    options = {"add_special_tokens": False, "truncation": False, "verbose": False, "return_offsets_mapping": True}
    encoded, unknown = tokenizer(sample, **options), tokenizer.unk_token_id
    letters = missing = 0
    spelt = -len(_LONE_LETTER.findall(sample))
    for token, (begin, end) in zip(encoded["input_ids"], encoded["offset_mapping"]):
        count = len(_LETTER.findall(sample, begin, end))
        letters += count
        if token == unknown:
            missing += count
        elif count == 1 and _SPELT_LETTER.search(sample, begin, end):
            spelt += 1
    return missing <= MAX_MISSING * letters and spelt <= MAX_SPELT * letters


def load_encoder_tokenizer(folder: Path) -> Any:
    """Return the tokenizer of an embedding model alone.

    Raises:
        UserError: it cannot be loaded.
    """
    import transformers

    transformer, _ = check_encoder(folder)
    load: Any = transformers.AutoTokenizer.from_pretrained
    try:
        return load(str(transformer), local_files_only=True, trust_remote_code=False)
    except Exception as e:  # the library trusts the files
        if damage := diagnose_tokenizer(folder):
            raise damage from e
        what = f"the tokenizer cannot be loaded: {get_first_line(e)}"
        raise UserError(what, "copy the model's folder again", folder) from e


def permit_kernels(device: str) -> AbstractContextManager[object]:
    """Leave out cuDNN's attention on a GPU, which makes a plan for each new number of texts and length."""
    if device == "cpu":
        return nullcontext()
    from torch.nn.attention import SDPBackend, sdpa_kernel

    return sdpa_kernel([SDPBackend.FLASH_ATTENTION, SDPBackend.EFFICIENT_ATTENTION, SDPBackend.MATH])


def plan_batches(tokens: Sequence[int], max_texts: int, max_tokens: int | None = None) -> Iterator[list[int]]:
    """Yield the indices of the texts that are encoded together, shortest first, with at most `MAX_PADDING` in a batch.

    Args:
        tokens: number of tokens of each text.
        max_texts: number of texts in a batch.
        max_tokens: number of tokens in a batch, padding included, unless it is a single text; None: any number.
    """
    batch = list[int]()
    real = 0
    for index in sorted(range(len(tokens)), key=tokens.__getitem__):
        padded = (len(batch) + 1) * tokens[index]
        full = len(batch) == max_texts or (max_tokens is not None and padded > max_tokens)
        if batch and (full or padded - real - tokens[index] > MAX_PADDING * padded):
            yield batch
            batch, real = [], 0
        batch.append(index)
        real += tokens[index]
    if batch:
        yield batch


def load_encoder(
    name_or_folder: str | Path,
    device: str,
    batch: int = 32,
    dtype: EncoderDtype | None = None,
    *,
    raw_text: bool = False,
) -> Encoder:
    """Load an embedding model from disk, without network and without code from its folder.

    Args:
        name_or_folder: the name of an installed package, or a folder.
        device: ``cpu`` or ``cuda``.
        batch: number of texts that are encoded together.
        dtype: None: float32 on a CPU, bfloat16 elsewhere (paper, BGE-M3).
        raw_text: special tokens that a text spells, such as ``[SEP]``, are special tokens; False: they are split.

    Raises:
        UserError: the model is missing, damaged or incomplete, needs code of its own, or has no safetensors; or the
            device is not usable.
    """
    check_device_exists(device, computes=True)
    folder = find_encoder_folder(name_or_folder)
    transformer, base = check_encoder(folder)

    import torch
    from sentence_transformers import SentenceTransformer

    from pan_scdg.models.norms import use_fused_norms

    logging.getLogger("transformers").setLevel(logging.ERROR)  # what it warns of is checked below, in one line
    dtype = dtype or ("float32" if device == "cpu" else "bfloat16")
    options = {"dtype": getattr(torch, dtype), "use_safetensors": True}
    try:
        model = SentenceTransformer(
            str(folder), device=device, local_files_only=True, trust_remote_code=False, model_kwargs=options
        )
    except Exception as e:  # the library trusts the files
        if is_device_error(e):
            raise
        if is_out_of_memory(e) or "allocate memory" in str(e):
            raise explain_model_too_large("embedding model", device, folder) from e
        if damage := diagnose_tokenizer(folder):
            raise damage from e
        what = f"the embedding model cannot be loaded: {get_first_line(e)}"
        raise UserError(what, "copy the model's folder again", folder) from e
    model.tokenizer.split_special_tokens = not raw_text
    drop_chance(model.tokenizer)
    if base is not None:
        _set_embeddings(model[0].auto_model, base, folder)
    _check_complete(model[0].auto_model, transformer, base)
    model[0].auto_model.config.use_cache = False  # a decoder would keep the keys and values of every layer
    check_weights(model[0].auto_model.named_parameters(), transformer)
    if type(model[-1]).__name__ == "Normalize":
        del model[-1]  # it would round in bfloat16 what `Encoder` normalises in float32 (paper, BGE-M3)
    model.eval()
    packed = None
    if device == "cpu":
        if (packed := pack_bert(model)) is None:
            use_onednn(model)
    else:
        use_fused_norms(model)
    return Encoder(model, folder, limit_call(batch), dtype, packed)


def _set_embeddings(model: Any, base: Base, folder: Path) -> None:
    """Set the embeddings of a model to those of its base.

    Raises:
        UserError: another version of the base is installed, or its embeddings have another shape.
    """
    from safetensors import safe_open

    if fingerprint_weights(base.folder) != base.fingerprint:
        what = f"the installed package {base.name} is not the version that this model was trained from"
        raise UserError(what, "install the version that pan_scdg requires", folder)
    weights = {name: weight for name, weight in model.named_parameters() if name.startswith(EMBEDDINGS)}
    for path in list_weight_files(base.folder):
        with safe_open(path, framework="pt") as file:
            for name in weights.keys() & set(file.keys()):
                tensor = file.get_tensor(name)
                if tensor.shape != weights[name].shape:
                    what = f"the weights {name} of {base.name} have another shape"
                    raise UserError(what, "copy the model's folder again", folder)
                weights[name].data.copy_(tensor)


def _list_stored(folder: Path) -> set[str]:
    """Return the names of the weights in a folder's files."""
    from safetensors import safe_open

    stored = set[str]()
    for path in list_weight_files(folder):
        with safe_open(path, framework="numpy") as file:
            stored |= set(file.keys())
    return stored


def _check_complete(model: Any, folder: Path, base: Base | None) -> None:
    """Raise UserError if the files lack a weight, which transformers would silently fill with random numbers.

    Names in the files may have the prefix of a larger model, such as ``bert.``, or BERT's former names of a layer norm.
    The pooler of a transformer is not used, and many published models lack it.
    """
    stored = _list_stored(folder)
    if base is not None:
        stored |= {name for name in _list_stored(base.folder) if name.startswith(EMBEDDINGS)}
    stored |= {name.partition(".")[2] for name in stored}
    stored |= {name.replace(".gamma", ".weight").replace(".beta", ".bias") for name in stored}
    names: dict[int, list[str]] = {}  # tied weights have several, one of which is in the files
    for name, weight in model.named_parameters(remove_duplicate=False):
        names.setdefault(id(weight), []).append(name)
    if missing := sorted(n[0] for n in names.values() if stored.isdisjoint(n) and not n[0].startswith("pooler.")):
        what = f"the embedding model lacks {len(missing)} weights, {missing[0]} first"
        raise UserError(what, "copy the model's folder again", folder)
