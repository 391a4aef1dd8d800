"""``intervention_manifest.jsonl``: the record of all contexts, which whoever scores them takes at its word.

It holds ids, offsets and digests and no text; texts are made again from the data and compared (`context_text`).
"""

from collections.abc import Iterable, Sequence
from pathlib import Path

from pan_scdg.errors import UserError
from pan_scdg.pan.untrusted import check_id
from pan_scdg.research.data.records import json_lines, read_records
from pan_scdg.research.retention.chunks import CHUNKS
from pan_scdg.research.retention.contexts import LEVELS, Context, retained_chunks

MANIFEST = "intervention_manifest.jsonl"
MOST_DIFFERENCE = 50
"""Characters by which the contexts of a pair and seed may differ (paper, Length control)."""


def contexts_text(contexts: Iterable[Context]) -> str:
    """The text of the manifest."""
    return json_lines(contexts)


def read_contexts(path: Path) -> tuple[Context, ...]:
    """The contexts of a manifest, in its order.

    Raises:
        UserError: a line is no context, or see `check_contexts`.
    """
    found: dict[tuple[str, int, float], Context] = {}
    for number, context in read_records(path, Context):
        check_id(context.pair_id, path, number)
        if context.retention not in LEVELS or len(context.slots) != CHUNKS:
            levels = ", ".join(f"{level:g}" for level in LEVELS)
            raise UserError(f"not {CHUNKS} slots at a retention of {levels}", "correct the line", path, number)
        if len(context.chunks) != retained_chunks(context.retention):
            what = f"{len(context.chunks)} chunks at a retention of {context.retention:g}"
            raise UserError(what, "correct the line", path, number)
        key = (context.pair_id, context.seed, context.retention)
        if key in found:
            raise UserError("this context is there twice", "keep one line", path, number)
        found[key] = context
    check_contexts(tuple(found.values()), path)
    return tuple(found.values())


def check_contexts(contexts: Sequence[Context], where: Path) -> None:
    """Raise UserError unless every pair has every seed, and every pair and seed a context of each retention.

    Of these each has to retain what the one below it retains, and their lengths have to be alike.
    """
    rows: dict[tuple[str, int], dict[float, Context]] = {}
    for context in contexts:
        rows.setdefault((context.pair_id, context.seed), {})[context.retention] = context
    if not rows:
        raise UserError("holds no contexts", "prepare them", where)
    pairs, seeds = {pair_id for pair_id, _ in rows}, {seed for _, seed in rows}
    if len(rows) != len(pairs) * len(seeds):
        raise UserError("a pair lacks a seed that others have", "prepare the contexts again", where)
    for (pair_id, seed), row in rows.items():
        if fault := _fault([row.get(level) for level in LEVELS]):
            raise UserError(f"{pair_id}, seed {seed}: {fault}", "prepare the contexts again", where)


def _fault(row: Sequence[Context | None]) -> str | None:
    """What is wrong with the contexts of a pair and seed, in the order of their retention."""
    there = [context for context in row if context is not None]
    if len(there) < len(LEVELS):
        return f"{len(there)} of {len(LEVELS)} retentions"
    if any(not low.chunks < high.chunks for low, high in zip(there, there[1:])):
        return "a retention lacks a chunk that a lower one has"
    sizes = [context.characters for context in there]
    if max(sizes) - min(sizes) > MOST_DIFFERENCE:
        return f"lengths differ by {max(sizes) - min(sizes)} characters, more than {MOST_DIFFERENCE}"
    return None
