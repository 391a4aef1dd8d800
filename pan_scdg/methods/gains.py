"""The method SCDG: gains of a frozen language model, aggregated to one score (paper, PAN25)."""

from collections.abc import Iterator, Sequence
from functools import cached_property, lru_cache
from typing import TYPE_CHECKING, Annotated, Any, Literal, NamedTuple

import numpy as np
from pydantic import Field, model_validator

from pan_scdg.errors import UserError
from pan_scdg.methods import Measurements, Method, MethodOptions, MethodSettings, Values, check_target
from pan_scdg.methods.logistic import LogisticWeights
from pan_scdg.normal_form import restore_spans
from pan_scdg.records import Identities, Passage, Reason, TextPair, find_dtype
from pan_scdg.scdg.aggregation import AGGREGATIONS, Aggregate, list_stored
from pan_scdg.scdg.calibration_range import TargetFacts, list_range_reasons, measure_common_words
from pan_scdg.scdg.gains import Gains, combine_passes, join_segments
from pan_scdg.scdg.segments import build_segment_passes
from pan_scdg.scdg.sequences import (
    SEPARATOR,
    Offsets,
    Passes,
    ScoringInput,
    TokenLocator,
    TokenMismatchError,
    build_pair_passes,
    build_pair_unconditional,
    encode_separator,
    encode_text,
    find_anchor_id,
)
from pan_scdg.settings import AggregationName, Calibration, ProfileTables, SegmentSettings
from pan_scdg.text.sentences import find_sentence_spans

if TYPE_CHECKING:
    from pan_scdg.lm.model import ScoringModel

SEGMENTS = "segments"
"""The code of a reason: the pair exceeds the limit of the profile."""
TARGETS_CACHED = 64
"""Targets whose tokens are kept: a target has many sources, which often follow each other."""
PASSAGE_TOKENS = 256
"""Tokens of a passage that are scored; the rest of a longer one is left out, which bounds the cost."""
PASSAGE_SOURCE_TOKENS = 512
"""Tokens of the passage in the source."""
PRECEDING_TOKENS = 64
PRECEDING_CHARACTERS = 400
"""Text in front of the passage that both passes begin with, so that its first words are no surprise."""
PASSAGE_GAIN_BOUND = 3.0
"""Gains of a passage's tokens count up to this many nats, either way: one rare name proves no reuse."""
PAPER_GRID = (1.0, 2.0, 5.0, 10.0, 20.0, 30.0, 50.0)
"""Values that ``calibrate`` chooses q from."""
WINDOW_GRID = (64.0, 96.0, 128.0, 192.0, 256.0)
"""Values that ``calibrate`` chooses w from."""
Mode = Literal["whole", "segments"]
OverLong = Literal["error", "segments"]


