"""Make the rankings of the retrieval study: search first stages, read runs, and rerank both."""

from collections.abc import Container, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np

from pan_scdg.cluster.session import Cluster
from pan_scdg.errors import UserError
from pan_scdg.evaluation.retrieval import Qrels, Run
from pan_scdg.jobs.retrieval.results import rank_queries
from pan_scdg.models.encoder import Encoder
from pan_scdg.notices import Notices
from pan_scdg.pan.corpus import Corpus
from pan_scdg.pan.runs import find_run, read_run
from pan_scdg.profile import RetrievalSettings
from pan_scdg.records import Query
from pan_scdg.research.data.queries import QueryFold
from pan_scdg.research.retrieval.comparison import Frozen, apply, choose_configuration, make_run
from pan_scdg.research.retrieval.grid import UPPER_TAILS, Candidates, Configuration, Scored, make_candidates
from pan_scdg.research.retrieval.rows import Ranking
from pan_scdg.retrieval.candidate_files import read_candidates
from pan_scdg.retrieval.candidates import FirstStage, find_candidates, load_retrieval_encoder
from pan_scdg.retrieval.catalogue import check_index
from pan_scdg.scdg.aggregation import Aggregate, choose_aggregate
from pan_scdg.store import Store

PAPER = Configuration("top-2%", 1000, 0.75)
"""The paper's choice on its development folds."""
Stages = Mapping[str, FirstStage]
"""The first stage of each query."""
Orders = Mapping[str, Sequence[str]]
"""Documents of each query, the best first."""


class Search(NamedTuple):
    """The corpus of a first stage, and the means to search it."""

    corpus: Corpus
    ready: Path | None
    """Folder of indexes; None: they are built in the store's folder."""
    device: str
    memory: int
    """Bytes that a dense search may use."""
    cluster: Cluster | None = None
    """Encodes the documents, if it has several devices."""


class GivenRun(NamedTuple):
    """A ranking from elsewhere."""

    stages: dict[str, FirstStage]
    """Its first candidates, which can be reranked."""
    order: dict[str, list[str]]
    """The whole run, as evaluators order it."""

    def leave_out(self, lost: Container[str]) -> "GivenRun":
        """Return the ranking of the other queries."""
        stages = {query: of for query, of in self.stages.items() if query not in lost}
        return GivenRun(stages, {query: of for query, of in self.order.items() if query not in lost})


class Rankings(NamedTuple):
    """The rows of the table in order, and the choice that the reranked ones depend on."""

    runs: Sequence[tuple[str, Run]]
    frozen: Frozen | None
    """None: nothing is reranked."""


def search_all(
    rows: Sequence[Ranking], queries: Sequence[Query], search: Search, store: Store
) -> dict[str, dict[str, FirstStage]]:
    """Return the first stage of every row that has settings, by name; one encoder is in memory at a time.

    Raises:
        UserError: an encoder is missing, or an index does not exist or cannot be made.
    """
    settings_by = [(row.name, row.settings) for row in rows if row.settings is not None]
    found = {}
    for key in dict.fromkeys(_name_encoder(settings) for _, settings in settings_by):
        alike = [(name, settings) for name, settings in settings_by if _name_encoder(settings) == key]
        encoder = load_retrieval_encoder(alike[0][1], search.device)
        for name, settings in alike:
            found[name] = _search(settings, queries, encoder, search, store)
        if encoder is not None:
            encoder.release()
    return found


def _name_encoder(settings: RetrievalSettings) -> tuple[str, int] | None:
    if all(route.startswith("bm25") for route in settings.routes):
        return None
    return settings.need_dense().model, settings.need_dense().batch


def _search(
    settings: RetrievalSettings, queries: Sequence[Query], encoder: Encoder | None, search: Search, store: Store
) -> dict[str, FirstStage]:
    if search.ready is not None:
        check_index(search.ready, search.corpus, settings, encoder)

    def search_routes(of: RetrievalSettings, by: Encoder | None) -> dict[str, FirstStage]:
        return find_candidates(search.corpus, queries, of, by, store, search.ready, search.memory, search.cluster)

    # route by route, so that one that another row has searched already is not searched again
    for route in settings.routes:
        by = None if route.startswith("bm25") else encoder
        search_routes(settings.model_copy(update={"routes": (route,), "fusion": "none"}), by)
    return search_routes(settings, encoder)


def read_given(path: Path, queries: Sequence[Query], settings: RetrievalSettings, notices: Notices) -> GivenRun:
    """Return a TREC run; its first ``settings.depth`` documents are reranked, as with ``run --candidates``.

    Raises:
        UserError: the file is missing or no TREC run.
    """
    stages = read_candidates(path, queries, settings, notices)
    wanted = {query.query_id for query in queries}
    run = {query_id: found for query_id, found in read_run(find_run(path)).items() if query_id in wanted}
    return GivenRun(stages, {query_id: order_as_evaluators(found) for query_id, found in run.items()})


