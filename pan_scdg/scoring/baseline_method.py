"""The pair method of a baseline: compare its score with the threshold of the profile."""

import json
import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Annotated, Any, NamedTuple

from pydantic import NonNegativeInt, PositiveInt, Strict, TypeAdapter

from pan_scdg.baselines.bm25_pairs import Collection
from pan_scdg.baselines.char_ngrams import find_passages
from pan_scdg.baselines.scorers import PairScorer
from pan_scdg.errors import UserErrors
from pan_scdg.logs import say
from pan_scdg.notices import Notices
from pan_scdg.own_files import EXACT, parse_as
from pan_scdg.passages.finder import PassageFinder
from pan_scdg.passages.locate import Locator
from pan_scdg.profile import Profile
from pan_scdg.profile.baseline import Alignment, BaselineSettings, CharNgrams, GramLogistic, ModelBaseline
from pan_scdg.progress import Progress
from pan_scdg.records import DocumentPair, Passage
from pan_scdg.scoring.baseline_parts import BaselineParts, need_baseline
from pan_scdg.scoring.baseline_scoring import (
    TextFacts,
    choose_scores,
    list_variants,
    make_collection,
    make_text_key,
    read_facts,
    read_texts,
    score_pairs,
    warn_about_encoder,
    warn_about_texts,
)
from pan_scdg.scoring.batches import Share
from pan_scdg.scoring.calibration import describe_nearness
from pan_scdg.scoring.gain_method import make_uncalibrated_error
from pan_scdg.scoring.model import ScoringModel
from pan_scdg.scoring.pair_method import Verdict, cover_both, explain_failure, name_pair
from pan_scdg.scoring.pair_plan import FailedPair, OnError
from pan_scdg.store import Store, make_key

WITHOUT_MATCH = "decided positive without a match: there is no passage to write"
EMPTY = "a document is empty"
_Numbers = tuple[NonNegativeInt, PositiveInt, NonNegativeInt, PositiveInt, str]
_PASSAGES = TypeAdapter(list[Annotated[_Numbers, Strict(False)]], config=EXACT)


class ScoredByBaseline(NamedTuple):
    """A pair with the values that the method computed, by name, and the score that decides."""

    pair: DocumentPair
    keys: tuple[str, ...]
    """Of the values in the store: with these settings and, for a calibration, with those that it chooses from."""
    numbers: Mapping[str, float]
    score: float
    """nan if nothing is decided."""


