"""The pair method of a baseline: compare its score with the threshold of the profile."""

from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import tomlkit

from pan_scdg.methods.cosine import choose_officially
from pan_scdg.notices import Notices
from pan_scdg.align.finder import OpenAlignment
from pan_scdg.align.scorer import AlignmentScorer
from pan_scdg.profile.baseline import Alignment, BaselineSettings
from pan_scdg.progress import Progress
from pan_scdg.records import DocumentPair, PairScorer, Passage
from pan_scdg.scdg.aggregation import Floats
from pan_scdg.scdg.decision import Choice, choose_threshold
from pan_scdg.scoring.baseline_registry import METHODS, BaselineParts, Rows
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
    FailedPair,
    Labels,
    LocatedGains,
    OnError,
    Verdict,
    cover_both,
    describe_quality,
    explain_failure,
    name_pair,
    refuse_failed,
)
from pan_scdg.store import Store

WITHOUT_MATCH = "decided positive without a match: there is no passage to write"
EMPTY = "a document is empty"
WHOLES = "the texts as wholes decide: no passage or sentence reaches the threshold by itself"


class ScoredByBaseline(NamedTuple):
    """A pair with the values that the method computed, by name, and the score that decides."""

    pair: DocumentPair
    numbers: Mapping[str, float]
    score: float
    """nan without the weights of the method."""


class BaselineMethod:
    """Scores pairs by a baseline; see `PairMethod`.

    Args:
        settings: the table ``[baseline]`` of the profile.
        parts: models or vectors that the method needs.
        all_pairs: all pairs of the input; collection statistics are computed over their sources.
        model: the language model that measures the gains of passages, and decides nothing.
        scored_in: folder of a shard if all scores are stored already; None: missing ones are computed.
    """

    def __init__(
        self,
        settings: BaselineSettings,
        parts: BaselineParts,
        all_pairs: Sequence[DocumentPair],
        model: ScoringModel | None = None,
        scored_in: Path | None = None,
    ) -> None:
        self.settings = settings
        self._entry = METHODS[type(settings)]
        self.parts, self._all_pairs, self._scored_in = parts, all_pairs, scored_in
        self._facts: dict[str, TextFacts] = {}
        self._scorers: dict[BaselineSettings, PairScorer] = {}
        self.device, self.model = parts.device, model
        self.models = {**parts.places, **({} if model is None else {"language_model": model.found})}
        self._rule = settle_threshold(settings, parts.fingerprint)
        self.threshold = self._rule.least

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
        scorer = self._make_scorer(self.settings, store)
        planned = self._select_shard(planned, scorer, shard)
        if all_settings:
            for variant in self.settings.vary(own=True).values():
                self._score_with(variant, planned, store)
        rows = self._score_with(self.settings, planned, store)
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

    def _score_with(self, settings: BaselineSettings, pairs: Sequence[DocumentPair], store: Store) -> Rows:
        scorer = self._make_scorer(settings, store)
        return score_pairs(pairs, self.settings, scorer, store, self._facts, self._scored_in)

    def calibrate(
        self, scored: Sequence[ScoredByBaseline], known: Mapping[DocumentPair, bool], digest: str, store: Store
    ) -> Calibrated:
        """Choose the threshold, and n or weights.

        The threshold of a cosine is chosen as in the official baseline, which the paper uses; every other one by the
        paper's rule: unique scores, F1, ties by accuracy. The n of character n-grams is chosen together with the
        threshold, like q; the larger n wins ties. A logistic model is first fitted on the same pairs.
        """
        pairs = [item.pair for item in scored]
        labels = np.array([known[pair] for pair in pairs], dtype=bool)
        fitted, scores_by = dict[float, BaselineSettings](), dict[float, Floats]()
        for parameter, variant in self.settings.vary().items():
            rows = self._score_with(variant, pairs, store)
            fitted[parameter] = self._entry.fit(variant, rows, labels)
            scores_by[parameter] = self._entry.combine(fitted[parameter], rows)
        if self.settings.official:
            choice = choose_officially(scores_by, labels)
        else:
            choice = choose_threshold(scores_by, labels, self.settings.allowed_false_positives)
        chosen = fitted[choice.parameter].model_copy(update={"threshold": choice.threshold})
        if chosen.needs_own_threshold:
            given = self.parts.places.get("language_model")
            name = {"model": given.name} if given is not None and given.where == "--model" else {}
            chosen = chosen.model_copy(update={"calibrated_with": self.parts.fingerprint, **name})
        return _describe_choice(chosen, choice, labels, digest)

    def _select_shard(self, pairs: Sequence[DocumentPair], scorer: PairScorer, shard: Shard) -> list[DocumentPair]:
        """Return the pairs of the shard; two pairs of the same texts are in the same one."""
        keys = [make_text_key(pair, self.settings, scorer, self._facts) for pair in pairs]
        lengths = {
            key: self._facts[pair.suspicious.doc_id].length + self._facts[pair.source.doc_id].length
            for pair, key in zip(pairs, keys, strict=True)
        }
        own = shard.select(lengths)
        return [pair for pair, key in zip(pairs, keys, strict=True) if key in own]

    def judge(self, scored: Sequence[ScoredByBaseline], names: Mapping[str, str]) -> Iterator[Verdict]:
        """Yield the verdict about each pair, in order.

        The passages of a positive pair are those that the method finds, such as the matches of character n-grams. Most
        methods decide about whole documents, which are then the only passage.
        """
        with Progress("judging pairs", len(scored)) as progress:
            for pair, numbers, score in scored:
                verdict = self._rule.judge(score)
                passages = self._find_passages(pair) if verdict["decision"] else ()
                warnings = warn_about_texts(numbers)
                if verdict["decision"] and self.settings.needs_wholes(numbers):
                    warnings.append(WHOLES)
                if verdict["decision"] and not passages:
                    warnings.append(EMPTY if self._entry.find_passages is None else WITHOUT_MATCH)
                record = {
                    **name_pair(pair, names),
                    **verdict,
                    "baseline": self.settings.kind,
                    **({} if len(numbers) == 1 else numbers),
                    "warnings": warnings,
                }
                yield Verdict(pair, record, passages)
                progress.update()

    def _find_passages(self, pair: DocumentPair) -> tuple[Passage, ...]:
        if self._entry.find_passages is None:
            return cover_both(self._facts[pair.suspicious.doc_id].length, self._facts[pair.source.doc_id].length)
        texts = read_texts(pair)
        return self._entry.find_passages(self.settings, texts.target, texts.source)

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

    def close(self) -> None:
        """End the processes of the language model, if there is one."""
        if self.model is not None:
            self.model.close()