class GainSettings(MethodSettings):
    """Gains of a language model (paper, PAN25). The parameter of ``top`` is q, that of the window aggregations is w."""

    options = frozenset({"keep_gains", "model"})
    shares_texts = True
    limit: int = Field(ge=8)
    """Largest number of tokens of a combined input; ``over_long`` applies to longer ones."""
    over_long: OverLong = "error"
    aggregation: AggregationName = "top"
    q: float | None = Field(default=None, gt=0, le=100)
    """Percent of the gains that are averaged; 100 is the paper's Average. None: not chosen, and the average is used."""
    w: int | None = Field(default=None, ge=1)
    """Width of a window in consecutive tokens of the target."""
    weights: LogisticWeights | None = None
    """Of ``gain-logistic``: mean, median and positive-gain rate; ``calibrate`` fits them."""
    grid: tuple[Annotated[float, Field(gt=0)], ...] | None = Field(default=None, min_length=1)
    """Values that ``calibrate`` chooses q or w from; None: `PAPER_GRID` or `WINDOW_GRID`."""
    segments: SegmentSettings = SegmentSettings()

    @model_validator(mode="after")
    def _has_one_parameter(self) -> "GainSettings":
        entry = AGGREGATIONS[self.aggregation]
        if entry.joint:
            raise ValueError(f"the aggregation {self.aggregation} belongs in [retrieval]")
        for other in {"q", "w"} - {entry.parameter}:
            if getattr(self, other) is not None:
                what = f"which uses {entry.parameter or 'none'}"
                raise ValueError(f"{other} is not a parameter of the aggregation {self.aggregation}, {what}")
        count = len(entry.statistics)
        if self.weights is not None and (count < 2 or len(self.weights.coefficients) != count):
            raise ValueError("weights need the aggregation gain-logistic, which has three features")
        return self

    @property
    def parameters(self) -> tuple[str, ...]:  # type: ignore[override]
        """Return the name of the aggregation's parameter, if it has one."""
        parameter = AGGREGATIONS[self.aggregation].parameter
        return () if parameter is None else (parameter,)

    @property
    def features(self) -> tuple[str, ...]:  # type: ignore[override]
        """Return the statistics of the logistic model."""
        names = AGGREGATIONS[self.aggregation].statistics
        return names if len(names) > 1 else ()

    @property
    def aggregate(self) -> Aggregate:
        """Return the aggregation with its parameter; the average if q, w or weights were not chosen."""
        entry = AGGREGATIONS[self.aggregation]
        if entry.parameter is None:
            lacks_weights = bool(self.features) and self.weights is None
            return Aggregate("top", 100.0) if lacks_weights else Aggregate(self.aggregation, 0.0)
        parameter = self.q if entry.parameter == "q" else self.w
        return Aggregate("top", 100.0) if parameter is None else Aggregate(self.aggregation, parameter)

    def open(self, profile: ProfileTables, options: MethodOptions, statistics: Any = None) -> "GainMethod":
        """Return the method; the model is found, see `ScoringModel`."""
        model = options.open_model(profile)
        calibration = None if profile.decide is None else profile.decide.calibration
        measure_range = options.all_settings or (calibration is not None and calibration.range is not None)
        return GainMethod(self, model, keep_gains=options.keep_gains, measure_range=measure_range)

    def open_explanation(self, method: Method, model: "ScoringModel") -> "GainMethod":
        """Return what measures the gains of all tokens: the method that decides by them, or one beside it."""
        return method if isinstance(method, GainMethod) else GainMethod(self, model, keep_gains=True)

    def compute_score(self, values: Values) -> float:
        """Return the aggregated gain in nats per token, or the probability of the logistic model."""
        aggregate = self.aggregate
        names = aggregate.entry.statistics
        if not names:
            return values[aggregate.field]
        if len(names) == 1 or self.weights is None:
            return values[names[0]]
        return self.weights.compute_probability([values[name] for name in names])

    def find_dtype(self, models: Identities) -> str | None:
        """Return the dtype of the language model."""
        return find_dtype(models)

    def describe(self, values: Values) -> dict[str, float | str]:
        """Return the aggregation, and the statistics of the gains."""
        names = ("tokens", "mean", "median", "positive_gain_rate")
        return {"aggregation": self.aggregate.name, **{name: values[name] for name in names}}

    def warn(self, values: Values, threshold: float | None, calibration: Calibration | None) -> list[Reason]:
        """Return how a target is unlike those of the calibration."""
        if calibration is None or calibration.range is None:
            return []
        facts = TargetFacts(int(values["tokens"]), values["nats_per_byte"], values["common_words"])
        return list_range_reasons(facts, calibration.range, self.aggregate)

    def vary(self) -> "dict[float, GainSettings]":
        """Return the settings with each q or w of the grid."""
        if not self.parameters:
            return {0.0: self}
        (name,) = self.parameters
        grid = self.grid or (PAPER_GRID if name == "q" else WINDOW_GRID)
        number = float if name == "q" else int
        return {float(value): self.model_copy(update={name: number(value)}) for value in grid}


class PairGains(NamedTuple):
    """The gains of the tokens of a pair."""

    mode: Mode
    gains: Gains
    longest: int
    """Tokens of the longest input, with source and separator."""


class PassageGains(NamedTuple):
    """The gains of the first `PASSAGE_TOKENS` tokens of a passage."""

    mean: float
    """In nats per token, each token bounded to `PASSAGE_GAIN_BOUND`; 0 for a passage without tokens."""
    spans: list[tuple[int, int]]
    """Characters of each token in the target; empty for a token that has none."""
    gains: list[float]
    """Of each token, in nats."""


class _Plan(NamedTuple):
    """The inputs of a pair; those of the target alone are the same for all its sources."""

    mode: Mode
    passes: list[Passes]


