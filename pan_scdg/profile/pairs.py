"""Settings of pair detection: the table ``[pairs]`` (paper, PAN25)."""

from typing import Annotated, Literal

from pydantic import Field, model_validator

from pan_scdg.profile.baseline import LogisticWeights
from pan_scdg.profile.table import AggregationName, Control, Sha256, Table, WindowSettings
from pan_scdg.scdg.aggregation import AGGREGATIONS

PAPER_GRID = (1, 2, 5, 10, 20, 30, 50)
WINDOW_GRID = (64, 96, 128, 192, 256)


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
    """The data and the model on which q or w and the threshold were chosen."""

    model: Sha256 | None = None
    """Fingerprint of the checkpoint that gave the scores (`models.fingerprint.fingerprint_weights`). The threshold
    is not applied to other models. None: not recorded, as in profiles of earlier versions."""
    dtype: str | None = None
    """The dtype that it computed in; scores differ slightly in another dtype."""
    noise: float | None = Field(default=None, ge=0)
    """Largest difference of a score between processors, for this model and dtype, in nats; None: not measured."""
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
    """None: verdicts have no warnings about targets unlike those of the calibration."""


class PairSettings(Table):
    """Pair detection (paper, PAN25). The parameter of ``top`` is q, that of the window aggregations is w."""

    limit: int = Field(ge=8)
    """Largest number of tokens of a combined input; ``over_long`` applies to longer ones."""
    over_long: Literal["error", "segments"] = "error"
    control: Control = "none"
    aggregation: AggregationName = "top"
    q: float | None = Field(default=None, gt=0, le=100)
    """Percent of the gains that are averaged; 100 is the paper's Average."""
    w: int | None = Field(default=None, ge=1)
    """Width of a window in consecutive tokens of the target."""
    weights: LogisticWeights | None = None
    """Of ``gain-logistic``: mean, median and positive-gain rate; ``calibrate`` fits them. None: not fitted."""
    threshold: float | None = None
    """A pair is positive when its score is at least this; None: not calibrated, decides nothing."""
    most_false_positives: float = Field(default=1.0, ge=0, le=1)
    """Largest share of negative calibration pairs that the threshold may call positive; with 1 the F1 alone decides."""
    q_grid: tuple[float, ...] = PAPER_GRID
    """Values that ``calibrate`` chooses q from."""
    w_grid: tuple[Annotated[int, Field(ge=1)], ...] = Field(default=WINDOW_GRID, min_length=1)
    """Values that ``calibrate`` chooses w from."""
    segments: SegmentSettings = SegmentSettings()
    calibration: Calibration | None = None

    @model_validator(mode="after")
    def _has_one_parameter(self) -> "PairSettings":
        if AGGREGATIONS[self.aggregation].joint:
            raise ValueError(f"the aggregation {self.aggregation} compares candidates: use it in [retrieval]")
        name = self.parameter
        for other in {"q", "w"} - {name}:
            if getattr(self, other) is not None:
                raise ValueError(
                    f"{other} is not a parameter of the aggregation {self.aggregation}, which uses {name or 'none'}"
                )
        if self.threshold is not None and name is not None and getattr(self, name) is None:
            raise ValueError(f"a threshold needs the {name} that it was chosen with")
        return self

    @model_validator(mode="after")
    def _has_weights_of_its_features(self) -> "PairSettings":
        features = len(AGGREGATIONS[self.aggregation].statistics)
        if self.weights is not None and (features < 2 or len(self.weights.coefficients) != features):
            raise ValueError("weights are of the three features of the aggregation gain-logistic")
        if self.threshold is not None and features > 1 and self.weights is None:
            raise ValueError("a threshold needs the weights that it was chosen with")
        return self

    @property
    def parameter(self) -> Literal["q", "w"] | None:
        """Return the name of the aggregation's parameter, None if it has none."""
        return AGGREGATIONS[self.aggregation].parameter

    @property
    def grid(self) -> tuple[float, ...]:
        """Return the values that ``calibrate`` chooses the aggregation's parameter from; 0 stands for no parameter."""
        if self.parameter is None:
            return (0.0,)
        return self.q_grid if self.parameter == "q" else self.w_grid
