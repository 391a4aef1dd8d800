"""Score texts from Python: one object holds a profile and its language model, and scores pairs and documents."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any, Literal

import numpy as np

from pan_scdg.errors import UserError
from pan_scdg.logs import say
from pan_scdg.models.fit import choose_device
from pan_scdg.notices import Notices
from pan_scdg.pair_result import PairResult, Token
from pan_scdg.passages.align import Evidence
from pan_scdg.passages.finder import PassageFinder
from pan_scdg.passages.locate import Locator
from pan_scdg.profile import Profile, RetrievalSettings, load_profile
from pan_scdg.profile.baseline import Alignment
from pan_scdg.records import DocumentPair, Query, TextFile, TextPair
from pan_scdg.report.setting import Setting, describe_setting
from pan_scdg.retrieval.ranking import Ranked, Ranking, rank_best
from pan_scdg.scdg.aggregation import GainStatistics, choose_aggregate, list_stored
from pan_scdg.scdg.gains import Gains
from pan_scdg.scoring.baseline_parts import find_parts
from pan_scdg.scoring.baseline_scoring import choose_scores, judge_numbers, settle_threshold
from pan_scdg.scoring.calibration import (
    GainRule,
    describe_gains,
    describe_negatives,
    measure_target,
    warn_about_model,
    warn_about_range,
)
from pan_scdg.scoring.candidates import prepare_targets
from pan_scdg.scoring.model import ScoringModel
from pan_scdg.scoring.pair_plan import PlannedPair, plan_pairs
from pan_scdg.scoring.passes import PairsWork, PassScorer, SourceWork
from pan_scdg.scoring.token_offsets import TokenLocator, make_locator
from pan_scdg.scoring.verification import Verifier

TARGET = TextFile("target", "target", Path("target"))
SOURCE = TextFile("the text", "source", Path("source"))


class Scorer:
    """A profile with its language model, which is loaded once, when the first text is scored.

    Use it as a context manager, or call `close` to free the model.

    Args:
        profile: a bundled profile's name, a profile file, or a `Profile`.
        device: "auto", "cpu" or "cuda".
        model: folder of the language model, instead of the one that the profile names.
        engine: "packed", or "reference" for one literal forward pass at a time.

    Raises:
        UserError: the profile, the model or the device is not usable.
    """

    def __init__(
        self,
        profile: str | Path | Profile = "offline",
        *,
        device: str = "auto",
        model: str | Path | None = None,
        engine: Literal["packed", "reference"] = "packed",
    ) -> None:
        self.profile = profile if isinstance(profile, Profile) else load_profile(str(profile))
        self._open: ScoringModel | None = ScoringModel(
            self.profile.need_model(),
            choose_device(self.profile, device),
            folder=None if model is None else Path(model),
            engine=engine,
            job="pairs" if self.profile.pairs else "retrieval",
        )
        if self.profile.pairs is not None:
            say(warn_about_model(self.profile.pairs.calibration, self._open))

    def __enter__(self) -> "Scorer":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Free the language model; the scorer cannot be used afterwards."""
        if self._open is not None:
            self._open.close()
            self._open = None

    def score(self, target: str, source: str) -> PairResult:
        """Return the score, decision and token gains of a suspicious text and a candidate source.

        Raises:
            UserError: the target is empty, the pair is too long for the profile, or the profile is not for pairs.
        """
        settings, plan = self.profile.need_pairs(), self._plan(target, source)
        passes = plan.read_texts().make_passes(self._model.tokenizer, settings)
        return self._describe(plan, PassScorer(self._model, None).compute_gains(passes, settings.control))

    def score_pairs(self, pairs: Iterable[tuple[str, str]]) -> Iterator[PairResult]:
        """Yield the result of each ``(target, source)``, in order; pairs are read as they are needed.

        Consecutive pairs are scored together as far as the profile's ``pack_tokens`` go, which is faster than one
        `score` for each and may change the last digits.

        Raises:
            UserError: see `score`.
        """
        batch: list[PlannedPair] = []
        for target, source in pairs:
            plan = self._plan(target, source)
            if batch and sum(p.tokens for p in batch) + plan.tokens > self._model.batch_tokens:
                yield from self._score_batch(batch)
                batch = []
            batch.append(plan)
        if batch:
            yield from self._score_batch(batch)

    def rank(self, query: str, documents: Mapping[str, str] | Iterable[tuple[str, str]]) -> Ranking:
        """Rank candidate sources of a suspicious text by gain, best first.

        Every document is scored with the ``[retrieval]`` settings of the profile. There is no first stage, so the order
        is that of the gains alone, and ties are broken by document id.

        Args:
            query: the suspicious text.
            documents: text of each document by its id.

        Returns:
            ``(doc_id, score)`` of every document; the score is the aggregated gain in nats per token, or the share of
            the query if the profile's aggregation is ``share``.

        Raises:
            UserError: the profile is not for retrieval, the query is too long, or an id is repeated.
        """
        settings = self.profile.need_retrieval()
        self._model.check_length(settings.context, "retrieval.context")
        (asked,) = prepare_targets([Query("query", query)], self._model, settings, Path("query"), Notices(strict=True))
        scorer, gains = PassScorer(self._model, None), dict[str, Gains]()
        for doc_id, text in documents.items() if isinstance(documents, Mapping) else documents:
            if doc_id in gains:
                raise UserError(f"the document id {doc_id!r} is repeated", "give each document its own id")
            (found,) = self._model.map([SourceWork(text, [asked.text], settings)])
            gains[doc_id] = scorer.assemble_gains([asked.unconditional], found, settings.control)
        return rank_best(_aggregate(gains, settings), len(gains)) if gains else []

    @property
    def _model(self) -> ScoringModel:
        if self._open is None:
            raise UserError("the scorer is closed", "create a new one")
        return self._open

    @cached_property
    def _aligner(self) -> "_Aligner | None":
        """Return the method that decides instead of the gains, if the profile has one."""
        settings = self.profile.baseline
        return _Aligner(settings, self._model.device) if isinstance(settings, Alignment) else None

    @cached_property
    def _passages(self) -> Locator | None:
        settings, aligner = self.profile.passages, self._aligner
        if settings is None:
            return None
        finder = PassageFinder(settings, self._model.device)
        return Locator(finder, None, None) if aligner is None else Locator(finder, aligner.settings, aligner.scorer)

    @cached_property
    def _locator(self) -> TokenLocator:
        return make_locator(self._model)

    def _plan(self, target: str, source: str) -> PlannedPair:
        settings = self.profile.need_pairs()
        self._model.check_length(settings.limit, "pairs.limit")
        pair = DocumentPair(TARGET._replace(text=target), SOURCE._replace(text=source), 1)
        planned, failed = plan_pairs([pair], self._model, settings, Notices())
        if failed:
            raise failed[0].error
        return planned[0]

    def _score_batch(self, plans: Sequence[PlannedPair]) -> Iterator[PairResult]:
        settings, tokenizer = self.profile.need_pairs(), self._model.tokenizer
        texts = [plan.read_texts() for plan in plans]
        alone = [text.make_unconditional(tokenizer, settings) for text in texts]
        scorer = PassScorer(self._model, None)
        scorer.plan_unconditional(item for items in alone for item in items)
        (found,) = self._model.map([PairsWork(texts, settings)])
        for plan, gains in zip(plans, scorer.assemble_batch(alone, found, settings.control), strict=True):
            yield self._describe(plan, gains)

    def _describe(self, plan: PlannedPair, gains: Gains) -> PairResult:
        """Return the verdict; a profile without q or w gets the average as its aggregated gain."""
        texts, rule = plan.read_texts(), self._rule
        values = gains.summarise(list_stored("candidates", [rule.aggregate]))
        gain = rule.compute_score(values)
        if self._aligner is None:
            verdict = self._judge_gains(values, gain, texts.target)
        else:
            verdict = {**self._aligner.judge(texts.target, texts.source), "gain": gain}
        warnings = verdict.pop("warnings", None)
        record = {
            **verdict,
            **rule.describe(),
            "mode": plan.mode,
            **describe_gains(values),
            "total_gain_nats": values.total,
            **{a.field: v for a, v in values.scores.items() if a.entry.parameter == "q"},
            **describe_negatives(verdict["score"], rule.calibration),
            **({} if warnings is None else {"warnings": warnings}),
        }
        passages = None
        if self._passages is not None:
            found, positive = [], bool(record["decision"])
            if positive or record.get("left_out"):
                found = self._passages.find(texts.target, texts.source, positive=positive)
            passages = tuple(Verifier(self._model, None).add_gains(texts.target, texts.source, found))
            record["passages"] = [evidence.to_json() for evidence in passages]
        return PairResult(
            record["score"],
            record["decision"],
            record["threshold"],
            gains.gains,
            tuple(self._make_tokens(texts.target, plan.mode == "segments", gains)),
            passages,
            tuple(record.get("warnings", ())),
            record,
            (texts.target, texts.source),
            self._facts,
        )

    @cached_property
    def _facts(self) -> Mapping[str, str]:
        """Return the lines of a report about program, profile and models."""
        models, identity = {"language_model": self._model.found}, {"language_model": self._model.identify()}
        if self._aligner is not None:
            parts = self._aligner.parts
            models, identity = {**parts.places, **models}, {**parts.identity, **identity}
        return describe_setting(Setting(self.profile.name, None, models, identity))

    @cached_property
    def _rule(self) -> GainRule:
        return GainRule(self.profile.need_pairs(), self._model)

    def _judge_gains(self, values: GainStatistics, score: float, target: str) -> dict[str, Any]:
        """Return the verdict by the aggregated gain."""
        rule = self._rule
        verdict = rule.threshold.judge(score)
        if rule.foreign is not None:
            verdict["warnings"] = [rule.foreign]
        if rule.calibration is not None and rule.calibration.range is not None:
            facts = measure_target(self._model.tokenizer, target, values)
            verdict["warnings"] = warn_about_range(facts, rule.calibration, rule.aggregate)
        return verdict

    def _make_tokens(self, target: str, segments: bool, gains: Gains) -> Iterator[Token]:
        located = self._locator.locate(target, segments)
        offsets = located.offsets
        if not np.array_equal(located.token_ids, gains.token_ids):
            offsets = np.zeros((len(gains.token_ids), 2), dtype=np.int64)
        values = gains.gains
        for i, (token_id, (start, end)) in enumerate(zip(gains.token_ids.tolist(), offsets.tolist(), strict=True)):
            yield Token(
                token_id,
                self._model.tokenizer.decode([token_id]),
                start,
                end,
                float(gains.unconditional[i]),
                float(gains.conditional[i]),
                None if gains.control is None else float(gains.control[i]),
                float(values[i]),
            )


