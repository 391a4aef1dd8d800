"""``studies retention``: gains behind contexts that keep more and more evidence.

Gains go to the state folder as they come, or to the hidden folder of the output; a stopped study continues from there,
and the report appears once all of it is complete.
"""

from collections.abc import Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from pan_scdg.digests import hash_text
from pan_scdg.errors import UserError
from pan_scdg.jobs.lifecycle import produce_result
from pan_scdg.logs import say
from pan_scdg.models.find import describe_models
from pan_scdg.models.fit import choose_device
from pan_scdg.models.lock import list_origins
from pan_scdg.notices import Notices
from pan_scdg.profile import PairSettings, Profile
from pan_scdg.research.data.folders import find_ready
from pan_scdg.research.data.prepare import CONTEXTS_KIND, Sources, check_given, prepare_retention
from pan_scdg.research.data.prepared import Artefact, Parts, describe_origin, list_texts
from pan_scdg.research.data.records import format_records
from pan_scdg.research.report.page import Report, Section, list_made, make_origin_table, write_report
from pan_scdg.research.retention.contexts import LEVELS, SEEDS, Context, make_contexts, read_context, read_contexts
from pan_scdg.research.retention.distractors import DistractorPool
from pan_scdg.research.retention.instances import Case, read_cases
from pan_scdg.research.retention.report import draw, list_fits, make_tables
from pan_scdg.research.retention.scoring import ScoredContexts, score_contexts
from pan_scdg.research.retention.statistics import estimate_retention
from pan_scdg.research.study import StudyOptions, require_gains, write_files
from pan_scdg.scoring.model import ScoringModel
from pan_scdg.store import Store

if TYPE_CHECKING:
    from pandas import DataFrame

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


class _Data(NamedTuple):
    """The prepared data."""

    parts: Parts
    cases: Sequence[Case]
    contexts: Sequence[Context]
    contexts_file: Path | None
    """The manifest that they were read from; None: they were made."""
    pool: DistractorPool


class _Model(NamedTuple):
    """A language model with the pair settings of its profile."""

    name: str
    settings: PairSettings
    model: ScoringModel


def study_retention(study: RetentionStudy) -> list[str]:
    """Carry out the study; return the lines to show the user.

    Raises:
        UserError: data, settings, models or output are not usable; the output is unchanged then.
    """
    options, notices, incidents = study.options, Notices(), list[str]()
    for profile in study.profiles:
        require_gains(profile)
    data = _read_data(study, notices)
    models = _find_models(study)
    places = {name: model.found for name, _, model in models}
    identity = _identify(study, data, models)
    with produce_result(options.output, identity, options.overwrite) as result:
        if result.complete:
            return [*notices.list_warnings(), f"already complete: {options.output}"]
        if result.needed:
            say([describe_models(list(places.values()))])
            with result.compute(options.state) as store:
                scored = _score(data, models, store, notices, incidents)
            result.seal(_write(study, data, scored, result.staged, result.job), incidents, origins=list_origins(places))
    warnings = [f"warning: {incident}" for incident in incidents]
    return [*notices.list_warnings(), *warnings, f"studied {len(data.contexts)} contexts: {options.output}"]


def _read_data(study: RetentionStudy, notices: Notices) -> _Data:
    options = study.options
    check_given(options.given, (PART,))
    sources = Sources(options.folders, options.given, notices=notices)
    prepared = prepare_retention(sources)
    instances = prepared.instances[: study.instances]
    if len(instances) < FEWEST_PAIRS:
        raise UserError(
            f"{len(instances)} instance is too few for an interval", "give more pairs", options.folders.retention
        )
    cases = read_cases(instances, sources.corpus)
    file = find_ready(CONTEXTS_KIND, options.folders, options.given)
    contexts = _read_or_make_contexts(file, cases, sources.pool, SEEDS[: study.seeds])
    manifest = Artefact(
        "contexts",
        {f"{PART}/intervention_manifest.jsonl": format_records(contexts)},
        {"contexts": len(contexts), **describe_origin(file)},
    )
    return _Data({PART: [*prepared.artefacts, manifest]}, cases, contexts, file, sources.pool)


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


def _find_models(study: RetentionStudy) -> list[_Model]:
    names = [profile.need_model().name for profile in study.profiles]
    if doubled := sorted({name for name in names if names.count(name) > 1}):
        raise UserError(f"two profiles have the model {doubled[0]}", "name each model once with --profile")
    devices = [choose_device(profile, study.options.device) for profile in study.profiles]
    return [
        _Model(
            name,
            profile.need_pairs(),
            ScoringModel(profile.need_model(), devices[0], folder=study.options.model, state=study.options.state),
        )
        for name, profile in zip(names, study.profiles, strict=True)
    ]


