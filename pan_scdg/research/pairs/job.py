"""What the studies of pairs have in common: prepare, find the models, score every pair, report.

A study is a job like ``run``: its scores go to the state folder as they come, or to the hidden folder of the output, a
run that is stopped goes on from there, and the report appears when all of it is there.
"""

import shutil
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple

from pan_scdg.digests import file_digest
from pan_scdg.errors import UserError
from pan_scdg.jobs.options import RunOptions
from pan_scdg.jobs.output import OutputDirectory
from pan_scdg.logs import say
from pan_scdg.models.find import describe_models
from pan_scdg.models.fit import choose_device
from pan_scdg.models.lock import list_origins
from pan_scdg.notices import Notices
from pan_scdg.profile import PairSettings, Profile
from pan_scdg.research.data.data_folders import DataFolders
from pan_scdg.research.data.pair_sets import PairSet
from pan_scdg.research.data.prepare import Sources, make_parts
from pan_scdg.research.data.prepared import write_parts
from pan_scdg.research.data.token_counts import TokenCounts
from pan_scdg.research.pairs.pair_scores import SCDG, Baseline, baseline_scores, find_baselines, gain_scores
from pan_scdg.research.pairs.score_table import ScoreTable, write_scores
from pan_scdg.research.report.page import Report, Section, write_report
from pan_scdg.research.retention.checks import checks_of
from pan_scdg.scoring.model import ScoringModel
from pan_scdg.scoring.pair_plan import PlannedPair
from pan_scdg.scoring.pairs import check_pairs
from pan_scdg.store import Store

Tables = Mapping[str, Mapping[str, ScoreTable]]
"""Scores by the name of the set of pairs and `pair_scores.SCDG` or the profile's name."""


@dataclass(frozen=True)
class StudyOptions:
    """What a user asked for."""

    profile: Profile
    folders: DataFolders
    output: Path
    given: Mapping[str, Path] = field(default_factory=dict)
    baselines: tuple[Profile, ...] = ()
    device: str = "auto"
    state: Path | None = None
    model: Path | None = None
    vectors: Path | None = None
    overwrite: bool = False


class Study(NamedTuple):
    """One of the studies."""

    name: str
    parts: tuple[str, ...]
    """Of `pan_scdg.research.data.prepare.PARTS`."""
    pair_sets: Callable[[Path, DataFolders, Path], list[PairSet]]
    """From the prepared folder, the data, and a folder for files that are needed while it runs."""
    sections: Callable[["Scored"], tuple[str, list[Section], dict[str, Any]]]
    """Title, what is reported, and the seeds."""


class Scored(NamedTuple):
    """What a study computes its tables from."""

    prepared: Path
    sets: Mapping[str, PairSet]
    tables: Tables
    settings: PairSettings
    profile: Profile
    baselines: Sequence[Baseline]
    segmented: Mapping[str, int]
    """How many pairs of each set were too long for one pass and scored piece by piece, which the paper does not."""


class _Job(NamedTuple):
    """Everything read and checked; nothing is computed or written yet."""

    prepared: Path
    sets: list[PairSet]
    planned: list[list[PlannedPair]]
    model: ScoringModel
    baselines: list[Baseline]
    output: OutputDirectory


def run_study(study: Study, options: StudyOptions) -> list[str]:
    """Carry out a study; the lines to show the user.

    Raises:
        UserError: data, settings or output are not usable; the output is as before then.
    """
    settings, notices = _settings(options.profile), Notices()
    with (
        TemporaryDirectory(prefix="pan_scdg-study-") as scratch,
        _job(study, options, settings, notices, Path(scratch)) as job,
        job.output.locked(),
    ):
        if job.output.prepare(options.overwrite):
            return [f"already complete: {options.output}"]
        if not job.output.publishing():
            job.output.start()
            with Store(options.state or job.output.hidden) as store:
                names = _report(study, options, settings, job, store)
            places = {"language_model": job.model.found}
            for baseline in job.baselines:
                places |= {f"{baseline.profile.name} {k}": v for k, v in baseline.outside.places.items()}
            job.output.seal(names, job.model.incidents(), None, list_origins(places))
        job.output.publish()
    warnings = [f"warning: {incident}" for incident in job.model.incidents()]
    return [*notices.lines(), *warnings, f"studied {sum(len(s.ids) for s in job.sets)} pairs: {options.output}"]


