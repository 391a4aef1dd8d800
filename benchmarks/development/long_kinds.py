"""The kinds with long documents on both sides: copied passages, and altered ones."""

import random
from collections.abc import Iterator, Sequence

from benchmarks.development.compose import (
    Neighbours,
    Pair,
    both,
    cut_passages,
    draw,
    with_passages,
    within_paragraph,
)
from benchmarks.development.obfuscate import shuffle_words
from benchmarks.development.stock import Document, stock
from benchmarks.development.texts import Material, Rewrite
from training.alter import alter

VERBATIM = 110
ALTERED = 36
"""Pairs of each label for each of the three ways of altering."""
LONGEST = 14_900
ALTERED_WORDS = (80, 200)
SENTENCES_JOINED = 6
"""Separately translated sentences that make up a passage."""


class Shelf:
    """The long documents, with those nearest to one of them or to a text."""

    def __init__(self, material: Material) -> None:
        self.documents = stock(material)
        self._neighbours = Neighbours([d.text for d in self.documents])

    def nearest(self, text: str, count: int) -> list[Document]:
        """The ``count`` documents nearest to ``text``."""
        return [self.documents[i] for i in self._neighbours.order(text)[:count]]

    def beside(self, document: Document) -> tuple[Document, Document]:
        """A host for passages of ``document``, and a donor of foreign ones: its nearest in the same family."""
        near = self.nearest(document.text, len(self.documents))
        host, donor = [d for d in near if d.family == document.family and d != document][:2]
        return host, donor

    def spread(self, count: int, first: int = 0) -> list[Document]:
        """``count`` documents at even distances, beginning ``first`` places later."""
        size = len(self.documents)
        return [self.documents[(size * i // count + first) % size] for i in range(count)]


def verbatim_inside(shelf: Shelf) -> Iterator[Pair]:
    """60 to 200 words copied into another long document; in the negative they come from a third document."""
    for source in shelf.spread(VERBATIM):
        host, donor = shelf.beside(source)
        rng = draw("verbatim-inside", source.id)
        kept = source.opening(rng.randint(8300, LONGEST))
        length = rng.randint(60, 170)
        texts = (" ".join(kept), donor.text)
        copied = [cut_passages(t, 1, (length, length + 30), draw("copied", source.id)) for t in texts]
        joined = "\n\n".join(kept)
        targets = _hosted(host, copied, rng, source.id, rng.randint(8500, LONGEST))
        yield from both(source.id, "verbatim-inside", (joined, joined), targets)


def altered_inside(material: Material, shelf: Shelf) -> Iterator[Pair]:
    """Two or three passages reordered, altered or differently translated; the negative has those of a third text."""
    yield from _changed(material, shelf, "shuffled", 0)
    yield from _changed(material, shelf, "altered", 1)
    yield from _translated(material, shelf)


def _changed(material: Material, shelf: Shelf, way: str, first: int) -> Iterator[Pair]:
    for source in shelf.spread(ALTERED, first):
        name = f"{way}/{source.id}"
        host, donor = shelf.beside(source)
        rng = draw("altered-inside", name)
        count, strength, span = rng.randint(2, 3), rng.uniform(0.4, 0.9), rng.choice([5, 10, 60])

        def change(text: str, i: int) -> str:
            own = draw(name, i)  # noqa: B023 - called within this turn of the loop
            if way == "shuffled":
                return shuffle_words(text, span, own)  # noqa: B023
            return alter(text, strength, material.thesaurus, own)  # noqa: B023

        passages = [
            [change(p, i) for i, p in enumerate(cut_passages(d.text, count, ALTERED_WORDS, draw("cut", name)))]
            for d in (source, donor)
        ]
        joined = "\n\n".join(source.paragraphs)
        yield from both(name, "altered-inside", (joined, joined), _hosted(host, passages, rng, name, LONGEST))


def _translated(material: Material, shelf: Shelf) -> Iterator[Pair]:
    """Another translation stands in for a text that went through a second language and back."""
    groups = [g for g in (*material.translations, *joined_sentences(material.sentences)) if _long_enough(g)]
    collections = {c: [g for g in groups if g.collection == c] for c in {g.collection for g in groups}}
    neighbours = {c: Neighbours([g.original for g in members]) for c, members in collections.items()}
    for k in range(ALTERED):
        first = groups[len(groups) * k // ALTERED]
        name, members = f"translated/{first.id}", collections[first.collection]
        rng = draw("altered-inside", name)
        order = [members[i] for i in neighbours[first.collection].order(first.original)]
        count = rng.randint(2, 3)
        passages = [[rng.choice(g.others) for g in order[at : at + count]] for at in (0, count)]
        originals = [g.original for g in order[:count]]
        here, there = rng.sample(shelf.nearest(" ".join(originals), 6), 2)
        size = LONGEST - sum(map(len, originals)) - 10
        source = with_passages(here.opening(size), originals, rng)
        yield from both(name, "altered-inside", (source, source), _hosted(there, passages, rng, name, LONGEST))


def joined_sentences(groups: Sequence[Rewrite]) -> Iterator[Rewrite]:
    """Sentences translated from one language joined to passages, post-edited ones against raw machine output."""
    for language in sorted({g.id.rsplit("/", 2)[0] for g in groups}):
        members = [g for g in groups if g.id.rsplit("/", 2)[0] == language]
        for i in range(0, len(members) - SENTENCES_JOINED + 1, SENTENCES_JOINED):
            run = members[i : i + SENTENCES_JOINED]
            texts = (" ".join(g.original for g in run), " ".join(g.others[0] for g in run))
            yield Rewrite(run[0].id, "mlqe-pe", texts[0], texts[1:])


def _long_enough(group: Rewrite) -> bool:
    low, high = ALTERED_WORDS
    return low <= len(group.original.split()) <= high + 40


def _hosted(
    host: Document, passages: Sequence[Sequence[str]], rng: random.Random, name: str, length: int
) -> tuple[str, str]:
    """The opening of the host with either list of passages in it, at the same places."""
    taken = max(sum(map(len, texts)) for texts in passages)
    hosts = host.opening(length - taken - 10)
    if len(passages[0]) == 1 and rng.random() < 0.5:
        first, second = (within_paragraph(hosts, texts[0], draw("place", name)) for texts in passages)
    else:
        first, second = (with_passages(hosts, texts, draw("place", name)) for texts in passages)
    return first, second
