"""The prepared data of the retention study: instances, and the contexts that their targets are scored with."""

from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from pan_scdg.errors import UserError
from pan_scdg.notices import Notices
from pan_scdg.research.data.prepare import CONTEXTS_KIND, Sources, check_given, prepare_retention
from pan_scdg.research.data.prepared import Artefact, Parts, describe_origin
from pan_scdg.research.data.records import format_records
from pan_scdg.research.retention.contexts import SEEDS, Context, make_contexts, read_context, read_contexts
from pan_scdg.research.retention.distractors import DistractorPool
from pan_scdg.research.retention.instances import Case, read_cases
from pan_scdg.research.study import StudyOptions

PART = "retention"
FEWEST_PAIRS = 2
"""The intervals are over pairs."""


class Data(NamedTuple):
    """The prepared data."""

    parts: Parts
    cases: Sequence[Case]
    contexts: Sequence[Context]
    contexts_file: Path | None
    """The manifest that they were read from; None: they were made."""
    pool: DistractorPool


def read_data(options: StudyOptions, most: int | None, seeds: int, notices: Notices) -> Data:
    """Read or select the instances, and read or make their contexts.

    Args:
        options: those of the study.
        most: number of instances, the first ones; None: all.
        seeds: number of the paper's five seeds, the first ones.
        notices: see `Notices`.

    Raises:
        UserError: data is missing or damaged, or has too few instances.
    """
    check_given(options.given, (PART,))
    sources = Sources(options.folders, options.given, notices=notices)
    selected, artefacts = prepare_retention(sources)
    instances = selected[:most]
    if len(instances) < FEWEST_PAIRS:
        raise UserError(
            f"{len(instances)} instance is too few for an interval", "give more pairs", options.folders.retention
        )
    cases = read_cases(instances, sources.corpus)
    file = sources.find_ready(CONTEXTS_KIND)
    contexts = _read_or_make_contexts(file, cases, sources.pool, SEEDS[:seeds])
    manifest = Artefact(
        "contexts",
        {f"{PART}/intervention_manifest.jsonl": format_records(contexts)},
        {"contexts": len(contexts), **describe_origin(file)},
    )
    return Data({PART: [*artefacts, manifest]}, cases, contexts, file, sources.pool)


def _read_or_make_contexts(
    path: Path | None, cases: Sequence[Case], pool: DistractorPool, seeds: Sequence[int]
) -> tuple[Context, ...]:
    """Return the contexts of these cases and seeds, from the manifest ``path`` if there is one.

    Raises:
        UserError: the manifest is damaged, lacks contexts, or belongs to other texts.
    """
    if path is None:
        return make_contexts(cases, pool, seeds)
    by_id = {case.pair_id: case for case in cases}
    found = tuple(c for c in read_contexts(path) if c.pair_id in by_id and c.seed in seeds)
    recorded = {(context.pair_id, context.seed) for context in found}
    if missing := [(pair, seed) for pair in by_id for seed in seeds if (pair, seed) not in recorded]:
        what = f"{len(missing)} pairs and seeds have no contexts, {missing[0][0]} with {missing[0][1]} first"
        raise UserError(what, "give the contexts of these instances, or ask for fewer --instances or --seeds", path)
    for context in found:
        read_context(context, by_id[context.pair_id].evidence, pool)
    return found
