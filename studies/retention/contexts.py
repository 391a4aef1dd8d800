"""Make source contexts that retain more and more of the evidence (paper, Nested Evidence-Retention Intervention).

For each pair and seed index one ``random.Random`` shuffles the eight chunks, then the eight slots, then draws a
distractor for each chunk in its shuffled order (the paper leaves this order open). At a retention r the first 8 r
chunks are kept and each of the others is replaced in its own slot, so that contexts differ in nothing else.

The paper's seed holds Python's ``hash`` of the pair id, which another process does not repeat; here it is SHA-256.
``intervention_manifest.jsonl`` records all contexts by ids, offsets and digests.

Where the paper leaves it open: sentences are those of the first stage (`retrieval.units`), and of the sentence ends
the k-th cut takes the one nearest to k eighths of the text that leaves every chunk a sentence, the earlier one of two.
An article's white space becomes single spaces; a distractor runs on through the following articles, and after the last
through the first; a cut is the space within two characters of the wanted length that is nearest to it (the shorter text
of two), else the wanted length itself, so that nothing need be padded; if a text was drawn before, the start moves on
by one sentence; and texts are compared within a pair and seed.
"""

import json
import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import islice
from pathlib import Path
from typing import NamedTuple

from pan_scdg.digests import hash_text
from pan_scdg.errors import UserError
from pan_scdg.pan.untrusted import is_file, list_directory, read_document
from pan_scdg.progress import Progress
from studies.data.news import FILES, find_clusters, read_clusters
from studies.retention.instances import Case
from pan_scdg.retrieval.sentences import find_sentence_spans, split_sentences

LEVELS = (0.0, 0.25, 0.5, 0.75, 1.0)
SEEDS = (0, 1, 2, 3, 4)
SEPARATOR = "\n\n"
CHUNKS = 8
SMALLEST_TARGET = 40
"""Fewest characters of the target size, an eighth of the evidence rounded down."""
ARTICLES = 500
TOLERANCE = 2
"""Characters by which a distractor may miss the wanted length."""


class Chunk(NamedTuple):
    """A piece of the evidence, in characters."""

    offset: int
    length: int


def divide(evidence: str) -> tuple[Chunk, ...]:
    """Return eight sentence-aligned chunks of about one size, without white space around them.

    Raises:
        ValueError: the text is too short, or has too few sentences.
    """
    if len(evidence) // CHUNKS < SMALLEST_TARGET:
        raise ValueError(f"source span shorter than {CHUNKS} chunks of {SMALLEST_TARGET} characters")
    ends = [end for _, end in find_sentence_spans(evidence)]
    if len(ends) < CHUNKS:
        raise ValueError(f"source span of fewer than {CHUNKS} sentences")
    cuts = [0]
    last = -1
    for k in range(1, CHUNKS):
        left = range(last + 1, len(ends) - (CHUNKS - k))
        last = min(left, key=lambda i: abs(CHUNKS * ends[i] - k * len(evidence)))
        cuts.append(ends[last])
    return tuple(_strip(evidence, start, end) for start, end in zip(cuts, [*cuts[1:], len(evidence)]))


def _strip(text: str, start: int, end: int) -> Chunk:
    chunk = text[start:end]
    return Chunk(start + len(chunk) - len(chunk.lstrip()), len(chunk.strip()))


class Sentence(NamedTuple):
    """A sentence of the pool: its article, its number in the article from 0, and its text with single spaces."""

    article: str
    number: int
    text: str


class Distractor(NamedTuple):
    """The first sentence of a distractor and the wanted length, from which its text follows."""

    article: str
    sentence: int
    wanted: int


@dataclass(frozen=True)
class DistractorPool:
    """The sentences of news articles, in order."""

    sentences: tuple[Sentence, ...]

    @cached_property
    def digest(self) -> str:
        """Return the SHA-256 over all sentences, by which a manifest of contexts names its pool."""
        return hash_text("".join(f"{s.article}\t{s.number}\t{s.text}\n" for s in self.sentences))

    @cached_property
    def _characters(self) -> int:
        return sum(len(s.text) + 1 for s in self.sentences)

    def explain_lack(self, evidence: str) -> str | None:
        """Return the reason why ``evidence`` cannot be divided or one of its chunks not be replaced, None if both can.

        These are conditions 5 and 6 of an instance.
        """
        try:
            chunks = divide(evidence)
        except ValueError as e:
            return str(e)
        fits = all(self._has_enough(length) for length in {chunk.length for chunk in chunks})
        return None if fits else "the distractor pool is too small"

    def _has_enough(self, length: int) -> bool:
        """Return True if the pool has a distinct text of this length for each chunk."""
        found: set[str] = set()
        if length + TOLERANCE < self._characters:
            for place in range(len(self.sentences)):
                found.add(self._make_text(place, length))
                if len(found) == CHUNKS:
                    return True
        return False

    def draw(self, wanted: int, generator: random.Random, used: set[str]) -> tuple[Distractor, str]:
        """Return a distractor that begins at a random sentence, and its text, which was not drawn before.

        Args:
            wanted: length in characters.
            generator: draws the sentence.
            used: drawn texts; the new one is added.

        Raises:
            UserError: every text of this length is used already.
        """
        first = generator.randrange(len(self.sentences))
        for step in range(len(self.sentences)):
            place = (first + step) % len(self.sentences)
            text = self._make_text(place, wanted)
            if text not in used:
                used.add(text)
                return Distractor(self.sentences[place].article, self.sentences[place].number, wanted), text
        raise UserError("the pool has no unused distractor left", "give more news articles", f"{wanted} characters")

    def _make_text(self, place: int, wanted: int) -> str:
        parts: list[str] = []
        size = 0
        while size <= wanted + TOLERANCE:
            parts.append(self.sentences[(place + len(parts)) % len(self.sentences)].text)
            size += len(parts[-1]) + 1
        return cut_text(" ".join(parts), wanted)


def cut_text(text: str, wanted: int) -> str:
    """Return the first ``wanted`` characters of ``text``, up to two more or fewer if a word ends there."""
    cuts = sorted(range(max(1, wanted - TOLERANCE), wanted + TOLERANCE + 1), key=lambda cut: abs(cut - wanted))
    return text[: next((cut for cut in cuts if text[cut : cut + 1] in (" ", "")), wanted)]


def read_pool(directory: Path, articles: int = ARTICLES) -> DistractorPool:
    """Return the sentences of the first ``articles`` files ``*.txt`` of a folder, by name.

    A folder without such files gives those of the first articles of its Multi-News clusters.

    Raises:
        UserError: the folder has neither, a file cannot be read, or there is no sentence.
    """
    found = [
        Sentence(name, number, text)
        for name, article in islice(_read_articles(directory), articles)
        for number, text in enumerate(" ".join(sentence.split()) for sentence in split_sentences(article))
    ]
    if not found:
        raise UserError("contains no sentence for distractors", "give news articles", directory)
    return DistractorPool(tuple(found))


def _read_articles(directory: Path) -> Iterator[tuple[str, str]]:
    files = [p for p in list_directory(directory) if p.suffix == ".txt" and p.name not in FILES and is_file(p)]
    if files:
        yield from ((path.name, read_document(path)) for path in files)
        return
    for cluster in read_clusters(find_clusters(directory)):
        yield from ((f"{cluster.cluster_id}-{place}", text) for place, text in enumerate(cluster.articles) if text)


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
    chunks = [(chunk, case.evidence[chunk.offset : chunk.offset + chunk.length]) for chunk in spans]
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
