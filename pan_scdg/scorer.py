"""Score texts from Python: one object holds a profile and its models, and scores pairs and documents."""

from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
from copy import copy
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from pathlib import Path
from typing import Any, Literal, NamedTuple, get_args, overload

import numpy as np

from pan_scdg.align.vectors import SentenceEncoder
from pan_scdg.errors import UserError
from pan_scdg.jobs.check import check_in_memory
from pan_scdg.jobs.check_input import CheckPaths
from pan_scdg.jobs.cluster import compute_ahead
from pan_scdg.jobs.decisions import DecisionRule, require_threshold
from pan_scdg.jobs.options import choose_device
from pan_scdg.jobs.pipeline import BATCH_CHARACTERS, MeasuredPairs, compute_pairs, score_pairs
from pan_scdg.jobs.rerank import rank_texts
from pan_scdg.jobs.worker import PairWorker
from pan_scdg.lm.model import ScoringModel
from pan_scdg.methods import Measurements, MethodOptions
from pan_scdg.notices import Notices
from pan_scdg.profile import Profile, load_profile
from pan_scdg.records import DocumentPair, MeasuredPassage, Ranked, Ranking, TextFile, TokenGains
from pan_scdg.report.pages import make_pair_report
from pan_scdg.report.records import Report
from pan_scdg.report.wording import describe_reasons, list_origins
from pan_scdg.results.job import JobFile
from pan_scdg.results.records import SIDES, DecidedPair, Decision, Finding
from pan_scdg.scdg.aggregation import Floats
from pan_scdg.settings import EngineName

TARGET, SOURCE = "target", "source"
MAX_PAIRS_AHEAD = 16
"""Pairs that `Scorer.score_pairs` reads before it yields the result of the first of them."""


class Token(NamedTuple):
    """A scored token of the target; log-probabilities and gain are in nats."""

    token_id: int
    text: str
    begin: int
    """First character in the target; ``begin == end`` if the token has no characters of its own."""
    end: int
    unconditional: float
    conditional: float
    gain: float


@dataclass(frozen=True)
class PairResult:
    """The decision about one pair, and what explains it."""

    score: float
    """The value compared with the threshold: the aggregated gain in nats per token, or the score of another method."""
    decision: bool | None
    """True if ``score >= threshold``; None without a threshold in the profile, or for this model."""
    threshold: float | None
    finding: Finding
    """The decision as people read it: likely, unclear or no sign."""
    gains: Floats = field(repr=False)
    """Signed gain of every token, ``[n]`` nats; of length 0 if the profile has no table ``[gains]``."""
    tokens: tuple[Token, ...] = field(repr=False)
    """Empty if the profile has no table ``[gains]``."""
    passages: tuple[MeasuredPassage, ...] | None
    """Spans of a positive or unclear pair that correspond, with gains; None without the table ``[passages]``."""
    warnings: tuple[str, ...]
    """The reasons of the decision in sentences."""
    decided: Decision = field(repr=False)
    """The record of the decision, with the codes of its reasons and the numbers of the method."""
    record: Mapping[str, Any] = field(repr=False)
    """The JSON object that the command ``score`` prints: the fields above and statistics of the gains."""
    texts: tuple[str, str] = field(repr=False)
    """Target and source."""
    facts: Mapping[str, object] = field(repr=False)
    """The profile that decided the pair and its models, by name."""

    def to_dict(self) -> dict[str, Any]:
        """Return the JSON object that the command ``score`` prints: a row of a table of results."""
        return dict(self.record)

    def to_report(self, names: tuple[str, str] = (TARGET, SOURCE)) -> Report:
        """Return the report of this pair.

        Args:
            names: of the target and of the source.
        """
        gains = None
        if self.tokens:
            spans = tuple((token.begin, token.end) for token in self.tokens)
            gains = TokenGains(spans, tuple(token.gain for token in self.tokens))
        named = replace(self.decided, suspicious=names[0], source=names[1])
        return make_pair_report(DecidedPair(named, self.passages or (), gains), self.texts, self.facts)

    def to_html(self, names: tuple[str, str] = (TARGET, SOURCE)) -> str:
        """Return the report of this pair as an HTML page that needs no other file.

        Args:
            names: of the target and of the source, as the page shows them.
        """
        from pan_scdg.report.html import render_report

        return render_report(self.to_report(names))

    def _repr_html_(self) -> str:
        """Return the HTML that a notebook shows."""
        from pan_scdg.report.html import render_summary

        return render_summary(self.to_report())


