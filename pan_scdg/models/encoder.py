"""Load sentence-transformers models from local folders, and encode texts as unit vectors."""

import gc
import logging
from collections.abc import Iterator, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from pan_scdg.errors import UserError, get_first_line
from pan_scdg.models.encoder_folder import check_encoder
from pan_scdg.models.files import diagnose_tokenizer
from pan_scdg.models.find import find_encoder_folder
from pan_scdg.models.fingerprint import fingerprint_folder
from pan_scdg.models.memory import is_out_of_memory
from pan_scdg.models.weights import list_weight_files, read_tensors
from pan_scdg.profile import EncoderDtype

PADDING = 1 / 6
"""Largest share of padding in a batch: less makes batches too small to be fast."""
MOST_TOKENS = 2048
"""Tokens of a batch on a CPU, padding included: what layers compute of more leaves the caches, and its memory is taken
from the system and given back each time."""


class Encoder:
    """A loaded embedding model. Vectors depend only on the texts of one call, their order and ``batch``."""

    def __init__(self, model: Any, folder: Path, batch: int, dtype: EncoderDtype) -> None:
        """Wrap a ``SentenceTransformer`` that encodes at most ``batch`` texts together; use ``load_encoder``.

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
        if max_tokens is not None and max_tokens > self.max_tokens:
            raise UserError(
                f"the profile requests {max_tokens} tokens per text, but the encoder reads at most {self.max_tokens}",
                "lower document_tokens and query_tokens in the profile, or leave them out",
                self.folder,
            )
        if self._model is None:
            raise ValueError("the encoder was released")
        self._model.max_seq_length = limit = self.max_tokens if max_tokens is None else max_tokens
        distinct = list(dict.fromkeys(texts))  # formulas, headings and page headers recur
        vectors = np.empty((len(distinct), self.dimension), np.float32)
        most = MOST_TOKENS if self.device == "cpu" else None
        batches = list(plan_batches(self._count_tokens(distinct, limit, prompt), self.batch, most))
        for places in reversed(batches):  # the longest first: all later ones use its memory
            vectors[places] = self._encode_batch([distinct[place] for place in places], prompt)
        if len(distinct) == len(texts):
            return vectors
        place_of = {text: place for place, text in enumerate(distinct)}
        return vectors[[place_of[text] for text in texts]]

    def _count_tokens(self, texts: Sequence[str], limit: int, prompt: str) -> list[int]:
        if not texts:
            return []
        ids = self.tokenizer([prompt + text for text in texts], truncation=True, max_length=limit)["input_ids"]
        return list(map(len, ids))

    def _encode_batch(self, texts: list[str], prompt: str) -> npt.NDArray[np.float32]:
        tensor = self._model.encode(
            texts, prompt=prompt, batch_size=len(texts), convert_to_tensor=True, show_progress_bar=False
        )
        # vectors are normalised in float32 whatever the model computes in (paper, BGE-M3)
        pooled: npt.NDArray[np.float32] = tensor.float().cpu().numpy()
        norms = np.linalg.norm(pooled, axis=1, keepdims=True)
        if not np.isfinite(norms).all() or not norms.all():
            raise ValueError("the encoder gave a vector that is zero or not finite")
        unit: npt.NDArray[np.float32] = pooled / norms
        return unit

    @property
    def tokenizer(self) -> Any:
        """Return the model's tokenizer, for cutting a text into pieces that the model reads completely."""
        return self._model.tokenizer

    def release(self) -> None:
        """Free the model's memory; the encoder is unusable afterwards."""
        self._model = None
        gc.collect()  # the library's model refers to itself
        if self.device == "cuda":
            import torch

            torch.cuda.empty_cache()

    @cached_property
    def fingerprint(self) -> str:
        """Return the SHA-256 of the model's folder; see ``fingerprint_folder``."""
        return fingerprint_folder(self.folder)


def plan_batches(tokens: Sequence[int], largest: int, most: int | None = None) -> Iterator[list[int]]:
    """Yield the places of the texts that are encoded together, shortest first, with at most `PADDING` in a batch.

    Args:
        tokens: number of tokens of each text.
        largest: number of texts in a batch.
        most: number of tokens in a batch, padding included, unless it is a single text; None: any number.
    """
    batch = list[int]()
    real = 0
    for place in sorted(range(len(tokens)), key=tokens.__getitem__):
        padded = (len(batch) + 1) * tokens[place]
        full = len(batch) == largest or (most is not None and padded > most)
        if batch and (full or padded - real - tokens[place] > PADDING * padded):
            yield batch
            batch, real = [], 0
        batch.append(place)
        real += tokens[place]
    if batch:
        yield batch


def load_encoder(
    name_or_folder: str | Path, device: str, batch: int = 32, dtype: EncoderDtype | None = None
) -> Encoder:
    """Load an embedding model from disk, without network and without code from its folder.

    Args:
        name_or_folder: a name in the model folders, or a folder.
        device: ``cpu`` or ``cuda``.
        batch: number of texts that are encoded together.
        dtype: None: float32 on a CPU, bfloat16 elsewhere (paper, BGE-M3).

    Raises:
        UserError: the model is missing, damaged or incomplete, needs code of its own, or has no safetensors.
    """
    folder = find_encoder_folder(name_or_folder)
    transformer = check_encoder(folder)

    import torch
    from sentence_transformers import SentenceTransformer

    from pan_scdg.models.linear import use_onednn

    logging.getLogger("transformers").setLevel(logging.ERROR)  # what it warns of is checked below, in one line
    dtype = dtype or ("float32" if device == "cpu" else "bfloat16")
    options = {"dtype": getattr(torch, dtype), "use_safetensors": True}
    try:
        model = SentenceTransformer(
            str(folder), device=device, local_files_only=True, trust_remote_code=False, model_kwargs=options
        )
    except Exception as e:  # the library trusts the files
        if is_out_of_memory(e) or "allocate memory" in str(e):
            what = f"the embedding model does not fit in the free memory of {device}"
            remedy = "check whether another process uses it, or choose a smaller model"
            raise UserError(what, remedy, folder) from e
        if damage := diagnose_tokenizer(folder):
            raise damage from e
        what = f"the embedding model cannot be loaded: {get_first_line(e)}"
        raise UserError(what, "copy the model's folder again", folder) from e
    _check_complete(model[0].auto_model, transformer)
    if type(model[-1]).__name__ == "Normalize":
        del model[-1]  # it would round in bfloat16 what `Encoder` normalises in float32 (paper, BGE-M3)
    if device == "cpu":
        use_onednn(model)
    return Encoder(model.eval(), folder, batch, dtype)


def _check_complete(model: Any, folder: Path) -> None:
    """Raise UserError if the files lack a weight, which transformers would silently fill with random numbers.

    Names in the files may have the prefix of a larger model, such as ``bert.``, or BERT's former names of a layer norm.
    The pooler of a transformer is not used, and many published models lack it.
    """
    held = {name for path in list_weight_files(folder) for name in read_tensors(path)}
    held |= {name.partition(".")[2] for name in held}
    held |= {name.replace(".gamma", ".weight").replace(".beta", ".bias") for name in held}
    names: dict[int, list[str]] = {}  # tied weights have several, one of which is in the files
    for name, weight in model.named_parameters(remove_duplicate=False):
        names.setdefault(id(weight), []).append(name)
    if missing := sorted(n[0] for n in names.values() if held.isdisjoint(n) and not n[0].startswith("pooler.")):
        what = f"the embedding model lacks {len(missing)} weights, {missing[0]} first"
        raise UserError(what, "copy the model's folder again", folder)
