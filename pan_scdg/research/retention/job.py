"""``studies retention``, start to end: contexts that keep more and more evidence, their gains, tables and the figure
(paper, Controlled Source-Evidence Retention).

A job like ``run``: gains go to the state folder as they come, or to the hidden folder of the output, a study that is
stopped goes on from there, and the report appears when all of it is there.
"""

from collections.abc import Mapping, Sequence
from contextlib import ExitStack, closing
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple

from pan_scdg.digests import file_digest, text_digest
from pan_scdg.errors import UserError
from pan_scdg.jobs.options import RunOptions
from pan_scdg.jobs.output import OutputDirectory
from pan_scdg.logs import say
from pan_scdg.models.find import FoundModel, describe_models
from pan_scdg.models.lock import list_origins
from pan_scdg.notices import Notices
from pan_scdg.profile import PairSettings, Profile
from pan_scdg.research.data.data_folders import DataFolders, ready_file
from pan_scdg.research.data.data_tables import made_here, origin_table
from pan_scdg.research.data.pair_corpus import read_corpora
from pan_scdg.research.data.prepare import CONTEXTS_KIND, INSTANCES, Sources, make_parts
from pan_scdg.research.data.prepared import Artefact, origin, write_parts
from pan_scdg.research.data.token_counts import TokenCounts
from pan_scdg.research.report.page import Report, Section, write_report
from pan_scdg.research.retention.cases import Case, read_cases
from pan_scdg.research.retention.checks import checks_of
from pan_scdg.research.retention.contexts import LEVELS, SEEDS, Context, context_text, prepare_contexts
from pan_scdg.research.retention.distractors import DistractorPool, read_pool
from pan_scdg.research.retention.figure import draw
from pan_scdg.research.retention.instances import Instance, read_instances
from pan_scdg.research.retention.manifest import contexts_text, read_contexts
from pan_scdg.research.retention.means import means_text
from pan_scdg.research.retention.scoring import ScoredContexts, score_contexts
from pan_scdg.research.retention.tables import notes_of, results_of, retention_tables
from pan_scdg.scoring.model import ScoringModel
from pan_scdg.store import Store

PART, CONTEXTS, FIGURE = "retention", "intervention_manifest.jsonl", "figures/retention"
INSTANCES_KIND = "retention-instances"
LEAST = 2
"""Pairs: the intervals are over pairs."""


@dataclass(frozen=True)
class Request:
    """What is asked for."""

    profiles: Sequence[Profile]
    """One for each language model, of different names."""
    folders: DataFolders
    options: RunOptions
    """Its state, output and device; one model folder for all makes sense with one profile only."""
    given: Mapping[str, Path] = field(default_factory=dict)
    instances: int | None = None
    """The first so many of the instances; None: all."""
    seeds: int = len(SEEDS)
    """The first so many of the paper's five."""


class _Job(NamedTuple):
    """Everything read and checked; nothing is computed or written yet."""

    prepared: Path
    cases: Sequence[Case]
    contexts: Sequence[Context]
    contexts_from: Path | None
    """The manifest that they were taken from; None: they were made."""
    pool: DistractorPool
    models: list[tuple[str, PairSettings, ScoringModel]]
    """With their names; one that is done is taken out, so that its memory is free for the next."""
    places: Mapping[str, FoundModel]
    output: OutputDirectory


def study_retention(request: Request) -> list[str]:
    """Make the report; returns the lines to show the user.

    Raises:
        UserError: data, settings, models or output are not usable; nothing has its final name then.
    """
    notices, options = Notices(request.options.strict), request.options
    incidents: list[str] = []
    with TemporaryDirectory(prefix="pan_scdg-study-") as scratch, ExitStack() as stack:
        job = _read(request, notices, Path(scratch))
        stack.enter_context(job.output.locked())
        if job.output.prepare(options.overwrite):
            return [*notices.lines(), f"already complete: {options.output}"]
        if not job.output.publishing():
            job.output.start()
            say([describe_models(list(job.places.values()))])
            with Store(options.state or job.output.hidden) as store:
                scored = _scored(job, store, notices, incidents)
            job.output.seal(_report(request, job, scored), incidents, None, list_origins(job.places))
        job.output.publish()
    warnings = [f"warning: {incident}" for incident in incidents]
    return [*notices.lines(), *warnings, f"studied {len(job.contexts)} contexts: {options.output}"]


