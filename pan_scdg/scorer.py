"""Score texts from Python: one object holds a profile and its models, and scores pairs and documents.

Pairs are scored and judged by the methods of `run` (`scoring.pair_method`), on texts in memory.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any, get_args

import numpy as np

from pan_scdg.errors import UserError
from pan_scdg.lm.engine import EngineName
from pan_scdg.models.fit import choose_device
from pan_scdg.notices import Notices
from pan_scdg.pair_result import PairResult, Token, add_gains, make_tokens
from pan_scdg.align.align import Evidence
from pan_scdg.align.finder import Locator, PassageFinder
from pan_scdg.align.scorer import AlignmentScorer
from pan_scdg.profile import Profile, load_profile
from pan_scdg.profile.baseline import Alignment, BaselineSettings
from pan_scdg.records import DocumentPair, TextFile
from pan_scdg.report.wording import describe_method
from pan_scdg.retrieval.ranking import Ranked, Ranking
from pan_scdg.scoring.baseline_method import BaselineMethod
from pan_scdg.scoring.baseline_registry import Given, find_encoder_parts, find_parts, refuse_unused
from pan_scdg.scoring.gain_method import EMPTY_SOURCE, IN_SEGMENTS, GainMethod
from pan_scdg.scoring.model import ScoringModel
from pan_scdg.scoring.pair_method import LocatedGains, PairMethod, Verdict, check_calibrated
from pan_scdg.scoring.pair_plan import Mode
from pan_scdg.scoring.reranking import choose_settings, rank_texts
from pan_scdg.scoring.verification import Verifier
from pan_scdg.store import MemoryStore, Store

TARGET = TextFile("target", "target", Path("target"))
SOURCE = TextFile("the text", "source", Path("source"))
BATCH = 1 << 16
"""Characters of the pairs that are scored together, about a batch of a language model."""
LEFT_OUT = ("suspicious", "source", "warnings")
"""Fields of the record of `run` that a result does not have, or has after the others."""


class Scorer:
    """A profile with its models, which are loaded once, when the first text is scored.

    Use it as a context manager, or call `close` to free the models. Every profile is usable that decides a pair by its
    two texts. Those with the baselines ``bm25``, whose term statistics are those of all sources of an input, and
    ``vectors`` are not.

    Args:
        profile: a bundled profile's name, a profile file, or a `Profile`.
        device: "auto", "cpu" or "cuda".
        model: folder of the language model, instead of the one that the profile names.
        engine: "packed", or "reference" for one literal forward pass at a time.

    Raises:
        UserError: the profile, the model, the device or the engine is not usable.
    """

    def __init__(
        self,
        profile: str | Path | Profile = "offline",
        *,
        device: str = "auto",
        model: str | Path | None = None,
        engine: EngineName = "packed",
    ) -> None:
        if engine not in get_args(EngineName):
            raise UserError(f"unknown engine {engine!r}", f"use {' or '.join(get_args(EngineName))}")
        self.profile = profile if isinstance(profile, Profile) else load_profile(str(profile))
        self._device, self._folder = choose_device(self.profile, device), None if model is None else Path(model)
        self._store, self._closed = MemoryStore(), False
        self._loads: ScoringModel | None = None
        if self.profile.baseline is not None and self.profile.model is None:
            _check_baseline(self.profile, self.profile.baseline, engine)
        else:
            settings = self.profile.need_model()
            self._loads = ScoringModel(settings, self._device, folder=self._folder, engine=engine)
        self._gains = None if self.profile.pairs is None else GainMethod(self.profile, self._model, keep_gains=True)

    def __enter__(self) -> "Scorer":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Free the models; the scorer cannot be used afterwards."""
        self._closed = True
        if self._loads is not None:
            self._loads.unload()
        for name in ("_method", "_locator", "_matching"):
            vars(self).pop(name, None)

    def score(self, target: str, source: str) -> PairResult:
        """Return the score, decision and token gains of a suspicious text and a candidate source.

        Raises:
            UserError: the target is empty, the pair is too long for the profile, or the profile is not for pairs.
            TypeError: a text is no `str`.
        """
        (result,) = self._score_batch([_make_pair(target, source)])
        return result

    def score_pairs(self, pairs: Iterable[tuple[str, str]]) -> Iterator[PairResult]:
        """Yield the result of each ``(target, source)``, in order; pairs are read as they are needed.

        Consecutive pairs of up to `BATCH` characters are scored together, which is faster than one `score` for each and
        may change the last digits.

        Raises:
            UserError: see `score`.
            TypeError: an item is no pair, or a text of it is no `str`.
        """
        batch, size = list[DocumentPair](), 0
        for number, (target, source) in enumerate(_read_pairs(pairs, "pair", "(target, source)"), 1):
            pair = _make_pair(target, source, number)
            length = 1 + len(target) + len(source)
            if batch and size + length > BATCH:
                yield from self._score_batch(batch)
                batch, size = [], 0
            batch.append(pair)
            size += length
        if batch:
            yield from self._score_batch(batch)

    def rank(self, query: str, documents: Mapping[str, str] | Iterable[tuple[str, str]]) -> Ranking:
        """Rank candidate sources of a suspicious text as `run` reranks candidates, best first.

        ``documents`` are the candidates, and all of them are scored, whatever ``retrieval.scored`` says. They have no
        coarse scores, as there is no first stage: the result is that of ``run --candidates`` with a run that gives all
        of them the same score.

        Args:
            query: the suspicious text.
            documents: text of each document by its id, or pairs of id and text.

        Returns:
            ``(doc_id, score)`` of every document, equal scores by document id. The score is the normalised gain, or its
            mean with the normalised match if the profile has ``[retrieval.match]``, times ``retrieval.weight``. It
            compares the documents of one call only: a single document, or equal ones, have the score 0.

        Raises:
            UserError: the profile is not for retrieval, does not rerank or has a cascade, the query is empty or too
                long, or an id is repeated.
            TypeError: the query or the text of a document is no `str`, or an item of ``documents`` is no pair.
        """
        _check_text(query, "query")
        if not query.strip():
            raise UserError("the text is empty", "give it a text", "query")
        items = documents.items() if isinstance(documents, Mapping) else documents
        texts = list(_read_pairs(items, "document", "(doc_id, text)"))
        for doc_id, text in texts:
            _check_text(text, f"the text of document {doc_id!r}")
        settings = choose_settings(self.profile)
        return rank_texts(query, texts, settings, self._model, lambda: self._matching, self._store)

    @property
    def _model(self) -> ScoringModel:
        self._check_open()
        if self._loads is None:
            raise UserError(f"profile {self.profile.name} has no [model] table", "choose another profile")
        return self._loads

    def _check_open(self) -> None:
        if self._closed:
            raise UserError("the scorer is closed", "create a new one")

    @cached_property
    def _method(self) -> PairMethod[Any, Any]:
        """Return the method that decides."""
        settings = self.profile.baseline
        if settings is None:
            return self._gains or GainMethod(self.profile, self._model)  # which needs [pairs]
        parts = find_parts(settings, Given(self._device, model=None if self._loads else self._folder))
        return BaselineMethod(settings, parts, (), model=self._loads)

    @cached_property
    def _locator(self) -> Locator | None:
        if self.profile.passages is None:
            return None
        finder = PassageFinder(self.profile.passages, self._device)
        return Locator(finder, self._method.open_alignment(self._store))

    @cached_property
    def _matching(self) -> AlignmentScorer:
        """Return the encoder of ``[retrieval.match]``: that of the alignment that decides pairs if it is the same."""
        match, decides = self.profile.need_retrieval().match, self.profile.baseline
        if match is None:
            raise ValueError(f"profile {self.profile.name} has no [retrieval.match] table")
        if isinstance(decides, Alignment) and (decides.model, decides.batch) == (match.model, match.batch):
            alignment = self._method.open_alignment(self._store)
            if alignment is not None:
                return alignment.scorer
        return find_encoder_parts(match.model, self._device).make_alignment(match, self._store)

    @cached_property
    def _facts(self) -> Mapping[str, str]:
        """Return the lines of a report about program, profile and models."""
        return describe_method(self.profile.name, self._method.models, self._method.identify())

    def _score_batch(self, pairs: Sequence[DocumentPair]) -> list[PairResult]:
        """Return the results of pairs that are scored together; what was computed is forgotten."""
        self._check_open()
        method, gains, store = self._method, self._gains, self._store
        try:
            scored = _score(method, pairs, store)
            verdicts = method.judge(scored, {})
            if gains is None:
                return list(map(self._describe, verdicts))
            explained = scored if gains is method else _score(gains, pairs, store)
            modes = (item.plan.mode for item in explained)
            return list(map(self._describe, verdicts, modes, gains.locate_gains(explained, store)))
        finally:
            store.close()

    def _describe(self, verdict: Verdict, mode: Mode = "whole", located: LocatedGains | None = None) -> PairResult:
        """Return the result of a pair: what `run` records, and its gains and passages."""
        texts = verdict.pair.suspicious.text or "", verdict.pair.source.text or ""
        record = {name: value for name, value in verdict.record.items() if name not in LEFT_OUT}
        warnings = self._choose_warnings(verdict.record["warnings"])
        if self._gains is not None and located is not None:
            record = add_gains(record, self._gains.rule, mode, located.gains)
        if warnings is not None:
            record["warnings"] = warnings
        passages = self._find_passages(record, *texts)
        if passages is not None:
            record["passages"] = [evidence.to_json() for evidence in passages]
        return PairResult(
            record["score"],
            record["decision"],
            record["threshold"],
            np.zeros(0) if located is None else located.gains.gains,
            () if located is None else tuple(make_tokens(located, self._model.tokenizer)),
            passages,
            tuple(warnings or ()),
            record,
            texts,
            self._facts,
        )

    def _choose_warnings(self, known: list[str]) -> list[str] | None:
        """Return the warnings of a result; None for gains that are compared with no calibration."""
        if self._gains is None or self._gains is not self._method:
            return known
        rule = self._gains.rule
        if rule.foreign is not None:
            return [rule.foreign]
        if rule.calibration is None or rule.calibration.range is None:
            return None
        return [warning for warning in known if warning not in (IN_SEGMENTS, EMPTY_SOURCE)]  # the caller sees both

    def _find_passages(self, record: Mapping[str, Any], target: str, source: str) -> tuple[Evidence, ...] | None:
        """Return the passages of a positive pair, and those of any that do not count; None without `[passages]`."""
        if self._locator is None:
            return None
        positive, found = bool(record["decision"]), list[Evidence]()
        if positive or record.get("left_out"):
            found = self._locator.find(target, source, positive=positive)
        return tuple(
            found if self._loads is None else Verifier(self._loads, self._store).add_gains(target, source, found)
        )


