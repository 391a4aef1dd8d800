"""Compute the gains of the candidates of source retrieval (paper, PAN26)."""

from collections import defaultdict, deque
from collections.abc import Collection, Iterator, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple, Protocol

from pan_scdg.digests import hash_text
from pan_scdg.errors import UserError, UserErrors
from pan_scdg.notices import Notices
from pan_scdg.profile import RetrievalSettings
from pan_scdg.progress import Progress
from pan_scdg.records import Document, Query
from pan_scdg.retrieval.candidates import FirstStage
from pan_scdg.retrieval.ranking import Ranking
from pan_scdg.scdg.aggregation import Aggregate, GainStatistics, choose_aggregate, list_stored
from pan_scdg.scdg.sequences import (
    AlignmentError,
    ScoringInput,
    build_retrieval_unconditional,
    compute_prefix_budget,
    cut_query,
    encode_query,
)
from pan_scdg.scdg.windows import extract_terms
from pan_scdg.scoring.batches import WHOLE, Shard, digest_keys
from pan_scdg.scoring.features import FeatureStore
from pan_scdg.scoring.model import ScoringModel
from pan_scdg.scoring.passes import PassScorer, QueryText, SourceWork
from pan_scdg.scoring.sentence_match import SentenceMatcher
from pan_scdg.store import Store, make_key

Found = dict[tuple[str, str], tuple[GainStatistics, str]]
"""Gain statistics and store key of each candidate, by (query, document)."""


class Documents(Protocol):
    """The documents of a corpus, or those of a caller."""

    def select(self, wanted: Collection[str]) -> Iterator[Document]:
        """Yield the documents that ``wanted`` names, in an order that does not depend on it."""
        ...


class Target(NamedTuple):
    """A tokenised query."""

    query_id: str
    text: QueryText
    unconditional: ScoringInput


class Group(NamedTuple):
    """A candidate source and all queries that have it among their candidates, scored together."""

    doc_id: str
    text: str
    queries: Mapping[str, Sequence[Target]]
    """By the store's key of their features; queries of one key have the same text, of which the first is scored."""

    @property
    def candidates(self) -> list[tuple[str, str]]:
        """Return the (query, document) pairs."""
        return [(query.query_id, self.doc_id) for same in self.queries.values() for query in same]


def prepare_targets(
    queries: Sequence[Query], model: ScoringModel, settings: RetrievalSettings, where: Path, notices: Notices
) -> list[Target]:
    """Return all queries, tokenised; see `plan_targets`.

    Raises:
        UserErrors: naming every query that has no tokens, or with which the context is too small for any source.
        UserError: a query is cut, and the notices are strict.
    """
    targets, errors = plan_targets(queries, model, settings, where, notices)
    if errors:
        raise UserErrors(list(errors.values()))
    return targets


def plan_targets(
    queries: Sequence[Query], model: ScoringModel, settings: RetrievalSettings, where: Path, notices: Notices
) -> tuple[list[Target], dict[str, UserError]]:
    """Return the tokenised queries, and errors by query of those that cannot be scored.

    Of a query that leaves no tokens of the context for a source, only the beginning is scored.

    Raises:
        UserError: a query is cut, and the notices are strict.
    """
    targets, errors = list[Target](), dict[str, UserError]()
    for query in queries:
        try:
            whole = encode_query(model.tokenizer, query.text)
            ids = cut_query(model.tokenizer, whole, settings.context)
            available = compute_prefix_budget(model.tokenizer, ids, settings.context)
        except AlignmentError as e:
            what = f"query {query.query_id}: {e}"
            remedy = "use a profile with a larger context" if query.text.strip() else "give the query a text"
            errors[query.query_id] = UserError(what, remedy, where)
            continue
        if len(ids) < len(whole):
            notices.add(
                f"query leaves no tokens for a source in a context of {settings.context}: "
                f"truncated to its first {len(ids)} tokens",
                f"{where}, query {query.query_id} of {len(whole)} tokens",
            )
        budget = available if settings.source_tokens is None else min(available, settings.source_tokens)
        text = QueryText(ids, frozenset(extract_terms(query.text)), budget, hash_text(query.text))
        targets.append(Target(query.query_id, text, build_retrieval_unconditional(model.tokenizer, ids)))
    return targets, errors


def make_candidate_key(document: Document, target: Target, model: ScoringModel, settings: RetrievalSettings) -> str:
    """Return the store's key of a candidate's features; aggregation and fusion weight are not part of it.

    Extensions of the paper are part of it only if the profile uses them, so that older entries keep their keys.
    """
    control = {} if settings.control == "none" else {"control": settings.control}
    most = {} if settings.source_tokens is None else {"source_tokens": settings.source_tokens}
    parts = {
        **model.list_key_parts(),
        **control,
        **most,
        "context": settings.context,
        "windows": settings.windows.model_dump(mode="json"),
        "source": hash_text(document.text),
        "target": target.text.digest,
    }
    return make_key("candidate", parts)