def _read(request: Request, notices: Notices, scratch: Path) -> _Job:
    if needless := sorted(request.given.keys() - {INSTANCES_KIND, CONTEXTS_KIND}):
        remedy = f"give {INSTANCES_KIND} or {CONTEXTS_KIND}"
        raise UserError(f"{needless[0]!r} has no part in this study", remedy, "--given")
    settings = [_settings(profile) for profile in request.profiles]
    prepared = scratch / "prepared"
    parts = make_parts(Sources(request.folders, request.given, _no_counts, checks_of, notices), (PART,))
    write_parts(prepared, parts)
    instances = _chosen(read_instances(prepared / PART / INSTANCES), request, prepared)
    cases = read_cases(instances, read_corpora(request.folders.pan25, notices))
    pool = read_pool(request.folders.multinews)
    contexts_from = ready_file(CONTEXTS_KIND, request.folders, request.given)
    contexts = _contexts(contexts_from, cases, pool, SEEDS[: request.seeds])
    about = {"contexts": len(contexts), **origin(contexts_from)}
    made = Artefact("contexts", {f"{PART}/{CONTEXTS}": contexts_text(contexts)}, about)
    write_parts(prepared, {PART: [*parts[PART], made]})
    models: list[tuple[str, PairSettings, ScoringModel]] = []
    for profile, of_pairs in zip(request.profiles, settings, strict=True):
        name = profile.need_model().name
        if name in [other for other, *_ in models]:
            raise UserError(f"two profiles have the model {name}", "name each model once with --profile")
        models.append((name, of_pairs, request.options.scoring_model(profile.need_model())))
    identity = {
        "task": "studies retention",
        "profiles": [profile.model_dump(mode="json", exclude={"needs_gpu"}) for profile in request.profiles],
        "models": {name: model.identity() for name, _, model in models},
        "device": request.options.device,
        "engine": request.options.engine,
        "prepared": {name: file_digest(prepared / name) for name in _files(prepared)},
        "annotations": text_digest("".join(f"{case.pair_id} {list(map(list, case.reused))}\n" for case in cases)),
    }
    places = {name: model.found for name, _, model in models}
    output = OutputDirectory(request.options.output, identity)
    return _Job(prepared, cases, contexts, contexts_from, pool, models, places, output)


def _contexts(
    path: Path | None, cases: Sequence[Case], pool: DistractorPool, seeds: Sequence[int]
) -> tuple[Context, ...]:
    """The contexts of these cases and seeds, from the manifest ``path`` where there is one.

    Raises:
        UserError: the manifest is damaged, lacks some, or is of other texts.
    """
    if path is None:
        return prepare_contexts(cases, pool, seeds)
    by_id = {case.pair_id: case for case in cases}
    found = tuple(c for c in read_contexts(path) if c.pair_id in by_id and c.seed in seeds)
    there = {(context.pair_id, context.seed) for context in found}
    if missing := [(pair, seed) for pair in by_id for seed in seeds if (pair, seed) not in there]:
        what = f"{len(missing)} pairs and seeds have no contexts, {missing[0][0]} with {missing[0][1]} first"
        raise UserError(what, "take the contexts of these instances, or ask for fewer --instances or --seeds", path)
    for context in found:
        context_text(context, by_id[context.pair_id].evidence, pool)
    return found


def _settings(profile: Profile) -> PairSettings:
    if profile.baseline is not None:
        raise UserError(f"profile {profile.name} is a baseline, which has no gains", "name a profile of SCDG")
    profile.need_model()
    return profile.need_pairs()


