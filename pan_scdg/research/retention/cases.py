"""The instances of the retention study with their texts, and with all that is annotated as reused in the target."""

from collections.abc import Sequence
from typing import NamedTuple

from pan_scdg.research.data.pair_corpus import PairDocuments, TruePair
from pan_scdg.research.data.pair_manifest import bare_name
from pan_scdg.research.retention.chunks import Span
from pan_scdg.research.retention.instances import Instance, instance_texts


class Case(NamedTuple):
    """What is scored for one instance."""

    pair_id: str
    target: str
    """The complete suspicious document."""
    evidence: str
    """The selected span of the source."""
    selected: Span
    """Where the target reuses the evidence."""
    reused: tuple[Span, ...]
    """Every annotated span of the target, the selected one too; they may overlap."""


def read_cases(instances: Sequence[Instance], corpus: Sequence[TruePair]) -> tuple[Case, ...]:
    """The instances with their texts, in order.

    A document that reuses several sources has a truth file for each: what is annotated in any of them is not new
    content (paper, Mapping Character Annotations: "in the suspicious document").

    Raises:
        UserError: a document is missing, cannot be read, or is not the one that was selected from.
    """
    documents = PairDocuments(corpus)
    reused: dict[str, set[Span]] = {}
    for true in corpus:
        spans = (Span(p.this_offset, p.this_offset + p.this_length) for p in true.passages)
        reused.setdefault(true.pair.suspicious.reference, set()).update(spans)
    return tuple(_case(instance, documents, reused) for instance in instances)


def _case(instance: Instance, documents: PairDocuments, reused: dict[str, set[Span]]) -> Case:
    target, evidence = instance_texts(instance, documents)
    selected = Span(instance.this_offset, instance.this_offset + instance.this_length)
    spans = reused[bare_name(instance.susp_file)] | {selected}
    return Case(instance.pair_id, target, evidence, selected, tuple(sorted(spans)))
