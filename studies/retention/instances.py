"""Select the instances of the retention study: pairs with a reused passage each (paper, Selection of the 300 Pairs).

One ``random.Random(42)`` shuffles the sorted names of the truth files and draws among eligible passages. Where the
paper leaves it open: a passage is eligible by its lengths (conditions 3 and 4), it is drawn before its text is divided,
and classes of obfuscation other than the paper's three come after these, by name.
"""

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from pan_scdg.digests import hash_text
from pan_scdg.errors import UserError
from pan_scdg.pan.text_alignment import read_text
from pan_scdg.pan.untrusted import parse_xml
from pan_scdg.records import Passage
from studies.data.corpora import Names, PairDocuments, TruePair, drop_folder
from studies.data.records import Count, Digest, Id, read_distinct

SEED = 42
INSTANCES = 300
TARGET_CHARACTERS = (1_000, 50_000)
EVIDENCE_CHARACTERS = (2_000, 8_000)
FEWEST_REUSED = 200
PRIORITY = ("simple", "medium", "hard")
Span = tuple[int, int]
"""Half-open, in characters."""


@dataclass(frozen=True)
class Instance:
    """A pair and its selected passage: offsets and lengths in characters, no text."""

    pair_id: Id
    susp_file: str
    src_file: str
    xml_file: str
    obfuscation: str
    this_offset: Count
    this_length: Count
    source_offset: Count
    source_length: Count
    susp_characters: Count
    susp_sha256: Digest
    """Of the suspicious text, as ``evidence_sha256`` of the source passage: both must be those selected from."""
    evidence_sha256: Digest

    @property
    def names(self) -> Names:
        """Return the names of both documents."""
        return self.susp_file, self.src_file


@dataclass(frozen=True)
class Rejected:
    """A candidate that was not taken."""

    xml_file: str
    pair_id: str
    reason: str


class Case(NamedTuple):
    """An instance with its texts."""

    pair_id: str
    target: str
    """The complete suspicious document."""
    evidence: str
    """The selected span of the source."""
    selected: Span
    """The span of the target that reuses the evidence."""
    reused: tuple[Span, ...]
    """Every annotated span of the target, the selected one included; they may overlap."""


def select_instances(
    corpus: Sequence[TruePair], explain_lack: Callable[[str], str | None], most: int = INSTANCES
) -> tuple[tuple[Instance, ...], tuple[Rejected, ...]]:
    """Return up to ``most`` instances of the pairs that have a truth file, and the candidates before them.

    Args:
        corpus: pairs with their truth; their order does not matter.
        explain_lack: returns why the text of a source passage cannot be used (conditions 5 and 6), None if it can.
        most: number of instances; further candidates are not considered.

    Raises:
        UserError: a text or truth file cannot be read.
    """
    generator = random.Random(SEED)
    candidates = sorted((true for true in corpus if true.xml is not None), key=lambda true: true.xml_name)
    generator.shuffle(candidates)
    instances: list[Instance] = []
    rejected: list[Rejected] = []
    for true in candidates:
        if len(instances) == most:
            break
        found = _select_passage(true, generator, explain_lack)
        if isinstance(found, Instance):
            instances.append(found)
        else:
            rejected.append(Rejected(true.xml_name, true.pair_id, found))
    return tuple(instances), tuple(rejected)


def _select_passage(
    true: TruePair, generator: random.Random, explain_lack: Callable[[str], str | None]
) -> Instance | str:
    """Return the instance of a pair, or the reason why it has none."""
    if true.xml is None or not true.passages:
        return "no annotation of this source"
    if _count_sources(true.xml) > 1:
        return "annotations of several sources"
    susp, src = read_text(true.pair.suspicious), read_text(true.pair.source)
    if not TARGET_CHARACTERS[0] <= len(susp) <= TARGET_CHARACTERS[1]:
        return "suspicious document not of 1,000 to 50,000 characters"
    sized = [p for p in true.passages if _fits_evidence(p, len(src))]
    if not sized:
        return "no source span of 2,000 to 8,000 characters"
    eligible = [p for p in sized if p.this_length >= FEWEST_REUSED and p.this_offset + p.this_length <= len(susp)]
    if not eligible:
        return "no suspicious span of 200 characters within the document"
    passage = _draw(eligible, generator)
    evidence = src[passage.source_offset : passage.source_offset + passage.source_length]
    reason = explain_lack(evidence)
    return _make_instance(true, passage, susp, evidence) if reason is None else reason


