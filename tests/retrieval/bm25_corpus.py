"""Made-up documents and queries, and an index in a folder."""

import random
from collections.abc import Callable, Sequence
from pathlib import Path

from pan_scdg.records import Document
from pan_scdg.retrieval.bm25 import LexicalIndex

WORDS = [f"w{c}{d}" for c in "abcdfgkmpr" for d in range(8)]
"""Words that no stemmer changes and no list stops."""


def make_documents(count: int, seed: int) -> list[Document]:
    """Texts of words wa0 (in nearly all documents) to wr7 (rare), of different lengths; some texts come twice."""
    rng = random.Random(seed)
    weights = [1 / (rank + 1) for rank in range(len(WORDS))]
    texts = [" ".join(rng.choices(WORDS, weights, k=rng.randint(0, 60))) for _ in range(count)]
    texts[1::7] = texts[: len(texts[1::7])]
    return [Document(f"doc/{i * 7919 % 100_003}", text) for i, text in enumerate(texts)]


def make_query(seed: int, sentences: int) -> str:
    """Sentences of the same words, and of two that no document has."""
    rng = random.Random(seed)
    words = [*WORDS, "unheard", "the"]
    return " ".join(" ".join(rng.choices(words, k=rng.randint(1, 12))).capitalize() + "." for _ in range(sentences))


def open_new(
    build: Callable[..., None],
    open_index: Callable[[Path], LexicalIndex],
    documents: Sequence[Document],
    folder: Path,
) -> LexicalIndex:
    """Build an index in a new folder and open it."""
    folder.mkdir(parents=True)
    build(iter(documents), folder)
    return open_index(folder)
