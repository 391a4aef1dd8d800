"""``studies retention``: gains after contexts that keep more and more evidence.

Gains are stored as they are computed, in the state folder or in the hidden folder of the output. A stopped study
continues from there, and the report appears once all of it is complete.
"""

from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from typing import Any, NamedTuple

from pan_scdg.digests import hash_text
from pan_scdg.errors import UserError
from pan_scdg.jobs.lifecycle import Scored
from pan_scdg.jobs.output.directory import OutputDirectory
from pan_scdg.jobs.plan.count import count_pairs
from pan_scdg.jobs.plan.estimate import Plan, make_plan
from pan_scdg.notices import Notices
from pan_scdg.profile import Profile
from studies.data.folders import check_given
from studies.data.prepare import Sources, prepare_instances
from studies.data.prepared import Artefact, Parts, describe_origin, list_texts
from studies.report.page import Section, list_made, make_origin_table, write_report
from studies.retention.contexts import LEVELS, SEEDS, Context, format_contexts, make_contexts
from studies.retention.instances import Case, read_cases
from studies.retention.report import draw, list_fits, make_tables
from studies.retention.scoring import (
    PlannedContexts,
    ScoredContexts,
    average_contexts,
    plan_contexts,
)
from studies.retention.statistics import estimate_retention
from studies.study import ReadyStudy, StudyOptions, describe_lost, note_lost, require_gains, write_files
from pan_scdg.scoring.batches import Shard
from pan_scdg.scoring.gain_method import score_pairs
from pan_scdg.scoring.model import ScoringModel
from pan_scdg.scoring.pair_plan import ScoredPair
from pan_scdg.store import Store

PART = "retention"
FEWEST_PAIRS = 2
"""The intervals are over pairs."""


@dataclass(frozen=True)
class RetentionStudy:
    """The study as the user asked for it."""

    profiles: Sequence[Profile]
    """One for each language model, of different names."""
    options: StudyOptions
    instances: int | None = None
    """Use the first N of the instances; None: all."""
    seeds: int = len(SEEDS)
    """Use the first N of the paper's five seeds."""


class _Work(NamedTuple):
    """The data and models of the study, checked, before anything is computed or written."""

    study: RetentionStudy
    parts: Parts
    """The prepared artefacts."""
    cases: Sequence[Case]
    planned: Mapping[str, PlannedContexts]
    """By the name of the language model, in the order of the profiles."""
    lost: Mapping[str, str]
    """The reasons why pairs are in no row, by id."""


def prepare_retention(study: RetentionStudy, stack: ExitStack, notices: Notices) -> ReadyStudy:
    """Read the data, find the models, and plan the scoring by each; what one cannot score is in no row.

    Raises:
        UserError: data, settings or models are not usable, or too few pairs are left.
    """
    for profile in study.profiles:
        require_gains(profile)
    options = study.options
    parts, cases, contexts = _read_data(study, notices)
    models = _find_models(study, stack)
    planned = {
        name: plan_contexts(cases, contexts, model, profile.need_pairs(), notices, options.on_error)
        for profile, (name, model) in zip(study.profiles, models.items(), strict=True)
    }
    lost = {name: why for of in planned.values() for name, why in of.lost.items()}
    if len(cases) - len(lost) < FEWEST_PAIRS:
        what = f"{len(lost)} of {len(cases)} instances cannot be scored, which leaves too few for an interval"
        raise UserError(what, "give more or shorter pairs", options.folders.pan25)
    work = _Work(study, parts, cases, {name: of.leave_out(lost) for name, of in planned.items()}, lost)
    count = len(next(iter(work.planned.values())).contexts)
    return ReadyStudy(
        scoring=_identify(work),
        places={name: model.found for name, model in models.items()},
        models=list(models.values()),
        inputs=f"{count} contexts",
        summary=[f"studied {count} contexts: {options.output}"],
        notices=notices,
        notes=note_lost(len(lost), "pairs"),
        score=lambda store, shard: _score(work, store, shard),
        write=lambda scored, store, result: _write(work, scored.values, store, result),
        plan=lambda: _plan(work),
    )


def _read_data(study: RetentionStudy, notices: Notices) -> tuple[Parts, Sequence[Case], Sequence[Context]]:
    """Read or select the instances, and make their contexts."""
    options = study.options
    check_given(options.given, (PART,))
    sources = Sources(options.folders, options.given, notices=notices)
    selected, artefacts = prepare_instances(sources)
    instances = selected[: study.instances]
    if len(instances) < FEWEST_PAIRS:
        what = f"{len(instances)} instance is too few for an interval"
        raise UserError(what, "give more pairs", options.folders.pan25)
    cases = read_cases(instances, sources.corpus)
    contexts = make_contexts(cases, sources.pool, SEEDS[: study.seeds])
    manifest = Artefact(
        "contexts",
        {f"{PART}/intervention_manifest.jsonl": format_contexts(contexts, cases, sources.pool)},
        {"contexts": len(contexts), **describe_origin(None)},
    )
    return {PART: [*artefacts, manifest]}, cases, contexts


