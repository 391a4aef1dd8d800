"""The pair method of a baseline: compare its score with the threshold of the profile."""

import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, NamedTuple

import numpy as np
from pydantic import NonNegativeInt, PositiveInt, Strict, TypeAdapter

from pan_scdg.notices import Notices
from pan_scdg.own_files import EXACT, parse_as
from pan_scdg.passages.finder import Locator, OpenAlignment, PassageFinder
from pan_scdg.passages.scorer import AlignmentScorer
from pan_scdg.profile import Profile
from pan_scdg.profile.baseline import Alignment, BaselineSettings
from pan_scdg.progress import Progress
from pan_scdg.records import DocumentPair, PairScorer, Passage
from pan_scdg.scoring.baseline_choice import choose_settings, describe_choice
from pan_scdg.scoring.baseline_parts import BaselineParts, need_baseline
from pan_scdg.scoring.baseline_registry import METHODS
from pan_scdg.scoring.baseline_scoring import (
    TextFacts,
    make_collection,
    make_text_key,
    read_facts,
    read_texts,
    score_pairs,
    settle_threshold,
    warn_about_texts,
)
from pan_scdg.scoring.batches import WHOLE, Shard
from pan_scdg.scoring.model import ScoringModel
from pan_scdg.scoring.pair_method import (
    Calibrated,
    LocatedGains,
    Verdict,
    cover_both,
    explain_failure,
    name_pair,
)
from pan_scdg.scoring.pair_plan import FailedPair, OnError, refuse_failed
from pan_scdg.store import Store, make_key

WITHOUT_MATCH = "decided positive without a match: there is no passage to write"
EMPTY = "a document is empty"
_Numbers = tuple[NonNegativeInt, PositiveInt, NonNegativeInt, PositiveInt, str]
_PASSAGES = TypeAdapter(list[Annotated[_Numbers, Strict(False)]], config=EXACT)


class ScoredByBaseline(NamedTuple):
    """A pair with the values that the method computed, by name, and the score that decides."""

    pair: DocumentPair
    numbers: Mapping[str, float]
    score: float
    """nan without the weights of the method."""


WHOLES = "the texts as wholes decide: no passage or sentence reaches the threshold by itself"