class _Aligner:
    """Judges two texts as `BaselineMethod` does with an alignment, and keeps no vectors on disk."""

    def __init__(self, settings: Alignment, device: str) -> None:
        self.parts = find_parts(settings, device, ())
        self.settings, self.scorer = settings, self.parts.make_alignment(settings, None)
        self._rule = settle_threshold(settings, self.parts.fingerprint)

    def judge(self, target: str, source: str) -> dict[str, Any]:
        """Return score, threshold and decision, and the numbers that the score was made of."""
        (row,) = self.scorer.score([TextPair("target", "source", target, source)])
        numbers = dict(zip(self.scorer.features, row, strict=True))
        return judge_numbers(self.settings, self._rule, float(choose_scores(self.settings, [row])[0]), numbers)


def _aggregate(gains: Mapping[str, Gains], settings: RetrievalSettings) -> dict[str, float]:
    aggregate = choose_aggregate(settings)
    if aggregate is None:
        raise UserError(f"the aggregation {settings.aggregation} has no parameter", "set retrieval.w in the profile")
    if not aggregate.entry.joint:
        return {doc_id: aggregate.compute(of.gains) for doc_id, of in gains.items()}
    scores = aggregate.compute(np.stack([of.gains for of in gains.values()]))
    return dict(zip(gains, scores.tolist(), strict=True))


__all__ = ["Evidence", "PairResult", "Ranked", "Scorer", "Token"]