class GainMethod(Method):
    """Scores pairs with a language model; see `methods.Method`.

    Args:
        settings: the table ``[gains]``.
        model: the language model.
        keep_gains: return the gains of all tokens, and their places.
        measure_range: also measure what is compared with the range of a calibration.
    """

    def __init__(
        self, settings: GainSettings, model: "ScoringModel", *, keep_gains: bool = False, measure_range: bool = False
    ) -> None:
        self.settings, self.model = settings, model
        self.language_model = model
        self.models, self.fingerprint = {"language_model": model.found}, model.fingerprint
        self._keep_gains, self._measure_range = keep_gains, measure_range
        self._prepared: dict[TextPair, _Plan] = {}
        self._aggregates = list_stored("pairs", [one.aggregate for one in (settings, *settings.vary().values())])
        self._encode_alone = lru_cache(TARGETS_CACHED)(lambda text: build_pair_unconditional(model.tokenizer, text))
        self._measure_words = lru_cache(TARGETS_CACHED)(
            lambda text: measure_common_words(model.tokenizer, encode_text(model.tokenizer, text))
        )
        model.check_length(settings.limit, "gains.limit")
        if settings.over_long == "segments":
            parts, separator = settings.segments, len(encode_separator(model.tokenizer))
            tokens = 1 + parts.source_tokens + separator + parts.context_tokens + parts.target_tokens
            model.check_length(tokens, "gains.segments")

    def identify(self) -> Identities:
        """Return the fields that identify the model in the job."""
        return {"language_model": self.model.identify()}

    def check(self, pair: TextPair) -> None:
        """Tokenise a pair, and raise UserError if its passes cannot score the same tokens or it is too long."""
        check_target(pair)
        self._build_whole(pair)

    def score(self, pairs: Sequence[TextPair]) -> list[Measurements]:
        """Return the statistics of the gains of each pair."""
        scores = dict(self.score_each(pairs, range(len(pairs))))
        return [scores[number] for number in range(len(pairs))]

    def score_each(self, pairs: Sequence[TextPair], numbers: Sequence[int]) -> Iterator[tuple[int, Measurements]]:
        """See `Method`."""
        for number, gains in self.compute_gains(pairs, numbers):
            score = self.make_score(pairs[number], gains)
            yield number, score._replace(incidents=self.model.take_incidents())

    def prepare(self, pairs: Sequence[TextPair]) -> None:
        """Make the inputs of pairs that are scored later."""
        for pair in pairs:
            self._prepared[pair] = self._plan(pair)

    def compute_gains(self, pairs: Sequence[TextPair], numbers: Sequence[int]) -> Iterator[tuple[int, PairGains]]:
        """Yield the number of each of some pairs with the gains of its tokens, as soon as they are computed.

        A target alone is computed once for all its sources, and before them.
        """
        plans = [self._prepared.pop(pair) if pair in self._prepared else self._plan(pair) for pair in pairs]
        targets = {(pair.target, plan.mode): plan.passes for pair, plan in zip(pairs, plans, strict=True)}
        inputs: list[ScoringInput] = []

        def add(new: list[ScoringInput]) -> range:
            inputs.extend(new)
            return range(len(inputs) - len(new), len(inputs))

        alone = {key: add([each.unconditional for each in passes]) for key, passes in targets.items()}
        given = [add([each.conditional for each in plan.passes]) for plan in plans]
        groups = [[*alone[pairs[number].target, plans[number].mode], *given[number]] for number in numbers]
        for place, log_probs in self.model.compute_groups(inputs, groups):
            passes = plans[numbers[place]].passes
            both = zip(log_probs[: len(passes)], log_probs[len(passes) :], strict=True)
            parts = [
                combine_passes((each.unconditional.target_ids, each.conditional.target_ids), *values)
                for each, values in zip(passes, both, strict=True)
            ]
            longest = max(each.conditional.length for each in passes)
            yield numbers[place], PairGains(plans[numbers[place]].mode, join_segments(parts), longest)

    def make_score(self, pair: TextPair, computed: PairGains) -> Measurements:
        """Return the numbers of a pair from the gains of its tokens."""
        mode, gains, longest = computed
        statistics = gains.summarise(self._aggregates)
        values: dict[str, float] = {name: value for name, value in statistics._asdict().items() if name != "scores"}
        values |= {aggregate.field: float(score) for aggregate, score in statistics.scores.items()}
        values["input_tokens"] = longest
        if self._measure_range:
            values["nats_per_byte"] = statistics.code_length / len(pair.target.encode("utf-8", "surrogatepass"))
            values["common_words"] = self._measure_words(pair.target)
        reasons = [Reason(SEGMENTS)] if mode == "segments" else []
        if not pair.source.strip():
            reasons.append(Reason("empty_source"))
        if not self._keep_gains:
            return Measurements(values, tuple(reasons))
        offsets = self.locate_tokens(pair, mode)
        return Measurements(values, tuple(reasons), gains=gains, offsets=offsets)

    def explain(self, measured: Measurements) -> dict[str, Any]:
        """Return the statistics of the gains."""
        values = measured.values
        return {
            "aggregation": self.settings.aggregate.name,
            "mode": "segments" if any(reason.code == SEGMENTS for reason in measured.reasons) else "whole",
            **{name: values[name] for name in ("tokens", "mean", "median", "positive_gain_rate")},
            "total_gain_nats": values["total"],
            **{name: value for name, value in values.items() if name.startswith("top_")},
        }

    def locate_tokens(self, pair: TextPair, mode: Mode) -> Offsets:
        """Return the characters of the scored tokens of a target in its file, ``[n, 2]``."""
        return restore_spans(pair.original_target, self._locator.locate(pair.target, mode == "segments").offsets)

    def measure_passages(self, pair: TextPair, passages: Sequence[Passage]) -> list[PassageGains]:
        """Return the gains of each passage of a pair, given the passage in the source instead of the whole document."""
        inputs = [self._build_passage(pair, passage) for passage in passages]
        scored = [item for passes in inputs if len(passes.conditional.target_ids) for item in passes]
        log_probs = iter(self.model.compute_log_probs(scored)) if scored else iter(())
        measured = []
        for passage, passes in zip(passages, inputs, strict=True):
            if not len(passes.conditional.target_ids):
                measured.append(PassageGains(0.0, [], []))
                continue
            alone, given = (np.asarray(next(log_probs), np.float64) for _ in range(2))
            gains, begin = np.round(given - alone, 6), passage.target.begin
            offsets = self._locator.locate_query(pair.target[slice(*passage.target)]).offsets.tolist()
            spans = [(begin + first, begin + last) for first, last in offsets[: len(gains)]]
            mean = float(np.clip(gains, -PASSAGE_GAIN_BOUND, PASSAGE_GAIN_BOUND).mean())
            measured.append(PassageGains(mean, spans, gains.tolist()))
        return measured

    @cached_property
    def _locator(self) -> TokenLocator:
        return TokenLocator(self.model.tokenizer)

    def _plan(self, pair: TextPair) -> _Plan:
        """Return the inputs of a pair: one of each pass, or one for each segment if the pair is too long."""
        whole = self._build_whole(pair)
        if whole is not None:
            return _Plan("whole", [whole])
        spans = find_sentence_spans(pair.target)
        passes = build_segment_passes(self.model.tokenizer, pair.source, pair.target, spans, self.settings.segments)
        return _Plan("segments", list(passes))

    def _build_whole(self, pair: TextPair) -> Passes | None:
        """Return the passes of a pair as a whole; None if it is scored in segments."""
        alone, tokenizer = self._encode_alone, self.model.tokenizer
        try:
            passes = build_pair_passes(tokenizer, pair.source, pair.target, alone(pair.target))
        except TokenMismatchError as e:
            length = len(encode_text(tokenizer, pair.source + SEPARATOR + pair.target, special=True))
            if length > self.settings.limit and self.settings.over_long == "segments":
                return None
            raise UserError(f"with {pair.source_id} as source: {e}", "use another tokenizer", pair.target_id) from e
        length = passes.conditional.length
        if length <= self.settings.limit:
            return passes
        if self.settings.over_long == "segments":
            return None
        raise UserError(
            f"with {pair.source_id} as source: {length} tokens, the profile's limit is {self.settings.limit}",
            'divide over-long pairs into segments (over_long = "segments" in the profile)',
            pair.target_id,
        )

    def _build_passage(self, pair: TextPair, passage: Passage) -> Passes:
        tokenizer = self.model.tokenizer
        start = passage.target.begin
        target = encode_text(tokenizer, pair.target[slice(*passage.target)])[:PASSAGE_TOKENS]
        source = encode_text(tokenizer, pair.source[slice(*passage.source)])[:PASSAGE_SOURCE_TOKENS]
        before = encode_text(tokenizer, pair.target[max(0, start - PRECEDING_CHARACTERS) : start])
        before = before[max(0, len(before) - PRECEDING_TOKENS) :]
        anchor = np.array([find_anchor_id(tokenizer)], np.int64)
        context = np.concatenate([anchor, source, encode_separator(tokenizer), before])
        return Passes(ScoringInput(np.concatenate([anchor, before]), target), ScoringInput(context, target))
