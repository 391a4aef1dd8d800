"""The life of a study of pairs: prepare, find the models, score every pair, report.

Scores go to the state folder as they come, or to the hidden folder of the output; a stopped study continues from there,
and the report appears once all of it is complete.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any, NamedTuple

from pan_scdg.digests import hash_text
from pan_scdg.errors import UserError
from pan_scdg.jobs.plan.estimate import Plan, make_plan
from pan_scdg.jobs.plan.inputs import count_pairs
from pan_scdg.jobs.requests import Computing
from pan_scdg.jobs.shards import write_shard
from pan_scdg.logs import say
from pan_scdg.models.positions import PUBLISHED
from pan_scdg.notices import Notices
from pan_scdg.profile import ModelSettings, PairSettings, Profile
from pan_scdg.research.data.prepared import list_texts
from pan_scdg.research.pairs.data import Data, Planned, plan_scoring, read_data
from pan_scdg.research.pairs.scores import SCDG, Baseline, find_baselines, score_baseline, score_gains, write_scores
from pan_scdg.research.report.page import Report, Section, write_report
from pan_scdg.research.study import (
    StudyOptions,
    describe_lost,
    produce_report,
    require_gains,
    warn_about_lost,
    write_files,
)
from pan_scdg.scoring.model import ScoringModel
from pan_scdg.scoring.pairs import score_pairs
from pan_scdg.store import Store

if TYPE_CHECKING:
    from pandas import DataFrame


@dataclass(frozen=True)
class PairStudy:
    """A study of pairs as the user asked for it."""

    name: str
    profile: Profile
    baselines: Sequence[Profile]
    vectors: Path | None
    """Folder of document vectors, for baselines that read them."""
    options: StudyOptions
    with_news: bool
    """Score the pairs of news as well."""
    write_sections: "Callable[[Scored], tuple[str, list[Section], dict[str, Any]]]"
    """Returns title, sections and seeds of the report."""
    positions: Sequence[str] = ()
    """Position rules that are compared; none: the profile's own."""

    def list_models(self) -> dict[str, ModelSettings]:
        """Return the model under each rule, by the name of its scores; the first is `scores.SCDG`.

        Raises:
            UserError: a rule needs a factor, which the profile does not give.
        """
        settings = self.profile.need_model()
        rules = list(dict.fromkeys(self.positions)) or [settings.positions]
        return {name_scores(rule, rules): _choose_rule(settings, rule) for rule in rules}


class Scored(NamedTuple):
    """The scores of a study, and everything else that its tables are computed from."""

    data: Data
    tables: "Mapping[str, Mapping[str, DataFrame]]"
    """Scores by the name of the set of pairs and `scores.SCDG` or the baseline's profile."""
    settings: PairSettings
    profile: Profile
    baselines: Sequence[Baseline]
    models: Mapping[str, ModelSettings]
    """The model under each position rule, by the name of its scores."""
    segmented: Mapping[str, int]
    """Number of pairs of each set that were too long for one pass and scored in segments, unlike in the paper."""


def name_scores(rule: str, rules: Sequence[str]) -> str:
    """Return the name of the scores under a position rule."""
    return SCDG if rule == rules[0] else f"{SCDG}-{rule}"


def name_model(scores: str) -> str:
    """Return the name in the job of the model that computes these scores."""
    return "language_model" if scores == SCDG else f"language_model {scores}"


def _choose_rule(settings: ModelSettings, rule: str) -> ModelSettings:
    if rule == settings.positions:
        return settings
    if rule != PUBLISHED and settings.position_factor is None:
        raise UserError(f"--positions {rule} needs a position_factor", "add it to [model] of the profile, with a rule")
    factor = None if rule == PUBLISHED else settings.position_factor
    return ModelSettings.model_validate(settings.model_dump() | {"positions": rule, "position_factor": factor})


class _Prepared(NamedTuple):
    """The data and models of a study, checked, before anything is computed or written."""

    data: Data
    planned: Planned
    computing: Computing
    models: Mapping[str, ScoringModel]
    baselines: Sequence[Baseline]


@contextmanager
def _prepare(study: PairStudy, notices: Notices) -> Iterator[_Prepared]:
    """Yield everything that the study needs; it is freed in the end.

    Raises:
        UserError: data, settings or models are not usable.
    """
    settings, options = require_gains(study.profile), study.options
    computing = options.choose_computing(study.profile)
    with TemporaryDirectory(prefix="pan_scdg-study-") as scratch, ExitStack() as stack:
        data = read_data(study.profile.need_model(), options, study.with_news, notices, Path(scratch))
        baselines: list[Baseline] = []
        if options.reports:
            sets = list(data.sets.values())
            baselines = find_baselines(study.baselines, sets, options.device, study.vectors, options.state)
        models = {
            name: stack.enter_context(closing(options.open_model(chosen, computing, name_model(name))))
            for name, chosen in study.list_models().items()
        }
        data, planned = plan_scoring(data, models, settings, notices, options.pair_action)
        yield _Prepared(data, planned, computing, models, baselines)


