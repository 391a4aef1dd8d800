"""Plan which inputs the model computes together, and check that a model can be packed.

Inputs with a common context share it, and rows are filled up to a token budget. The plan is a function of the inputs
and the budget alone: it decides which numbers are in one matrix product, and so the last bits of every result.
"""

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from inspect import signature
from typing import Any, NamedTuple

import numpy as np

from pan_scdg.errors import UserError, get_first_line
from pan_scdg.lm.attention import Packing
from pan_scdg.lm.logprobs import LogProbs, compute_target_log_probs
from pan_scdg.models.load import LanguageModel, get_decoder_and_head
from pan_scdg.scdg.sequences import ScoringInput


class NotPackableError(UserError):
    """The default engine would give wrong numbers with a model or an attention."""


class Shared(NamedTuple):
    """Inputs whose contexts are equal except for the last token; a single input shares nothing."""

    members: tuple[int, ...]
    """Positions in the list of inputs."""
    prefix: int
    """Number of tokens of the common prefix; 0: no prefix."""


class PackedCall(NamedTuple):
    """One call of the model."""

    parts: tuple[Shared, ...]
    kept: bool = False
    """The prefix of its only part comes from the row before, which was the first of that part."""
    keep: bool = False
    """Keys and values of the prefix of its only part are needed by the next row."""

    @property
    def members(self) -> tuple[int, ...]:
        """Return the positions of the inputs that the row scores."""
        return tuple(member for part in self.parts for member in part.members)


def plan_rows(items: Sequence[ScoringInput], budget: int) -> list[list[PackedCall]]:
    """Return rows of at most ``budget`` tokens (a longer input is a row of its own), in the order to be run.

    Consecutive rows that use a kept prefix are one list, every other row is a list of its own. Longer parts come first
    (first fit, decreasing), equal ones in the order of the inputs.

    Raises:
        ValueError: ``budget`` is below 1.
    """
    if budget < 1:
        raise ValueError(f"a row needs at least 1 token, not {budget}")
    parts = sorted(group_contexts(items), key=lambda part: (-_count_tokens(part, items), part.members))
    chains = [_split_part(part, items, budget) for part in parts if _count_tokens(part, items) > budget]
    rows: list[list[Shared]] = []
    free: list[int] = []
    for part in parts:
        need = _count_tokens(part, items)
        if need > budget:
            continue
        at = next((i for i, left in enumerate(free) if left >= need), len(rows))
        if at == len(rows):
            rows.append([])
            free.append(budget)
        rows[at].append(part)
        free[at] -= need
    return [*chains, *([PackedCall(tuple(row))] for row in rows)]


def group_contexts(items: Sequence[ScoringInput]) -> Iterable[Shared]:
    """Yield the inputs by their common context but for its last token, in the order of the first of each."""
    same: dict[bytes, list[int]] = defaultdict(list)
    for number, item in enumerate(items):
        same[item.context_ids[:-1].tobytes()].append(number)  # the last token may be the target's first one
    for members in same.values():
        prefix = len(items[members[0]].context_ids) - 1
        if len(members) > 1 and prefix:  # a context of one token leaves nothing to share
            yield Shared(tuple(members), prefix)
        else:
            yield from (Shared((member,), 0) for member in members)


def count_own_tokens(item: ScoringInput, prefix: int) -> int:
    """Return the number of tokens of an input after the prefix, without the last, whose output predicts nothing."""
    return item.length - prefix - 1


def count_row_tokens(row: PackedCall, items: Sequence[ScoringInput]) -> int:
    """Return the number of tokens that the model computes in the call of a row."""
    own = sum(count_own_tokens(items[member], part.prefix) for part in row.parts for member in part.members)
    return own if row.kept else own + sum(part.prefix for part in row.parts)


def _count_tokens(part: Shared, items: Sequence[ScoringInput]) -> int:
    return part.prefix + sum(count_own_tokens(items[member], part.prefix) for member in part.members)


def _split_part(part: Shared, items: Sequence[ScoringInput], budget: int) -> list[PackedCall]:
    """Return rows for a part that exceeds the budget: the first has the prefix, all have as many members as fit."""
    groups: list[list[int]] = []
    free = 0
    for member in part.members:
        need = count_own_tokens(items[member], part.prefix)
        if need > free or not groups:
            free = budget if groups else budget - part.prefix
            groups.append([])
        groups[-1].append(member)
        free -= need
    last = len(groups) - 1
    return [
        PackedCall((Shared(tuple(group), part.prefix),), kept=number > 0, keep=number == 0 and last > 0)
        for number, group in enumerate(groups)
    ]


SLIDING = "sliding_attention"
"""The type of a layer with a sliding window."""
UNPACKABLE_ROPES = ("dynamic", "longrope")
"""Rotary embeddings whose angles depend on the longest position of a call."""
TOLERANCE = {"float32": 1e-3, "bfloat16": 0.5, "float16": 0.1}
"""Largest mean over the tokens of the difference between packed and alone, in nats.

Measured on a CPU: 26 random models of different architectures and scdg-mini (20 sets of inputs) have at most 3e-6, 0.04
and 0.006; Jamba, Dbrx and DiffLlama, which cannot be packed, have 1.2 and more in every type. Single tokens say less:
in bfloat16 they differ by some tenths where all is well."""


