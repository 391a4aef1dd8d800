"""Score pairs by the cosine of mean chunk vectors of an embedding model (paper, Embedding cosine baselines).

A document is cut between tokens into chunks that do not overlap and leave nothing out; a chunk is a piece of the text
itself, and the model's special tokens count within its limit. Its vector is what the model's own pooling gives, as a
unit vector: the three models of the paper normalise after pooling. A document's vector is the mean of these, and a
text of white space has none: the cosine with it is 0.
"""

from collections.abc import Mapping, Sequence
from functools import cached_property, lru_cache
from typing import Any

import numpy as np
import numpy.typing as npt
from pydantic import Field

from pan_scdg.digests import hash_text
from pan_scdg.errors import UserError
from pan_scdg.methods import UNKNOWN_SCRIPT, Measurements, Method, MethodOptions, MethodSettings
from pan_scdg.methods.simple import TEXTS_CACHED, SimpleMethod
from pan_scdg.models.encoder import Encoder, EncoderUse
from pan_scdg.models.find import find_encoder
from pan_scdg.models.fingerprint import fingerprint_folder
from pan_scdg.records import Identities, Reason, TextPair
from pan_scdg.scdg.aggregation import Floats
from pan_scdg.scdg.thresholds import Choice, require_both_classes
from pan_scdg.settings import ProfileTables

Vector = npt.NDArray[np.float32]
MAX_BATCH, BATCH_TOKENS = 32, 16384
"""Chunks that are encoded together: their number, and their tokens if the profile bounds these."""
CANDIDATE_THRESHOLDS = 100
"""Uniformly on [0, 1], both ends included; the published 0.727, 0.697 and 0.596 are 72, 69 and 59 / 99."""


class CosineSettings(MethodSettings):
    """Cosine of the mean chunk vectors of an embedding model (Embedding cosine baselines)."""

    model: str
    """The name of a bundled embedding model, or of a folder in the model cache."""
    chunk_tokens: int | None = Field(default=None, ge=1)
    """Tokens of a chunk, special tokens included; None: the model's maximum."""

    def open(self, profile: ProfileTables, options: MethodOptions, statistics: Any = None) -> Method:
        """Return the method."""
        return CosineMethod(self, options, profile.raw_text)

    def list_models(self) -> list[str]:
        """Return the embedding model."""
        return [self.model]

    def choose(self, scores_by: Mapping[float, Floats], labels: npt.NDArray[Any], max_false_positives: float) -> Choice:
        """Return the threshold that the official embedding baseline of PAN 2025 chooses."""
        return choose_officially(scores_by, labels)


