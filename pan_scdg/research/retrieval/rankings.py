"""Make the rankings of the retrieval study: search first stages, and rerank them and the given runs."""

from collections.abc import Mapping

from pan_scdg.evaluation.retrieval import Run
from pan_scdg.jobs.requests import Computing
from pan_scdg.models.encoder import Encoder
from pan_scdg.models.fit import choose_search_memory
from pan_scdg.profile import RetrievalSettings
from pan_scdg.research.retrieval.comparison import Frozen, apply, choose_configuration, make_runs
from pan_scdg.research.retrieval.data import Data, Orders, RetrievalStudy, Stages, list_ranked
from pan_scdg.research.retrieval.grid import UPPER_TAILS, Configuration, make_candidates
from pan_scdg.retrieval.candidates import FirstStage, find_candidates, load_retrieval_encoder
from pan_scdg.retrieval.catalogue import ReadyIndex, check_index
from pan_scdg.scdg.aggregation import Aggregate, choose_aggregate
from pan_scdg.scoring.candidates import Found
from pan_scdg.scoring.reranking import rank_queries
from pan_scdg.store import Store

PAPER = Configuration("top-2%", 1000, 0.75)
"""The paper's choice on its development folds."""


def search_all(study: RetrievalStudy, data: Data, computing: Computing, store: Store) -> dict[str, Stages]:
    """Return the first stage of every row that has settings, by name; one encoder is in memory at a time.

    Raises:
        UserError: an encoder is missing, or an index does not exist or cannot be made.
    """
    memory = choose_search_memory() << 20

    def search(settings: RetrievalSettings, encoder: Encoder | None, index: ReadyIndex | None) -> dict[str, FirstStage]:
        return find_candidates(data.corpus, data.queries, settings, encoder, store, index, memory, computing.cluster)

    settings_by = [(row.name, row.settings) for row in study.rows if row.settings is not None]
    found: dict[str, Stages] = {}
    for key in dict.fromkeys(_name_encoder(settings) for _, settings in settings_by):
        same = [(name, settings) for name, settings in settings_by if _name_encoder(settings) == key]
        encoder = load_retrieval_encoder(same[0][1], computing.device)
        for name, settings in same:
            index = None if study.index is None else check_index(study.index, data.corpus, settings, encoder)
            # route by route, so that one that another row has searched already is not searched again
            for route in settings.routes:
                alone = settings.model_copy(update={"routes": (route,), "fusion": "none"})
                search(alone, None if route.startswith("bm25") else encoder, index)
            found[name] = search(settings, encoder, index)
        if encoder is not None:
            encoder.release()
    return found


def _name_encoder(settings: RetrievalSettings) -> tuple[str, int, str | None] | None:
    if all(route.startswith("bm25") for route in settings.routes):
        return None
    dense = settings.need_dense()
    return dense.model, dense.batch, dense.dtype


def make_rankings(
    study: RetrievalStudy,
    data: Data,
    orders: Mapping[str, Orders],
    stages: Mapping[str, Stages],
    scored: Found,
    store: Store,
) -> tuple[list[tuple[str, Run]], Frozen | None]:
    """Return the run of each row and, below it, the reranked ones; and the choice that these depend on, or None.

    Candidates are reranked by the configuration that is best on the development folds of the row that the grid is
    searched on; by the paper's, if that is another; and by the profile's own, if that is neither, exactly as ``run``
    does it.

    Args:
        study: its rows, in the order of the table.
        data: judgements and folds of the queries.
        orders: all documents of each row, by name and query.
        stages: the candidates of each row that is reranked.
        scored: gains of all these candidates, or of the first ``scored`` of the settings of each ranking.
        store: holds the gains themselves if the profile's own configuration needs them.

    Raises:
        UserError: see `comparison.choose_configuration`.
    """
    settings = study.profile.need_retrieval()
    candidates = {
        name: {query: make_candidates(query, of.candidates, scored, settings.scored) for query, of in found.items()}
        for name, found in stages.items()
    }
    frozen = None
    if study.search_on is not None:
        frozen = choose_configuration(data.qrels, candidates[study.search_on], data.folds)
    runs: list[tuple[str, Run]] = []
    for row in study.rows:
        runs.append((row.name, make_runs(orders[row.name])))
        if frozen is None or not row.reranked:
            continue
        runs.append((f"{row.name} + SCDG", apply(frozen.chosen, candidates[row.name])))
        if frozen.chosen != PAPER:
            runs.append((f"{row.name} + SCDG, paper's configuration", apply(PAPER, candidates[row.name])))
        if has_own_configuration(settings, frozen.chosen):
            own = rank_queries(stages[row.name], scored, settings, store).rankings
            runs.append((f"{row.name} + SCDG as the profile has it", make_runs(list_ranked(own))))
    return runs, frozen


def has_own_configuration(settings: RetrievalSettings, chosen: Configuration) -> bool:
    """Return True if the profile reranks otherwise than by the chosen and the paper's configuration."""
    named = [name for name, q in UPPER_TAILS.items() if choose_aggregate(settings) == Aggregate("top", q)]
    depth = min(settings.depth, settings.scored or settings.depth)
    own = Configuration(named[0], depth, settings.weight) if named else None  # None: it is not in the grid
    return settings.rerank and own not in (chosen, PAPER)


def describe(configuration: Configuration) -> str:
    """Return a configuration in words."""
    return f"{configuration.feature}, N = {configuration.depth}, weight {configuration.weight:g}"
