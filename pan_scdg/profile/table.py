"""The base of all tables of a profile, and the tables that both tasks use."""

from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, field_validator, model_validator

from pan_scdg.scdg.aggregation import AGGREGATIONS

LARGEST_NUMBER = 10**12
"""Largest absolute value of a setting, so that computations do not overflow."""

Control = Literal["none", "shuffled-source", "both"]
"""Baseline of the conditional log-probability: see `scdg.gains.compute_baseline`. The paper's is "none"."""


def _check_aggregation(name: str) -> str:
    if name not in AGGREGATIONS:
        raise ValueError(f"{name!r} is not an aggregation; use one of {', '.join(AGGREGATIONS)}")
    return name


AggregationName = Annotated[str, AfterValidator(_check_aggregation)]
"""A name in `scdg.aggregation.AGGREGATIONS`. The paper's is "top"."""


class Table(BaseModel):
    """A table of a profile: no unknown keys, no silent conversion, nothing changes after reading.

    Every number in it is finite and at most ``LARGEST_NUMBER`` in size.
    """

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True, allow_inf_nan=False)

    @field_validator("*")
    @classmethod
    def _is_not_too_large(cls, value: Any) -> Any:
        for number in value if isinstance(value, tuple) else (value,):
            if isinstance(number, int | float) and abs(number) > LARGEST_NUMBER:
                raise ValueError(f"Input should not exceed {LARGEST_NUMBER:.0e} in size")
        return value


FileName = Annotated[str, Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]*$")]
Sha256 = Annotated[str, Field(pattern=r"^[0-9a-f]{64}$")]
TokenId = Annotated[int, Field(ge=0)]


class ModelSettings(Table):
    """The frozen language model and its arithmetic (paper, Table of frozen backends)."""

    name: str = Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]*$")
    tokenizer: Literal["fast", "slow"] = "fast"
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
    head_rows: int = Field(default=1024, ge=1)
    """Largest number of targets whose logits exist at one time."""
    probes: dict[str, tuple[TokenId, ...]] = Field(default_factory=dict)
    """Texts and their ids without special tokens; a tokenizer that gives others is refused."""
    fingerprint: dict[FileName, Sha256] = Field(default_factory=dict)
    """SHA-256 of files of the checkpoint, by name; each must exist with this hash."""

    @model_validator(mode="after")
    def _extends_by_a_factor(self) -> "ModelSettings":
        if (self.positions != "as-published") != (self.position_factor is not None):
            raise ValueError('position_factor goes with positions = "extended" or "yarn", which need it')
        return self

    @model_validator(mode="after")
    def _replaces_only_bf16(self) -> "ModelSettings":
        if self.dtype_without_bf16 is not None and self.dtype != "bfloat16":
            raise ValueError("dtype_without_bf16 is for a profile whose dtype is bfloat16")
        if self.dtype_without_bf16 is not None and self.attention in ("flash_attention_2", "varlen"):
            raise ValueError(f"{self.attention} needs a device with bfloat16, so that dtype_without_bf16 has no effect")
        return self


class WindowSettings(Table):
    """Query-aware source windows (paper, PAN26 source-prefix construction)."""

    words: int = Field(default=2048, ge=1)
    stride: int = Field(default=1536, ge=1)
    considered: int = Field(default=64, ge=1)