class CosineMethod(SimpleMethod):
    """Scores pairs by the cosine of document vectors; every distinct text is encoded once. See `methods.Method`.

    Raises:
        UserError: the embedding model is missing.
    """

    def __init__(self, settings: CosineSettings, options: MethodOptions, raw_text: bool = False) -> None:
        self._settings, self._device, self._raw_text = settings, options.device, raw_text
        model = find_encoder(settings.model)
        limit = settings.chunk_tokens
        batch = MAX_BATCH if limit is None else min(MAX_BATCH, max(1, BATCH_TOKENS // limit))
        self.models = {"embedding_model": model}
        self.encoders = {"embedding_model": EncoderUse(model.folder, batch, max_tokens=limit)}
        self.fingerprint = fingerprint_folder(model.folder)
        self._vectors: dict[str, Vector] = {}
        """By the hash of the text."""
        self._knows_script = lru_cache(TEXTS_CACHED)(lambda text: self._encoder[0].knows_script(text))

    def identify(self) -> Identities:
        """Return the hash of the encoder."""
        return {"embedding_model": {"weights": self.fingerprint}}

    def score(self, pairs: Sequence[TextPair]) -> list[Measurements]:
        """Return ``score`` of each pair, from -1 to 1.

        Raises:
            UserError: the encoder cannot be loaded, or reads fewer tokens than a chunk is to have.
        """
        scores = []
        for pair in pairs:
            score = compute_cosine(self.encode_text(pair.target), self.encode_text(pair.source))
            is_read = all(map(self._knows_script, (pair.target, pair.source)))
            scores.append(Measurements({"score": score}, () if is_read else (Reason(UNKNOWN_SCRIPT),)))
        return scores

    def encode_text(self, text: str) -> Vector:
        """Return the document vector of ``text``, ``[d]``; an empty one for white space."""
        key = hash_text(text)
        if key not in self._vectors:
            encoder, limit = self._encoder
            chunks = split_chunks(text, encoder.tokenizer, limit)
            mean = encoder.encode(chunks, limit).mean(axis=0, dtype=np.float64) if chunks else np.zeros(0)
            self._vectors[key] = mean.astype(np.float32)
        return self._vectors[key]

    @cached_property
    def _encoder(self) -> tuple[Encoder, int]:
        """Return the encoder and the number of tokens of a chunk."""
        limit = self._settings.chunk_tokens
        encoder = self.encoders["embedding_model"].load(self._device, self._raw_text)
        if limit is not None and limit > encoder.max_tokens:
            raise UserError(
                f"the profile requests chunks of {limit} tokens, but the encoder reads at most {encoder.max_tokens}",
                "lower chunk_tokens in the profile, or leave it out",
                encoder.folder,
            )
        return encoder, limit or encoder.max_tokens


def compute_cosine(one: npt.NDArray[Any], other: npt.NDArray[Any]) -> float:
    """Return the cosine of two vectors ``[d]``; 0 if one is empty or has length 0."""
    if not one.size or not other.size:
        return 0.0
    a, b = one.astype(np.float64), other.astype(np.float64)
    length = float(np.linalg.norm(a) * np.linalg.norm(b))
    return float(np.clip(a @ b / length, -1.0, 1.0)) if length else 0.0


def split_chunks(text: str, tokenizer: Any, limit: int) -> list[str]:
    """Return consecutive pieces of ``text`` of at most ``limit`` tokens each, special tokens included.

    They are cut where tokens of the whole text begin. A piece can have other tokens by itself than within the text; it
    is made shorter until it fits. Pieces of white space are left out.

    Raises:
        UserError: the tokenizer does not return offsets.
    """
    if not tokenizer.is_fast:
        raise UserError("the encoder's tokenizer does not return the positions of tokens", "add its tokenizer.json")
    options = {"truncation": False, "verbose": False}
    offsets = tokenizer(text, add_special_tokens=False, return_offsets_mapping=True, **options)["offset_mapping"]
    starts = [0, *(start for start, _ in offsets[1:]), len(text)]
    most = max(1, limit - tokenizer.num_special_tokens_to_add())
    pieces, first = [], 0
    while first < len(starts) - 1:
        last = _find_boundary(starts, first, min(first + most, len(starts) - 1))
        while (excess := len(tokenizer(text[starts[first] : starts[last]], **options)["input_ids"]) - limit) > 0:
            shorter = _find_boundary(starts, first, max(first + 1, last - excess))
            if shorter >= last:
                break  # one character has more tokens than the limit: the encoder cuts it
            last = shorter
        pieces.append(text[starts[first] : starts[last]])
        first = last
    return [piece for piece in pieces if piece.strip()]


def _find_boundary(starts: Sequence[int], first: int, last: int) -> int:
    """Return the last token up to ``last`` that begins a character; if only ``first`` does, the next one after it."""
    for at in range(last, first, -1):
        if starts[at] > starts[at - 1]:
            return at
    return next((at for at in range(last, len(starts)) if starts[at] > starts[first]), len(starts) - 1)


def choose_official_threshold(scores: npt.ArrayLike, labels: npt.ArrayLike) -> float:
    """Return the candidate with the largest sensitivity + specificity, the lowest of several, as the official program.

    There the scores are those of paragraph pairs, here of document pairs.

    Args:
        scores: shape ``[pairs]``.
        labels: True where the source was reused, ``[pairs]``.

    Raises:
        UserError: all pairs have the same label.
    """
    values, truth = np.asarray(scores, dtype=np.float64), np.asarray(labels, dtype=bool)
    require_both_classes(truth, "calibrate on")
    candidates = np.linspace(0, 1, CANDIDATE_THRESHOLDS)
    above = np.array([np.mean(values[truth] >= t) for t in candidates])
    below = np.array([np.mean(values[~truth] < t) for t in candidates])
    return float(candidates[np.argmax(above + below)])


def choose_officially(
    scores_by: Mapping[float, Floats], labels: npt.NDArray[Any], published: float | None = None
) -> Choice:
    """Return the official threshold, or the published one, with its quality on the scores of the only parameter."""
    ((parameter, scores),) = scores_by.items()
    chosen = choose_official_threshold(scores, labels) if published is None else published
    decisions = scores >= chosen
    hits, total = int((decisions & labels).sum()), int(decisions.sum()) + int(labels.sum())
    return Choice(parameter, chosen, 2 * hits / total if total else 0.0, float(np.mean(decisions == labels)))