def _no_counts() -> TokenCounts:
    raise ValueError("instances are selected by characters")


def _chosen(instances: Sequence[Instance], request: Request, prepared: Path) -> Sequence[Instance]:
    found = instances[: request.instances]
    if len(found) < LEAST:
        raise UserError(f"{len(found)} instance is too few for an interval", "take more pairs", prepared / INSTANCES)
    return found


def _files(folder: Path) -> list[str]:
    return sorted(path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file())


def _scored(job: _Job, store: Store, notices: Notices, incidents: list[str]) -> dict[str, ScoredContexts]:
    """The mean gains of every context by the name of the model; what befell them is added to ``incidents``."""
    found = {}
    while job.models:
        name, settings, model = job.models.pop(0)
        with closing(model):
            found[name] = score_contexts(job.cases, job.contexts, job.pool, model, settings, store, notices)
        incidents += model.incidents()
    return found


def _report(request: Request, job: _Job, scored: Mapping[str, ScoredContexts]) -> list[str]:
    """Write everything into the staging folder; the files' names."""
    folder, files = job.output.staged, []
    for name in _files(job.prepared):
        files.append(_written(folder, f"prepared/{name}", (job.prepared / name).read_bytes()))
    for name, gains in scored.items():
        files.append(_written(folder, f"scores/document_token_means-{name}.csv", means_text(gains.means).encode()))
    results = {name: results_of(found.means) for name, found in scored.items()}
    figure = draw({name: found.points for name, found in results.items()})
    images = [_written(folder, f"{FIGURE}.{end}", data) for end, data in (("png", figure.png), ("svg", figure.svg))]
    sections = [
        Section("What was studied", _studied(request)),
        Section("Data", [_counted(job)], _facts(scored), [origin_table(job.prepared)]),
        Section("Results", points=notes_of(results), tables=retention_tables(results), figures=images[:1]),
        Section("What is not the paper's", points=[*made_here(job.prepared), *_differences(request, job)]),
    ]
    made_from = {**job.output.job, "seeds": list(SEEDS[: request.seeds])}
    return write_report(
        folder, Report("Controlled retention of source evidence", sections, [*files, *images], made_from)
    )


def _written(folder: Path, name: str, data: bytes) -> str:
    path = folder / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(data)
    return name


def _studied(request: Request) -> list[str]:
    described = "; ".join(f"profile {profile.name}: {profile.description}" for profile in request.profiles)
    levels = ", ".join(f"{level:g}" for level in LEVELS)
    return [
        "Of the evidence that a target reuses, in eight chunks, a growing part stands in its context, and text on "
        f"other matters of the same length in the place of the rest: {levels} of it. If the gain tells of reuse, it "
        "grows with the evidence where the target is annotated as reused, and hardly where it is new.",
        f"Language models: {described}.",
    ]


def _counted(job: _Job) -> str:
    seeds = len({context.seed for context in job.contexts})
    return f"{len(job.cases)} pairs, {len(LEVELS)} levels, seeds: {seeds}; {len(job.contexts)} contexts for each model."


def _facts(scored: Mapping[str, ScoredContexts]) -> list[str]:
    lines = []
    for name, found in scored.items():
        for what, counts in found.facts.items():
            lines.append(f"{name}, {what}: {', '.join(f'{key} {value}' for key, value in counts.items())}")
    return lines


def _differences(request: Request, job: _Job) -> list[Any]:
    seed = "The seed of a pair is made from a SHA-256 of its id, for Python's hash differs from process to process."
    found = [
        *([seed] if job.contexts_from is None else []),
        "Spans of every truth file of a suspicious document count as reused.",
        "The standard errors of the mixed model are from the first optimiser whose covariance is not singular.",
    ]
    if request.seeds < len(SEEDS):
        found.append(f"Only {request.seeds} of the paper's {len(SEEDS)} seeds.")
    if request.instances is not None:
        found.append(f"At most the first {request.instances} instances.")
    return found