class RankedText(NamedTuple):
    """A text that `Scorer.rank` ranked among texts without ids."""

    doc_id: int
    """Its index."""
    score: float


class Scorer:
    """A profile with its models, which are loaded once, when the first text is scored.

    Use it as a context manager, or call `close` to free the models. The methods ``bm25``, whose term statistics are
    those of all sources of an input, and ``vectors`` cannot score single texts.

    Args:
        profile: a bundled profile's name, a profile file, or a `Profile`.
        device: "auto", "cpu" or "cuda".
        model: folder of the language model, instead of the one that the profile names.
        engine: "packed", or "reference" for one literal forward pass at a time; None: packed if the model can be.

    Raises:
        UserError: the profile, the model, the device or the engine is not usable.
    """

    def __init__(
        self,
        profile: str | Path | Profile = "offline",
        *,
        device: str = "auto",
        model: str | Path | None = None,
        engine: EngineName | None = None,
    ) -> None:
        if engine not in (None, *get_args(EngineName)):
            raise UserError(f"unknown engine {engine!r}", f"use {' or '.join(get_args(EngineName))}")
        self.profile = profile if isinstance(profile, Profile) else load_profile(str(profile))
        folder = None if model is None else Path(model)
        keeps = self.profile.decide is not None and "keep_gains" in self.profile.method_settings.options
        self._options = MethodOptions(choose_device(self.profile, device), folder, engine=engine, keep_gains=keeps)
        self._closed = False
        if self.profile.decide is not None:
            _check_method(self.profile)
            self._worker  # noqa: B018 - finds the models now
        else:
            self._model  # noqa: B018

    def __enter__(self) -> "Scorer":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Free the models; the scorer cannot be used afterwards."""
        self._closed = True
        for name in ("_worker", "_job", "_model", "_rule", "_match_encoder"):
            vars(self).pop(name, None)

    def score(self, target: str, source: str) -> PairResult:
        """Return the score, decision and token gains of a suspicious text and a candidate source.

        Raises:
            UserError: the target is empty, the pair is too long for the profile, or the profile is not for pairs.
            TypeError: a text is no `str`.
        """
        (result,) = self._score_batch([_check_pair(_make_pair(target, source, ""))], "raise")
        if result is None:
            raise ValueError("a pair has no score and no error")
        return result

    @overload
    def score_pairs(self, pairs: Iterable[tuple[str, str]]) -> Iterator[PairResult]: ...

    @overload
    def score_pairs(self, pairs: Iterable[tuple[str, str]], on_error: Literal["raise"]) -> Iterator[PairResult]: ...

    @overload
    def score_pairs(
        self, pairs: Iterable[tuple[str, str]], on_error: Literal["none"]
    ) -> Iterator[PairResult | None]: ...

    def score_pairs(
        self, pairs: Iterable[tuple[str, str]], on_error: Literal["raise", "none"] = "raise"
    ) -> Iterator[PairResult | None]:
        """Yield the result of each ``(target, source)``, in order; at most `MAX_PAIRS_AHEAD` pairs are read ahead.

        Pairs that are read together, up to `BATCH_CHARACTERS`, are scored together, which is faster than one `score`
        for each and may change the last digits.

        Args:
            pairs: texts.
            on_error: "raise", after the results of all pairs before, the error of a pair that cannot be scored, or
                yield None for it.

        Raises:
            UserError: see `score`.
            TypeError: an item is no pair, or a text of it is no `str`.
        """
        if on_error not in ("raise", "none"):
            raise UserError(f"unknown treatment of errors {on_error!r}", "use raise or none")
        return self._score_stream(pairs, on_error)

    def predict(self, pairs: Iterable[tuple[str, str]]) -> Floats:
        """Return the score of each ``(target, source)``, ``[n]``, without passages and gains, which takes less time.

        Raises:
            UserError: see `score`.
            TypeError: see `score_pairs`.
        """
        self._check_open()
        self.profile.need_decide()
        scores: list[float] = []
        for batch in _make_batches(_read_pairs(pairs, "pair", "(target, source)")):
            own = MeasuredPairs()
            measured = [_check_pair(pair) for pair in batch]
            score_pairs(measured, self._worker, partial(compute_ahead, self._worker), own, Notices(), "raise")
            scores += (self.profile.method_settings.compute_score(own[pair].values) for pair in measured)
        return np.array(scores)

    @overload
    def rank(self, query: str, documents: Mapping[str, str] | Iterable[tuple[str, str]]) -> Ranking: ...

    @overload
    def rank(self, query: str, documents: Sequence[str]) -> list[RankedText]: ...

    def rank(
        self, query: str, documents: Mapping[str, str] | Iterable[tuple[str, str]] | Sequence[str]
    ) -> Ranking | list[RankedText]:
        """Rank candidate sources of a suspicious text as `run` reranks candidates, best first.

        ``documents`` are the candidates, and all of them are scored, whatever ``retrieval.scored`` says. They have no
        coarse scores, as there is no first stage: the result is that of ``run --candidates`` with a run that gives all
        of them the same score.

        Args:
            query: the suspicious text.
            documents: text of each document by its id, pairs of id and text, or texts, whose ids are their indices.

        Returns:
            ``(doc_id, score)`` of every document, equal scores by document id. The score is the normalised gain, or its
            mean with the normalised match if the profile has ``[retrieval.match]``, times ``retrieval.weight``. It
            compares the documents of one call only: a single document, or equal ones, have the score 0.

        Raises:
            UserError: the profile is not for retrieval or does not rerank, the query is empty or too long, or an id is
                repeated.
            TypeError: the query or the text of a document is no `str`, or an item of ``documents`` is no pair.
        """
        self._check_open()
        self.profile.need_retrieval()
        _check_text(query, "query")
        if not query.strip():
            raise UserError("the text is empty", "give it a text", "query")
        if isinstance(documents, str):
            raise TypeError("documents must be a mapping or a list, not a str")
        items = list(documents.items() if isinstance(documents, Mapping) else documents)
        has_ids = not items or not isinstance(items[0], str)
        if not has_ids:  # equal scores are in the order of the texts
            items = [(f"{number:0{len(str(len(items)))}}", text) for number, text in enumerate(items)]
        texts: dict[str, str] = {}
        for doc_id, text in _read_pairs(items, "document", "(doc_id, text)"):
            _check_text(text, f"the text of document {doc_id!r}" if has_ids else f"document {int(doc_id) + 1}")
            if doc_id in texts:
                raise UserError(f"the document id {doc_id!r} is repeated", "give each document its own id")
            texts[doc_id] = text
        ranking = rank_texts(query, texts, self.profile, self._model, self._match_encoder)
        if has_ids:
            return [Ranked(*pair) for pair in ranking]
        return [RankedText(int(doc_id), score) for doc_id, score in ranking]

    def check(
        self,
        suspicious: str | Path,
        sources: str | Path | None = None,
        *,
        among: bool = False,
        old: str | Path | None = None,
        template: str | Path | None = None,
        author_folders: bool = False,
    ) -> Report:
        """Compare folders, zip files or single files as the command ``check`` does, and write nothing.

        Args:
            suspicious: the texts that may contain reuse.
            sources: the texts that they may come from.
            among: the suspicious texts are compared with each other, too.
            old: texts of former years, which are not compared with each other.
            template: a text that all authors received.
            author_folders: each text is in the folder of its author, whose texts are not compared with each other.

        Returns:
            What the page shows: ``pairs``, best first, with decisions and passages; `render_report` makes the page.

        Raises:
            UserError: there is nothing to compare, or a text or a model is not usable.
        """
        self._check_open()
        require_threshold(self.profile)
        if not among and sources is None and old is None:
            raise UserError("nothing to compare with", "give sources, among=True or old")
        paths = [None if path is None else Path(path) for path in (sources, old, template)]
        inputs = CheckPaths(Path(suspicious), paths[0], among, paths[1], paths[2], author_folders)
        worker = copy(self._worker)  # with the same models
        worker.profile = self.profile.use_strict()
        return check_in_memory(worker, inputs)

    @cached_property
    def _worker(self) -> PairWorker:
        return PairWorker(self.profile, self._options, explains=self.profile.gains is not None)

    @cached_property
    def _rule(self) -> DecisionRule:
        method = self._worker.method
        return DecisionRule(self.profile, method.fingerprint, self._job.dtype)

    @cached_property
    def _match_encoder(self) -> SentenceEncoder | None:
        """Return the encoder of ``[retrieval.match]``, which shares the model of the method that decides pairs."""
        match = self.profile.need_retrieval().match
        if match is None:
            return None
        method = self._worker.method if self.profile.decide is not None else None
        opened = None if method is None else method.encoder
        opened = opened if opened is not None and opened.model.name == match.model else None
        return SentenceEncoder(match.model, self._options.device, keep_headings=True, opened=opened)

    @cached_property
    def _facts(self) -> dict[str, str]:
        """Return the lines of a report about program, profile and models."""
        return list_origins(self._job)

    @cached_property
    def _job(self) -> JobFile:
        """Return what a job records about profile and models."""
        profile = self.profile.model_dump(mode="json", exclude_none=True)
        names = {name: model.name for name, model in self._worker.list_models().items()}
        return JobFile(task="pairs", profile=profile, models=self._worker.identify(), model_names=names)

    @cached_property
    def _model(self) -> ScoringModel:
        return self._options.open_model(self.profile) if self.profile.decide is None else self._worker.model

    def _check_open(self) -> None:
        if self._closed:
            raise UserError("the scorer is closed", "create a new one")

    def _score_stream(
        self, pairs: Iterable[tuple[str, str]], on_error: Literal["raise", "none"]
    ) -> Iterator[PairResult | None]:
        """Yield the results of `score_pairs`."""
        for batch in _make_batches(_read_pairs(pairs, "pair", "(target, source)")):
            filled = [pair for pair in batch if (pair.suspicious.text or "").strip()]
            results = dict(zip(filled, self._score_batch(filled, "negative"), strict=True))
            for pair in batch:
                result = results.get(pair)
                if result is None and on_error == "raise":
                    (result,) = self._score_batch([_check_pair(pair)], "raise")
                yield result

    def _score_batch(
        self, pairs: Sequence[DocumentPair], on_error: Literal["raise", "negative"]
    ) -> list[PairResult | None]:
        """Return the results of pairs that are scored together; None, or an error, for one that cannot be scored."""
        self._check_open()
        self.profile.need_decide()
        scores = MeasuredPairs()
        decided = compute_pairs(
            pairs,
            self._worker,
            partial(compute_ahead, self._worker),
            scores,
            self._rule,
            Notices(),
            on_error=on_error,
            for_page=self.profile.passages is not None,
            measured_pairs=len(pairs),
        )
        scored = {pair: scores[pair] for pair in decided if pair in scores}
        explained = zip(scored, self._explain(scored), strict=True)
        results = {pair: self._describe(pair, decided[pair], more) for pair, more in explained}
        return [results.get(pair) for pair in pairs]

    def _explain(self, scored: Mapping[DocumentPair, Measurements]) -> Sequence[Measurements | None]:
        """Return what the language model measured on each pair; None without a table ``[gains]``."""
        if self.profile.gains is None:
            return [None] * len(scored)
        if self._worker.gain_method is self._worker.method:
            return list(scored.values())
        return self._worker.gain_method.score(list(map(self._worker.read_texts, scored)))

    def _describe(self, pair: DocumentPair, one: DecidedPair, explanation: Measurements | None) -> PairResult:
        """Return the result of a pair: the fields that `run` records, its gains and its passages."""
        decision = one.record
        if decision.score is None:
            raise ValueError("the method gave no score")
        own, warnings = decision.to_json(), describe_reasons(decision)
        record = {name: value for name, value in own.items() if name not in SIDES}
        if self._rule.reason is not None:
            warnings = [self._rule.reason, *warnings]
        tokens: tuple[Token, ...] = ()
        if explanation is not None:
            tokens = tuple(_list_tokens(self._worker.model, explanation))
            if self._worker.gain_method is not self._worker.method:
                record["gain"] = self.profile.gains.compute_score(explanation.values) if self.profile.gains else None
            record |= self._worker.gain_method.explain(explanation)
        passages = None if self.profile.passages is None else one.passages
        record["warnings"] = warnings
        if passages is not None:
            record["passages"] = [passage.to_json() for passage in passages]
        return PairResult(
            decision.score,
            decision.decision,
            decision.threshold,
            decision.finding,
            np.zeros(0) if explanation is None or explanation.gains is None else explanation.gains.gains,
            tokens,
            passages,
            tuple(warnings),
            decision,
            record,
            (pair.suspicious.text or "", pair.source.text or ""),
            self._facts,
        )


def _check_method(profile: Profile) -> None:
    """Raise UserError if the method of a profile cannot score single texts."""
    settings = profile.method_settings
    if settings.needs_input:
        raise UserError(
            f"profile {profile.name} scores the documents of a whole input, not single texts",
            "use the command `run`, or another profile",
        )
    if settings.features and getattr(settings, "weights", None) is None:
        require_threshold(profile)  # it has no score without weights


def _list_tokens(model: ScoringModel, measured: Measurements) -> Iterator[Token]:
    """Yield the tokens of a target with their places and numbers."""
    gains, offsets = measured.gains, measured.offsets
    if gains is None or offsets is None:
        raise ValueError("the gains were not kept")
    numbers = zip(gains.unconditional.tolist(), gains.conditional.tolist(), gains.gains.tolist())
    for token_id, (begin, end), values in zip(gains.token_ids.tolist(), offsets.tolist(), numbers, strict=True):
        yield Token(token_id, model.tokenizer.decode([token_id]), begin, end, *values)


def _make_batches(pairs: Iterable[tuple[Any, Any]]) -> Iterator[list[DocumentPair]]:
    """Yield the pairs that are scored together, as soon as `MAX_PAIRS_AHEAD` or `BATCH_CHARACTERS` are read.

    What stops the reading is raised after the batch before it.
    """
    batch, size = list[DocumentPair](), 0
    reading = enumerate(pairs, 1)
    while True:
        try:
            item = next(reading, None)
            pair = None if item is None else _make_pair(*item[1], f" {item[0]}")
        except Exception:
            if batch:
                yield batch
            raise
        if pair is None:
            if batch:
                yield batch
            return
        batch.append(pair)
        size += sum(len(file.text or "") for file in pair[:2])
        if len(batch) == MAX_PAIRS_AHEAD or size >= BATCH_CHARACTERS:
            yield batch
            batch, size = [], 0


def _make_pair(target: Any, source: Any, number: str) -> DocumentPair:
    for name, text in ((TARGET, target), (SOURCE, source)):
        _check_text(text, f"{name} of pair{number}" if number else name)
    return DocumentPair(_make_file(f"{TARGET}{number}", target), _make_file(f"{SOURCE}{number}", source))


def _check_pair(pair: DocumentPair) -> DocumentPair:
    """Return a pair, or raise UserError if its target is empty."""
    if not (pair.suspicious.text or "").strip():
        raise UserError("the suspicious document is empty", "remove the pair", pair.suspicious.doc_id)
    return pair


def _make_file(name: str, text: str) -> TextFile:
    return TextFile(name, name, Path(name), text)


def _check_text(text: object, name: str) -> None:
    if not isinstance(text, str):
        raise TypeError(f"{name} must be a str, not {type(text).__name__}")


def _read_pairs(items: Iterable[Any], what: str, form: str) -> Iterator[tuple[Any, Any]]:
    """Yield the items, or raise TypeError at one that is no pair: a text of two characters, a mapping or a set."""
    for number, item in enumerate(items, 1):
        pair = tuple(item) if isinstance(item, Iterable) and not isinstance(item, str | Mapping | Set) else ()
        if len(pair) != 2:
            raise TypeError(f"{what} {number} must be {form}")
        yield pair


__all__ = ["MeasuredPassage", "PairResult", "Ranked", "RankedText", "Scorer", "Token"]
