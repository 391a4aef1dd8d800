"""Tokenised training text in one small file: ``python -m training.pack --data FOLDER --work FOLDER``.

The file (``work / "packed" / "text.npz"``, uint16 ids, compressed, at most 50 MiB) is all that training reads, so it
can be carried to a machine that has a GPU and nothing else. Held-out files and share-alike collections stay out.
"""

import json
import lzma
from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from pathlib import Path
from typing import Any, Protocol

import click
import numpy as np
import numpy.typing as npt

from training.alter import load_thesaurus

Ids = npt.NDArray[np.uint16]

LM_FILES = {  # documents read from each file: modern expository prose first
    "arxiv-abstracts-1": 40000,
    "arxiv-abstracts-2": 10000,
    "openstax-textbooks": 2627,
    "technical-and-government": 1975,
    "public-domain-books": 600,
}
PARAPHRASE_FILES = {  # groups read from each file
    "llm-rewrites": 3018,
    "humanized-texts": 2356,
    "wikipedia-sentences": 26201,
    "bible-translations": 1500,
    "classics-translations": 14260,
}
NEIGHBOURED = 8000  # abstracts whose nearest other abstract is looked up
MOST_BYTES = 50 * 2**20


class Tokenizer(Protocol):
    """The calls of a fast tokenizer that training makes."""

    def __call__(self, texts: list[str], *, add_special_tokens: bool) -> Any: ...

    def encode(self, text: str, *, add_special_tokens: bool) -> list[int]: ...

    def decode(self, ids: Sequence[int]) -> str: ...


def read_jsonl(path: Path, limit: int | None = None) -> Iterator[dict[str, Any]]:
    """The records of an ``.jsonl.xz`` file, the first ``limit`` of them."""
    with lzma.open(path, "rt", encoding="utf-8") as lines:
        yield from map(json.loads, islice(lines, limit))


def nearest_texts(texts: Sequence[str], count: int) -> npt.NDArray[np.int64]:
    """For each of the first ``count`` texts the number of the most similar other one (TF-IDF cosine), ``[count]``."""
    from sklearn.feature_extraction.text import TfidfVectorizer

    common = max(10, len(texts) // 20)  # words of more texts than this say little and cost most of the time
    vectors = TfidfVectorizer(stop_words="english", min_df=2, max_df=common, dtype=np.float32).fit_transform(texts)
    nearest = []
    for start in range(0, count, 500):
        block = vectors[start : min(start + 500, count)] @ vectors.T
        for row in range(block.shape[0]):
            scores, columns = block[row].data, block[row].indices
            scores = np.where(columns == start + row, -1, scores)
            nearest.append(int(columns[scores.argmax()]) if len(columns) > 1 else (start + row + 1) % len(texts))
    return np.array(nearest)


def pack(data: Path, tokenizer: Tokenizer, target: Path) -> None:
    """Write documents, groups of rewritten texts, neighbours and thesaurus of ``data`` as one ``.npz``.

    Raises:
        ValueError: the file would exceed 50 MiB.
    """
    arrays: dict[str, Any] = {}
    abstracts: list[str] = []
    for name, count in LM_FILES.items():
        texts = [r["text"] for r in read_jsonl(data / "lm-text" / f"{name}.jsonl.xz", count)]
        _add(arrays, name, texts, tokenizer)
        if name == "arxiv-abstracts-1":
            abstracts = texts
    arrays["neighbours"] = nearest_texts(abstracts, min(NEIGHBOURED, len(abstracts)))
    for name, count in PARAPHRASE_FILES.items():
        records = read_jsonl(data / "paraphrase" / f"{name}.jsonl.xz", count)
        groups = [r["texts"] for r in records if "SA" not in r["license"]]
        _add(arrays, name, [text for group in groups for text in group], tokenizer)
        arrays[f"{name}/groups"] = np.cumsum([0, *map(len, groups)])
    thesaurus = json.dumps(load_thesaurus(data / "paraphrase" / "thesaurus-wordnet.jsonl.xz"))
    arrays["thesaurus"] = np.frombuffer(thesaurus.encode(), dtype=np.uint8)
    target.parent.mkdir(parents=True, exist_ok=True)
    part = target.with_suffix(".part.npz")
    np.savez_compressed(part, **arrays)
    if part.stat().st_size > MOST_BYTES:
        raise ValueError(f"{part.stat().st_size} bytes are more than {MOST_BYTES}: read fewer documents")
    part.replace(target)


def _add(arrays: dict[str, Any], name: str, texts: list[str], tokenizer: Tokenizer) -> None:
    """Ids of all texts one after the other, and where each begins."""
    ids = [np.array(i, dtype=np.uint16) for block in _blocks(texts) for i in _encode(block, tokenizer)]
    arrays[name] = np.concatenate(ids) if ids else np.empty(0, dtype=np.uint16)
    arrays[f"{name}/starts"] = np.cumsum([0, *map(len, ids)])


def _encode(texts: list[str], tokenizer: Tokenizer) -> Iterable[list[int]]:
    encoded: list[list[int]] = tokenizer(texts, add_special_tokens=False)["input_ids"]
    return encoded


def _blocks(texts: list[str], size: int = 2000) -> Iterator[list[str]]:
    return (texts[i : i + size] for i in range(0, len(texts), size))


@click.command(help=__doc__)
@click.option("--data", type=click.Path(path_type=Path, exists=True), required=True)
@click.option("--work", type=click.Path(path_type=Path), required=True, help="Holds the tokenizer in `start`.")
def main(data: Path, work: Path) -> None:
    from transformers import AutoTokenizer

    pack(data, AutoTokenizer.from_pretrained(work / "start"), work / "packed" / "text.npz")


if __name__ == "__main__":
    main()
