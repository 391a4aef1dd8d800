"""The kinds whose texts stand alone: answers to one question, and artificially obfuscated passages."""

from collections.abc import Iterator, Sequence

from benchmarks.development.compose import Neighbours, Pair, both, cut_passages, draw
from benchmarks.development.obfuscate import obfuscate
from benchmarks.development.stock import stock
from benchmarks.development.texts import Block, Item, Material, Rewrite

OBFUSCATED = 60
"""Pairs of each label at each strength."""
PASSAGE_WORDS = (150, 400)


def same_question(material: Material) -> Iterator[Pair]:
    """A rewrite against its original, or against another text that answers the same question (or is nearest)."""
    for item in material.items:
        yield from both(f"{item.strength}/{item.id}", "same-question", *rivals(item))
    for rewrite, nearest in with_nearest(material.rewrites):
        other = draw("same-question", rewrite.id).choice(rewrite.others)
        name = f"held-out/{rewrite.id}"
        yield from both(name, "same-question", (rewrite.original, nearest.original), (other, other))


def rivals(item: Item) -> tuple[tuple[str, str], tuple[str, str]]:
    """Sources and targets of positive and negative.

    Every other negative has the paraphrase as its target, so that the style of a paraphrase tells nothing.
    """
    if int(item.id[-2:]) % 2:
        return (item.answer, item.answer), (item.paraphrase, item.second)
    return (item.answer, item.second), (item.paraphrase, item.paraphrase)


def with_nearest(groups: Sequence[Rewrite]) -> Iterator[tuple[Rewrite, Rewrite]]:
    """Each group with the one of the same collection whose original is nearest to its own."""
    for collection in sorted({g.collection for g in groups}):
        members = [g for g in groups if g.collection == collection]
        if len(members) < 2:
            continue
        neighbours = Neighbours([g.original for g in members])
        for i, group in enumerate(members):
            yield group, members[next(j for j in neighbours.order(group.original) if j != i)]


def obfuscated(material: Material) -> Iterator[Pair]:
    """A passage against its obfuscated copy, or against the copy of the passage nearest to it."""
    running, abstracts, own = _passages(material)
    passages = [*running, *abstracts, *own]
    neighbours = Neighbours([p.text for p in passages])
    foreign = " ".join(p.text for p in passages).split()
    for level in (1, 2, 3):
        share = OBFUSCATED // 3
        chosen = [p for part in (running, abstracts, own) for p in _spread(part, 3 * share)[level - 1 :: 3]]
        for passage in chosen:
            near = next(
                p
                for p in map(passages.__getitem__, neighbours.order(passage.text))
                if p != passage and 0.8 < len(p.text) / len(passage.text) < 1.25
            )
            copies = [
                obfuscate(p.text, level, foreign, material.thesaurus, draw(level, passage.id)) for p in (passage, near)
            ]
            kind = f"obfuscated-{level}"
            yield from both(passage.id, kind, (passage.text, passage.text), (copies[0], copies[1]))


def _passages(material: Material) -> tuple[list[Block], list[Block], list[Block]]:
    """Passages of running text, abstracts, and own answers, all of 150 to 400 words."""
    running = [
        Block(f"{document.id}/{i}", text)
        for document in stock(material)
        if document.family != "papers"
        for i, text in enumerate(cut_passages(document.text, 3, PASSAGE_WORDS, draw("passages", document.id)))
    ]
    own = [Block(f"{i.id}/{name}", getattr(i, name)) for i in material.items for name in ("answer", "second")]
    low, high = PASSAGE_WORDS
    fits = [[b for b in blocks if low <= len(b.text.split()) <= high] for blocks in (material.abstracts, own)]
    return running, fits[0], fits[1]


def _spread(blocks: Sequence[Block], count: int) -> list[Block]:
    """``count`` blocks at even distances, in an order that does not follow their ids."""
    chosen = [blocks[len(blocks) * i // count] for i in range(count)]
    return sorted(chosen, key=lambda b: draw("spread", b.id).random())
