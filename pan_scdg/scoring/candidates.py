"""Job 2, the reranking part: gains of every candidate that is to be scored (paper, PAN26)."""

import heapq
from collections import defaultdict, deque
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from pan_scdg.digests import text_digest
from pan_scdg.errors import UserError, UserErrors
from pan_scdg.notices import Notices
from pan_scdg.pan.source_retrieval import stream_corpus
from pan_scdg.profile import RetrievalSettings
from pan_scdg.progress import Forecast, Progress
from pan_scdg.records import Document, Query
from pan_scdg.retrieval.candidates import FirstStage
from pan_scdg.retrieval.ranking import Ranking
from pan_scdg.scdg.aggregation import aggregate_of
from pan_scdg.scdg.gains import Gains, GainStatistics
from pan_scdg.scdg.sequences import (
    AlignmentError,
    ScoringInput,
    prefix_budget,
    retrieval_target,
    retrieval_unconditional,
)
from pan_scdg.scdg.windows import overlap_terms
from pan_scdg.scoring.batches import Share, digest_keys
from pan_scdg.scoring.features import Wanted, feature_grid, load_features, save_features
from pan_scdg.scoring.model import ScoringModel
from pan_scdg.scoring.passes import PassScorer
from pan_scdg.scoring.works import QueryText, SourceWork
from pan_scdg.store import Store, key_of

LONGEST_FIRST = 16
"""So many of the largest groups are scored first: if memory is short, that shows in the beginning."""
Found = dict[tuple[str, str], tuple[GainStatistics, str]]
"""Statistics and store key of the gains of a candidate, by query and document."""


class Target(NamedTuple):
    """A query ready to be scored."""

    query_id: str
    text: QueryText
    unconditional: ScoringInput


class Group(NamedTuple):
    """A candidate source and all queries that have it among their candidates, scored together."""

    doc_id: str
    text: str
    targets: tuple[Target, ...]
    """Queries of different texts."""
    keys: tuple[str, ...]
    """Of the features of each target."""
    names: tuple[tuple[tuple[str, str], ...], ...]
    """Queries with the text of each target, each with the document."""

    @property
    def candidates(self) -> int:
        """How many queries have this source among their candidates."""
        return sum(map(len, self.names))

    @property
    def size(self) -> int:
        """Characters of the source and tokens of the queries: about what memory it takes."""
        return len(self.text) + sum(len(target.text.token_ids) for target in self.targets)


def prepare_targets(
    queries: Sequence[Query], model: ScoringModel, settings: RetrievalSettings, where: Path
) -> list[Target]:
    """Tokenise all queries.

    Raises:
        UserErrors: naming every query that leaves no room for a source.
    """
    targets, errors = [], []
    for query in queries:
        try:
            ids = retrieval_target(model.tokenizer, query.text)
            room = prefix_budget(model.tokenizer, ids, settings.context)
        except AlignmentError as e:
            errors.append(UserError(f"query {query.query_id}: {e}", "use a profile with a larger context", where))
            continue
        budget = room if settings.source_tokens is None else min(room, settings.source_tokens)
        text = QueryText(ids, frozenset(overlap_terms(query.text)), budget, text_digest(query.text))
        targets.append(Target(query.query_id, text, retrieval_unconditional(model.tokenizer, ids)))
    if errors:
        raise UserErrors(errors)
    return targets


def make_candidate_key(document: Document, target: Target, model: ScoringModel, settings: RetrievalSettings) -> str:
    """The store's key of a candidate's features: neither the aggregation nor the fusion weight is.

    What the paper does not have is part of it only where the profile has it: what was stored without keeps its key.
    """
    control = {} if settings.control == "none" else {"control": settings.control}
    most = {} if settings.source_tokens is None else {"source_tokens": settings.source_tokens}
    parts = {
        **model.key_parts(),
        **control,
        **most,
        "context": settings.context,
        "windows": settings.windows.model_dump(mode="json"),
        "source": text_digest(document.text),
        "target": target.text.digest,
    }
    return key_of("candidate", parts)


def select_scored(stage: FirstStage, settings: RetrievalSettings) -> Ranking:
    """The candidates of a query that are reranked: the first ``scored``, or all, or none without reranking."""
    return stage.candidates[: settings.scored] if settings.rerank else []


