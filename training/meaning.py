"""Vectors for the meaning of tokens, counted from text: tokens that stand in the same places get similar vectors.

A model that copies by identity cannot see a reworded text. With these vectors in its embedding, the constructed start
attends to words of similar meaning and raises what means the same as what it copies, before any training. Positive
pointwise mutual information of neighbours, a truncated SVD, and a few rounds of averaging over synonyms in a thesaurus
(Faruqui et al. 2015): the textbook recipe, with context counts to the power of 0.75 (Levy, Goldberg and Dagan 2015).
"""

from collections import defaultdict
from collections.abc import Mapping, Sequence

import numpy as np
import numpy.typing as npt
from scipy import sparse
from sklearn.decomposition import TruncatedSVD

from training.pack import Ids, Tokenizer

Synonyms = Mapping[str, Sequence[str]]
Floats = npt.NDArray[np.float32]

REACH = 8  # neighbours up to this far on each side are counted, each with the inverse of its distance
BLOCK = 4_000_000  # tokens counted at a time


def cooccurrences(ids: Ids, vocabulary: int, reach: int = REACH) -> sparse.csr_matrix:
    """Weighted counts ``[vocabulary, 2 * vocabulary]`` of the tokens after (left half) and before (right half)."""
    after = sparse.csr_matrix((vocabulary, vocabulary), dtype=np.float32)
    for start in range(0, len(ids), BLOCK):
        block = ids[start : start + BLOCK + reach].astype(np.int64)
        for distance in range(1, reach + 1):
            first, second = block[:BLOCK], block[distance:][:BLOCK]
            cells, counts = np.unique(first[: len(second)] * vocabulary + second, return_counts=True)
            shape = (cells // vocabulary, cells % vocabulary)
            weights = (counts / distance).astype(np.float32)
            after += sparse.csr_matrix((weights, shape), shape=(vocabulary, vocabulary))
    return sparse.hstack([after, after.T]).tocsr()


def positive_information(counts: sparse.csr_matrix, smoothing: float = 0.75) -> sparse.csr_matrix:
    """``max(0, log(P(t, c) / (P(t) P'(c))))`` of token and context, ``P'`` proportional to ``count ** smoothing``."""
    cells = counts.tocoo()
    rows = np.asarray(counts.sum(axis=1)).ravel()
    columns = np.asarray(counts.sum(axis=0)).ravel() ** smoothing
    values = np.log(cells.data / (rows[cells.row] * columns[cells.col] / columns.sum()))
    kept = values > 0
    return sparse.csr_matrix((values[kept], (cells.row[kept], cells.col[kept])), shape=counts.shape)


def leading_components(matrix: sparse.csr_matrix, dims: int) -> Floats:
    """Left singular vectors 2 to ``dims + 1`` times the root of their singular values; the first is mere frequency."""
    svd = TruncatedSVD(dims + 1, algorithm="arpack", random_state=0)
    scores = svd.fit_transform(matrix.astype(np.float64))
    return (scores / np.sqrt(svd.singular_values_.clip(min=1e-12)))[:, 1:].astype(np.float32)


def unit(vectors: Floats) -> Floats:
    """Rows of length one; rows of zeros stay."""
    lengths: Floats = np.linalg.norm(vectors, axis=1, keepdims=True).clip(min=1e-9)
    return vectors / lengths


def synonym_tokens(tokenizer: Tokenizer, vocabulary: int, thesaurus: Synonyms) -> dict[int, set[int]]:
    """For each token that is a whole word, the tokens that are its synonyms."""
    words: dict[str, list[int]] = defaultdict(list)
    for token in range(vocabulary):
        text = tokenizer.decode([token])
        if text.startswith(" ") and text[1:].isalpha():
            words[text[1:].lower()].append(token)
    synonyms: dict[int, set[int]] = defaultdict(set)
    for word, others in thesaurus.items():
        for token in words.get(word, ()):
            synonyms[token].update(t for other in others for t in words.get(other, ()))
    return {token: others for token, others in synonyms.items() if others}


def retrofitted(vectors: Floats, synonyms: Mapping[int, set[int]], rounds: int = 10) -> Floats:
    """Move each row half way to the mean of its synonyms' rows, again and again from where it began."""
    moved = vectors.copy()
    for _ in range(rounds):
        for token, others in synonyms.items():
            moved[token] = (vectors[token] + moved[sorted(others)].mean(axis=0)) / 2
    return moved


def meaning_vectors(ids: Ids, tokenizer: Tokenizer, vocabulary: int, thesaurus: Synonyms, dims: int) -> Floats:
    """Unit vectors ``[vocabulary, dims]`` from running text ``ids`` and a thesaurus (word -> synonyms)."""
    vectors = unit(leading_components(positive_information(cooccurrences(ids, vocabulary)), dims))
    vectors = unit(vectors - vectors.mean(axis=0))
    return unit(retrofitted(vectors, synonym_tokens(tokenizer, vocabulary, thesaurus)))
