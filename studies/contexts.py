"""Select the instances of the retention study and make their contexts (paper, Nested Evidence-Retention Intervention).

Selection: one ``random.Random(42)`` shuffles the sorted names of the truth files and draws among eligible passages.
Where the paper leaves it open: a passage is eligible by its lengths (conditions 3 and 4), it is drawn before its text
is divided, and classes of obfuscation other than the paper's three come after these, by name.

Contexts: for each pair and seed index one ``random.Random`` shuffles the eight chunks, then the eight slots, then draws
a distractor for each chunk in its shuffled order (the paper leaves this order open). At a retention r the first 8 r
chunks are kept and each of the others is replaced in its own slot, so that contexts differ in nothing else. The paper's
seed contains Python's ``hash`` of the pair id, which another process does not repeat; here it is SHA-256.

Where the paper leaves it open: sentences are those of the first stage, and of the sentence ends the k-th cut takes the
one nearest to k eighths of the text that leaves every chunk a sentence, the earlier one of two. An article's white
space becomes single spaces; a distractor runs on through the following articles, and after the last through the first;
a cut is the space within two characters of the requested length that is nearest to it (the shorter text of two), else
the length itself, so that nothing need be padded; if a text was drawn before, the start moves on by one sentence; and
texts are compared within a pair and seed.
"""

import random
from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from pathlib import Path
from typing import Any, NamedTuple

from pan_scdg.digests import hash_text
from pan_scdg.errors import UserError
from pan_scdg.pan.text_alignment import read_text
from pan_scdg.pan.untrusted import is_file, list_directory, parse_xml, read_document
from pan_scdg.records import Passage, Span
from pan_scdg.text.sentences import find_sentence_spans, split_sentences
from studies.corpora import CLUSTER_FILES, TruePair, collect_reused, read_clusters

SELECTION_SEED = 42
MAX_INSTANCES = 300
TARGET_CHARACTERS = (1_000, 50_000)
EVIDENCE_CHARACTERS = (2_000, 8_000)
MIN_REUSED_CHARACTERS = 200
PRIORITY = ("simple", "medium", "hard")
LEVELS = (0.0, 0.25, 0.5, 0.75, 1.0)
SEEDS = (0, 1, 2, 3, 4)
CHUNKS = 8
MIN_CHUNK_CHARACTERS = 40
"""Smallest target size of a chunk, an eighth of the evidence rounded down."""
ARTICLES = 500
TOLERANCE = 2
"""Characters by which a distractor may miss the requested length."""


class Instance(NamedTuple):
    """A pair with its texts and the passage that was selected."""

    pair_id: str
    susp_file: str
    target: str
    """The complete suspicious document; its span ``selected`` reuses the evidence."""
    evidence: str
    selected: Span
    reused: tuple[Span, ...]
    """Every annotated span of the suspicious document, in any of its truth files; they may overlap."""


class Context(NamedTuple):
    """The text in front of a target, with a share of the evidence."""

    seed: int
    """The seed index, 0 to 4 in the paper."""
    retention: float
    text: str

    def make_record(self, instance: Instance) -> dict[str, Any]:
        """Return its line in the manifest of contexts, which has no text of a document."""
        return {
            "pair_id": instance.pair_id,
            "susp_file": instance.susp_file,
            "src_file": f"{instance.pair_id}-s{self.seed}-r{100 * self.retention:03.0f}.txt",
            "seed": self.seed,
            "retention": self.retention,
            "selected": instance.selected,
            "reused": instance.reused,
        }


def select_instances(
    corpus: Sequence[TruePair], pool: Sequence[str], count: int = MAX_INSTANCES
) -> tuple[list[Instance], dict[str, str]]:
    """Return up to ``count`` instances, and the reason of each candidate before them that was not taken.

    The sentences of the pool must suffice to replace all evidence (conditions 5 and 6).
    """
    generator = random.Random(SELECTION_SEED)
    candidates = sorted((true for true in corpus if true.xml is not None), key=lambda true: f"{true.pair_id}.xml")
    generator.shuffle(candidates)
    reused = collect_reused(corpus)
    instances: list[Instance] = []
    rejected: dict[str, str] = {}
    for true in candidates:
        if len(instances) == count:
            break
        passage = _select_passage(true, generator)
        if isinstance(passage, str):
            rejected[true.pair_id] = passage
            continue
        susp, src = true.pair[:2]
        instance = Instance(
            true.pair_id,
            susp.reference,
            read_text(susp),
            read_text(src)[slice(*passage.source)],
            passage.target,
            tuple(sorted(reused[susp.reference])),
        )
        try:
            list(make_contexts(instance, pool))
        except UserError as e:
            rejected[true.pair_id] = e.what
        else:
            instances.append(instance)
    return instances, rejected