def _settings(profile: Profile) -> PairSettings:
    if profile.baseline is not None:
        raise UserError(
            f"profile {profile.name} is a baseline", "name it with --baseline, and a profile of SCDG with --profile"
        )
    profile.need_model()
    return profile.need_pairs()


@contextmanager
def _job(
    study: Study, options: StudyOptions, settings: PairSettings, notices: Notices, scratch: Path
) -> Iterator[_Job]:
    profile, prepared = options.profile, scratch / "prepared"
    device = choose_device(profile, options.device)
    run = RunOptions(
        options.folders.pan25, options.output, device, options.state, options.model, vectors=options.vectors
    )
    _prepare(study, options, notices, prepared)
    sets = study.pair_sets(prepared, options.folders, scratch)
    baselines = find_baselines(options.baselines, sets, run, options.device)
    with closing(run.scoring_model(profile.need_model())) as model:
        planned = []
        for pairs in sets:
            planned.append(check_pairs(pairs.pairs, model, settings, notices)[0])
        identity = {
            "task": f"studies {study.name}",
            "profile": profile.model_dump(mode="json", exclude={"needs_gpu"}),
            "models": {"language_model": model.identity()},
            "device": device,
            "engine": run.engine,
            "baselines": [baseline.identity() for baseline in baselines],
            "documents": {pairs.name: pairs.digest() for pairs in sets},
            "prepared": _digests(prepared),
        }
        yield _Job(prepared, sets, planned, model, baselines, OutputDirectory(options.output, identity))


def _prepare(study: Study, options: StudyOptions, notices: Notices, prepared: Path) -> None:
    """The manifests and splits as ``studies prepare`` writes them."""

    def counts() -> TokenCounts:
        return TokenCounts(options.profile.need_model(), options.model, store)

    store = None if options.state is None else Store(options.state)
    try:
        parts = make_parts(Sources(options.folders, options.given, counts, checks_of, notices), study.parts)
    finally:
        if store is not None:
            store.close()
    write_parts(prepared, parts)


def _digests(folder: Path) -> dict[str, str]:
    return {name: file_digest(folder / name) for name in _files(folder)}


def _files(folder: Path) -> list[str]:
    return sorted(path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file())


def _report(study: Study, options: StudyOptions, settings: PairSettings, job: _Job, store: Store) -> list[str]:
    """Score, and write everything into the staging folder; the files' names."""
    places = [found for baseline in job.baselines for found in baseline.outside.places.values()]
    say([describe_models([job.model.found, *places])])
    folder, files = job.output.staged, []
    tables: dict[str, dict[str, ScoreTable]] = {pairs.name: {} for pairs in job.sets}
    for pairs in job.sets:
        for baseline in job.baselines:
            say([f"{baseline.profile.name}: {len(pairs.ids)} pairs of {pairs.name}"])
            tables[pairs.name][baseline.profile.name] = baseline_scores(pairs, baseline, store)
    for pairs, planned in zip(job.sets, job.planned, strict=True):
        say([f"{options.profile.name}: {len(pairs.ids)} pairs of {pairs.name}"])
        tables[pairs.name][SCDG] = gain_scores(pairs, planned, job.model, settings, store)
    for name, of in tables.items():
        (folder / "scores" / name).mkdir(parents=True, exist_ok=True)
        for method, table in of.items():
            files.append(f"scores/{name}/{method}.jsonl.gz")
            write_scores(folder / files[-1], table)
    shutil.rmtree(folder / "prepared", ignore_errors=True)
    shutil.copytree(job.prepared, folder / "prepared")
    files = [*(f"prepared/{name}" for name in _files(job.prepared)), *files]
    sets = {pairs.name: pairs for pairs in job.sets}
    segmented = {
        pairs.name: sum(plan.mode == "segments" for plan in planned)
        for pairs, planned in zip(job.sets, job.planned, strict=True)
    }
    title, sections, seeds = study.sections(
        Scored(job.prepared, sets, tables, settings, options.profile, job.baselines, segmented)
    )
    return write_report(folder, Report(title, sections, files, {**job.output.job, "seeds": seeds}))
