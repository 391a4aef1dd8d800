"""Rank the candidates that a caller gives, without a first stage, by the functions that rerank those of a run."""

from collections.abc import Collection, Iterable, Iterator
from pathlib import Path

from pan_scdg.errors import UserError
from pan_scdg.notices import Notices
from pan_scdg.passages.scorer import AlignmentScorer
from pan_scdg.profile import MatchSettings, Profile, RetrievalSettings
from pan_scdg.records import Document, Query
from pan_scdg.retrieval.candidates import FirstStage
from pan_scdg.retrieval.ranking import Ranked, Ranking
from pan_scdg.scoring.baseline_registry import find_encoder_parts
from pan_scdg.scoring.candidates import prepare_targets, score_candidates
from pan_scdg.scoring.model import ScoringModel
from pan_scdg.scoring.reranking import rank_queries
from pan_scdg.scoring.sentence_match import SentenceMatcher
from pan_scdg.store import MemoryStore


class Ranker:
    """Ranks candidates in memory, and forgets what was computed; the encoder of the sentence match is loaded once.

    Args:
        settings: the profile's, from `choose_settings`.
        model: the language model.
        device: "cpu" or "cuda".
        store: keeps what is computed for one ranking.
        alignment: that decides pairs, if its encoder is also that of the sentence match; None: another one is loaded.

    Raises:
        UserError: the context of the settings is longer than the model's.
    """

    def __init__(
        self,
        settings: RetrievalSettings,
        model: ScoringModel,
        device: str,
        store: MemoryStore,
        alignment: AlignmentScorer | None = None,
    ) -> None:
        self._settings, self._model, self._device, self._store = settings, model, device, store
        self._alignment = alignment
        model.check_length(settings.context, "retrieval.context")

    def rank(self, query: str, documents: Iterable[tuple[str, str]]) -> Ranking:
        """Return all documents with their scores, best first; see `Scorer.rank`."""
        asked, corpus, settings = Query("query", query), _Candidates(documents), self._settings
        notices = Notices(strict=True, remedy="shorten the query, or use a profile with a larger context")
        targets = prepare_targets([asked], self._model, settings, Path("query"), notices)
        found = {asked.query_id: FirstStage({}, [Ranked(doc_id, 0.0) for doc_id in corpus.texts])}
        matcher = None if settings.match is None else self._make_matcher(settings.match, asked)
        try:
            scored = score_candidates(
                corpus, targets, found, self._model, settings, self._store, keep_gains=False, matcher=matcher
            )
            ranking = rank_queries(found, scored, settings, self._store, matcher).rankings[asked.query_id]
        finally:
            self._store.close()
        return [Ranked(doc_id, score) for doc_id, score in ranking if score is not None]

    def _make_matcher(self, settings: MatchSettings, query: Query) -> SentenceMatcher:
        if self._alignment is None:
            parts = find_encoder_parts(settings.model, self._device, "retrieval")
            self._alignment = parts.make_alignment(settings, self._store)
        return SentenceMatcher(settings, self._alignment, self._store, [query])


class _Candidates:
    """Candidates in memory.

    Raises:
        UserError: an id is repeated.
    """

    def __init__(self, documents: Iterable[tuple[str, str]]) -> None:
        self.texts: dict[str, str] = {}
        for doc_id, text in documents:
            if doc_id in self.texts:
                raise UserError(f"the document id {doc_id!r} is repeated", "give each document its own id")
            self.texts[doc_id] = text

    def select(self, wanted: Collection[str]) -> Iterator[Document]:
        """Yield the documents that ``wanted`` names, in the caller's order."""
        return (Document(doc_id, text) for doc_id, text in self.texts.items() if doc_id in wanted)


def choose_settings(profile: Profile) -> RetrievalSettings:
    """Return the settings of a profile with which all candidates are scored.

    Raises:
        UserError: the profile has no [retrieval] table, or cannot rank candidates without a first stage.
    """
    settings = profile.need_retrieval()
    if not settings.rerank or not settings.weight:
        raise UserError(f"profile {profile.name} ranks by the first stage alone", "use the command `run`")
    if settings.cascade is not None:
        raise UserError(
            f"profile {profile.name} has a cascade, whose small model is not used here",
            "use the command `run`, or remove [retrieval.cascade] from the profile",
        )
    return settings.model_copy(update={"scored": None})
