"""The table ``[pairs]``: job 1 (paper, PAN25)."""

from typing import Annotated, Literal

from pydantic import Field, model_validator

from pan_scdg.profile.table import AggregationName, Control, Sha256, Table, WindowSettings
from pan_scdg.scdg.aggregation import AGGREGATIONS

PAPER_GRID = (1, 2, 5, 10, 20, 30, 50)
WINDOW_GRID = (64, 96, 128, 192, 256)


class SegmentSettings(Table):
    """How an over-long pair is scored piece by piece (not in the paper, which excludes such pairs)."""

    target_tokens: int = Field(default=1024, ge=1)
    """Largest segment of the target, cut at sentence boundaries where there are any."""
    context_tokens: int = Field(default=128, ge=0)
    """Preceding target text that both passes see in front of a segment."""
    source_tokens: int = Field(default=1536, ge=1)
    """Budget of the source windows in front of a segment."""
    windows: WindowSettings = WindowSettings(words=128, stride=128, considered=1_000_000)


class CalibrationRange(Table):
    """What the targets of the calibration pairs were like: see `scdg.calibration_range`."""

    tokens: tuple[int, int]
    """Fewest and most scored tokens."""
    nats_per_byte: tuple[float, float]
    """Least and largest code length without a source, over the UTF-8 bytes of the target."""
    common_words: float
    """Smallest share of words that are one token."""


class Calibration(Table):
    """Where q or w and the threshold come from."""

    model: Sha256 | None = None
    """Fingerprint of the checkpoint that gave the scores (`models.fingerprint.weights_fingerprint`). The threshold
    decides about no other's. None: not recorded, as in profiles of earlier versions."""
    dtype: str | None = None
    """What it computed in; another dtype moves scores a little."""
    noise: float | None = Field(default=None, ge=0)
    """How far a score of this model in this dtype moves with the processor, in nats; None: not measured."""
    digest: str
    pairs: int
    positives: int
    f1: float
    accuracy: float
    negatives: tuple[float, ...] = ()
    """Scores of the negative pairs in order, 4 decimals, at most 1,000 of them."""
    negative_pairs: int = Field(default=0, ge=0)
    """How many negative pairs there are."""
    range: CalibrationRange | None = None
    """None: a verdict does not say whether its target is like those of the calibration."""


class PairSettings(Table):
    """Job 1 (paper, PAN25). The parameter of ``top`` is q, that of all kinds of windows is w."""

    limit: int = Field(ge=8)
    """Most tokens of a combined input; beyond it ``over_long`` applies."""
    over_long: Literal["error", "segments"] = "error"
    control: Control = "none"
    aggregation: AggregationName = "top"
    q: float | None = Field(default=None, gt=0, le=100)
    """Percent of the gains that are averaged; 100 is the paper's Average."""
    w: int | None = Field(default=None, ge=1)
    """Consecutive tokens of the target that a window holds."""
    threshold: float | None = None
    """A pair is positive when its score is at least this; None: not calibrated, decides nothing."""
    most_false_positives: float = Field(default=1.0, ge=0, le=1)
    """Largest share of negative calibration pairs that the threshold may call positive; with 1 only F1 counts."""
    q_grid: tuple[float, ...] = PAPER_GRID
    """What ``calibrate`` chooses q from."""
    w_grid: tuple[Annotated[int, Field(ge=1)], ...] = Field(default=WINDOW_GRID, min_length=1)
    """What ``calibrate`` chooses w from."""
    segments: SegmentSettings = SegmentSettings()
    calibration: Calibration | None = None

    @model_validator(mode="after")
    def _has_one_parameter(self) -> "PairSettings":
        if AGGREGATIONS[self.aggregation].joint:
            raise ValueError(f"the aggregation {self.aggregation} compares candidates: use it in [retrieval]")
        name, other = self.parameter, {"q": "w", "w": "q"}[self.parameter]
        if getattr(self, other) is not None:
            raise ValueError(f"{other} is no parameter of the aggregation {self.aggregation}, which has {name}")
        if self.threshold is not None and getattr(self, name) is None:
            raise ValueError(f"a threshold needs the {name} that it was chosen with")
        return self

    @property
    def parameter(self) -> Literal["q", "w"]:
        """Name of the aggregation's parameter."""
        return AGGREGATIONS[self.aggregation].parameter

    @property
    def grid(self) -> tuple[float, ...]:
        """Values that ``calibrate`` chooses the aggregation's parameter from."""
        return self.q_grid if self.parameter == "q" else self.w_grid
