"""The life of a study of pairs: prepare, find the models, score every pair, report.

Scores are stored as they are computed, in the state folder or in the hidden folder of the output. A stopped study
continues from there, and the report appears once all of it is complete.
"""

from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

from pan_scdg.digests import hash_text
from pan_scdg.errors import UserError
from pan_scdg.jobs.lifecycle import Scored
from pan_scdg.jobs.output.directory import OutputDirectory
from pan_scdg.jobs.plan.count import count_pairs
from pan_scdg.jobs.plan.estimate import Plan, make_plan
from pan_scdg.logs import say
from pan_scdg.models.config import PUBLISHED
from pan_scdg.notices import Notices
from pan_scdg.profile import ModelSettings, PairSettings, Profile
from studies.data.folders import check_given
from studies.data.pair_sets import NEWS, PAN25, PairSet, find_pan25_pairs, write_news_pairs
from studies.data.prepare import News, Pan25, Sources, prepare_news, prepare_pan25
from studies.data.prepared import Parts, list_texts
from studies.data.token_counter import count_tokens
from studies.pairs.scores import SCDG, Baseline, find_baselines, make_gain_table, score_baseline, write_scores
from studies.report.page import Section, write_report
from studies.study import (
    OnError,
    ReadyStudy,
    StudyOptions,
    describe_lost,
    note_lost,
    require_gains,
    write_files,
)
from pan_scdg.scoring.batches import Shard
from pan_scdg.scoring.gain_method import score_pairs
from pan_scdg.scoring.model import ScoringModel
from pan_scdg.scoring.pair_plan import PlannedPair, check_pairs
from pan_scdg.store import Store

if TYPE_CHECKING:
    from pandas import DataFrame

Tables = Mapping[str, "Mapping[str, DataFrame]"]
"""Scores by the name of the set of pairs and of the model, or the baseline's profile."""


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
    write_sections: "Callable[[PairWork, Tables], tuple[str, list[Section], dict[str, Any]]]"
    """Returns title, sections and seeds of the report."""
    positions: Sequence[str] = ()
    """Position rules that are compared; none: the profile's own."""


@dataclass(frozen=True)
class PairWork:
    """The data and models of a study, checked, before anything is computed or written."""

    study: PairStudy
    pan25: Pan25
    news: News | None
    sets: Mapping[str, PairSet]
    """The pairs to score, by name."""
    lost: Mapping[str, Mapping[str, str]]
    """The reasons why pairs cannot be scored and are in no row, by the name of the set and their ids."""
    planned: Mapping[tuple[str, str], Sequence[PlannedPair]]
    """The plans of scoring, by the name of the scores and of the set."""
    models: Mapping[str, ScoringModel]
    """The language model under each position rule, by the name of its scores; the first is `scores.SCDG`."""
    baselines: Sequence[Baseline]

    @property
    def parts(self) -> Parts:
        """Return the prepared artefacts."""
        return {PAN25: self.pan25.artefacts, **({} if self.news is None else {NEWS: self.news.artefacts})}

    @property
    def settings(self) -> PairSettings:
        """Return the pair settings of the profile."""
        return self.study.profile.need_pairs()

    def list_exceptions(self) -> list[str]:
        """Return sentences on pairs that could not be scored, or not in one pass as the paper scores all."""
        found = []
        for name in self.sets:
            plans = self.planned[SCDG, name]
            if segmented := sum(plan.mode == "segments" for plan in plans):
                found.append(
                    f"{segmented} of the {len(plans)} pairs of {name} have more than {self.settings.limit} tokens and "
                    "were scored in segments, each with the windows of the source nearest to it."
                )
        for name, lost in self.lost.items():
            if lost:
                found.append(describe_lost(lost, f"{len(lost) + len(self.sets[name].ids)} pairs of {name}"))
        return found


