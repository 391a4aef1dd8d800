"""The tables of a profile that no method owns, and the types of all tables.

Names and defaults are those of the paper; where the paper is silent, the docstring of the class gives our choice.
"""

from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, field_validator, model_validator

from pan_scdg.errors import UserError
from pan_scdg.scdg.aggregation import AGGREGATIONS, Aggregate

MAX_NUMBER = 10**12
"""Largest absolute value of a setting, so that computations do not overflow."""
Route = Literal["bm25-sentence", "bm25-full", "dense-sentence", "dense-full", "abstract"]
"""A first-stage ranking: by single sentences or the whole query, with BM25 or dense vectors; or title with abstract."""
DAAC_ROUTES: tuple[Route, ...] = ("bm25-sentence", "dense-sentence", "abstract")
Bm25Engine = Literal["fts5", "terrier", "impact"]
"""SQLite's FTS5, PyTerrier, or the package's own index, which ranks exactly as PyTerrier does and needs no Java."""
EncoderDtype = Literal["float32", "bfloat16"]
EngineName = Literal["packed", "reference"]
"""How a language model computes: many inputs together, or one at a time."""


def _check_aggregation(name: str) -> str:
    if name not in AGGREGATIONS:
        raise ValueError(f"{name!r} is not an aggregation: use one of {', '.join(AGGREGATIONS)}")
    return name


AggregationName = Annotated[str, AfterValidator(_check_aggregation)]
"""A name in `scdg.aggregation.AGGREGATIONS`. The paper's is "top"."""
FileName = Annotated[str, Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]*$")]
TokenId = Annotated[int, Field(ge=0)]


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

    @model_validator(mode="after")
    def _extends_by_a_factor(self) -> "ModelSettings":
        if (self.positions != "as-published") != (self.position_factor is not None):
            raise ValueError('position_factor and positions = "extended" or "yarn" need each other')
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

    method: str
    """A name in `methods.METHODS`."""
    threshold: float | None = None
    """A pair is positive when its score is at least this; None: not calibrated, decides nothing."""
    strict: float | None = None
    """A higher threshold, which hardly any pair without reuse reaches: ``check`` decides by it. None: by the other."""
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
    """The name of a bundled embedding model, or of a folder in the model cache."""
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
    """The name of a bundled embedding model, or of a folder in the model cache."""
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
            raise ValueError(f"the aggregation {self.aggregation} belongs in [gains]")
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


class ProfileTables(Table):
    """The tables of a submission that every method may read; a `Profile` adds those of methods."""

    name: str = Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]*$")
    description: str
    raw_text: bool = True
    """Texts are scored as they are in the file, and special tokens that they spell are special tokens (paper). False:
    in the Unicode form NFC, and such a token is split like any other word."""
    model: ModelSettings | None = None
    decide: Decide | None = None
    passages: Passages | None = None
    retrieval: RetrievalSettings | None = None

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