class BaselineMethod:
    """Scores pairs by a baseline; see `PairMethod`.

    Args:
        profile: has a baseline with a threshold, unless ``scores_only``.
        parts: models or vectors that the method needs.
        all_pairs: all pairs of the input; collection statistics are computed over their sources.
        share: score the pairs of one shard only.
        model: the language model that measures the gains of passages, and decides nothing.
        scores_only: nothing will be judged; pairs are scored with all settings that `calibrate` chooses from.

    Raises:
        UserError: the profile was never calibrated.
    """

    def __init__(
        self,
        profile: Profile,
        parts: BaselineParts,
        all_pairs: Sequence[DocumentPair],
        share: Share | None = None,
        model: ScoringModel | None = None,
        *,
        scores_only: bool = False,
    ) -> None:
        self.settings: BaselineSettings = need_baseline(profile)
        self._parts, self._all_pairs, self._share, self._scores_only = parts, all_pairs, share, scores_only
        self._facts: dict[str, TextFacts] = {}
        self.device, self.model = parts.device, model
        self.models = {**parts.places, **({} if model is None else {"language_model": model.found})}
        self.threshold: float | None = None if scores_only else need_threshold(profile)
        known = self.settings.calibrated_with if isinstance(self.settings, ModelBaseline) else None
        if not scores_only and (foreign := warn_about_encoder(known, parts.fingerprint)) is not None:
            say([foreign])
            self.threshold = None

    def make_locator(self, finder: PassageFinder, store: Store) -> Locator:
        """Return what finds the passages of pairs; an alignment also knows the sentences that decided."""
        if isinstance(self.settings, Alignment):
            return Locator(finder, self.settings, self._parts.make_alignment(self.settings, store))
        return Locator(finder, None, None)

    def identify(self) -> dict[str, Any]:
        """Return the fields that identify the models in the job."""
        return {**self._parts.identity, **({} if self.model is None else {"language_model": self.model.identify()})}

    def check(
        self, pairs: Sequence[DocumentPair], notices: Notices, on_error: OnError
    ) -> tuple[list[DocumentPair], list[FailedPair]]:
        """Read all texts; return the pairs whose texts are readable, and the others."""
        documents = [document for pair in pairs for document in (pair.suspicious, pair.source)]
        self._facts, faults = read_facts(documents + [pair.source for pair in self._all_pairs])
        if faults and on_error == "stop":
            raise UserErrors(list(faults.values()))
        failed = {}
        for pair in pairs:
            for document in (pair.suspicious, pair.source):
                if document.doc_id in faults:
                    failed[pair] = FailedPair(pair, faults[document.doc_id])
        return [pair for pair in pairs if pair not in failed], list(failed.values())

    def score(self, planned: Sequence[DocumentPair], store: Store) -> list[ScoredByBaseline]:
        """Return the scores of the pairs, in order."""
        collection = make_collection((pair.source for pair in self._all_pairs), self._facts)
        scorer = self._parts.make_scorer(self.settings, collection, store)
        if self._share is not None:
            planned = self._select_share(planned, scorer, self._share)
        rows = score_pairs(planned, scorer, store, self._facts)
        of_own = ((make_text_key(pair, scorer, self._facts),) for pair in planned)
        keys = self._score_variants(planned, collection, store) if self._scores_only else of_own
        scores = [math.nan] * len(rows) if self._scores_only else choose_scores(self.settings, rows).tolist()
        return [
            ScoredByBaseline(pair, of, dict(zip(scorer.features, row, strict=True)), score)
            for pair, of, row, score in zip(planned, keys, rows, scores, strict=True)
        ]

    def _score_variants(
        self, pairs: Sequence[DocumentPair], collection: Collection, store: Store
    ) -> list[tuple[str, ...]]:
        """Score the pairs with all settings that a calibration chooses from; return the keys of each pair."""
        scorers = [self._parts.make_scorer(of, collection, store) for of in list_variants(self.settings)]
        for scorer in scorers:
            score_pairs(pairs, scorer, store, self._facts)
        return [tuple(make_text_key(pair, scorer, self._facts) for scorer in scorers) for pair in pairs]

    def _select_share(self, pairs: Sequence[DocumentPair], scorer: PairScorer, share: Share) -> list[DocumentPair]:
        """Return the pairs of one shard; two pairs of the same texts are in the same one."""
        keys = [make_text_key(pair, scorer, self._facts) for pair in pairs]
        lengths = {
            key: self._facts[pair.suspicious.doc_id].length + self._facts[pair.source.doc_id].length
            for pair, key in zip(pairs, keys, strict=True)
        }
        names = list(lengths)
        own = {names[i] for i in share.select(names, list(lengths.values()))}
        return [pair for pair, key in zip(pairs, keys, strict=True) if key in own]

    def list_keys(self, item: ScoredByBaseline) -> tuple[str, ...]:
        """Return the store's keys of the values of a pair."""
        return item.keys

    def judge(self, scored: Sequence[ScoredByBaseline], names: Mapping[str, str], store: Store) -> Iterator[Verdict]:
        """Yield the verdict about each pair, in order.

        The passages of a positive pair are the matches of character n-grams. Other methods decide about whole
        documents, which are then the only passage.
        """
        positive = [item.pair for item in scored if self._decide(item)]
        matches = None
        if isinstance(self.settings, CharNgrams):
            matches = self._find_matches(positive, self.settings.n, store)
        for item in scored:
            passages: tuple[Passage, ...] = ()
            if self._decide(item):
                passages = self._cover(item.pair) if matches is None else matches[item.pair]
            yield self._judge(item, names, passages, EMPTY if matches is None else WITHOUT_MATCH)

    def _decide(self, item: ScoredByBaseline) -> bool | None:
        return None if self.threshold is None else item.score >= self.threshold

    def _judge(
        self, item: ScoredByBaseline, names: Mapping[str, str], passages: tuple[Passage, ...], reason: str
    ) -> Verdict:
        positive = self._decide(item)
        record = {
            **name_pair(item.pair, names),
            "score": item.score,
            "threshold": self.threshold,
            "decision": positive,
            **self._describe_nearness(item.score),
            "baseline": self.settings.kind,
            **({} if len(item.numbers) == 1 else item.numbers),
            "warnings": [*warn_about_texts(item.numbers), *([reason] if positive and not passages else [])],
        }
        return Verdict(item.pair, record, passages)

    def judge_failed(self, failed: FailedPair, names: Mapping[str, str]) -> Verdict:
        """Return the verdict about a pair that could not be read."""
        decides = self.threshold is not None
        record = {
            **name_pair(failed.pair, names),
            "score": None,
            "threshold": self.threshold,
            "decision": False if decides else None,
            **self._describe_nearness(None),
            "baseline": self.settings.kind,
            "warnings": [explain_failure(failed, decides)],
        }
        return Verdict(failed.pair, record, ())

    def _describe_nearness(self, score: float | None) -> dict[str, bool | None]:
        noise = self.settings.noise if isinstance(self.settings, Alignment) else None
        return describe_nearness(score, self.threshold, noise)

    def _cover(self, pair: DocumentPair) -> tuple[Passage, ...]:
        return cover_both(self._facts[pair.suspicious.doc_id].length, self._facts[pair.source.doc_id].length)

    def _find_matches(
        self, pairs: Sequence[DocumentPair], n: int, store: Store
    ) -> dict[DocumentPair, tuple[Passage, ...]]:
        """Return the matching passages of each pair; stored ones are reused, and new ones are stored."""
        found = {}
        with Progress("finding passages", len(pairs)) as progress:
            for pair in pairs:
                target, source = (self._facts[file.doc_id].digest for file in (pair.suspicious, pair.source))
                key = make_key("char-ngram passages", {"n": n, "target": target, "source": source})
                passages = store.read(key, _parse_passages)
                if passages is None:
                    texts = read_texts(pair)
                    passages = find_passages(texts.target, texts.source, n)
                    store.put([(key, json.dumps(passages).encode())])
                found[pair] = passages
                progress.update()
        return found

    def close(self) -> None:
        """End the processes of the language model, if there is one."""
        if self.model is not None:
            self.model.close()


def need_threshold(profile: Profile) -> float:
    """Return the threshold of a baseline.

    Raises:
        UserError: the profile was never calibrated.
    """
    settings = need_baseline(profile)
    if settings.threshold is None:
        lacks_weights = isinstance(settings, GramLogistic) and settings.weights is None
        raise make_uncalibrated_error(profile, "weights" if lacks_weights else "threshold")
    return settings.threshold


def _parse_passages(data: bytes) -> tuple[Passage, ...]:
    return tuple(Passage(*values) for values in parse_as(data, _PASSAGES))
