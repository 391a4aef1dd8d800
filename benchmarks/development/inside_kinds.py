"""The kinds with a passage, a summary or several rewritten texts inside a text of ordinary length."""

from collections.abc import Iterator, Sequence

from benchmarks.development.compose import (
    Neighbours,
    Pair,
    Pool,
    both,
    deal,
    draw,
    opening,
    with_passages,
    within_paragraph,
)
from benchmarks.development.short_kinds import rivals, with_nearest
from benchmarks.development.texts import FIELDS, Block, Item, Material, sentences

OWN_PASSAGES = 19
"""Own items of each field in ``passage-inside``; held-out rewrites make up the rest."""
SHORTEST_PASSAGE = 250
TARGETS_PER_FIELD = 12
HELD_OUT_TARGETS = 8


def hosts(material: Material) -> Pool:
    """Held-out text and both answers of every own item."""
    own = (Block(f"own/{i.id}/{name}", getattr(i, name)) for i in material.items for name in ("answer", "second"))
    return Pool([*material.blocks, *own])


def usable(block: Block, field: str, used: Sequence[str]) -> bool:
    """Held-out text always is; an own text if it stands in the same field and its item is not ``used``."""
    _, own, name = block.id.rpartition("own/")
    return not own or (name.startswith(field) and name.partition("/")[0] not in used)


def passage_inside(material: Material, pool: Pool) -> Iterator[Pair]:
    """A rewritten passage in a longer text; its original in another one. The negative has a rival in the place."""
    for item in material.items:
        if int(item.id[-2:]) <= OWN_PASSAGES:
            sources, targets = rivals(item)
            yield from _embedded(f"{item.strength}/{item.id}", pool, item.field, [item.id], sources, targets)
    for rewrite, nearest in with_nearest(material.rewrites):
        if len(rewrite.original) >= SHORTEST_PASSAGE:
            other = draw("passage-inside", rewrite.id).choice(rewrite.others)
            sources, targets = (rewrite.original, nearest.original), (other, other)
            yield from _embedded(f"held-out/{rewrite.id}", pool, "none", [], sources, targets)


def _embedded(
    name: str, pool: Pool, field: str, used: Sequence[str], sources: tuple[str, str], targets: tuple[str, str]
) -> Iterator[Pair]:
    rng = draw("passage-inside", name)
    sizes = [
        max(700, rng.randint(2500, 6300) - max(map(len, sources))),
        rng.randint(3500, 6300) - max(map(len, targets)),
    ]
    near = pool.nearest(sources[0], lambda block: usable(block, field, used))
    around = deal(near, sizes, rng)
    source, target = (
        tuple(with_passages(hosts, [text], draw(side, name)) for text in texts)
        for side, hosts, texts in (("source", around[0], sources), ("target", around[1], targets))
    )
    yield from both(name, "passage-inside", (source[0], source[1]), (target[0], target[1]))


def summary_inside(material: Material, pool: Pool) -> Iterator[Pair]:
    """The summary of an answer in another text; the negative has the summary of another answer, or a bit of a rival."""
    nearest = _nearest_items(material)
    for item in material.items:
        rng = draw("summary-inside", item.id)
        other = nearest[item.id][0]
        odd = int(item.id[-2:]) % 2
        inserted = (item.summary, other.summary if odd else excerpt(item.second, len(item.summary)))
        alone = rng.random() < 0.5
        sizes = [rng.randint(1900, 3900) - max(map(len, inserted)), 0 if alone else rng.randint(1200, 3000)]
        near = pool.nearest(item.answer, lambda b: usable(b, item.field, [item.id, other.id]))  # noqa: B023
        target, around = deal(near, sizes, rng)
        source = item.answer if alone else with_passages(around, [item.answer], rng)
        apart = rng.random() < 0.5
        texts = [
            with_passages(target, [text], draw("place", item.id))
            if apart
            else within_paragraph(target, text, draw("place", item.id))
            for text in inserted
        ]
        yield from both(f"{item.strength}/{item.id}", "summary-inside", (source, source), (texts[0], texts[1]))


def excerpt(text: str, length: int) -> str:
    """One or two sentences from the middle of ``text``, together about ``length`` characters."""
    parts = sentences(text)
    runs = [" ".join(parts[i : i + n]) for n in (1, 2) for i in range(1, len(parts) - n)]
    return min(runs or parts, key=lambda run: abs(len(run) - length))


def _nearest_items(material: Material) -> dict[str, list[Item]]:
    """The other items of the field, nearest answer first."""
    others = {}
    for field in FIELDS:
        members = [i for i in material.items if i.field == field]
        neighbours = Neighbours([i.answer for i in members])
        for item in members:
            others[item.id] = [members[n] for n in neighbours.order(item.answer) if members[n] is not item]
    return others


def several_sources(material: Material, pool: Pool) -> Iterator[Pair]:
    """Two to five rewritten texts in one target, against one of the originals or a near text that was not used."""
    nearest = _nearest_items(material)
    for field in FIELDS:
        members = [i for i in material.items if i.field == field]
        for k in range(TARGETS_PER_FIELD):
            used = [members[2 * k], *nearest[members[2 * k].id][: 1 + k % 4]]
            shown = [used[(k + turn) % len(used)] for turn in (0, 1)]
            unused = next(i for i in nearest[shown[0].id] if i not in used)
            sources = [(shown[0].answer, unused.answer), (shown[1].answer, shown[1].second)]
            taken = [i.id for i in (*used, unused)]
            name = f"own-{len(used)}/{members[2 * k].id}"
            yield from _synthesised(name, pool, field, taken, [i.paraphrase for i in used], sources)
    yield from _held_out_targets(material, pool)


def _held_out_targets(material: Material, pool: Pool) -> Iterator[Pair]:
    groups = [g for g in material.rewrites if g.collection.startswith("baoguangsheng")]
    neighbours = Neighbours([g.original for g in groups])
    for k in range(HELD_OUT_TARGETS):
        first = groups[3 * k]
        order = [groups[n] for n in neighbours.order(first.original)]
        used, unused = order[: 2 + k % 4], order[2 + k % 4 :]
        sources = [(used[turn].original, unused[turn].original) for turn in (0, 1)]
        name = f"held-out-{len(used)}/{first.id}"
        yield from _synthesised(name, pool, "none", [], [g.others[0] for g in used], sources)


def _synthesised(
    name: str,
    pool: Pool,
    field: str,
    taken: Sequence[str],
    texts: Sequence[str],
    sources: Sequence[tuple[str, str]],
) -> Iterator[Pair]:
    """One target of all ``texts``, each after a few sentences of another text, with several pairs of sources."""
    near = list(pool.nearest(" ".join(texts), lambda block: usable(block, field, taken)))
    between, rest = near[: len(texts)], near[len(texts) :]
    target = "\n\n".join(
        part for b, text in zip(between, texts) for part in (opening(b.text, 420) or sentences(b.text)[0], text)
    )
    for turn, originals in enumerate(sources):
        rng = draw("several-sources", name, turn)
        around = deal(rest, [rng.randint(1500, 4500) if rng.random() < 0.5 else 0], rng)[0]
        first, second = (with_passages(around, [text], draw("place", name, turn)) for text in originals)
        yield from both(f"{name}/{turn}", "several-sources", (first, second), (target, target))