def _count_sources(xml: Path) -> int:
    features = (e for e in parse_xml(xml).iterchildren(tag="{*}*") if e.get("name") == "plagiarism")
    return len({(e.get("source_reference") or "").replace(".txt", "") for e in features})


def _fits_evidence(passage: Passage, characters: int) -> bool:
    fewest, most = EVIDENCE_CHARACTERS
    return fewest <= passage.source_length <= most and passage.source_offset + passage.source_length <= characters


def _draw(eligible: Sequence[Passage], generator: random.Random) -> Passage:
    """Return a passage of the best class of obfuscation; as in the paper, the generator draws among one as well."""
    kinds = {passage.obfuscation for passage in eligible}
    best = next((kind for kind in PRIORITY if kind in kinds), None) or min(kinds)
    return generator.choice([passage for passage in eligible if passage.obfuscation == best])


def _make_instance(true: TruePair, passage: Passage, susp: str, evidence: str) -> Instance:
    return Instance(
        pair_id=true.pair_id,
        susp_file=true.pair.suspicious.reference,
        src_file=true.pair.source.reference,
        xml_file=true.xml_name,
        **passage._asdict(),
        susp_characters=len(susp),
        susp_sha256=hash_text(susp),
        evidence_sha256=hash_text(evidence),
    )


def read_instances(path: Path) -> tuple[Instance, ...]:
    """Return the instances of a file, in its order.

    Raises:
        UserError: a record is invalid, a pair occurs twice, or the file holds no instance.
    """
    return read_distinct(path, Instance, "instance", lambda instance: (instance.pair_id,))


def read_instance(instance: Instance, documents: PairDocuments) -> tuple[str, str]:
    """Return the suspicious text and the source passage of an instance.

    Raises:
        UserError: a document is missing, cannot be read, or is not the one that was selected from.
    """
    susp, src = documents.read(instance.names)
    evidence = src[instance.source_offset : instance.source_offset + instance.source_length]
    if (hash_text(susp), hash_text(evidence)) != (instance.susp_sha256, instance.evidence_sha256):
        what = "the texts are not those that this instance was selected from"
        raise UserError(what, "select the instances again", instance.pair_id)
    return susp, evidence


def check_instances(instances: Sequence[Instance], documents: PairDocuments, where: Path) -> None:
    """Raise UserError unless the texts of the instances in the file ``where`` are those of the data."""
    documents.check((instance.names for instance in instances), where)
    for instance in instances:
        read_instance(instance, documents)


def read_cases(instances: Sequence[Instance], corpus: Sequence[TruePair]) -> tuple[Case, ...]:
    """Return the instances with their texts, in order.

    A document that reuses several sources has a truth file for each. Text that is annotated in any of them is not new
    content (paper, Mapping Character Annotations: "in the suspicious document").

    Raises:
        UserError: a document is missing, cannot be read, or is not the one that was selected from.
    """
    documents = PairDocuments(corpus)
    reused: dict[str, set[Span]] = {}
    for true in corpus:
        spans = ((p.this_offset, p.this_offset + p.this_length) for p in true.passages)
        reused.setdefault(true.pair.suspicious.reference, set()).update(spans)
    cases = []
    for instance in instances:
        target, evidence = read_instance(instance, documents)
        selected = (instance.this_offset, instance.this_offset + instance.this_length)
        marked = tuple(sorted(reused[drop_folder(instance.susp_file)] | {selected}))
        cases.append(Case(instance.pair_id, target, evidence, selected, marked))
    return tuple(cases)
