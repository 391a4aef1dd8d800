"""What every table of a profile has in common, and the tables that both jobs use."""

from typing import Literal

from pydantic import BaseModel, ConfigDict, Field

Control = Literal["none", "shuffled-source", "both"]
"""What the conditional log-probability is held against: see `scdg.gains.Gains`. The paper's is "none"."""
Aggregation = Literal["top", "window", "window-median", "window-bounded"]
"""How the gains of a target become one score: see `scdg.aggregation.Aggregate`. The paper's is "top"."""


class Table(BaseModel):
    """A table of a profile: no unknown keys, no silent conversion, nothing changes after reading."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)


class ModelSettings(Table):
    """Which frozen language model, and the arithmetic it runs in (paper, Table of frozen backends)."""

    name: str = Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]*$")
    tokenizer: Literal["fast", "slow"] = "fast"
    dtype: Literal["float32", "bfloat16", "float16"] = "bfloat16"
    attention: Literal["sdpa", "varlen", "flash_attention_2", "eager"] = "sdpa"
    """``varlen`` is torch's own attention of packed sequences, on GPUs; the reference engine then takes ``sdpa``."""
    pack_tokens: int = Field(default=16384, ge=1)
    """Most tokens that the default engine sends through the model together; last digits depend on it."""
    head_rows: int = Field(default=1024, ge=1)
    """Target rows whose logits exist at one time."""


class WindowSettings(Table):
    """Query-aware source windows (paper, PAN26 source-prefix construction)."""

    words: int = Field(default=2048, ge=1)
    stride: int = Field(default=1536, ge=1)
    considered: int = Field(default=64, ge=1)
