"""Whether a model can be packed: what its config says, and what it computes for a few tokens."""

from collections.abc import Callable, Sequence

import numpy as np

from pan_scdg.errors import UserError
from pan_scdg.lm.logprobs import LogProbs, target_log_probs
from pan_scdg.models.load import LanguageModel
from pan_scdg.scdg.sequences import ScoringInput

UNFIT_ROPES = ("dynamic", "longrope")
"""Rotary embeddings whose angles depend on the longest position of a call."""
ALONE, SHARED, CONTEXT = ((3, 5), (1, 8)), (4, 7), 6
"""Tokens of context and target of two inputs alone, and of targets behind one context of so many tokens."""
TOLERANCE = {"float32": 1e-3, "bfloat16": 0.5, "float16": 0.1}
"""Largest mean over the tokens of the difference between packed and alone, in nats.

Measured on a CPU: 26 random models of different architectures and scdg-mini (20 sets of inputs) have at most 3e-6, 0.04
and 0.006; Jamba, Dbrx and DiffLlama, which cannot be packed, have 1.2 and more in every type. Single tokens tell less:
in bfloat16 they differ by some tenths where all is well."""

Score = Callable[[Sequence[ScoringInput], int], list[LogProbs]]
"""Packed log-probabilities of inputs in rows of at most so many tokens."""


def check_config(lm: LanguageModel) -> None:
    """Raise UserError when a token of this model sees less than all before it, or angles depend on the whole call.

    Short inputs, as those of `check_computed`, would not show that.
    """
    text = lm.model.config.get_text_config()
    kinds = set(getattr(text, "layer_types", None) or ["full_attention"])
    rope = getattr(text, "rope_parameters", None) or getattr(text, "rope_scaling", None) or {}
    kind = rope.get("rope_type", rope.get("type", "default"))
    window = getattr(text, "sliding_window", None) if getattr(text, "use_sliding_window", True) else None
    what = [*sorted(kinds - {"full_attention"}), *([f"{kind} rotary embedding"] if kind in UNFIT_ROPES else [])]
    if window is not None and window < (lm.positions or window + 1):
        what.append(f"a sliding window of {window} tokens")
    if what:
        raise not_packable(lm, f"has {', '.join(what)}")


def check_computed(lm: LanguageModel, score: Score) -> None:
    """Compare the packed log-probabilities of a few short inputs with those of the reference.

    No list of names can know them all: recurrent layers carry one input over into the next, an attention of a model's
    own sees all of a row, and both give numbers that look like any others.

    Raises:
        UserError: the model fails on a packed row or gives other numbers.
    """
    items = _inputs(lm.model.get_input_embeddings().num_embeddings)
    expected = [target_log_probs(lm, item, 1024) for item in items]
    tail = len(ALONE)
    try:
        together = score(items, 1024)
        kept = score(items[tail:], 1)  # one input a row, the second on the kept prefix of the first
    except (TypeError, ValueError, AttributeError, LookupError, RuntimeError) as e:
        raise not_packable(lm, f"fails on a packed row ({type(e).__name__}: {e})") from e
    found = np.concatenate([*together, *kept])
    difference = np.abs(found - np.concatenate([*expected, *expected[tail:]])).mean()
    if not difference <= TOLERANCE[str(lm.model.dtype).removeprefix("torch.")]:
        raise not_packable(lm, f"differs by {difference:.2g} nats a token when packed")


def _inputs(vocabulary: int) -> list[ScoringInput]:
    rng = np.random.default_rng(0)
    context = rng.integers(vocabulary, size=CONTEXT)
    alone = [ScoringInput(rng.integers(vocabulary, size=c), rng.integers(vocabulary, size=t)) for c, t in ALONE]
    return [*alone, *(ScoringInput(context, rng.integers(vocabulary, size=t)) for t in SHARED)]


def not_packable(lm: LanguageModel, what: str) -> UserError:
    """What a user is told about a model that the default engine would give wrong numbers for."""
    return UserError(f"{lm.name} {what} and cannot be packed", "use --engine reference")