def prepare_study(study: PairStudy, stack: ExitStack, notices: Notices) -> ReadyStudy:
    """Read the data, find the models and plan the scoring by each.

    Raises:
        UserError: data, settings or models are not usable.
    """
    settings, options = require_gains(study.profile), study.options
    computing = options.computing
    scratch = Path(stack.enter_context(TemporaryDirectory(prefix="pan_scdg-study-")))
    pan25, news, sets = _read_data(study, notices, scratch)
    baselines: list[Baseline] = []
    if options.reports:
        baselines = find_baselines(study.baselines, list(sets.values()), options.device, study.vectors, computing.state)
    models = {name: options.open_model(chosen, stack, name_model(name)) for name, chosen in list_models(study).items()}
    planned, lost = _plan_scoring(sets, models, settings, notices, options.on_error)
    work = PairWork(study, pan25, news, sets, lost, planned, models, baselines)
    work = _leave_out(work) if any(lost.values()) else work
    places = {"language_model": models[SCDG].found}
    for baseline in baselines:
        places |= {f"{baseline.profile.name} {k}": v for k, v in baseline.parts.places.items()}
    count = sum(len(pairs.ids) for pairs in work.sets.values())
    return ReadyStudy(
        scoring=_identify(work),
        places=places,
        models=list(models.values()),
        inputs=f"{count} pairs",
        summary=[f"studied {count} pairs: {options.output}"],
        notices=notices,
        notes=note_lost(sum(map(len, lost.values())), "pairs"),
        score=lambda store, shard: _score(work, store, shard),
        write=lambda scored, _, result: _write(work, scored.values, result),
        plan=lambda: _plan(work),
        rest={"baselines": [baseline.identify() for baseline in baselines]},
    )


def _read_data(study: PairStudy, notices: Notices, scratch: Path) -> tuple[Pan25, News | None, dict[str, PairSet]]:
    """Read or make the manifests and splits, and find their pairs; articles of news are written to ``scratch``."""
    options, settings, computing = study.options, study.profile.need_model(), study.options.computing
    check_given(options.given, (PAN25, NEWS) if study.with_news else (PAN25,))
    counter = partial(count_tokens, settings=settings, model=computing.model, state=computing.state)
    sources = Sources(options.folders, options.given, counter, notices)
    pan25 = prepare_pan25(sources)
    sets = {PAN25: find_pan25_pairs(pan25.records, sources.corpus)}
    if not study.with_news:
        return pan25, None, sets
    news = prepare_news(sources)
    sets[NEWS] = write_news_pairs(news.pairs, options.folders.multinews, scratch)
    return pan25, news, sets


def _plan_scoring(
    sets: Mapping[str, PairSet],
    models: Mapping[str, ScoringModel],
    settings: PairSettings,
    notices: Notices,
    on_error: OnError,
) -> tuple[dict[tuple[str, str], Sequence[PlannedPair]], dict[str, dict[str, str]]]:
    """Return how every model scores the pairs, and why some of them cannot be scored; see `PairWork`."""
    lost: dict[str, dict[str, str]] = {name: {} for name in sets}
    planned: dict[tuple[str, str], Sequence[PlannedPair]] = {}
    for key, model in models.items():
        for name, of in sets.items():
            ids = dict(zip(of.pairs, of.ids, strict=True))
            planned[key, name], failed = check_pairs(
                of.pairs, model, settings, notices, "stop" if on_error == "stop" else "negative"
            )
            lost[name] |= {ids[item.pair]: item.error.what for item in failed}
    return planned, lost


def _leave_out(work: PairWork) -> PairWork:
    """Return the study without the pairs that cannot be scored; the prepared artefacts stay."""
    pan25, news, lost = work.pan25, work.news, work.lost
    pan25 = pan25._replace(splits=tuple(split.leave_out(lost[PAN25]) for split in pan25.splits))
    if news is not None:
        news = news._replace(parts={pair: part for pair, part in news.parts.items() if pair not in lost[NEWS]})
    sets = {name: of.leave_out(lost[name]) for name, of in work.sets.items()}
    kept = {name: frozenset(of.pairs) for name, of in sets.items()}
    planned = {
        (key, name): [plan for plan in plans if plan.pair in kept[name]] for (key, name), plans in work.planned.items()
    }
    return replace(work, pan25=pan25, news=news, sets=sets, planned=planned)