def run_study(study: PairStudy) -> list[str]:
    """Carry out a study, or score one shard of it; return the lines to show the user.

    Raises:
        UserError: data, settings or output are not usable; the output is unchanged then.
    """
    notices, options = Notices(), study.options
    with _prepare(study, notices) as prepared:
        places = {"language_model": prepared.models[SCDG].found}
        for baseline in prepared.baselines:
            places |= {f"{baseline.profile.name} {k}": v for k, v in baseline.parts.places.items()}
        lines = produce_report(
            options,
            _identify(study, prepared),
            places,
            list(prepared.models.values()),
            lambda store, folder, job: _compute(study, prepared, store, folder, job),
            f"{sum(len(pairs.ids) for pairs in prepared.data.sets.values())} pairs",
        )
    lost = sum(map(len, prepared.data.lost.values()))
    return [*notices.list_warnings(), *warn_about_lost(lost, "pairs"), *lines]


def plan_study(study: PairStudy) -> tuple[list[Plan], list[str]]:
    """Return the cost of the language model on each set of pairs, and the lines to show; nothing is written.

    Raises:
        UserError: the study would be refused.
    """
    notices, settings, plans = Notices(), require_gains(study.profile), list[Plan]()
    with _prepare(study, notices) as prepared:
        for key, model in prepared.models.items():
            for name, planned in prepared.planned[key].items():
                lost = prepared.data.lost.get(name)
                notes = [f"{len(lost)} pairs cannot be scored and will be left out"] if lost else []
                counted = count_pairs(planned, model, settings)
                task = f"studies {study.name}, {key} on {name}"
                plans.append(
                    make_plan(task, study.profile.name, prepared.computing, model, counted, len(planned), notes)
                )
            model.unload()
    return plans, notices.list_warnings()


def _identify(study: PairStudy, prepared: _Prepared) -> dict[str, Any]:
    """Return everything that the bytes of the report, or of a shard, depend on, without paths."""
    data, models = prepared.data, prepared.models
    scoring = {
        "task": f"studies {study.name}",
        "profile": study.profile.model_dump(mode="json", exclude={"needs_gpu"}),
        "models": {name_model(name): model.identify() for name, model in models.items()},
        "device": prepared.computing.device,
        "engine": prepared.computing.engine,
        "on_error": study.options.on_error,
        "documents": {pairs.name: pairs.digest() for pairs in data.sets.values()},
        "prepared": {name: hash_text(text) for name, text in list_texts(data.parts).items()},
    }
    return study.options.identify(scoring, {"baselines": [baseline.identify() for baseline in prepared.baselines]})


def _compute(study: PairStudy, prepared: _Prepared, store: Store, folder: Path, job: Mapping[str, Any]) -> list[str]:
    """Write the report, or the scores of a shard by every model; return the names of the files."""
    if (share := study.options.share) is None:
        return _write(study, _score(study, prepared, store), folder, job)
    for name, model in prepared.models.items():
        for planned in prepared.planned[name].values():
            score_pairs(planned, model, require_gains(study.profile), store, False, share)
        model.unload()
    return write_shard(folder, store)


def _score(study: PairStudy, prepared: _Prepared, store: Store) -> Scored:
    data, settings = prepared.data, require_gains(study.profile)
    tables: dict[str, dict[str, DataFrame]] = {name: {} for name in data.sets}
    for name, pairs in data.sets.items():
        for baseline in prepared.baselines:
            say([f"{baseline.profile.name}: {len(pairs.ids)} pairs of {name}"])
            tables[name][baseline.profile.name] = score_baseline(pairs, baseline, store)
    for key, model in prepared.models.items():
        for name, pairs in data.sets.items():
            say([f"{study.profile.name}, {key}: {len(pairs.ids)} pairs of {name}"])
            tables[name][key] = score_gains(pairs, prepared.planned[key][name], model, settings, store)
        model.unload()  # the memory of one device need not hold two models
    segmented = {name: sum(plan.mode == "segments" for plan in plans) for name, plans in prepared.planned[SCDG].items()}
    return Scored(data, tables, settings, study.profile, prepared.baselines, study.list_models(), segmented)


def _write(study: PairStudy, scored: Scored, folder: Path, job: Mapping[str, Any]) -> list[str]:
    """Write everything into ``folder``; return the names of the files, the page last."""
    texts = list_texts(scored.data.parts)
    files = write_files(folder, {f"prepared/{name}": text for name, text in texts.items()})
    for name, of in scored.tables.items():
        for method, table in of.items():
            files.append(f"scores/{name}/{method}.jsonl.gz")
            write_scores(folder / files[-1], table)
    title, sections, seeds = study.write_sections(scored)
    return write_report(folder, Report(title, sections, files, {**job, "seeds": seeds}))


def list_lost(scored: Scored) -> list[str]:
    """Return a sentence for each set with pairs that could not be scored, with the reasons of the first of them."""
    return [
        describe_lost(lost, f"{len(lost) + len(scored.data.sets[name].ids)} pairs of {name}")
        for name, lost in scored.data.lost.items()
        if lost
    ]


def list_segmented(scored: Scored) -> list[str]:
    """Return a sentence for each set with pairs that are too long for the profile; the paper scores all in one pass."""
    return [
        f"{count} of the {len(scored.data.sets[name].ids)} pairs of {name} have more than {scored.settings.limit} "
        "tokens and were scored in segments, each with the windows of the source nearest to it."
        for name, count in scored.segmented.items()
        if count
    ]