def _describe_choice(settings: BaselineSettings, choice: Choice, labels: Labels, digest: str) -> Calibrated:
    """Return the chosen settings with their quality on pairs of the input with this digest."""
    values = settings.model_dump(include={*settings.parameters})
    parameters = "".join(f" with {name} {value}" for name, value in values.items())
    pairs, positives = len(labels), int(labels.sum())
    quality = describe_quality(choice.f1, choice.accuracy, pairs, positives)
    edit = partial(_write_choice, chosen=settings, comment=f"by calibrate: {quality}, input {digest[:12]}")
    words = f"{settings.kind}{parameters}, threshold {choice.threshold:.6f}"
    chosen = {**values, "threshold": choice.threshold}
    return Calibrated(chosen, words, choice.f1, choice.accuracy, pairs, positives, edit)


def _write_choice(document: tomlkit.TOMLDocument, chosen: BaselineSettings, comment: str) -> None:
    """Write the choice into a profile file, and its quality as a comment."""
    table: Any = document["baseline"]
    values = chosen.model_dump(mode="json")
    values["threshold"] = threshold = tomlkit.item(chosen.threshold)
    threshold.comment(comment).trivia.comment_ws = "  "
    for name in ("threshold", "weights", "calibrated_with"):
        table.pop(name, None)
    for name in (*chosen.parameters, "threshold", "model", "calibrated_with", "weights"):
        if name in table and table[name] != values[name]:
            table[name] = values[name]
        elif name in values and name not in table:
            table.append(name, values[name])