def list_models(study: PairStudy) -> dict[str, ModelSettings]:
    """Return the model under each position rule, by the name of its scores.

    Raises:
        UserError: a rule needs a factor, which the profile does not give.
    """
    settings = study.profile.need_model()
    first, *others = list(dict.fromkeys(study.positions)) or [settings.positions]
    return {SCDG: _choose_rule(settings, first), **{f"{SCDG}-{rule}": _choose_rule(settings, rule) for rule in others}}


def _choose_rule(settings: ModelSettings, rule: str) -> ModelSettings:
    if rule == settings.positions:
        return settings
    if rule != PUBLISHED and settings.position_factor is None:
        raise UserError(f"--positions {rule} needs a position_factor", "add it to [model] of the profile, with a rule")
    factor = None if rule == PUBLISHED else settings.position_factor
    return ModelSettings.model_validate(settings.model_dump() | {"positions": rule, "position_factor": factor})


def name_model(scores: str) -> str:
    """Return the name in the job of the model that computes these scores."""
    return "language_model" if scores == SCDG else f"language_model {scores}"


def _identify(work: PairWork) -> dict[str, Any]:
    """Return everything that the scores depend on, without paths."""
    return {
        "task": f"studies {work.study.name}",
        "profile": work.study.profile.model_dump(mode="json", exclude={"needs_gpu"}),
        "models": {name_model(name): model.identify() for name, model in work.models.items()},
        **work.study.options.describe(),
        "documents": {pairs.name: pairs.digest() for pairs in work.sets.values()},
        "prepared": {name: hash_text(text) for name, text in list_texts(work.parts).items()},
    }


def _plan(work: PairWork) -> list[Plan]:
    study, computing, plans = work.study, work.study.options.computing, []
    for key, model in work.models.items():
        for name, lost in work.lost.items():
            planned, notes = work.planned[key, name], note_lost(len(lost), "pairs")
            counted = count_pairs(planned, model, work.settings)
            task = f"studies {study.name}, {key} on {name}"
            plans.append(make_plan(task, study.profile.name, computing, model, counted, len(planned), notes))
        model.unload()
    return plans


def _score(work: PairWork, store: Store, shard: Shard) -> Scored:
    """Score the pairs with every baseline, and those of a shard with every model."""
    found: dict[tuple[str, str], DataFrame] = {}
    # those of an endpoint first: what it lacks is named before anything is computed
    for baseline in sorted(work.baselines, key=lambda of: not of.asks_endpoint):
        for name, pairs in work.sets.items():
            say([f"{baseline.profile.name}: {len(pairs.ids)} pairs of {name}"])
            found[baseline.profile.name, name] = score_baseline(pairs, baseline, store)
    scored = {}
    for key, model in work.models.items():
        for name, pairs in work.sets.items():
            say([f"{work.study.profile.name}, {key}: {len(pairs.ids)} pairs of {name}"])
            scored[key, name] = score_pairs(work.planned[key, name], model, work.settings, store, False, shard)
        model.unload()  # the memory of one device need not hold two models
    return Scored((found, scored))


def _write(work: PairWork, values: Any, result: OutputDirectory) -> list[str]:
    """Stage everything; return the names of the files, the page last."""
    (found, scored), folder = values, result.staged
    files = write_files(folder, {f"prepared/{name}": text for name, text in list_texts(work.parts).items()})
    tables: dict[str, dict[str, DataFrame]] = {}
    for name, pairs in work.sets.items():
        tables[name] = {baseline.profile.name: found[baseline.profile.name, name] for baseline in work.baselines}
        tables[name] |= {key: make_gain_table(pairs, scored[key, name], work.settings) for key in work.models}
        for method, table in tables[name].items():
            files.append(f"scores/{name}/{method}.jsonl.gz")
            write_scores(folder / files[-1], table)
    title, sections, seeds = work.study.write_sections(work, tables)
    return write_report(folder, title, sections, files, {**result.job, "seeds": seeds})
