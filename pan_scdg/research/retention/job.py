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
from pan_scdg.jobs.plan.estimate import Plan, make_plan
from pan_scdg.jobs.plan.inputs import count_pairs
from pan_scdg.jobs.requests import Computing
from pan_scdg.notices import Notices
from pan_scdg.profile import PairSettings, Profile
from pan_scdg.research.data.prepared import list_texts
from pan_scdg.research.report.page import Report, Section, list_made, make_origin_table, write_report
from pan_scdg.research.retention.contexts import LEVELS, SEEDS
from pan_scdg.research.retention.data import FEWEST_PAIRS, Data, read_data
from pan_scdg.research.retention.report import draw, list_fits, make_tables
from pan_scdg.research.retention.scoring import (
    PlannedContexts,
    ScoredContexts,
    average_contexts,
    plan_contexts,
    use_paper_gain,
)
from pan_scdg.research.retention.statistics import estimate_retention
from pan_scdg.research.study import ReadyStudy, StudyOptions, describe_lost, note_lost, require_gains, write_files
from pan_scdg.scoring.batches import Shard
from pan_scdg.scoring.gain_method import score_pairs
from pan_scdg.scoring.model import ScoringModel
from pan_scdg.scoring.pair_plan import ScoredPair
from pan_scdg.store import Store


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
    data: Data
    models: Mapping[str, tuple[ScoringModel, PairSettings]]
    """The language models with the pair settings of their profiles, by name."""
    planned: Mapping[str, PlannedContexts]
    """By the name of the model."""
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
    computing = options.choose_computing(study.profiles[0])
    data = read_data(options, study.instances, study.seeds, notices)
    models = _find_models(study, computing, stack)
    planned = {
        name: plan_contexts(data.cases, data.contexts, data.pool, model, settings, notices, options.on_error)
        for name, (model, settings) in models.items()
    }
    lost = {name: why for of in planned.values() for name, why in of.lost.items()}
    if len(data.cases) - len(lost) < FEWEST_PAIRS:
        what = f"{len(lost)} of {len(data.cases)} instances cannot be scored, which leaves too few for an interval"
        raise UserError(what, "give more or shorter pairs", options.folders.retention)
    work = _Work(study, data, models, {name: of.leave_out(lost) for name, of in planned.items()}, lost)
    count = len(next(iter(work.planned.values())).contexts)
    return ReadyStudy(
        scoring=_identify(work, computing),
        places={name: model.found for name, (model, _) in models.items()},
        models=[model for model, _ in models.values()],
        inputs=f"{count} contexts",
        summary=[f"studied {count} contexts: {options.output}"],
        notices=notices,
        notes=note_lost(len(lost), "pairs"),
        score=lambda store, shard: _score(work, store, shard),
        write=lambda scored, store, result: _write(work, scored.values, store, result),
        plan=lambda: _plan(work, computing),
    )


def _find_models(
    study: RetentionStudy, computing: Computing, stack: ExitStack
) -> dict[str, tuple[ScoringModel, PairSettings]]:
    names = [profile.need_model().name for profile in study.profiles]
    if doubled := sorted({name for name in names if names.count(name) > 1}):
        raise UserError(f"two profiles have the model {doubled[0]}", "name each model once with --profile")
    return {
        name: (study.options.open_model(profile.need_model(), computing, stack, name), profile.need_pairs())
        for name, profile in zip(names, study.profiles, strict=True)
    }


def _identify(work: _Work, computing: Computing) -> dict[str, Any]:
    """Return everything that the bytes of the report, or of a shard, depend on, without paths."""
    annotations = "".join(f"{case.pair_id} {list(map(list, case.reused))}\n" for case in work.data.cases)
    return {
        "task": "studies retention",
        "profiles": [profile.model_dump(mode="json", exclude={"needs_gpu"}) for profile in work.study.profiles],
        "models": {name: model.identify() for name, (model, _) in work.models.items()},
        **work.study.options.describe(computing),
        "prepared": {name: hash_text(text) for name, text in list_texts(work.data.parts).items()},
        "annotations": hash_text(annotations),
    }


def _plan(work: _Work, computing: Computing) -> list[Plan]:
    """Return the cost of each model."""
    plans = []
    for profile, (name, (model, settings)) in zip(work.study.profiles, work.models.items(), strict=True):
        planned, notes = work.planned[name].plans, note_lost(len(work.lost), "pairs")
        counted = count_pairs(planned, model, use_paper_gain(settings))
        plans.append(make_plan("studies retention", profile.name, computing, model, counted, len(planned), notes))
        model.unload()
    return plans


def _score(work: _Work, store: Store, shard: Shard) -> Scored:
    """Score the contexts of a shard with every model."""
    scored = {}
    for name, (model, settings) in work.models.items():
        scored[name] = score_pairs(work.planned[name].plans, model, use_paper_gain(settings), store, True, shard)
        model.unload()  # so that its memory is free for the next
    return Scored(scored)


def _write(work: _Work, pairs: Mapping[str, Sequence[ScoredPair]], store: Store, result: OutputDirectory) -> list[str]:
    """Stage everything; return the names of the files, the page last."""
    study, data = work.study, work.data
    scored = {name: average_contexts(work.planned[name], of, store) for name, of in pairs.items()}
    results = {name: estimate_retention(found.means) for name, found in scored.items()}
    figure = draw({name: found.points for name, found in results.items()})
    images: dict[str, str | bytes] = {f"figures/retention.{kind}": image for kind, image in figure.items()}
    files = {
        **{f"prepared/{name}": text for name, text in list_texts(data.parts).items()},
        **{
            f"scores/document_token_means-{name}.csv": found.means.to_csv(index=False, lineterminator="\n")
            for name, found in scored.items()
        },
        **images,
    }
    sections = [
        Section("Method", _describe_study(study)),
        Section("Data", [_count_contexts(work)], _list_facts(scored), [make_origin_table(data.parts)]),
        Section("Results", points=list_fits(results), tables=make_tables(results), figures=list(images)[:1]),
        Section("Deviations from the paper", points=[*list_made(data.parts), *_list_differences(work)]),
    ]
    made_from = {**result.job, "seeds": list(SEEDS[: study.seeds])}
    title = "Controlled retention of source evidence"
    return write_report(result.staged, Report(title, sections, write_files(result.staged, files), made_from))


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
    """Return sentences on the deviations from the paper."""
    study = work.study
    seed = "The seed of a pair is made from a SHA-256 of its id, for Python's hash differs from process to process."
    found = [
        *([seed] if work.data.contexts_file is None else []),
        "Spans of every truth file of a suspicious document count as reused.",
        "The standard errors of the mixed model are from the first optimiser whose covariance is not singular.",
    ]
    if study.seeds < len(SEEDS):
        found.append(f"Only {study.seeds} of the paper's {len(SEEDS)} seeds.")
    if study.instances is not None:
        found.append(f"At most the first {study.instances} instances.")
    if work.lost:
        found.append(describe_lost(work.lost, f"{len(work.data.cases)} pairs"))
    return found