def order_as_evaluators(scored: Sequence[tuple[str, float]]) -> list[str]:
    """Return the documents as trec_eval does: by score in single precision, equal ones by id, the last id first."""
    with np.errstate(over="ignore"):
        by_id = sorted(((np.float32(score), doc_id) for doc_id, score in scored), reverse=True)
    return [doc_id for _, doc_id in by_id]


def check_documents(orders: Orders, corpus: Corpus, path: Path) -> None:
    """Raise UserError if a document of a ranking from elsewhere is not in the corpus."""
    if unseen := {doc_id for order in orders.values() for doc_id in order} - corpus.ids:
        what = f"{len(unseen)} documents are not in the corpus, {min(unseen)!r} for one"
        raise UserError(what, "give a run over this corpus", path)


def drop_scored(scored: Container[tuple[str, str]], stages: Stages, most: int | None = None) -> dict[str, FirstStage]:
    """Return the first ``most`` candidates (None: all) of every query without those that are ``scored`` already."""
    return {
        query_id: FirstStage({}, [c for c in stage.candidates[:most] if (query_id, c.doc_id) not in scored])
        for query_id, stage in stages.items()
    }


def list_documents(stages: Stages) -> dict[str, list[str]]:
    """Return the documents of every query in coarse order."""
    return {query_id: [c.doc_id for c in stage.candidates] for query_id, stage in stages.items()}


def make_rankings(
    rows: Sequence[Ranking],
    orders: Mapping[str, Orders],
    stages: Mapping[str, Stages],
    scored: Scored,
    settings: RetrievalSettings,
    store: Store,
    qrels: Qrels,
    folds: Sequence[QueryFold],
    search_on: str | None,
) -> Rankings:
    """Return the run of each row and, below it, the reranked ones.

    Candidates are reranked by the configuration that is best on the development folds of ``search_on``; by the paper's,
    if that is another; and by the profile's own, if that is neither, exactly as ``run`` does it.

    Args:
        rows: in the order of the table.
        orders: all documents of each, by name and query.
        stages: the candidates of each that is reranked.
        scored: gains of all these candidates, or of the first ``settings.scored`` of each ranking.
        settings: those of the profile, with its own configuration.
        store: holds the gains themselves if that configuration needs them.
        qrels: grades by query and document.
        folds: folds of the queries.
        search_on: see `rows.choose_rows`.

    Raises:
        UserError: see `comparison.choose_configuration`.
    """
    candidates = {
        name: {query: make_candidates(query, of.candidates, scored, settings.scored) for query, of in found.items()}
        for name, found in stages.items()
    }
    frozen = None if search_on is None else choose_configuration(qrels, candidates[search_on], folds)
    runs: list[tuple[str, Run]] = []
    for row in rows:
        runs.append((row.name, _make_runs(orders[row.name])))
        if frozen is None or not row.reranked:
            continue
        runs += _rerank(row.name, frozen.chosen, candidates[row.name])
        if has_own_configuration(settings, frozen.chosen):
            own = _rerank_as_run(stages[row.name], scored, settings, store)
            runs.append((f"{row.name} + SCDG as the profile has it", own))
    return Rankings(runs, frozen)


def _make_runs(orders: Orders) -> Run:
    return {query_id: make_run(order) for query_id, order in orders.items()}


def _rerank(name: str, chosen: Configuration, candidates: Mapping[str, Candidates]) -> list[tuple[str, Run]]:
    rows: list[tuple[str, Run]] = [(f"{name} + SCDG", apply(chosen, candidates))]
    if chosen != PAPER:
        rows.append((f"{name} + SCDG, paper's configuration", apply(PAPER, candidates)))
    return rows


def _rerank_as_run(stages: Stages, scored: Scored, settings: RetrievalSettings, store: Store) -> Run:
    """Return the ranking that ``run --candidates`` writes for these candidates."""
    found = rank_queries(stages, scored, settings, store).rankings
    return _make_runs({query_id: [doc_id for doc_id, _ in ranking] for query_id, ranking in found.items()})


def has_own_configuration(settings: RetrievalSettings, chosen: Configuration) -> bool:
    """Return True if the profile reranks otherwise than by the chosen and the paper's configuration."""
    return settings.rerank and find_own_configuration(settings) not in (chosen, PAPER)


def find_own_configuration(settings: RetrievalSettings) -> Configuration | None:
    """Return the configuration by which the profile reranks, None if it is not in the grid."""
    named = [name for name, q in UPPER_TAILS.items() if choose_aggregate(settings) == Aggregate("top", q)]
    depth = min(settings.depth, settings.scored or settings.depth)
    return Configuration(named[0], depth, settings.weight) if named else None


def describe(configuration: Configuration) -> str:
    """Return a configuration in words."""
    return f"{configuration.feature}, N = {configuration.depth}, weight {configuration.weight:g}"