def _identify(study: RetentionStudy, data: _Data, models: Sequence[_Model]) -> dict[str, Any]:
    """Return everything that the bytes of the report depend on, without paths."""
    return {
        "task": "studies retention",
        "profiles": [profile.model_dump(mode="json", exclude={"needs_gpu"}) for profile in study.profiles],
        "models": {name: model.identify() for name, _, model in models},
        "device": models[0].model.device,
        "engine": "packed",
        "prepared": {name: hash_text(text) for name, text in list_texts(data.parts).items()},
        "annotations": hash_text("".join(f"{case.pair_id} {list(map(list, case.reused))}\n" for case in data.cases)),
    }


def _score(
    data: _Data, models: list[_Model], store: Store, notices: Notices, incidents: list[str]
) -> dict[str, ScoredContexts]:
    """Return the mean gains of every context by the name of the model; add incidents to ``incidents``."""
    found = {}
    while models:
        name, settings, model = models.pop(0)  # so that its memory is free for the next
        with closing(model):
            found[name] = score_contexts(data.cases, data.contexts, data.pool, model, settings, store, notices)
        incidents += model.incidents()
    return found


def _write(
    study: RetentionStudy, data: _Data, scored: Mapping[str, ScoredContexts], folder: Path, job: Mapping[str, Any]
) -> list[str]:
    """Write everything into ``folder``; return the names of the files, the page last."""
    results = {name: estimate_retention(found.means) for name, found in scored.items()}
    figure = draw({name: found.points for name, found in results.items()})
    images: dict[str, str | bytes] = {f"figures/retention.{kind}": image for kind, image in figure.items()}
    files = {
        **{f"prepared/{name}": text for name, text in list_texts(data.parts).items()},
        **{f"scores/document_token_means-{name}.csv": format_means(found.means) for name, found in scored.items()},
        **images,
    }
    sections = [
        Section("What was studied", _describe_study(study)),
        Section("Data", [_count_contexts(data)], _list_facts(scored), [make_origin_table(data.parts)]),
        Section("Results", points=list_fits(results), tables=make_tables(results), figures=list(images)[:1]),
        Section("What is not the paper's", points=[*list_made(data.parts), *_list_differences(study, data)]),
    ]
    made_from = {**job, "seeds": list(SEEDS[: study.seeds])}
    title = "Controlled retention of source evidence"
    return write_report(folder, Report(title, sections, write_files(folder, files), made_from))


def format_means(means: "DataFrame") -> str:
    """Return the mean gains of all contexts as CSV; numbers have every digit."""
    return str(means.to_csv(index=False, lineterminator="\n"))


def _describe_study(study: RetentionStudy) -> list[str]:
    described = "; ".join(f"profile {profile.name}: {profile.description}" for profile in study.profiles)
    levels = ", ".join(f"{level:g}" for level in LEVELS)
    return [
        "Of the evidence that a target reuses, in eight chunks, a growing part stands in its context, and text on "
        f"other matters of the same length in the place of the rest: {levels} of it. If the gain tells of reuse, it "
        "grows with the evidence where the target is annotated as reused, and hardly where it is new.",
        f"Language models: {described}.",
    ]


def _count_contexts(data: _Data) -> str:
    seeds = len({context.seed for context in data.contexts})
    counts = f"{len(data.cases)} pairs, {len(LEVELS)} levels, seeds: {seeds}"
    return f"{counts}; {len(data.contexts)} contexts for each model."


def _list_facts(scored: Mapping[str, ScoredContexts]) -> list[str]:
    lines = []
    for name, found in scored.items():
        for what, counts in found.facts.items():
            lines.append(f"{name}, {what}: {', '.join(f'{key} {value}' for key, value in counts.items())}")
    return lines


def _list_differences(study: RetentionStudy, data: _Data) -> list[str]:
    """Return sentences on what differs from the paper."""
    seed = "The seed of a pair is made from a SHA-256 of its id, for Python's hash differs from process to process."
    found = [
        *([seed] if data.contexts_file is None else []),
        "Spans of every truth file of a suspicious document count as reused.",
        "The standard errors of the mixed model are from the first optimiser whose covariance is not singular.",
    ]
    if study.seeds < len(SEEDS):
        found.append(f"Only {study.seeds} of the paper's {len(SEEDS)} seeds.")
    if study.instances is not None:
        found.append(f"At most the first {study.instances} instances.")
    return found
