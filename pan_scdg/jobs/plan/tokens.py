"""Count the tokens of batches and the operations that they cost, and estimate hours for GPUs of other machines."""

from collections.abc import Sequence
from typing import NamedTuple

from pan_scdg.errors import UserError
from pan_scdg.lm.packing import Row, count_own_tokens, count_row_tokens, plan_rows
from pan_scdg.models.config import ModelConfig
from pan_scdg.models.devices import resolve_device
from pan_scdg.profile import Profile
from pan_scdg.scdg.sequences import ScoringInput

TFLOPS = {"A100": 312.0, "L40S": 362.0, "H100": 989.0, "H200": 989.0}
"""Published peak of dense bfloat16 products, in 10^12 operations a second (NVIDIA's data sheets; H100 and H200 SXM)."""
SHARE = 0.4
"""Share of the peak that is assumed; no GPU has been measured in this project."""


def choose_gpus(profile: Profile, named: str | None, device: str) -> tuple[str, ...]:
    """Return the GPUs that a plan is for: the named one, or all known ones for a profile that needs one and has none.

    Empty if the plan measures the device of this machine.

    Raises:
        UserError: the named GPU is not known.
    """
    if named is not None and named not in TFLOPS:
        raise UserError(
            f"the speed of the GPU {named[:40]!r} is not known", f"name one of {', '.join(TFLOPS)}", "--gpu"
        )
    if named is not None:
        return (named,)
    absent = device == "auto" and profile.needs_gpu and resolve_device("auto") == "cpu"
    return tuple(TFLOPS) if absent else ()


class Tokens(NamedTuple):
    """Numbers of tokens to compute; fractions if they were sampled."""

    packed: float
    """Common prefixes count once, as in the default engine."""
    full: float
    """Every input counts in full, as in the reference engine."""
    attended: float = 0.0
    """Pairs of a token and one that it attends to, with common prefixes once."""
    targets: float = 0.0
    """Tokens whose logits are computed."""

    def __add__(self, other: "Tokens") -> "Tokens":  # type: ignore[override]
        """Return the sum."""
        return Tokens(*(one + two for one, two in zip(self, other, strict=True)))

    def multiply(self, factor: float) -> "Tokens":
        """Return the tokens multiplied by a factor."""
        return Tokens(*(number * factor for number in self))


def count_tokens(items: Sequence[ScoringInput], budget: int) -> Tokens:
    """Return the tokens of a batch that is computed in calls of at most ``budget`` tokens."""
    rows = [row for chain in plan_rows(items, budget) for row in chain]
    return Tokens(
        sum(count_row_tokens(row, items) for row in rows),
        sum(item.length for item in items),
        sum(_count_attended(row, items) for row in rows),
        sum(len(item.target_ids) for item in items),
    )


def _count_attended(row: Row, items: Sequence[ScoringInput]) -> int:
    """Return the number of pairs of a token and one up to it in the same input, for a call."""
    found = 0
    for part in row.parts:
        prefix = part.prefix * (part.prefix + 1) // 2
        found += 0 if row.kept else prefix
        for member in part.members:
            length = part.prefix + count_own_tokens(items[member], part.prefix)
            found += length * (length + 1) // 2 - prefix
    return found


def count_operations(config: ModelConfig, tokens: Tokens) -> float | None:
    """Return the floating-point operations of a decoder with gated MLPs, as the default engine computes.

    Two operations for each weight of a layer and token, four for each pair of tokens and number of a query, and two for
    each weight of the output head and target. None if the config lacks a size, or has experts.
    """
    names = ("num_hidden_layers", "hidden_size", "intermediate_size", "num_attention_heads", "vocab_size")
    sizes = [config.text.get(name) for name in names]
    if any("expert" in name for name in config.text):
        return None
    layers, hidden, inner, heads, vocabulary = (size if isinstance(size, int) else 0 for size in sizes)
    if not all((layers, hidden, inner, heads, vocabulary)):
        return None
    width = int(config.text.get("head_dim") or hidden // heads)
    shared = int(config.text.get("num_key_value_heads") or heads)
    weights = hidden * width * (2 * heads + 2 * shared) + 3 * hidden * inner
    return layers * (2.0 * weights * tokens.packed + 4.0 * heads * width * tokens.attended) + (
        2.0 * vocabulary * hidden * tokens.targets
    )


def estimate_hours(operations: float, gpu: str) -> float:
    """Return the hours of these operations on one GPU of `TFLOPS`, at `SHARE` of its published peak."""
    return operations / (TFLOPS[gpu] * 1e12 * SHARE) / 3600
