"""Source contexts that retain more and more of the evidence (paper, Nested Evidence-Retention Intervention).

For each pair and seed index one ``random.Random`` shuffles the eight chunks, then the eight slots, then draws a
distractor for each chunk in its shuffled order (the paper leaves this order open). At a retention r the first 8 r
chunks are there and the others are replaced, each in its own slot, so that only what is retained differs.

The paper's seed holds Python's ``hash`` of the pair id, which another process does not repeat; here it is SHA-256.
"""

import random
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Annotated

from pydantic import Field

from pan_scdg.digests import text_digest
from pan_scdg.errors import UserError
from pan_scdg.progress import Progress
from pan_scdg.research.retention.cases import Case
from pan_scdg.research.retention.chunks import CHUNKS, divide
from pan_scdg.research.retention.distractors import Distractor, DistractorPool
from pan_scdg.research.retention.instances import Digest, Size

LEVELS = (0.0, 0.25, 0.5, 0.75, 1.0)
SEEDS = (0, 1, 2, 3, 4)
SEPARATOR = "\n\n"


@dataclass(frozen=True)
class Chunk:
    """A retained piece of the evidence, in characters."""

    offset: Size
    length: Annotated[int, Field(ge=1)]


@dataclass(frozen=True)
class Context:
    """One realised context, without its text: what is in each slot, and the digest of the whole."""

    pair_id: str
    seed: Size
    """The seed index, 0 to 4 in the paper."""
    retention: float
    slots: tuple[Chunk | Distractor, ...]
    characters: Size
    sha256: Digest
    evidence_sha256: Digest
    pool_sha256: Digest

    @property
    def name(self) -> str:
        """How errors call it, and no other context."""
        return f"{self.pair_id}, seed {self.seed}, retention {self.retention:g}"

    @property
    def chunks(self) -> frozenset[Chunk]:
        """What is retained."""
        return frozenset(slot for slot in self.slots if isinstance(slot, Chunk))


def retained_chunks(retention: float) -> int:
    """How many of the eight chunks are there (paper, Eq. supp-retention-counts)."""
    return round(retention * CHUNKS)


def seed_of(pair_id: str, seed: int) -> int:
    """The seed of a pair's generator (paper, Eq. supp-retention-seed-formula, with a digest that is stable)."""
    return 42 + int(text_digest(pair_id), 16) % 100_000 + 7919 * seed


def prepare_contexts(cases: Sequence[Case], pool: DistractorPool, seeds: Sequence[int] = SEEDS) -> tuple[Context, ...]:
    """The contexts of every pair, seed and retention, in this order.

    Raises:
        UserError: the evidence of a pair cannot be divided, or the pool has too little.
    """
    found: list[Context] = []
    with Progress("making contexts", len(cases)) as progress:
        for case in cases:
            for seed in seeds:
                found += _contexts(case, seed, pool)
            progress.update()
    return tuple(found)


def _contexts(case: Case, seed: int, pool: DistractorPool) -> Iterator[Context]:
    """The contexts of one pair and seed, from none of the evidence to all of it."""
    generator = random.Random(seed_of(case.pair_id, seed))
    chunks = list(_chunks(case))
    generator.shuffle(chunks)
    places = list(range(CHUNKS))
    generator.shuffle(places)
    used: set[str] = set()
    distractors = [pool.draw(chunk.length, generator, used) for chunk in chunks]
    for retention in LEVELS:
        there: list[Chunk | Distractor] = [
            *chunks[: retained_chunks(retention)],
            *distractors[retained_chunks(retention) :],
        ]
        slots = tuple(there[place] for place in places)
        text = _joined(slots, case.evidence, pool)
        yield Context(
            pair_id=case.pair_id,
            seed=seed,
            retention=retention,
            slots=slots,
            characters=len(text),
            sha256=text_digest(text),
            evidence_sha256=text_digest(case.evidence),
            pool_sha256=pool.digest,
        )


def _chunks(case: Case) -> Iterator[Chunk]:
    spans = divide(case.evidence)
    if isinstance(spans, str):
        raise UserError(spans, "leave this pair out of the instances", case.pair_id)
    return (Chunk(start, end - start) for start, end in spans)


def _joined(slots: Iterable[Chunk | Distractor], evidence: str, pool: DistractorPool) -> str:
    return SEPARATOR.join(
        evidence[slot.offset : slot.offset + slot.length] if isinstance(slot, Chunk) else pool.text(slot)
        for slot in slots
    )


def context_text(context: Context, evidence: str, pool: DistractorPool) -> str:
    """The text of a context.

    Raises:
        UserError: evidence or pool are not those that it was made with, or it is not the text that was recorded.
    """
    if context.pool_sha256 != pool.digest:
        raise UserError(
            "was made with other distractors", "give the same news, or prepare the contexts again", context.name
        )
    if context.evidence_sha256 != text_digest(evidence):
        raise UserError(
            "was made with other evidence", "give the same data, or prepare the contexts again", context.name
        )
    text = _joined(context.slots, evidence, pool)
    if text_digest(text) != context.sha256:
        raise UserError("does not give the recorded text", "take the manifest as it was written", context.name)
    return text