def _select_passage(true: TruePair, generator: random.Random) -> Passage | str:
    """Return the passage of an instance, or the reason why the pair has none."""
    if true.xml is None or not true.passages:
        return "no annotation of this source"
    features = (e for e in parse_xml(true.xml).iterchildren(tag="{*}*") if e.get("name") == "plagiarism")
    if len({(e.get("source_reference") or "").replace(".txt", "") for e in features}) > 1:
        return "annotations of several sources"
    susp, src = read_text(true.pair.suspicious), read_text(true.pair.source)
    if not TARGET_CHARACTERS[0] <= len(susp) <= TARGET_CHARACTERS[1]:
        return "suspicious document not of 1,000 to 50,000 characters"
    fewest, most = EVIDENCE_CHARACTERS
    inside = [p for p in true.passages if p.source.end <= len(src)]
    sized = [p for p in inside if fewest <= p.source.length <= most]
    if not sized:
        return "no source span of 2,000 to 8,000 characters"
    inside = [p for p in sized if p.target.end <= len(susp)]
    eligible = [p for p in inside if p.target.length >= MIN_REUSED_CHARACTERS]
    if not eligible:
        return "no suspicious span of 200 characters within the document"
    kinds = {p.obfuscation for p in eligible}
    best = next((kind for kind in PRIORITY if kind in kinds), None) or min(kinds)
    # as in the paper, the generator draws among one as well
    return generator.choice([p for p in eligible if p.obfuscation == best])


def divide(evidence: str) -> list[str]:
    """Return eight sentence-aligned chunks of about one size, without white space around them, or raise UserError."""
    ends = [end for _, end in find_sentence_spans(evidence)]
    if len(evidence) // CHUNKS < MIN_CHUNK_CHARACTERS or len(ends) < CHUNKS:
        what = f"the source span is shorter than {CHUNKS} sentences or chunks of {MIN_CHUNK_CHARACTERS} characters"
        raise UserError(what, "choose a longer one")
    cuts, last = [0], -1
    for k in range(1, CHUNKS):
        left = range(last + 1, len(ends) - (CHUNKS - k))
        last = min(left, key=lambda i: abs(CHUNKS * ends[i] - k * len(evidence)))
        cuts.append(ends[last])
    return [evidence[start:end].strip() for start, end in zip(cuts, [*cuts[1:], len(evidence)])]


def read_pool(directory: Path, articles: int = ARTICLES) -> list[str]:
    """Return the sentences of the first ``articles`` files ``*.txt`` of a folder, by name.

    A folder without such files gives those of the first articles of its Multi-News clusters.
    """
    texts = islice(_read_articles(directory), articles)
    sentences = [" ".join(sentence.split()) for article in texts for sentence in split_sentences(article)]
    if not sentences:
        raise UserError("contains no sentence for distractors", "give news articles", directory)
    return sentences


def _read_articles(directory: Path) -> Iterator[str]:
    files = [p for p in list_directory(directory) if p.suffix == ".txt" and p.name not in CLUSTER_FILES and is_file(p)]
    if files:
        yield from (read_document(path) for path in files)
        return
    for cluster in read_clusters(directory):
        yield from (text for text in cluster.articles if text)


def draw_distractor(pool: Sequence[str], characters: int, generator: random.Random, used: set[str]) -> str:
    """Return a text that begins at a random sentence, and add it to the ``used`` ones, of which it is none.

    Raises UserError if every text of this length is used already, or the pool is shorter.
    """
    first = generator.randrange(len(pool))
    for step in range(len(pool)):
        parts: list[str] = []
        size = 0
        while size <= characters + TOLERANCE and len(parts) < len(pool):
            parts.append(pool[(first + step + len(parts)) % len(pool)])
            size += len(parts[-1]) + 1
        text = cut_text(" ".join(parts), characters)
        if size > characters + TOLERANCE and text not in used:
            used.add(text)
            return text
    raise UserError("the distractor pool is too small", "give more news articles")


def cut_text(text: str, characters: int) -> str:
    """Return the first ``characters`` of ``text``, up to two more or fewer if a word ends there."""
    cuts = range(max(1, characters - TOLERANCE), characters + TOLERANCE + 1)
    nearest = sorted(cuts, key=lambda cut: abs(cut - characters))
    return text[: next((cut for cut in nearest if text[cut : cut + 1] in (" ", "")), characters)]


def derive_seed(pair_id: str, seed: int) -> int:
    """Return the seed of a pair's generator (paper, Eq. supp-retention-seed-formula, with a stable digest)."""
    return 42 + int(hash_text(pair_id), 16) % 100_000 + 7919 * seed


def make_contexts(instance: Instance, pool: Sequence[str], seeds: Iterable[int] = SEEDS) -> Iterator[Context]:
    """Yield the contexts of an instance for every seed, from none of the evidence to all of it.

    Raises UserError if the evidence cannot be divided, or the pool has too little text.
    """
    divided = divide(instance.evidence)
    for seed in seeds:
        generator = random.Random(derive_seed(instance.pair_id, seed))
        chunks = list(divided)
        generator.shuffle(chunks)
        places = list(range(CHUNKS))
        generator.shuffle(places)
        used: set[str] = set()
        distractors = [draw_distractor(pool, len(chunk), generator, used) for chunk in chunks]
        for retention in LEVELS:
            kept = round(retention * CHUNKS)  # paper, Eq. supp-retention-counts
            mixed = [*chunks[:kept], *distractors[kept:]]
            yield Context(seed, retention, "\n\n".join(mixed[place] for place in places))
