"""Passages of news that stand where evidence was removed, each as long as what it replaces (paper, Distractor source).

Where the paper leaves it open: an article's white space becomes single spaces; a distractor runs on through the
following articles, behind the last one through the first; a cut is the space within two characters of the wanted
length that is nearest to it (the shorter text of two), else the wanted length itself, so that nothing need be padded;
of a text that is there already the start moves on by one sentence; and reuse is looked for within a pair and seed.
"""

import hashlib
import random
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property
from itertools import islice
from pathlib import Path
from typing import Annotated, NamedTuple

from pydantic import Field

from pan_scdg.digests import text_digest
from pan_scdg.errors import UserError
from pan_scdg.pan.untrusted import is_file, list_directory, read_document
from pan_scdg.research.data.multinews import FILES, read_clusters, source_file
from pan_scdg.research.retention.chunks import CHUNKS, divide
from pan_scdg.retrieval.sentences import split_sentences

ARTICLES = 500
TOLERANCE = 2
"""Characters by which a distractor may miss the wanted length."""


class Sentence(NamedTuple):
    """A sentence of the pool: which article it is of, its number there from 0, and its text with single spaces."""

    article: str
    number: int
    text: str


@dataclass(frozen=True)
class Distractor:
    """Where a distractor begins and what length was wanted: enough to make its text again."""

    article: str
    sentence: Annotated[int, Field(ge=0)]
    wanted: Annotated[int, Field(ge=1, le=100_000)]


@dataclass(frozen=True)
class DistractorPool:
    """The sentences of news articles, in order."""

    sentences: tuple[Sentence, ...]

    @cached_property
    def digest(self) -> str:
        """SHA-256 over all sentences: a manifest of contexts is for one pool."""
        return text_digest("".join(f"{s.article}\t{s.number}\t{s.text}\n" for s in self.sentences))

    @cached_property
    def _characters(self) -> int:
        return sum(len(s.text) + 1 for s in self.sentences)

    @cached_property
    def _places(self) -> dict[tuple[str, int], int]:
        return {(s.article, s.number): place for place, s in enumerate(self.sentences)}

    def lacks(self, evidence: str) -> str | None:
        """Why the pool cannot replace every chunk of ``evidence``; None: it can (condition 6 of an instance)."""
        chunks = divide(evidence)
        if isinstance(chunks, str):
            return chunks
        for length in {chunk.end - chunk.start for chunk in chunks}:
            texts = (self._text(place, length) for place in range(len(self.sentences)))
            if length + TOLERANCE >= self._characters or len(set(_first_distinct(texts))) < CHUNKS:
                return "the distractor pool is too small"
        return None

    def draw(self, wanted: int, generator: random.Random, used: set[str]) -> Distractor:
        """A distractor from a random sentence on whose text is not yet in ``used``, which holds MD5 digests.

        Raises:
            UserError: every text of this length is used already.
        """
        first = generator.randrange(len(self.sentences))
        for step in range(len(self.sentences)):
            place = (first + step) % len(self.sentences)
            digest = hashlib.md5(self._text(place, wanted).encode(), usedforsecurity=False).hexdigest()
            if digest not in used:
                used.add(digest)
                return Distractor(self.sentences[place].article, self.sentences[place].number, wanted)
        raise UserError("the pool has no unused distractor left", "give more news articles", f"{wanted} characters")

    def text(self, distractor: Distractor) -> str:
        """The text of a distractor.

        Raises:
            UserError: the pool has no such sentence.
        """
        place = self._places.get((distractor.article, distractor.sentence))
        if place is None:
            what = f"the distractor pool has no sentence {distractor.sentence} of {distractor.article!r}"
            raise UserError(what, "give the news articles that the contexts were made with")
        return self._text(place, distractor.wanted)

    def _text(self, place: int, wanted: int) -> str:
        parts: list[str] = []
        size = 0
        while size <= wanted + TOLERANCE:
            parts.append(self.sentences[(place + len(parts)) % len(self.sentences)].text)
            size += len(parts[-1]) + 1
        return fitted(" ".join(parts), wanted)


def fitted(text: str, wanted: int) -> str:
    """The beginning of ``text``, of ``wanted`` characters up to two more or fewer where a word ends there."""
    cuts = sorted(range(max(1, wanted - TOLERANCE), wanted + TOLERANCE + 1), key=lambda cut: abs(cut - wanted))
    return text[: next((cut for cut in cuts if text[cut : cut + 1] in (" ", "")), wanted)]


def read_pool(directory: Path, articles: int = ARTICLES) -> DistractorPool:
    """The sentences of the first ``articles`` files ``*.txt`` of a folder by name, each of which is an article.

    In a folder without such files they are those of the first articles of its Multi-News clusters.

    Raises:
        UserError: there are neither, something cannot be read, or there is not one sentence.
    """
    found = [
        Sentence(name, number, text)
        for name, article in islice(_articles(directory), articles)
        for number, text in enumerate(" ".join(sentence.split()) for sentence in split_sentences(article))
    ]
    if not found:
        raise UserError("holds no sentence for distractors", "give news articles", directory)
    return DistractorPool(tuple(found))


def _articles(directory: Path) -> Iterator[tuple[str, str]]:
    """Names and texts, as many as are taken."""
    files = [p for p in list_directory(directory) if p.suffix == ".txt" and p.name not in FILES and is_file(p)]
    if files:
        yield from ((path.name, read_document(path)) for path in files)
        return
    for cluster in read_clusters(source_file(directory)):
        yield from ((f"{cluster.cluster_id}-{place}", text) for place, text in enumerate(cluster.articles) if text)


def _first_distinct(texts: Iterable[str]) -> Iterator[str]:
    """The distinct texts, at most as many as a context has slots."""
    seen: set[str] = set()
    for text in texts:
        if text not in seen:
            yield text
            seen.add(text)
        if len(seen) == CHUNKS:
            return
