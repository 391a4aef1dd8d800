"""Make source contexts that retain more and more of the evidence (paper, Nested Evidence-Retention Intervention).

For each pair and seed index one ``random.Random`` shuffles the eight chunks, then the eight slots, then draws a
distractor for each chunk in its shuffled order (the paper leaves this order open). At a retention r the first 8 r
chunks are kept and each of the others is replaced in its own slot, so that contexts differ in nothing else.

The paper's seed holds Python's ``hash`` of the pair id, which another process does not repeat; here it is SHA-256.
``intervention_manifest.jsonl`` records all contexts by ids, offsets and digests, from which texts are made again.
"""

import random
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

from pydantic import Field

from pan_scdg.digests import hash_text
from pan_scdg.errors import UserError
from pan_scdg.progress import Progress
from pan_scdg.research.data.records import Count, Digest, Id, read_distinct
from pan_scdg.research.retention.distractors import CHUNKS, Distractor, DistractorPool, divide
from pan_scdg.research.retention.instances import Case

LEVELS = (0.0, 0.25, 0.5, 0.75, 1.0)
SEEDS = (0, 1, 2, 3, 4)
SEPARATOR = "\n\n"
MOST_DIFFERENCE = 50
"""Characters by which the contexts of a pair and seed may differ (paper, Length control)."""


@dataclass(frozen=True)
class Chunk:
    """A retained piece of the evidence, in characters."""

    offset: Count
    length: Annotated[int, Field(ge=1)]


@dataclass(frozen=True)
class Context:
    """One context without its text: the content of each slot, and digests.

    Raises:
        ValueError: the retention is none of `LEVELS`, or the slots do not fit it.
    """

    pair_id: Id
    seed: Count
    """The seed index, 0 to 4 in the paper."""
    retention: float
    slots: tuple[Chunk | Distractor, ...]
    characters: Count
    sha256: Digest
    evidence_sha256: Digest
    pool_sha256: Digest

    def __post_init__(self) -> None:
        if self.retention not in LEVELS or len(self.slots) != CHUNKS:
            levels = ", ".join(f"{level:g}" for level in LEVELS)
            raise ValueError(f"not {CHUNKS} slots at a retention of {levels}")
        if len(self.chunks) != count_retained(self.retention):
            raise ValueError(f"{len(self.chunks)} chunks at a retention of {self.retention:g}")

    @property
    def name(self) -> str:
        """Return a name for messages that no other context has."""
        return f"{self.pair_id}, seed {self.seed}, retention {self.retention:g}"

    @property
    def chunks(self) -> frozenset[Chunk]:
        """Return the retained chunks."""
        return frozenset(slot for slot in self.slots if isinstance(slot, Chunk))


def count_retained(retention: float) -> int:
    """Return the number of retained chunks (paper, Eq. supp-retention-counts)."""
    return round(retention * CHUNKS)


def derive_seed(pair_id: str, seed: int) -> int:
    """Return the seed of a pair's generator (paper, Eq. supp-retention-seed-formula, with a stable digest)."""
    return 42 + int(hash_text(pair_id), 16) % 100_000 + 7919 * seed


def make_contexts(cases: Sequence[Case], pool: DistractorPool, seeds: Sequence[int] = SEEDS) -> tuple[Context, ...]:
    """Return the contexts of every pair, seed and retention, in this order.

    Raises:
        UserError: the evidence of a pair cannot be divided, or the pool has too little text.
    """
    found: list[Context] = []
    with Progress("making contexts", len(cases)) as progress:
        for case in cases:
            for seed in seeds:
                found += _make_nested(case, seed, pool)
            progress.update()
    return tuple(found)


def _make_nested(case: Case, seed: int, pool: DistractorPool) -> Iterator[Context]:
    """Yield the contexts of one pair and seed, from none of the evidence to all of it."""
    generator = random.Random(derive_seed(case.pair_id, seed))
    try:
        chunks = [Chunk(start, end - start) for start, end in divide(case.evidence)]
    except ValueError as e:
        raise UserError(str(e), "leave this pair out of the instances", case.pair_id) from e
    generator.shuffle(chunks)
    places = list(range(CHUNKS))
    generator.shuffle(places)
    used: set[str] = set()
    distractors = [pool.draw(chunk.length, generator, used) for chunk in chunks]
    for retention in LEVELS:
        kept = count_retained(retention)
        mixed: list[Chunk | Distractor] = [*chunks[:kept], *distractors[kept:]]
        slots = tuple(mixed[place] for place in places)
        text = _join(slots, case.evidence, pool)
        yield Context(
            pair_id=case.pair_id,
            seed=seed,
            retention=retention,
            slots=slots,
            characters=len(text),
            sha256=hash_text(text),
            evidence_sha256=hash_text(case.evidence),
            pool_sha256=pool.digest,
        )


def _join(slots: Iterable[Chunk | Distractor], evidence: str, pool: DistractorPool) -> str:
    return SEPARATOR.join(
        evidence[slot.offset : slot.offset + slot.length] if isinstance(slot, Chunk) else pool.read_text(slot)
        for slot in slots
    )


def read_context(context: Context, evidence: str, pool: DistractorPool) -> str:
    """Return the text of a context.

    Raises:
        UserError: evidence or pool are not those that it was made with, or the text is not the recorded one.
    """
    if context.pool_sha256 != pool.digest:
        raise UserError(
            "was made with other distractors", "give the same news, or prepare the contexts again", context.name
        )
    if context.evidence_sha256 != hash_text(evidence):
        raise UserError(
            "was made with other evidence", "give the same data, or prepare the contexts again", context.name
        )
    text = _join(context.slots, evidence, pool)
    if hash_text(text) != context.sha256:
        raise UserError("does not give the recorded text", "give the manifest as it was written", context.name)
    return text


def read_contexts(path: Path) -> tuple[Context, ...]:
    """Return the contexts of a manifest, in its order.

    Raises:
        UserError: a record is invalid, a context occurs twice, or see `check_contexts`.
    """
    contexts = read_distinct(path, Context, "context", lambda context: (context.name,))
    check_contexts(contexts, path)
    return contexts


def check_contexts(contexts: Sequence[Context], where: Path) -> None:
    """Check that every pair has every seed, and every pair and seed nested contexts of each retention and one length.

    Raises:
        UserError: a context is missing, lacks a chunk that one of lower retention has, or differs too much in length.
    """
    rows: dict[tuple[str, int], dict[float, Context]] = {}
    for context in contexts:
        rows.setdefault((context.pair_id, context.seed), {})[context.retention] = context
    pairs, seeds = {pair_id for pair_id, _ in rows}, {seed for _, seed in rows}
    if len(rows) != len(pairs) * len(seeds):
        raise UserError("a pair lacks a seed that others have", "prepare the contexts again", where)
    for (pair_id, seed), row in rows.items():
        if fault := _find_fault([row[level] for level in LEVELS if level in row]):
            raise UserError(f"{pair_id}, seed {seed}: {fault}", "prepare the contexts again", where)


def _find_fault(row: Sequence[Context]) -> str | None:
    """Return the fault of the contexts of a pair and seed, in the order of their retention; None without one."""
    if len(row) < len(LEVELS):
        return f"{len(row)} of {len(LEVELS)} retentions"
    if any(not low.chunks < high.chunks for low, high in zip(row, row[1:])):
        return "a retention lacks a chunk that a lower one has"
    sizes = [context.characters for context in row]
    if max(sizes) - min(sizes) > MOST_DIFFERENCE:
        return f"lengths differ by {max(sizes) - min(sizes)} characters, more than {MOST_DIFFERENCE}"
    return None
