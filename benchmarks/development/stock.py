"""Long documents: the held-out texts dealt into documents of about 14,000 characters that have no paragraph in common.

Abstracts come together with the abstracts nearest to them, so that a document has one topic.
"""

from collections.abc import Iterable, Iterator
from functools import lru_cache
from typing import NamedTuple

from benchmarks.development.compose import Neighbours, opening
from benchmarks.development.texts import Material, Paper, pieces

LENGTH = (12_000, 14_500)


class Document(NamedTuple):
    """A long text; documents of the same family come from the same kind of source."""

    id: str
    family: str
    paragraphs: tuple[str, ...]

    @property
    def text(self) -> str:
        """Return all paragraphs in one line, ready to be cut at sentences."""
        return " ".join(self.paragraphs)

    def opening(self, most: int) -> list[str]:
        """Return the paragraphs from the beginning that fit into ``most`` characters, the last one shortened."""
        held: list[str] = []
        for paragraph in self.paragraphs:
            fitting = opening(paragraph, most)
            held += [fitting] if fitting else []
            most -= len(paragraph) + 2
            if fitting != paragraph or most <= 0:
                break
        return held


@lru_cache(maxsize=1)
def stock(material: Material) -> tuple[Document, ...]:
    """All long documents, sorted by id."""
    documents = list(_fill("papers", _chained(material.papers)))
    for family in sorted({work.family for work in material.works}):
        paragraphs = (p for w in material.works if w.family == family for long in w.paragraphs for p in pieces(long))
        documents += _fill(family, paragraphs)
    return tuple(sorted(documents))


def _fill(family: str, paragraphs: Iterable[str]) -> Iterator[Document]:
    """Consecutive paragraphs to one document after the other; what is left at the end is dropped."""
    held: list[str] = []
    number, length = 0, 0
    for paragraph in paragraphs:
        if length + len(paragraph) > LENGTH[1]:
            yield Document(f"{family}-{number:03}", family, tuple(held))
            held, number, length = [], number + 1, 0
        held.append(paragraph)
        length += len(paragraph) + 2
    if length >= LENGTH[0]:
        yield Document(f"{family}-{number:03}", family, tuple(held))


def _chained(papers: tuple[Paper, ...]) -> Iterator[str]:
    """Abstracts in runs: one that is left, then those nearest to it until a document is full."""
    neighbours = Neighbours([p.abstract for p in papers])
    left = dict.fromkeys(range(len(papers)))
    while left:
        most = LENGTH[1]
        for i in neighbours.order(papers[next(iter(left))].abstract):
            if i in left:
                most -= len(papers[i].abstract) + 2
                if most < 0:
                    break
                del left[i]
                yield papers[i].abstract
