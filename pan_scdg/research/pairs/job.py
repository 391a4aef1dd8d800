"""The life of a study of pairs: prepare, find the models, score every pair, report.

Scores go to the state folder as they come, or to the hidden folder of the output; a stopped study continues from there,
and the report appears once all of it is complete.
"""

from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack, closing
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

from pan_scdg.digests import hash_text
from pan_scdg.errors import UserError
from pan_scdg.jobs.lifecycle import produce_result
from pan_scdg.logs import say
from pan_scdg.models.find import describe_models
from pan_scdg.models.fit import choose_device
from pan_scdg.models.lock import list_origins
from pan_scdg.models.positions import PUBLISHED
from pan_scdg.notices import Notices
from pan_scdg.profile import ModelSettings, PairSettings, Profile
from pan_scdg.research.data.pair_manifest import TokenCounter
from pan_scdg.research.data.pair_sets import NEWS, PAN25, PairSet, find_pan25_pairs, write_news_pairs
from pan_scdg.research.data.prepare import News, Pan25, Sources, check_given, prepare_news, prepare_pan25
from pan_scdg.research.data.prepared import Parts, list_texts
from pan_scdg.research.pairs.scores import SCDG, Baseline, find_baselines, score_baseline, score_gains, write_scores
from pan_scdg.research.report.page import Report, Section, write_report
from pan_scdg.research.study import OnError, StudyOptions, require_gains, write_files
from pan_scdg.scoring.model import ScoringModel
from pan_scdg.scoring.pair_plan import PlannedPair
from pan_scdg.scoring.pairs import check_pairs
from pan_scdg.store import Store

if TYPE_CHECKING:
    from pandas import DataFrame


Planned = Mapping[str, Mapping[str, Sequence[PlannedPair]]]
"""How the pairs are scored, by the name of the scores and of the set of pairs."""
SHOWN = 10
"""Number of pairs that could not be scored whose reasons the report shows."""


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


class Data(NamedTuple):
    """The prepared data."""

    pan25: Pan25
    news: News | None
    sets: Mapping[str, PairSet]
    lost: Mapping[str, Mapping[str, str]] = MappingProxyType({})
    """Why pairs cannot be scored and are in no row, by the name of the set and their ids."""

    @property
    def parts(self) -> Parts:
        """Return the prepared artefacts."""
        return {PAN25: self.pan25.artefacts, **({} if self.news is None else {NEWS: self.news.artefacts})}

    def leave_out(self, lost: Mapping[str, Mapping[str, str]]) -> "Data":
        """Return the data without the pairs of ``lost``; the prepared artefacts stay."""
        pan25 = self.pan25._replace(splits=tuple(split.leave_out(lost[PAN25]) for split in self.pan25.splits))
        news = self.news
        if news is not None:
            news = news._replace(parts={pair: part for pair, part in news.parts.items() if pair not in lost[NEWS]})
        return Data(pan25, news, {name: of.leave_out(lost[name]) for name, of in self.sets.items()}, lost)


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


def _choose_rule(settings: ModelSettings, rule: str) -> ModelSettings:
    if rule == settings.positions:
        return settings
    if rule != PUBLISHED and settings.position_factor is None:
        raise UserError(f"--positions {rule} needs a position_factor", "add it to [model] of the profile, with a rule")
    factor = None if rule == PUBLISHED else settings.position_factor
    return ModelSettings.model_validate(settings.model_dump() | {"positions": rule, "position_factor": factor})


def run_study(study: PairStudy) -> list[str]:
    """Carry out a study; return the lines to show the user.

    Raises:
        UserError: data, settings or output are not usable; the output is unchanged then.
    """
    settings, notices, options = require_gains(study.profile), Notices(), study.options
    device = choose_device(study.profile, options.device)
    with TemporaryDirectory(prefix="pan_scdg-study-") as scratch:
        data = _read_data(study, notices, Path(scratch))
        baselines = find_baselines(
            study.baselines, list(data.sets.values()), options.device, study.vectors, options.state
        )
        with ExitStack() as stack:
            models = {
                name: stack.enter_context(
                    closing(ScoringModel(chosen, device, folder=options.model, state=options.state))
                )
                for name, chosen in study.list_models().items()
            }
            data, planned = _plan(data, models, settings, notices, options.on_error)
            model = models[SCDG]
            identity = _identify(study, data, models, baselines)
            with produce_result(options.output, identity, options.overwrite) as result:
                if result.complete:
                    return [f"already complete: {options.output}"]
                if result.needed:
                    places = {"language_model": model.found}
                    for baseline in baselines:
                        places |= {f"{baseline.profile.name} {k}": v for k, v in baseline.parts.places.items()}
                    say([describe_models(list(places.values()))])
                    with result.compute(options.state) as store:
                        scored = _score(study, data, planned, models, baselines, settings, store)
                        names = _write(study, scored, result.staged, result.job)
                    result.seal(names, _list_incidents(models), origins=list_origins(places))
            warnings = [f"warning: {incident}" for incident in _list_incidents(models)]
    count = sum(len(pairs.ids) for pairs in data.sets.values())
    warnings += [f"warning: {sum(map(len, data.lost.values()))} pairs cannot be scored"] if data.lost else []
    return [*notices.list_warnings(), *warnings, f"studied {count} pairs: {options.output}"]