def score_candidates(
    directory: Path,
    targets: Sequence[Target],
    found: Mapping[str, FirstStage],
    model: ScoringModel,
    settings: RetrievalSettings,
    store: Store,
    keep_gains: bool,
    share: Share | None = None,
    moments: bool = False,
) -> Found:
    """Statistics and store key of the gains of every candidate that is to be scored, by (query, document).

    The corpus is streamed once more and each document meets all queries that have it among their candidates, so that
    few documents' texts are in memory at a time, and what all these queries have in common is computed once. With a
    ``share`` these are the candidates of its documents alone. With ``moments`` the mean of positive gains and the
    deviation are known of all, whatever was stored.
    """
    wanted: dict[str, list[Target]] = {}
    for target in targets:
        for candidate in select_scored(found[target.query_id], settings):
            wanted.setdefault(candidate.doc_id, []).append(target)
    if share is not None:
        wanted = _share_of(wanted, share)
    # queries alone are so few passes that each is its own batch: so no gain depends on what other queries there are
    known = _Known(model, store, settings, keep_gains, moments)
    scorer, waiting = PassScorer(model, store), deque[Group]()
    total = sum(map(len, wanted.values()))
    # the largest come first: a minute of those says nothing of the rest
    forecast = Forecast(f"{total} pairs", total, untypical=LONGEST_FIRST if len(wanted) > LONGEST_FIRST else 1)
    with Progress("scoring candidates", total) as progress:

        def works() -> Iterator[SourceWork]:
            for group in groups(directory, wanted, model, settings):
                if known.has(group):
                    progress.update(group.candidates)
                    forecast.skip(group.candidates)
                else:
                    waiting.append(group)
                    yield SourceWork(group.text, [target.text for target in group.targets], settings)

        before = 0
        for passes in scorer.scored(works()):
            group = waiting.popleft()
            each = len(passes) // len(group.targets)
            parts = (passes[start : start + each] for start in range(0, len(passes), each))
            gains = [
                scorer.assembled([target.unconditional], part, settings.control)
                for target, part in zip(group.targets, parts, strict=True)
            ]
            known.save(group, gains)
            progress.update(group.candidates, tokens=scorer.tokens - before)
            progress.say(forecast.update(group.candidates))
            before = scorer.tokens
    return known.features


def _share_of(wanted: Mapping[str, list[Target]], share: Share) -> dict[str, list[Target]]:
    """The documents of a share, by the tokens of their queries: each share has about as many documents, too."""
    names = list(wanted)
    sizes = [sum(len(target.text.token_ids) for target in wanted[name]) for name in names]
    return {names[i]: wanted[names[i]] for i in sorted(share.mine(names, sizes))}


class _Known:
    """The features of candidates that are in the store, group by group."""

    def __init__(
        self, model: ScoringModel, store: Store, settings: RetrievalSettings, keep_gains: bool, moments: bool
    ) -> None:
        aggregate = aggregate_of(settings)
        self._model, self._store, self._keep_gains = model, store, keep_gains or settings.aggregation == "share"
        self._control = settings.control
        widths = ((), (), ()) if aggregate is None else (aggregate.windows, aggregate.medians, aggregate.bounded)
        self._wanted = Wanted(feature_grid([settings.q]), *widths, moments=moments)
        self.features = Found()

    def has(self, group: Group) -> bool:
        """Whether the store has all of a group; one that lacks anything is done again as a whole."""
        stored = [self._load(key) for key in group.keys]
        values = [found for found in stored if found is not None]
        if len(values) < len(stored):
            return False
        self._model.inherit(self._store.notes(group.keys))
        self._add(group, values)
        return True

    def _load(self, key: str) -> GainStatistics | None:
        return load_features(self._store, key, self._wanted, self._keep_gains, self._control)

    def save(self, group: Group, gains: Sequence[Gains]) -> None:
        """Store the features of a group, in one transaction."""
        by_key = dict(zip(group.keys, gains, strict=True))
        incidents = self._model.incidents()
        values = save_features(self._store, by_key, self._wanted, self._keep_gains, incidents)
        self._add(group, list(values.values()))

    def _add(self, group: Group, values: Sequence[GainStatistics]) -> None:
        for names, value, key in zip(group.names, values, group.keys, strict=True):
            self.features.update(dict.fromkeys(names, (value, key)))


def groups(
    directory: Path, wanted: Mapping[str, Sequence[Target]], model: ScoringModel, settings: RetrievalSettings
) -> Iterator[Group]:
    """Every wanted document of the corpus with its queries: the largest groups first, the rest as the corpus has it."""

    def made() -> Iterator[Group]:
        for document in stream_corpus(directory, Notices()):
            if targets := wanted.get(document.doc_id):
                alike: dict[str, list[Target]] = defaultdict(list)
                for target in targets:
                    alike[make_candidate_key(document, target, model, settings)].append(target)
                digest = digest_keys(list(alike))
                yield Group(
                    document.doc_id,
                    document.text,
                    tuple(same[0] for same in alike.values()),
                    tuple(model.batched(key, digest) for key in alike),
                    tuple(tuple((target.query_id, document.doc_id) for target in same) for same in alike.values()),
                )

    largest = heapq.nlargest(LONGEST_FIRST, made(), key=lambda group: group.size)
    yield from largest
    done = {group.doc_id for group in largest}
    if len(done) < len(wanted):
        del largest
        yield from (group for group in made() if group.doc_id not in done)
