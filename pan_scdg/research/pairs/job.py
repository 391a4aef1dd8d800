"""The life of a study of pairs: prepare, find the models, score every pair, report.

Scores are stored as they are computed, in the state folder or in the hidden folder of the output. A stopped study
continues from there, and the report appears once all of it is complete.
"""

from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

from pan_scdg.digests import hash_text
from pan_scdg.errors import UserError
from pan_scdg.jobs.lifecycle import Scored
from pan_scdg.jobs.output.directory import OutputDirectory
from pan_scdg.jobs.plan.estimate import Plan, make_plan
from pan_scdg.jobs.plan.inputs import count_pairs
from pan_scdg.jobs.requests import Computing
from pan_scdg.logs import say
from pan_scdg.models.positions import PUBLISHED
from pan_scdg.notices import Notices
from pan_scdg.profile import ModelSettings, PairSettings, Profile
from pan_scdg.research.data.prepared import list_texts
from pan_scdg.research.pairs.data import Data, Planned, plan_scoring, read_data
from pan_scdg.research.pairs.scores import SCDG, Baseline, find_baselines, make_gain_table, score_baseline, write_scores
from pan_scdg.research.report.page import Report, Section, write_report
from pan_scdg.research.study import ReadyStudy, StudyOptions, describe_lost, note_lost, require_gains, write_files
from pan_scdg.scoring.batches import Shard
from pan_scdg.scoring.gain_method import score_pairs
from pan_scdg.scoring.model import ScoringModel
from pan_scdg.scoring.pair_method import OnError
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
    write_sections: "Callable[[PairWork], tuple[str, list[Section], dict[str, Any]]]"
    """Returns title, sections and seeds of the report."""
    positions: Sequence[str] = ()
    """Position rules that are compared; none: the profile's own."""


@dataclass(frozen=True)
class PairWork:
    """The data and models of a study, checked, and once it is computed its scores."""

    study: PairStudy
    data: Data
    planned: Planned
    models: Mapping[str, ScoringModel]
    """The language model under each position rule, by the name of its scores; the first is `scores.SCDG`."""
    baselines: Sequence[Baseline]
    tables: "Mapping[str, Mapping[str, DataFrame]]" = field(default_factory=dict)
    """Scores by the name of the set of pairs and of the model, or the baseline's profile."""

    @property
    def settings(self) -> PairSettings:
        """Return the pair settings of the profile."""
        return self.study.profile.need_pairs()

    def list_exceptions(self) -> list[str]:
        """Return sentences on pairs that could not be scored, or not in one pass as the paper scores all."""
        found = []
        for name, plans in self.planned[SCDG].items():
            if segmented := sum(plan.mode == "segments" for plan in plans):
                found.append(
                    f"{segmented} of the {len(plans)} pairs of {name} have more than {self.settings.limit} tokens and "
                    "were scored in segments, each with the windows of the source nearest to it."
                )
        for name, lost in self.data.lost.items():
            if lost:
                found.append(describe_lost(lost, f"{len(lost) + len(self.data.sets[name].ids)} pairs of {name}"))
        return found


def prepare_study(study: PairStudy, stack: ExitStack, notices: Notices) -> ReadyStudy:
    """Read the data, find the models and plan the scoring by each.

    Raises:
        UserError: data, settings or models are not usable.
    """
    settings, options = require_gains(study.profile), study.options
    computing = options.choose_computing(study.profile)
    scratch = Path(stack.enter_context(TemporaryDirectory(prefix="pan_scdg-study-")))
    data = read_data(study.profile.need_model(), options, study.with_news, notices, scratch)
    baselines: list[Baseline] = []
    if options.reports:
        sets = list(data.sets.values())
        baselines = find_baselines(study.baselines, sets, options.device, study.vectors, options.state)
    models = {
        name: options.open_model(chosen, computing, stack, name_model(name))
        for name, chosen in list_models(study).items()
    }
    on_error: OnError = "stop" if options.on_error == "stop" else "negative"
    data, planned = plan_scoring(data, models, settings, notices, on_error)
    work = PairWork(study, data, planned, models, baselines)
    places = {"language_model": models[SCDG].found}
    for baseline in baselines:
        places |= {f"{baseline.profile.name} {k}": v for k, v in baseline.parts.places.items()}
    count = sum(len(pairs.ids) for pairs in data.sets.values())
    return ReadyStudy(
        scoring=_identify(work, computing),
        places=places,
        models=list(models.values()),
        inputs=f"{count} pairs",
        summary=[f"studied {count} pairs: {options.output}"],
        notices=notices,
        notes=note_lost(sum(map(len, data.lost.values())), "pairs"),
        score=lambda store, shard: _score(work, store, shard),
        write=lambda scored, _, result: _write(work, scored.values, result),
        plan=lambda: _plan(work, computing),
        rest={"baselines": [baseline.identify() for baseline in baselines]},
    )


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


def _identify(work: PairWork, computing: Computing) -> dict[str, Any]:
    """Return everything that the scores depend on, without paths."""
    return {
        "task": f"studies {work.study.name}",
        "profile": work.study.profile.model_dump(mode="json", exclude={"needs_gpu"}),
        "models": {name_model(name): model.identify() for name, model in work.models.items()},
        **work.study.options.describe(computing),
        "documents": {pairs.name: pairs.digest() for pairs in work.data.sets.values()},
        "prepared": {name: hash_text(text) for name, text in list_texts(work.data.parts).items()},
    }


def _plan(work: PairWork, computing: Computing) -> list[Plan]:
    """Return the cost of each language model on each set of pairs."""
    study, plans = work.study, []
    for key, model in work.models.items():
        for name, planned in work.planned[key].items():
            notes = note_lost(len(work.data.lost.get(name, ())), "pairs")
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
        for name, pairs in work.data.sets.items():
            say([f"{baseline.profile.name}: {len(pairs.ids)} pairs of {name}"])
            found[name, baseline.profile.name] = score_baseline(pairs, baseline, store)
    methods = [baseline.profile.name for baseline in work.baselines]
    tables, scored = {name: {method: found[name, method] for method in methods} for name in work.data.sets}, {}
    for key, model in work.models.items():
        for name, pairs in work.data.sets.items():
            say([f"{work.study.profile.name}, {key}: {len(pairs.ids)} pairs of {name}"])
            scored[name, key] = score_pairs(work.planned[key][name], model, work.settings, store, False, shard)
        model.unload()  # the memory of one device need not hold two models
    return Scored((tables, scored))


def _write(work: PairWork, values: Any, result: OutputDirectory) -> list[str]:
    """Stage everything; return the names of the files, the page last."""
    tables, scored = values
    for (name, key), of in scored.items():
        tables[name][key] = make_gain_table(work.data.sets[name], of, work.settings)
    work, folder = replace(work, tables=tables), result.staged
    files = write_files(folder, {f"prepared/{name}": text for name, text in list_texts(work.data.parts).items()})
    for name, of in work.tables.items():
        for method, table in of.items():
            files.append(f"scores/{name}/{method}.jsonl.gz")
            write_scores(folder / files[-1], table)
    title, sections, seeds = work.study.write_sections(work)
    return write_report(folder, Report(title, sections, files, {**result.job, "seeds": seeds}))
