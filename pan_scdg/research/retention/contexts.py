"""Make source contexts that retain more and more of the evidence (paper, Nested Evidence-Retention Intervention).

For each pair and seed index one ``random.Random`` shuffles the eight chunks, then the eight slots, then draws a
distractor for each chunk in its shuffled order (the paper leaves this order open). At a retention r the first 8 r
chunks are kept and each of the others is replaced in its own slot, so that contexts differ in nothing else.

The paper's seed holds Python's ``hash`` of the pair id, which another process does not repeat; here it is SHA-256.
``intervention_manifest.jsonl`` records all contexts by ids, offsets and digests.
"""

import json
import random
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from pan_scdg.digests import hash_text
from pan_scdg.errors import UserError
from pan_scdg.progress import Progress
from pan_scdg.research.retention.distractors import CHUNKS, Distractor, DistractorPool, divide
from pan_scdg.research.retention.instances import Case

LEVELS = (0.0, 0.25, 0.5, 0.75, 1.0)
SEEDS = (0, 1, 2, 3, 4)
SEPARATOR = "\n\n"


class Chunk(NamedTuple):
    """A retained piece of the evidence, in characters."""

    offset: int
    length: int


class Context(NamedTuple):
    """One context: the content of each slot, and the text that this makes."""

    pair_id: str
    seed: int
    """The seed index, 0 to 4 in the paper."""
    retention: float
    slots: tuple[Chunk | Distractor, ...]
    text: str

    @property
    def name(self) -> str:
        """Return a name for messages that no other context has."""
        return f"{self.pair_id}, seed {self.seed}, retention {self.retention:g}"


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
        spans = divide(case.evidence)
    except ValueError as e:
        raise UserError(str(e), "leave this pair out of the instances", case.pair_id) from e
    chunks = [(Chunk(start, end - start), case.evidence[start:end]) for start, end in spans]
    generator.shuffle(chunks)
    places = list(range(CHUNKS))
    generator.shuffle(places)
    used: set[str] = set()
    distractors = [pool.draw(chunk.length, generator, used) for chunk, _ in chunks]
    for retention in LEVELS:
        kept = round(retention * CHUNKS)  # paper, Eq. supp-retention-counts
        mixed: list[tuple[Chunk | Distractor, str]] = [*chunks[:kept], *distractors[kept:]]
        slots, texts = zip(*(mixed[place] for place in places))
        yield Context(case.pair_id, seed, retention, slots, SEPARATOR.join(texts))


def format_contexts(contexts: Sequence[Context], cases: Sequence[Case], pool: DistractorPool) -> str:
    """Return the text of ``intervention_manifest.jsonl``, which holds no text of a document."""
    evidence = {case.pair_id: hash_text(case.evidence) for case in cases}
    records = (
        {
            "pair_id": context.pair_id,
            "seed": context.seed,
            "retention": context.retention,
            "slots": [slot._asdict() for slot in context.slots],
            "characters": len(context.text),
            "sha256": hash_text(context.text),
            "evidence_sha256": evidence[context.pair_id],
            "pool_sha256": pool.digest,
        }
        for context in contexts
    )
    return "".join(f"{json.dumps(record)}\n" for record in records)
