"""The prepared data of a study of pairs, and how each pair is scored."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import NamedTuple

from pan_scdg.notices import Notices
from pan_scdg.profile import ModelSettings, PairSettings
from pan_scdg.research.data.pair_sets import NEWS, PAN25, PairSet, find_pan25_pairs, write_news_pairs
from pan_scdg.research.data.prepare import News, Pan25, Sources, check_given, prepare_news, prepare_pan25
from pan_scdg.research.data.prepared import Parts
from pan_scdg.research.data.token_counter import find_counter
from pan_scdg.research.study import StudyOptions
from pan_scdg.scoring.model import ScoringModel
from pan_scdg.scoring.pair_method import OnError
from pan_scdg.scoring.pair_plan import PlannedPair, check_pairs

Planned = Mapping[str, Mapping[str, Sequence[PlannedPair]]]
"""The plans of scoring, by the name of the scores and of the set of pairs."""


class Data(NamedTuple):
    """The prepared data."""

    pan25: Pan25
    news: News | None
    sets: Mapping[str, PairSet]
    lost: Mapping[str, Mapping[str, str]] = MappingProxyType({})
    """The reasons why pairs cannot be scored and are in no row, by the name of the set and their ids."""

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


def read_data(settings: ModelSettings, options: StudyOptions, with_news: bool, notices: Notices, scratch: Path) -> Data:
    """Read or make the manifests and splits, and find their pairs; articles of news are written to ``scratch``.

    Raises:
        UserError: data is missing or damaged, or a given file belongs to other data.
    """
    check_given(options.given, (PAN25, NEWS) if with_news else (PAN25,))
    sources = Sources(
        options.folders, options.given, lambda: find_counter(settings, options.model, options.state), notices
    )
    pan25 = prepare_pan25(sources)
    sets = {PAN25: find_pan25_pairs(pan25.records, sources.corpus)}
    if not with_news:
        return Data(pan25, None, sets)
    news = prepare_news(sources)
    sets[NEWS] = write_news_pairs(news.pairs, options.folders.multinews, scratch)
    return Data(pan25, news, sets)


def plan_scoring(
    data: Data, models: Mapping[str, ScoringModel], settings: PairSettings, notices: Notices, on_error: OnError
) -> tuple[Data, Planned]:
    """Return the data that every model can score, and how; models are by the name of their scores.

    Raises:
        UserError: see `check_pairs`.
    """
    lost: dict[str, dict[str, str]] = {name: {} for name in data.sets}
    planned: dict[str, dict[str, list[PlannedPair]]] = {key: {} for key in models}
    for key, model in models.items():
        for name, of in data.sets.items():
            ids = dict(zip(of.pairs, of.ids, strict=True))
            planned[key][name], failed = check_pairs(of.pairs, model, settings, notices, on_error)
            lost[name] |= {ids[item.pair]: item.error.what for item in failed}
    if not any(lost.values()):
        return data, planned
    data = data.leave_out(lost)
    kept = {name: frozenset(of.pairs) for name, of in data.sets.items()}
    for own in planned.values():
        own.update({name: [plan for plan in plans if plan.pair in kept[name]] for name, plans in own.items()})
    return data, planned
