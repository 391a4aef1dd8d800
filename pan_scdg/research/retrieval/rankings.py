"""Every ranking of the retrieval study: first stages as they are, and reranked by the gains that were scored once."""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from pan_scdg.evaluation.retrieval import Qrels, Run
from pan_scdg.jobs.retrieval_results import aggregate_query_gains, rank_candidates
from pan_scdg.profile import RetrievalSettings
from pan_scdg.research.data.query_folds import QueryFold
from pan_scdg.research.retrieval.entries import Entry
from pan_scdg.research.retrieval.rerank_grid import UPPER_TAILS, Candidates, Configuration, candidates_of
from pan_scdg.research.retrieval.stages import Orders, Stages
from pan_scdg.research.retrieval.study import Frozen, apply, frozen_choice, run_of
from pan_scdg.scdg.gains import GainStatistics
from pan_scdg.store import Store

PAPER = Configuration("top-2%", 1000, 0.75)
"""What the paper chose on its development folds."""
Scored = Mapping[tuple[str, str], tuple[GainStatistics, str]]
"""Statistics and store key of the gains by query and document, as `score_candidates` gives them."""


class Rankings(NamedTuple):
    """The rows of the table, in order, and the choice that the reranked ones rest on."""

    runs: Sequence[tuple[str, Run]]
    frozen: Frozen | None
    """None: nothing is reranked."""


def unchanged(orders: Orders) -> Run:
    """A ranking as it is."""
    return {query_id: run_of(order) for query_id, order in orders.items()}


def all_rankings(
    entries: Sequence[Entry],
    orders: Mapping[str, Orders],
    stages: Mapping[str, Stages],
    scored: Scored,
    settings: RetrievalSettings,
    store: Store,
    qrels: Qrels,
    folds: Sequence[QueryFold],
    search_on: str | None,
) -> Rankings:
    """Each entry and, below it where it is reranked, what SCDG makes of it.

    Reranked are the candidates by the configuration that is best on the development folds of ``search_on``; by the
    paper's, where that is another; and by the profile's own, where that is neither, exactly as ``run`` does it.

    Args:
        entries: in the order of the table.
        orders: all documents of each, by name and query.
        stages: the candidates of each that is reranked.
        scored: gains of all these candidates, or of the first ``settings.scored`` of each ranking.
        settings: the profile's, with its own configuration.
        store: holds the gains themselves where that configuration needs them.
        qrels: grades by query and document.
        folds: of the queries.
        search_on: see `retrieval_entries.all_entries`.

    Raises:
        UserError: see `retrieval_study.frozen_choice`.
    """
    candidates = {
        name: {query: candidates_of(query, stage.candidates, scored, settings.scored) for query, stage in found.items()}
        for name, found in stages.items()
    }
    frozen = None if search_on is None else frozen_choice(qrels, candidates[search_on], folds)
    runs: list[tuple[str, Run]] = []
    for entry in entries:
        runs.append((entry.name, unchanged(orders[entry.name])))
        if frozen is None or not entry.reranked:
            continue
        runs += _by_grid(entry.name, frozen.chosen, candidates[entry.name])
        if has_own(settings, frozen.chosen):
            own = _as_run_does(stages[entry.name], scored, settings, store)
            runs.append((f"{entry.name} + SCDG as the profile has it", own))
    return Rankings(runs, frozen)


def _by_grid(name: str, chosen: Configuration, candidates: Mapping[str, Candidates]) -> list[tuple[str, Run]]:
    rows: list[tuple[str, Run]] = [(f"{name} + SCDG", apply(chosen, candidates))]
    if chosen != PAPER:
        rows.append((f"{name} + SCDG, paper's configuration", apply(PAPER, candidates)))
    return rows


def _as_run_does(stages: Stages, scored: Scored, settings: RetrievalSettings, store: Store) -> Run:
    """The ranking that ``run --candidates`` writes for these candidates."""
    orders = {}
    for query_id, stage in stages.items():
        gains = aggregate_query_gains(query_id, stage, scored, settings, store)
        orders[query_id] = [doc_id for doc_id, _ in rank_candidates(stage, gains, settings)]
    return unchanged(orders)


def has_own(settings: RetrievalSettings, chosen: Configuration) -> bool:
    """Whether the profile reranks otherwise than by the chosen and the paper's configuration."""
    return settings.rerank and own_configuration(settings) not in (chosen, PAPER)


def own_configuration(settings: RetrievalSettings) -> Configuration | None:
    """How the profile itself reranks, None where it does so by something that the grid has not."""
    named = [name for name, q in UPPER_TAILS.items() if settings.aggregation == "top" and q == settings.q]
    depth = min(settings.depth, settings.scored or settings.depth)
    return Configuration(named[0], depth, settings.weight) if named else None


def told(configuration: Configuration) -> str:
    """A configuration in words."""
    return f"{configuration.feature}, N = {configuration.depth}, weight {configuration.weight:g}"