class BaselineMethod:
    """Scores pairs by a baseline; see `PairMethod`.

    Args:
        profile: has a baseline.
        parts: models or vectors that the method needs.
        all_pairs: all pairs of the input; collection statistics are computed over their sources.
        model: the language model that measures the gains of passages, and decides nothing.
        scored_in: folder of a shard if all scores are stored already; None: missing ones are computed.
    """

    def __init__(
        self,
        profile: Profile,
        parts: BaselineParts,
        all_pairs: Sequence[DocumentPair],
        model: ScoringModel | None = None,
        scored_in: Path | None = None,
    ) -> None:
        self.settings: BaselineSettings = need_baseline(profile)
        self._entry = METHODS[type(self.settings)]
        self.parts, self._all_pairs, self._scored_in = parts, all_pairs, scored_in
        self._facts: dict[str, TextFacts] = {}
        self._scorers: dict[BaselineSettings, PairScorer] = {}
        self.device, self.model = parts.device, model
        self.models = {**parts.places, **({} if model is None else {"language_model": model.found})}
        self._rule = settle_threshold(self.settings, parts.fingerprint)
        self.threshold = self._rule.least

    def make_locator(self, finder: PassageFinder, store: Store) -> Locator:
        """Return a locator of passages; that of an alignment also finds the sentences that decided."""
        return Locator(finder, self.open_alignment(store))

    def open_alignment(self, store: Store) -> OpenAlignment | None:
        """Return the alignment that decides; None: another method does."""
        if isinstance(settings := self.settings, Alignment):  # only its scorer knows sentences
            scorer = self._make_scorer(settings, store)
            return OpenAlignment(settings, scorer) if isinstance(scorer, AlignmentScorer) else None
        return None

    def identify(self) -> dict[str, Any]:
        """Return the fields that identify the models in the job."""
        return {**self.parts.identity, **({} if self.model is None else {"language_model": self.model.identify()})}

    def check(
        self, pairs: Sequence[DocumentPair], notices: Notices, on_error: OnError
    ) -> tuple[list[DocumentPair], list[FailedPair]]:
        """Read all texts; return the pairs whose texts are readable, and the others."""
        documents = [document for pair in pairs for document in (pair.suspicious, pair.source)]
        self._facts, faults = read_facts(documents + [pair.source for pair in self._all_pairs])
        if on_error == "stop":
            refuse_failed(list(faults.values()))
        failed = {}
        for pair in pairs:
            for document in (pair.suspicious, pair.source):
                if document.doc_id in faults:
                    failed[pair] = FailedPair(pair, faults[document.doc_id])
        return [pair for pair in pairs if pair not in failed], list(failed.values())

    def score(
        self, planned: Sequence[DocumentPair], store: Store, shard: Shard = WHOLE, *, all_settings: bool = False
    ) -> list[ScoredByBaseline]:
        """Return the scores of the pairs of a shard, in order; see `PairMethod`."""
        all_of = self.settings.vary(own=True).values()
        variants: list[BaselineSettings] = [*all_of] if all_settings else [self.settings]
        scorers, own = [self._make_scorer(of, store) for of in variants], variants.index(self.settings)
        scorer = scorers[own]
        planned = self._select_shard(planned, scorer, shard)
        rows = [self._score_with(of, planned, store) for of in scorers][own]
        scores = self._entry.combine(self.settings, rows).tolist()
        return [
            ScoredByBaseline(pair, dict(zip(scorer.features, row, strict=True)), score)
            for pair, row, score in zip(planned, rows, scores, strict=True)
        ]

    def _make_scorer(self, settings: BaselineSettings, store: Store) -> PairScorer:
        if settings not in self._scorers:  # each loads its model once and remembers texts
            collection = make_collection((pair.source for pair in self._all_pairs), self._facts)
            self._scorers[settings] = self._entry.make_scorer(settings, self.parts, collection, store)
        return self._scorers[settings]

    def _score_with(self, scorer: PairScorer, pairs: Sequence[DocumentPair], store: Store) -> list[tuple[float, ...]]:
        return score_pairs(pairs, self.settings, scorer, store, self._facts, self._scored_in)

    def calibrate(
        self, scored: Sequence[ScoredByBaseline], known: Mapping[DocumentPair, bool], digest: str, store: Store
    ) -> Calibrated:
        """Choose the threshold, and n or weights; see `choose_settings`."""
        pairs = [item.pair for item in scored]
        labels = np.array([known[pair] for pair in pairs], dtype=bool)

        def score(settings: BaselineSettings) -> list[tuple[float, ...]]:
            return self._score_with(self._make_scorer(settings, store), pairs, store)

        chosen, scores = choose_settings(self.settings, score, labels)
        if chosen.needs_own_threshold:
            given = self.parts.places.get("language_model")
            name = {"model": given.name} if given is not None and given.where == "--model" else {}
            chosen = chosen.model_copy(update={"calibrated_with": self.parts.fingerprint, **name})
        return describe_choice(chosen, scores, labels, digest)

    def _select_shard(self, pairs: Sequence[DocumentPair], scorer: PairScorer, shard: Shard) -> list[DocumentPair]:
        """Return the pairs of the shard; two pairs of the same texts are in the same one."""
        keys = [make_text_key(pair, self.settings, scorer, self._facts) for pair in pairs]
        lengths = {
            key: self._facts[pair.suspicious.doc_id].length + self._facts[pair.source.doc_id].length
            for pair, key in zip(pairs, keys, strict=True)
        }
        own = shard.select(lengths)
        return [pair for pair, key in zip(pairs, keys, strict=True) if key in own]

    def judge(self, scored: Sequence[ScoredByBaseline], names: Mapping[str, str], store: Store) -> Iterator[Verdict]:
        """Yield the verdict about each pair, in order.

        The passages of a positive pair are those that the method finds, such as the matches of character n-grams. Most
        methods decide about whole documents, which are then the only passage.
        """
        positive = [item.pair for item in scored if self._rule.judge(item.score)["decision"]]
        passages = self._find_passages(positive, store)
        for pair, numbers, score in scored:
            record = {
                **name_pair(pair, names),
                **self._rule.judge(score),
                "baseline": self.settings.kind,
                **({} if len(numbers) == 1 else numbers),
                "warnings": warn_about_texts(numbers),
            }
            if record["decision"] and self.settings.needs_wholes(numbers):
                record["warnings"].append(WHOLES)
            if record["decision"] and not passages[pair]:
                record["warnings"].append(EMPTY if self._entry.find_passages is None else WITHOUT_MATCH)
            yield Verdict(pair, record, passages.get(pair, ()))

    def judge_failed(self, failed: FailedPair, names: Mapping[str, str]) -> Verdict:
        """Return the verdict about a pair that could not be read."""
        record = {
            **name_pair(failed.pair, names),
            **self._rule.judge(None),
            "baseline": self.settings.kind,
            "warnings": [explain_failure(failed, self.threshold is not None)],
        }
        return Verdict(failed.pair, record, ())

    def locate_gains(self, scored: Sequence[ScoredByBaseline], store: Store) -> Iterator[LocatedGains]:
        """Yield nothing: no gains decide."""
        return iter(())

    def _find_passages(self, pairs: Sequence[DocumentPair], store: Store) -> dict[DocumentPair, tuple[Passage, ...]]:
        """Return the passages of each pair; stored ones are reused, and new ones are stored."""
        if (find := self._entry.find_passages) is None:
            lengths = {doc_id: facts.length for doc_id, facts in self._facts.items()}
            return {pair: cover_both(lengths[pair.suspicious.doc_id], lengths[pair.source.doc_id]) for pair in pairs}
        found, scorer = {}, self._make_scorer(self.settings, store)
        with Progress("finding passages", len(pairs)) as progress:
            for pair in pairs:
                key = make_key("passages", {"of": make_text_key(pair, self.settings, scorer, self._facts)})
                passages = store.read(key, _parse_passages)
                if passages is None:
                    texts = read_texts(pair)
                    passages = find(self.settings, texts.target, texts.source)
                    store.put([(key, json.dumps(passages).encode())])
                found[pair] = passages
                progress.update()
        return found

    def close(self) -> None:
        """End the processes of the language model, if there is one."""
        if self.model is not None:
            self.model.close()


def _parse_passages(data: bytes) -> tuple[Passage, ...]:
    return tuple(Passage(*values) for values in parse_as(data, _PASSAGES))
