"""The instances of the retention study: pairs, each with a reused passage (paper, Selection of the 300 Pairs).

One ``random.Random(42)`` shuffles the sorted names of the truth files and draws among eligible passages. Where the
paper leaves it open: a passage is eligible when its lengths are (conditions 3 and 4), it is drawn before its text is
divided, and classes of obfuscation other than the paper's three come after these, by name.
"""

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, NamedTuple

from pydantic import Field

from pan_scdg.digests import text_digest
from pan_scdg.errors import UserError
from pan_scdg.pan.text_alignment import read_text
from pan_scdg.pan.untrusted import check_id, parse_xml
from pan_scdg.records import Passage
from pan_scdg.research.data.pair_corpus import PairDocuments, TruePair
from pan_scdg.research.data.records import read_records

SEED = 42
INSTANCES = 300
TARGET_CHARACTERS = (1_000, 50_000)
EVIDENCE_CHARACTERS = (2_000, 8_000)
FEWEST_REUSED = 200
PRIORITY = ("simple", "medium", "hard")

Check = Callable[[str], str | None]
"""Why the text of a source passage cannot be used; None: it can."""
Size = Annotated[int, Field(ge=0)]
Digest = Annotated[str, Field(pattern=r"^[0-9a-f]{64}$")]


@dataclass(frozen=True)
class Instance:
    """A pair and its selected passage: offsets and lengths in characters, no text."""

    pair_id: str
    susp_file: str
    src_file: str
    xml_file: str
    obfuscation: str
    this_offset: Size
    this_length: Size
    source_offset: Size
    source_length: Size
    susp_characters: Size
    susp_sha256: Digest
    """Of the suspicious text and of the source passage: that they are still those that were selected."""
    evidence_sha256: Digest

    @property
    def passage(self) -> Passage:
        """The selected passage."""
        return Passage(self.this_offset, self.this_length, self.source_offset, self.source_length, self.obfuscation)


@dataclass(frozen=True)
class Rejected:
    """A candidate that was looked at and not taken."""

    xml_file: str
    pair_id: str
    reason: str


class Selection(NamedTuple):
    """The instances and the rejected candidates, both in the order in which they were looked at."""

    instances: tuple[Instance, ...]
    rejected: tuple[Rejected, ...]


def select_instances(
    corpus: Sequence[TruePair], cannot_divide: Check, cannot_supply: Check, most: int = INSTANCES, seed: int = SEED
) -> Selection:
    """Up to ``most`` instances of the pairs that have a truth file.

    Args:
        corpus: pairs with their truth; their order does not matter.
        cannot_divide: condition 5, on the text of the selected source passage.
        cannot_supply: condition 6, on the same text.
        most: instances; the candidates behind the last are not looked at.
        seed: of the one generator.

    Raises:
        UserError: a text or truth file cannot be read.
    """
    generator = random.Random(seed)
    candidates = sorted((true for true in corpus if true.xml is not None), key=lambda true: true.xml_name)
    generator.shuffle(candidates)
    instances: list[Instance] = []
    rejected: list[Rejected] = []
    for true in candidates:
        if len(instances) == most:
            break
        found = _instance(true, generator, (cannot_divide, cannot_supply))
        if isinstance(found, Instance):
            instances.append(found)
        else:
            rejected.append(Rejected(true.xml_name, true.pair_id, found))
    return Selection(tuple(instances), tuple(rejected))


def _instance(true: TruePair, generator: random.Random, checks: Sequence[Check]) -> Instance | str:
    """The instance of a pair, or why it has none."""
    if true.xml is None or not true.passages:
        return "no annotation of this source"
    if _sources_named(true.xml) > 1:
        return "annotations of several sources"
    susp, src = read_text(true.pair.suspicious), read_text(true.pair.source)
    if not TARGET_CHARACTERS[0] <= len(susp) <= TARGET_CHARACTERS[1]:
        return "suspicious document not of 1,000 to 50,000 characters"
    sized = [p for p in true.passages if _evidence_fits(p, len(src))]
    if not sized:
        return "no source span of 2,000 to 8,000 characters"
    eligible = [p for p in sized if p.this_length >= FEWEST_REUSED and p.this_offset + p.this_length <= len(susp)]
    if not eligible:
        return "no suspicious span of 200 characters within the document"
    passage = _draw(eligible, generator)
    evidence = src[passage.source_offset : passage.source_offset + passage.source_length]
    reason = next((reason for check in checks if (reason := check(evidence)) is not None), None)
    return _described(true, passage, susp, evidence) if reason is None else reason


def _sources_named(xml: Path) -> int:
    features = (e for e in parse_xml(xml).iterchildren(tag="{*}*") if e.get("name") == "plagiarism")
    return len({(e.get("source_reference") or "").replace(".txt", "") for e in features})


def _evidence_fits(passage: Passage, characters: int) -> bool:
    fewest, most = EVIDENCE_CHARACTERS
    return fewest <= passage.source_length <= most and passage.source_offset + passage.source_length <= characters


def _draw(eligible: Sequence[Passage], generator: random.Random) -> Passage:
    """A passage of the best class of obfuscation; a generator is used also where there is one only, as in the paper."""
    kinds = {passage.obfuscation for passage in eligible}
    best = next((kind for kind in PRIORITY if kind in kinds), None) or min(kinds)
    return generator.choice([passage for passage in eligible if passage.obfuscation == best])


def _described(true: TruePair, passage: Passage, susp: str, evidence: str) -> Instance:
    return Instance(
        pair_id=true.pair_id,
        susp_file=true.pair.suspicious.reference,
        src_file=true.pair.source.reference,
        xml_file=true.xml_name,
        obfuscation=passage.obfuscation,
        this_offset=passage.this_offset,
        this_length=passage.this_length,
        source_offset=passage.source_offset,
        source_length=passage.source_length,
        susp_characters=len(susp),
        susp_sha256=text_digest(susp),
        evidence_sha256=text_digest(evidence),
    )


def read_instances(path: Path) -> tuple[Instance, ...]:
    """The instances of a file, in its order.

    Raises:
        UserError: a line is no instance, a pair is there twice, or there are none.
    """
    found: dict[str, Instance] = {}
    for number, instance in read_records(path, Instance):
        check_id(instance.pair_id, path, number)
        if instance.pair_id in found:
            raise UserError(f"the pair {instance.pair_id!r} is there twice", "keep one line", path, number)
        found[instance.pair_id] = instance
    if not found:
        raise UserError("holds no instances", "add at least one", path)
    return tuple(found.values())


def instance_texts(instance: Instance, documents: PairDocuments) -> tuple[str, str]:
    """The suspicious text and the source passage of an instance.

    Raises:
        UserError: a document is missing, cannot be read, or is not the one that was selected from.
    """
    susp, src = documents.texts(instance)
    evidence = src[instance.source_offset : instance.source_offset + instance.source_length]
    found = (text_digest(susp), text_digest(evidence))
    if found != (instance.susp_sha256, instance.evidence_sha256):
        what = "the texts are not those that this instance was selected from"
        raise UserError(what, "select the instances again", instance.pair_id)
    return susp, evidence


def check_instances(instances: Sequence[Instance], documents: PairDocuments, where: Path) -> None:
    """Raise UserError unless the texts of the instances in the file ``where`` are those of the data."""
    documents.check(instances, where)
    for instance in instances:
        instance_texts(instance, documents)