def _check_baseline(profile: Profile, settings: BaselineSettings, engine: EngineName) -> None:
    """Raise UserError if a method without a language model cannot score single texts, or does not use the engine."""
    if settings.needs_input:
        raise UserError(
            f"profile {profile.name} scores the documents of a whole input, not single texts",
            "use the command `run`, or another profile",
        )
    if settings.fitted:
        check_calibrated(profile)  # it has no score without weights
    refuse_unused(settings, {"the engine reference": engine == "reference"})


def _make_pair(target: str, source: str, number: int = 0) -> DocumentPair:
    """Return a pair of texts that can be scored; ``number`` tells those that are scored together apart."""
    for name, text in (("target", target), ("source", source)):
        _check_text(text, f"{name} of pair {number}" if number else name)
    if not target.strip():
        raise UserError("the suspicious document is empty", "remove the pair", TARGET.path)
    return DocumentPair(
        TARGET._replace(doc_id=f"target {number}", text=target),
        SOURCE._replace(doc_id=f"text {number}" if number else SOURCE.doc_id, text=source),
    )


def _check_text(text: object, name: str) -> None:
    if not isinstance(text, str):
        raise TypeError(f"{name} must be a str, not {type(text).__name__}")


def _read_pairs(items: Iterable[Any], what: str, form: str) -> Iterator[tuple[Any, Any]]:
    """Yield the items, or raise TypeError at one that is no pair; a text of two characters is none."""
    for number, item in enumerate(items, 1):
        pair = tuple(item) if isinstance(item, Iterable) and not isinstance(item, str) else ()
        if len(pair) != 2:
            raise TypeError(f"{what} {number} must be {form}")
        yield pair


def _score(method: PairMethod[Any, Any], pairs: Sequence[DocumentPair], store: Store) -> list[Any]:
    planned, failed = method.check(pairs, Notices(), "negative")
    if failed:
        raise failed[0].error
    if isinstance(method, GainMethod):
        return method.score(planned, store, joined=len(pairs) > 1)
    return method.score(planned, store)


__all__ = ["Evidence", "PairResult", "Ranked", "Scorer", "Token"]
