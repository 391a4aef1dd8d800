"""Nearest texts, and documents put together from blocks around a passage."""

import random
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import NamedTuple

import numpy as np

from benchmarks.development.texts import Block, sentences
from benchmarks.simple_pair_scores import words

SHORTEST_REST = 300
"""Characters; a smaller gap at the end of a document is left open."""


class Pair(NamedTuple):
    """A labelled pair of texts; ``label`` is 1 where the target reuses the source."""

    id: str
    kind: str
    label: int
    source: str
    target: str


def draw(*names: object) -> random.Random:
    """A generator of its own for whatever is named, so that no pair depends on how many were made before it."""
    return random.Random("/".join(map(str, names)))


def both(name: str, kind: str, source: tuple[str, str], target: tuple[str, str]) -> Iterator[Pair]:
    """A positive and its negative: ``source`` and ``target`` hold the text of each, in this order."""
    for label, ending, one, other in zip((1, 0), ("reused", "independent"), source, target):
        yield Pair(f"{kind}/{name}/{ending}", kind, label, one, other)


class Neighbours:
    """Texts that can be ordered by TF-IDF cosine to another text."""

    def __init__(self, texts: Sequence[str]) -> None:
        from sklearn.feature_extraction.text import ENGLISH_STOP_WORDS, TfidfVectorizer

        def content(text: str) -> list[str]:
            return [word for word in words(text) if word not in ENGLISH_STOP_WORDS]

        self._model = TfidfVectorizer(tokenizer=content, token_pattern=None, lowercase=False, sublinear_tf=True)
        self._vectors = self._model.fit_transform(texts)

    def order(self, text: str) -> list[int]:
        """Numbers of all texts, nearest first. Rounded, so that the last bit of a sum cannot change the order."""
        cosines = (self._vectors @ self._model.transform([text]).T).toarray().ravel()
        return [int(i) for i in np.argsort(-np.round(cosines, 9), kind="stable")]


class Pool:
    """Blocks that serve as hosts."""

    def __init__(self, blocks: Iterable[Block]) -> None:
        self.blocks = list(blocks)
        self._neighbours = Neighbours([b.text for b in self.blocks])

    def nearest(self, text: str, usable: Callable[[Block], bool] = lambda _: True) -> Iterator[Block]:
        """The usable blocks, nearest to ``text`` first."""
        return (b for b in map(self.blocks.__getitem__, self._neighbours.order(text)) if usable(b))


def deal(blocks: Iterable[Block], sizes: Sequence[int], rng: random.Random) -> list[list[str]]:
    """Return paragraph lists of about ``sizes`` characters, dealt in turn so that all are equally near to the topic.

    A block goes to one of them only; the last one of a list is shortened at the end of a sentence.
    """
    left, dealt = list(sizes), [list[str]() for _ in sizes]
    for block in blocks:
        open_ones = [i for i, rest in enumerate(left) if rest >= SHORTEST_REST]
        if not open_ones:
            break
        chosen = max(open_ones, key=lambda i: (left[i] / sizes[i], -i))
        if text := opening(block.text, left[chosen]):
            dealt[chosen].append(text)
            left[chosen] -= len(text) + 2
    for texts in dealt:
        rng.shuffle(texts)
    return dealt


def opening(text: str, most: int) -> str:
    """Return ``text``, or the sentences at its beginning that fit into ``most`` characters."""
    if len(text) <= most:
        return text
    held = ""
    for sentence in sentences(text):
        longer = f"{held} {sentence}".strip()
        if len(longer) > most:
            break
        held = longer
    return held


def with_passages(hosts: Sequence[str], passages: Sequence[str], rng: random.Random) -> str:
    """A document of the hosts with the passages between them, at places that ``rng`` draws."""
    places = sorted(rng.randint(0, len(hosts)) for _ in passages)
    parts = list(hosts)
    for place, passage in reversed(list(zip(places, passages))):
        parts.insert(place, passage)
    return "\n\n".join(parts)


def within_paragraph(hosts: Sequence[str], passage: str, rng: random.Random) -> str:
    """A document of the hosts with the passage between two sentences of one of them."""
    at = rng.randrange(len(hosts))
    parts = sentences(hosts[at])
    place = rng.randint(1, max(1, len(parts) - 1))
    changed = " ".join([*parts[:place], passage, *parts[place:]])
    return "\n\n".join([*hosts[:at], changed, *hosts[at + 1 :]])


def cut_passages(text: str, count: int, length: tuple[int, int], rng: random.Random) -> list[str]:
    """``count`` passages that do not overlap, each of ``length`` words, in the order of the text.

    They are whole sentences, unless no run of sentences has such a length.

    Raises:
        ValueError: the text is too short.
    """
    parts = sentences(text)
    shares = [parts[len(parts) * i // count : len(parts) * (i + 1) // count] for i in range(count)]
    return [_passage(share, length, rng) for share in shares]


def _passage(parts: Sequence[str], length: tuple[int, int], rng: random.Random) -> str:
    low, high = length
    wanted = rng.randint(low, high)
    starts = list(range(len(parts)))
    rng.shuffle(starts)
    for enough in (wanted, low):
        for start in starts:
            held: list[str] = []
            for sentence in parts[start:]:
                held += sentence.split()
                if len(held) >= enough:
                    break
            if enough <= len(held) <= high:
                return " ".join(held)
    every = " ".join(parts).split()
    if len(every) < wanted:
        raise ValueError(f"no passage of {wanted} words in a text of {len(every)}")
    start = rng.randint(0, len(every) - wanted)
    return " ".join(every[start : start + wanted])
