"""A cascade: a small model scores all candidates, and leaves the best of them to the profile's model."""

from collections.abc import Mapping, Sequence
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

from pan_scdg.jobs.requests import Computing
from pan_scdg.notices import Notices
from pan_scdg.pan.source_retrieval import Corpus
from pan_scdg.profile import Profile, RetrievalSettings
from pan_scdg.records import Query
from pan_scdg.retrieval.candidates import FirstStage
from pan_scdg.scoring.candidates import Target, prepare_targets, score_candidates
from pan_scdg.scoring.model import ScoringModel
from pan_scdg.scoring.reranking import Ranking, rank_queries
from pan_scdg.scoring.sentence_match import SentenceMatcher
from pan_scdg.store import Store

FIELD = "retrieval.cascade.context"


class Cascade(NamedTuple):
    """The candidates that a small model leaves to the profile's model."""

    rankings: Mapping[str, Ranking]
    """All candidates of each query as the small model ranks them."""
    heads: Mapping[str, FirstStage]
    """The best of them, in coarse order."""

    def append_tails(self, rankings: Mapping[str, Ranking]) -> dict[str, Ranking]:
        """Return the reranked heads, each followed by the rest of the small model's ranking, without a score."""
        heads = {query_id: {doc_id for doc_id, _ in ranking} for query_id, ranking in rankings.items()}
        return {
            query_id: [*ranking, *((d, None) for d, _ in self.rankings[query_id] if d not in heads[query_id])]
            for query_id, ranking in rankings.items()
        }


def make_cascade(found: Mapping[str, FirstStage], rankings: Mapping[str, Ranking], head: int) -> Cascade:
    """Return the cascade whose heads are the ``head`` best candidates of each of a small model's ``rankings``."""
    heads = {}
    for query_id, ranking in rankings.items():
        best, stage = {doc_id for doc_id, _ in ranking[:head]}, found[query_id]
        heads[query_id] = FirstStage(stage.routes, [c for c in stage.candidates if c.doc_id in best])
    return Cascade(rankings, heads)


class SmallModel(NamedTuple):
    """The small model, with the queries as its tokens and its settings."""

    model: ScoringModel
    targets: list[Target]
    settings: RetrievalSettings
    head: int

    def choose_heads(
        self, corpus: Corpus, found: Mapping[str, FirstStage], store: Store, matcher: SentenceMatcher | None
    ) -> Cascade:
        """Load the small model, score all candidates, free it, and return the cascade heads."""
        with closing(self.model):
            features = score_candidates(
                corpus, self.targets, found, self.model, self.settings, store, keep_gains=False, matcher=matcher
            )
        self.model.unload()
        asked = {target.query_id: found[target.query_id] for target in self.targets}
        rankings = rank_queries(asked, features, self.settings, store, matcher).rankings
        return make_cascade(found, rankings, self.head)


def open_small_model(
    profile: Profile, computing: Computing, queries: Sequence[Query], where: Path, notices: Notices
) -> SmallModel | None:
    """Return the small model of a profile's cascade, found by its name; None if the profile has none.

    Raises:
        UserError: the model is missing or unusable, or a query cannot be scored with it.
    """
    cascade, small = profile.need_retrieval().cascade, profile.make_small_profile()
    if cascade is None or small is None:
        return None
    settings = small.need_retrieval()
    model = replace(computing, model=None).open_model(small.need_model())
    model.check_length(settings.context, FIELD)
    return SmallModel(model, prepare_targets(queries, model, settings, where, notices), settings, cascade.head)
