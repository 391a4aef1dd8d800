"""Shared code of the parts of ``benchmarks.gpu``: rows, limits of error and ways of computing attention.

Limits follow from the arithmetic, not from one machine. A rounding in a type with ``p`` bits of precision is off by at
most ``2**-p`` of the value, and a float32 sum of ``n`` terms by some ``sqrt(n) * 2**-24`` of their norm. Attention
rounds weights, two partial results and their mean: 4 roundings. A network rounds in every layer, independently, so the
error grows as the square root of their number.
"""

import gc
import math
from collections.abc import Callable, Iterator, Mapping
from importlib.util import find_spec
from inspect import signature
from typing import NamedTuple

from pan_scdg.models.devices import FLASH_CAPABILITY

Row = dict[str, str]
"""Column -> what stands there; ``OUTCOME`` is among them."""
OUTCOME, FAILED = "outcome", "FAILED"
GIB = 1 << 30
ROUNDING = {"float32": 2.0**-24, "float16": 2.0**-11, "bfloat16": 2.0**-8}
VARIANTS = (
    ("sdpa", "float32"),
    ("sdpa", "bfloat16"),
    ("varlen", "bfloat16"),
    ("flash_attention_2", "bfloat16"),
)
"""Attention and type."""


class Part(NamedTuple):
    """A part of the benchmark: columns of its table besides the outcome, and the rows for one shape on one device."""

    columns: tuple[str, ...]
    rows: Callable[[str, str], Iterator[Row]]
    every_shape: bool = True
    """False: the largest shape that is asked for is enough."""


def attention_limit(dtype: str, keys: int) -> float:
    """Return the largest error of an attention's output vector, as a share of its length, with ``keys`` keys."""
    return 4 * (ROUNDING[dtype] + 8 * math.sqrt(keys) * ROUNDING["float32"])


def model_limit(dtype: str, tokens: int, layers: int) -> float:
    """Return the largest error of log-probabilities after some layers: root mean square, as a share of their spread.

    Measured on a CPU in bfloat16: 0.6 to 1.8 times ``sqrt(layers) * 2**-8`` for 2 to 36 layers that are 32 to 4,096
    wide. The limit is 8 times ``sqrt(layers) * 2**-8``; what a broken attention gives is more than half the spread.
    """
    return float(2 * layers**0.5 * attention_limit(dtype, tokens))


def judge(cells: Mapping[str, str], error: float, limit: float) -> Row:
    """Return a row with an error, its limit and whether it is kept; an error that is no number is not."""
    outcome = "ok" if error <= limit else f"{FAILED}: beyond the limit"
    return {**cells, "error": f"{error:.2g}", "limit": f"{limit:.2g}", OUTCOME: outcome}


def attempt(cells: Mapping[str, str], measure: Callable[[], Row]) -> Row:
    """Return ``cells`` with what ``measure`` adds, or with the first line of whatever it raised."""
    try:
        return {**cells, **measure()}
    except ModuleNotFoundError as e:
        if (e.name or "").partition(".")[0] in ("benchmarks", "pan_scdg"):
            return {**cells, OUTCOME: describe_failure(e)}
        return {**cells, OUTCOME: f"not tried: {e.name} is not installed"}
    except Exception as e:  # that of a kernel, a driver or a library: the others are still worth measuring
        return {**cells, OUTCOME: describe_failure(e)}


def describe_failure(error: Exception) -> str:
    """Return an exception as one line of a table."""
    first = (str(error).strip().splitlines() or [""])[0].replace("|", "/")
    return f"{FAILED}: {type(error).__name__}: {first}"[:300]


def find_obstacle(attention: str, device: str) -> str | None:
    """Return why an attention cannot be tried here, or None: nothing that is broken, only what is absent."""
    import torch

    if attention == "sdpa":
        return None
    if device == "cpu":
        return "needs a GPU"
    if torch.cuda.get_device_capability(device) < FLASH_CAPABILITY:
        return "needs a GPU of the Ampere generation or newer"
    if attention == "flash_attention_2":
        return None if find_spec("flash_attn") else "flash-attn is not installed"
    return None if _has_varlen() else f"torch {torch.__version__} has no varlen attention with grouped heads"


def _has_varlen() -> bool:
    try:
        from torch.nn.attention.varlen import varlen_attn
    except ImportError:
        return False
    return {"enable_gqa", "return_aux", "window_size"} <= signature(varlen_attn).parameters.keys()


def release(device: str) -> None:
    """Give a GPU's memory back that nothing uses any more."""
    if device == "cpu":
        return
    import torch

    gc.collect()
    torch.cuda.empty_cache()