def _read_data(study: PairStudy, notices: Notices, scratch: Path) -> Data:
    options, profile = study.options, study.profile
    check_given(options.given, (PAN25, NEWS) if study.with_news else (PAN25,))

    def make_counter() -> TokenCounter:
        return TokenCounter(profile.need_model(), options.model, options.state)

    sources = Sources(options.folders, options.given, make_counter, notices)
    pan25 = prepare_pan25(sources)
    sets = {PAN25: find_pan25_pairs(pan25.records, sources.corpus)}
    if not study.with_news:
        return Data(pan25, None, sets)
    news = prepare_news(sources)
    sets[NEWS] = write_news_pairs(news.pairs, options.folders.multinews, scratch)
    return Data(pan25, news, sets)


def _plan(
    data: Data, models: Mapping[str, ScoringModel], settings: PairSettings, notices: Notices, on_error: OnError
) -> tuple[Data, Planned]:
    """Return the data that every model can score, and how; with ``stop`` what cannot be scored is an error."""
    lost: dict[str, dict[str, str]] = {name: {} for name in data.sets}
    planned: dict[str, dict[str, list[PlannedPair]]] = {key: {} for key in models}
    for key, model in models.items():
        for name, of in data.sets.items():
            ids = dict(zip(of.pairs, of.ids, strict=True))
            action: Literal["stop", "negative"] = "stop" if on_error == "stop" else "negative"
            planned[key][name], failed = check_pairs(of.pairs, model, settings, notices, action)
            lost[name] |= {ids[item.pair]: item.error.what for item in failed}
    if not any(lost.values()):
        return data, planned
    data = data.leave_out(lost)
    kept = {name: frozenset(of.pairs) for name, of in data.sets.items()}
    for own in planned.values():
        own.update({name: [plan for plan in plans if plan.pair in kept[name]] for name, plans in own.items()})
    return data, planned


def _identify(
    study: PairStudy, data: Data, models: Mapping[str, ScoringModel], baselines: Sequence[Baseline]
) -> dict[str, Any]:
    """Return everything that the bytes of the report depend on, without paths."""
    return {
        "task": f"studies {study.name}",
        "profile": study.profile.model_dump(mode="json", exclude={"needs_gpu"}),
        "models": {
            "language_model" if name == SCDG else f"language_model {name}": model.identify()
            for name, model in models.items()
        },
        "device": models[SCDG].device,
        "engine": "packed",
        "on_error": study.options.on_error,
        "baselines": [baseline.identify() for baseline in baselines],
        "documents": {pairs.name: pairs.digest() for pairs in data.sets.values()},
        "prepared": {name: hash_text(text) for name, text in list_texts(data.parts).items()},
    }


def _score(
    study: PairStudy,
    data: Data,
    planned: Planned,
    models: Mapping[str, ScoringModel],
    baselines: Sequence[Baseline],
    settings: PairSettings,
    store: Store,
) -> Scored:
    tables: dict[str, dict[str, DataFrame]] = {name: {} for name in data.sets}
    for name, pairs in data.sets.items():
        for baseline in baselines:
            say([f"{baseline.profile.name}: {len(pairs.ids)} pairs of {name}"])
            tables[name][baseline.profile.name] = score_baseline(pairs, baseline, store)
    for key, model in models.items():
        for name, pairs in data.sets.items():
            say([f"{study.profile.name}, {key}: {len(pairs.ids)} pairs of {name}"])
            tables[name][key] = score_gains(pairs, planned[key][name], model, settings, store)
        model.unload()  # the memory of one device need not hold two models
    segmented = {name: sum(plan.mode == "segments" for plan in plans) for name, plans in planned[SCDG].items()}
    return Scored(data, tables, settings, study.profile, baselines, study.list_models(), segmented)


def _list_incidents(models: Mapping[str, ScoringModel]) -> list[str]:
    return list(dict.fromkeys(incident for model in models.values() for incident in model.incidents()))


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
    sentences = []
    for name, lost in scored.data.lost.items():
        if lost:
            of = len(lost) + len(scored.data.sets[name].ids)
            reasons = "; ".join(f"{pair}: {why}" for pair, why in list(lost.items())[:SHOWN])
            sentences.append(f"{len(lost)} of the {of} pairs of {name} cannot be scored and are in no row. {reasons}.")
    return sentences


def list_segmented(scored: Scored) -> list[str]:
    """Return a sentence for each set with pairs that are too long for the profile; the paper scores all in one pass."""
    return [
        f"{count} of the {len(scored.data.sets[name].ids)} pairs of {name} have more than {scored.settings.limit} "
        "tokens and were scored in segments, each with the windows of the source nearest to it."
        for name, count in scored.segmented.items()
        if count
    ]