def select_scored(stage: FirstStage, settings: RetrievalSettings) -> Ranking:
    """Return the candidates of a query to rerank: the first ``scored``, or all, or none without reranking."""
    return stage.candidates[: settings.scored] if settings.rerank else []


def score_candidates(
    corpus: Documents,
    targets: Sequence[Target],
    found: Mapping[str, FirstStage],
    model: ScoringModel,
    settings: RetrievalSettings,
    store: Store,
    keep_gains: bool,
    shard: Shard = WHOLE,
    matcher: SentenceMatcher | None = None,
) -> Found:
    """Return gain statistics and store key of every candidate to score, by (query, document).

    Scores each document with all queries that have it among their candidates, so that few texts
    are in memory and the keys and values of the source are computed once.

    Args:
        corpus: all documents.
        targets: all queries.
        found: the first stage of each query.
        model: the language model.
        settings: the profile's.
        store: scores in it are reused and new ones are added.
        keep_gains: also store the gain of every token.
        shard: the documents of this shard are scored.
        matcher: also compares the sentences of each document, which is read once for both.
    """
    wanted = _select_shard(group_by_source(targets, found, settings), shard)
    # each query without a source is its own batch, so that no gain depends on the other queries
    known, features = _open_features(settings, store, keep_gains), Found()
    scorer, waiting = PassScorer(model, store), deque[Group]()

    def add(group: Group, values: Mapping[str, GainStatistics]) -> None:
        for key, same in group.queries.items():
            features.update({(query.query_id, group.doc_id): (values[key], key) for query in same})

    with Progress("scoring candidates", sum(map(len, wanted.values())), model.count_actors) as progress:

        def list_works() -> Iterator[SourceWork]:
            for group in read_groups(corpus, wanted, model, settings):
                if matcher is not None:
                    matcher.measure(group.candidates, group.text)
                if (values := known.load(group.queries)) is None:
                    waiting.append(group)
                    yield SourceWork(group.text, [same[0].text for same in group.queries.values()], settings)
                else:
                    model.inherit(store.read_notes(group.queries))
                    add(group, values)
                    progress.update(len(group.candidates))

        before = 0
        for passes in model.map(list_works()):
            group = waiting.popleft()
            alone = [[same[0].unconditional] for same in group.queries.values()]
            gains = zip(group.queries, scorer.assemble_batch(alone, passes, settings.control), strict=True)
            add(group, known.save(dict(gains), model.list_incidents()))
            progress.update(len(group.candidates), tokens=model.tokens - before)
            before = model.tokens
    return features


def _open_features(settings: RetrievalSettings, store: Store, keep_gains: bool) -> FeatureStore:
    """Return the store of statistics; an aggregation over all candidates of a query needs their gains."""
    own = [aggregate] if (aggregate := choose_aggregate(settings)) else []
    keeps = keep_gains or any(aggregate.entry.joint for aggregate in own)
    stored = list_stored("candidates", [Aggregate("top", settings.q), *own])
    return FeatureStore(store, stored, keeps, settings.control)


def group_by_source(
    targets: Sequence[Target], found: Mapping[str, FirstStage], settings: RetrievalSettings
) -> dict[str, list[Target]]:
    """Return the queries of each candidate that is scored."""
    wanted: dict[str, list[Target]] = {}
    for target in targets:
        for candidate in select_scored(found[target.query_id], settings):
            wanted.setdefault(candidate.doc_id, []).append(target)
    return wanted


def _select_shard(wanted: Mapping[str, list[Target]], shard: Shard) -> dict[str, list[Target]]:
    """Return the candidates of a shard; they are divided by the tokens of their queries."""
    own = shard.select({name: sum(len(of.text.token_ids) for of in queries) for name, queries in wanted.items()})
    return {name: queries for name, queries in wanted.items() if name in own}


def read_groups(
    corpus: Documents, wanted: Mapping[str, Sequence[Target]], model: ScoringModel, settings: RetrievalSettings
) -> Iterator[Group]:
    """Yield every wanted document with its queries, in the order of the corpus."""
    for document in corpus.select(wanted):
        same_inputs: dict[str, list[Target]] = defaultdict(list)
        for target in wanted[document.doc_id]:
            same_inputs[make_candidate_key(document, target, model, settings)].append(target)
        digest = digest_keys(list(same_inputs))
        queries = {model.make_batch_key(key, digest): same for key, same in same_inputs.items()}
        yield Group(document.doc_id, document.text, queries)
