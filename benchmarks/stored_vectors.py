"""Vectors of sentences that stay on disk, so that a score can be chosen without encoding its texts again."""

import json
from collections.abc import Sequence
from itertools import chain
from pathlib import Path

import numpy as np
import numpy.typing as npt

from pan_scdg.align.vectors import SentenceEncoder

Vectors = npt.NDArray[np.float16]
CALL_SENTENCES = 4096
"""Sentences that are encoded in one call, after which their vectors are written."""


class StoredEncoder(SentenceEncoder):
    """A sentence encoder with the vectors of all its sentences in a folder; equal sentences are encoded once.

    Args:
        name: of the model.
        folder: with the vectors of earlier runs.
    """

    def __init__(self, name: str, folder: Path) -> None:
        super().__init__(name, "cpu")
        folder.mkdir(parents=True, exist_ok=True)
        self._sentences, self._file = folder / "sentences.jsonl", folder / "vectors.f16"
        lines = self._sentences.read_text(encoding="utf-8").splitlines() if self._sentences.exists() else []
        self._stored: dict[str, Vectors] = {}
        if lines:
            vectors = np.fromfile(self._file, np.float16).reshape(len(lines), -1)
            self._stored = dict(zip(map(json.loads, lines), vectors, strict=True))

    def _compute_vectors(self, texts: Sequence[str]) -> list[Vectors]:
        sentences = [self._list_sentences(text) for text in texts]
        missing = list(dict.fromkeys(one for one in chain(*sentences) if one not in self._stored))
        for begin in range(0, len(missing), CALL_SENTENCES):
            self._store(missing[begin : begin + CALL_SENTENCES])
        empty = np.zeros((0, 0), np.float16)
        return [np.stack([self._stored[one] for one in own]) if own else empty for own in sentences]

    def _store(self, sentences: Sequence[str]) -> None:
        vectors = self._encoder.encode(sentences).astype(np.float16)
        with self._file.open("ab") as file, self._sentences.open("a", encoding="utf-8") as lines:
            file.write(vectors.tobytes())
            lines.writelines(f"{json.dumps(sentence)}\n" for sentence in sentences)
        self._stored |= dict(zip(sentences, vectors, strict=True))