def _find_models(study: RetentionStudy, stack: ExitStack) -> dict[str, ScoringModel]:
    names = [profile.need_model().name for profile in study.profiles]
    if doubled := sorted({name for name in names if names.count(name) > 1}):
        raise UserError(f"two profiles have the model {doubled[0]}", "name each model once with --profile")
    return {
        name: study.options.open_model(profile.need_model(), stack, name)
        for name, profile in zip(names, study.profiles, strict=True)
    }


def _identify(work: _Work) -> dict[str, Any]:
    """Return everything that the bytes of the report, or of a shard, depend on, without paths."""
    annotations = "".join(f"{case.pair_id} {list(map(list, case.reused))}\n" for case in work.cases)
    return {
        "task": "studies retention",
        "profiles": [profile.model_dump(mode="json", exclude={"needs_gpu"}) for profile in work.study.profiles],
        "models": {name: of.model.identify() for name, of in work.planned.items()},
        **work.study.options.describe(),
        "prepared": {name: hash_text(text) for name, text in list_texts(work.parts).items()},
        "annotations": hash_text(annotations),
    }


def _plan(work: _Work) -> list[Plan]:
    plans, computing = [], work.study.options.computing
    for profile, of in zip(work.study.profiles, work.planned.values(), strict=True):
        notes, count = note_lost(len(work.lost), "pairs"), len(of.plans)
        counted = count_pairs(of.plans, of.model, of.settings)
        plans.append(make_plan("studies retention", profile.name, computing, of.model, counted, count, notes))
        of.model.unload()
    return plans


def _score(work: _Work, store: Store, shard: Shard) -> Scored:
    """Score the contexts of a shard with every model."""
    scored = {}
    for name, of in work.planned.items():
        scored[name] = score_pairs(of.plans, of.model, of.settings, store, True, shard)
        of.model.unload()  # so that its memory is free for the next
    return Scored(scored)


def _write(work: _Work, pairs: Mapping[str, Sequence[ScoredPair]], store: Store, result: OutputDirectory) -> list[str]:
    """Stage everything; return the names of the files, the page last."""
    study = work.study
    scored = {name: average_contexts(work.planned[name], of, store) for name, of in pairs.items()}
    results = {name: estimate_retention(found.means) for name, found in scored.items()}
    figure = draw({name: found.points for name, found in results.items()})
    images: dict[str, str | bytes] = {f"figures/retention.{kind}": image for kind, image in figure.items()}
    files = {
        **{f"prepared/{name}": text for name, text in list_texts(work.parts).items()},
        **{
            f"scores/document_token_means-{name}.csv": found.means.to_csv(index=False, lineterminator="\n")
            for name, found in scored.items()
        },
        **images,
    }
    sections = [
        Section("Method", _describe_study(study)),
        Section("Data", [_count_contexts(work)], _list_facts(scored), [make_origin_table(work.parts)]),
        Section("Results", points=list_fits(results), tables=make_tables(results), figures=list(images)[:1]),
        Section("Deviations from the paper", points=[*list_made(work.parts), *_list_differences(work)]),
    ]
    made_from = {**result.job, "seeds": list(SEEDS[: study.seeds])}
    title = "Controlled retention of source evidence"
    return write_report(result.staged, title, sections, write_files(result.staged, files), made_from)


def _describe_study(study: RetentionStudy) -> list[str]:
    described = "; ".join(f"profile {profile.name}: {profile.description}" for profile in study.profiles)
    levels = ", ".join(f"{level:g}" for level in LEVELS)
    return [
        "The evidence that a target reuses is split into eight chunks. The context keeps a growing share of them "
        f"({levels}) and has text of the same length on other topics instead of the rest. If the gain indicates reuse, "
        "it rises with the evidence for reused text and barely for new text.",
        f"Language models: {described}.",
    ]


def _count_contexts(work: _Work) -> str:
    contexts = next(iter(work.planned.values())).contexts
    seeds, pairs = (len({getattr(context, name) for context in contexts}) for name in ("seed", "pair_id"))
    counts = f"{pairs} pairs, {len(LEVELS)} levels, seeds: {seeds}"
    return f"{counts}; {len(contexts)} contexts for each model."


def _list_facts(scored: Mapping[str, ScoredContexts]) -> list[str]:
    lines = []
    for name, found in scored.items():
        for what, counts in found.facts.items():
            lines.append(f"{name}, {what}: {', '.join(f'{key} {value}' for key, value in counts.items())}")
    return lines


def _list_differences(work: _Work) -> list[str]:
    study = work.study
    seed = "The seed of a pair is made from a SHA-256 of its id, for Python's hash differs from process to process."
    found = [
        seed,
        "Spans of every truth file of a suspicious document count as reused.",
        "The standard errors of the mixed model are from the first optimiser whose covariance is not singular.",
    ]
    if study.seeds < len(SEEDS):
        found.append(f"Only {study.seeds} of the paper's {len(SEEDS)} seeds.")
    if study.instances is not None:
        found.append(f"At most the first {study.instances} instances.")
    if work.lost:
        found.append(describe_lost(work.lost, f"{len(work.cases)} pairs"))
    return found