class Lengths(NamedTuple):
    """Numbers of tokens of the inputs that are computed packed and by the reference."""

    alone: Sequence[tuple[int, int]]
    """Context and target of single inputs."""
    context: int
    """Of the context that the targets `shared` have in common."""
    shared: Sequence[int]
    rows: Sequence[int]
    """Most tokens of a row in each of the passes; with 1 a row has one input, and the shared context is kept."""


SHORT = Lengths(((3, 5), (1, 8)), 6, (4, 7), (1024, 1))
Score = Callable[[Sequence[ScoringInput], int], list[LogProbs]]
"""Computes packed log-probabilities of inputs in rows of at most the given number of tokens."""


def check_config(lm: LanguageModel) -> None:
    """Raise UserError if a token does not attend to all tokens before it, angles depend on the whole call, or more.

    Short inputs, as those of `check_computed`, would not show that.
    """
    if not lm.has_plain_logits:
        raise build_not_packable_error(lm, "computes logits with more than an output head")
    text = lm.model.config.get_text_config()
    kinds = set(getattr(text, "layer_types", None) or []) - {"full_attention", SLIDING}
    rope = getattr(text, "rope_parameters", None) or getattr(text, "rope_scaling", None) or {}
    kind = rope.get("rope_type", rope.get("type", "default"))
    what = ["queries scaled by their place in the row (as in transformers 5.0)"] if _scales_by_row(lm, rope) else []
    what += [f"layers of type {other}" for other in sorted(kinds)]
    what += [f"{kind} rotary embedding"] if kind in UNPACKABLE_ROPES else []
    if what:
        raise build_not_packable_error(lm, f"has {', '.join(what)}")


def list_windows(lm: LanguageModel) -> list[int | None]:
    """Return the number of tokens that a token attends to in each layer; None: all before it."""
    text = lm.model.config.get_text_config()
    window = getattr(text, "sliding_window", None) if getattr(text, "use_sliding_window", True) else None
    kinds = getattr(text, "layer_types", None) or [SLIDING] * text.num_hidden_layers
    return [_limit_window(lm, window) if kind == SLIDING else None for kind in kinds]


def _limit_window(lm: LanguageModel, window: int | None) -> int | None:
    """Return the window, None if it is as long as the longest input."""
    return None if window is None or window >= (lm.positions or window + 1) else window


def check_layers(lm: LanguageModel, packing: Packing, windows: Sequence[int | None]) -> None:
    """Raise UserError unless all layers have used the packed attention of a row, with the windows of the config."""
    if packing.layers != list(range(len(windows))):
        used = f"uses packed attention in {len(packing.layers)} of its {len(windows)} layers"
        raise build_not_packable_error(lm, used)
    if [_limit_window(lm, window) for window in packing.windows] != list(windows):
        raise build_not_packable_error(lm, "does not tell its attention the sliding windows")


def _scales_by_row(lm: LanguageModel, rope: Mapping[str, Any]) -> bool:
    """Return True if an attention that scales queries by position (Ministral 3) is not given the position of a token.

    transformers 5.0 scales by the place in the call, which does not start again with each input of a row, 5.5 by
    position. It matters only beyond the positions of `check_computed`.
    """
    if not rope.get("llama_4_scaling_beta"):
        return False
    attention = type(get_decoder_and_head(lm.model)[0].layers[0].self_attn)
    return "position_ids" not in signature(attention.forward).parameters


def check_computed(lm: LanguageModel, score: Score, lengths: Lengths) -> float:
    """Return the mean difference of the packed log-probabilities of a few inputs from those of the reference, in nats.

    No list of architectures is complete: recurrent layers carry one input over into the next, and an attention outside
    transformers' interface attends to the whole row; both give plausible numbers.

    Raises:
        UserError: the model fails on a packed row or gives other numbers.
    """
    items = _make_inputs(lm.model.get_input_embeddings().num_embeddings, lengths)
    expected = np.concatenate([compute_target_log_probs(lm, item, 1024) for item in items])
    try:
        passes = [np.concatenate(score(items, tokens)) for tokens in lengths.rows]
    except (TypeError, ValueError, AttributeError, LookupError, RuntimeError, ImportError) as e:
        refuses = isinstance(e, TypeError) or "packing" in str(e)  # an argument of the forward pass
        what = "does not hand layouts of rows to its attention" if refuses else f"fails on a row ({get_first_line(e)})"
        raise build_not_packable_error(lm, what) from e
    difference = float(np.mean([np.abs(one - expected).mean() for one in passes]))
    if not difference <= TOLERANCE[str(lm.model.dtype).removeprefix("torch.")]:
        raise build_not_packable_error(lm, f"differs by {difference:.2g} nats a token when packed")
    return difference


def _make_inputs(vocabulary: int, lengths: Lengths) -> list[ScoringInput]:
    rng = np.random.default_rng(0)
    context = rng.integers(vocabulary, size=lengths.context)
    alone = [ScoringInput(rng.integers(vocabulary, size=c), rng.integers(vocabulary, size=t)) for c, t in lengths.alone]
    return [*alone, *(ScoringInput(context, rng.integers(vocabulary, size=t)) for t in lengths.shared)]


def build_not_packable_error(lm: LanguageModel, what: str) -> NotPackableError:
    """Return the error about a model for which the default engine would give wrong numbers."""
    return NotPackableError(f"{lm.name} {what} and cannot be packed", "use the engine reference")
