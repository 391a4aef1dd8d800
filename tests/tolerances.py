"""How far two right results may lie apart: bounds that follow from the arithmetic, not from one machine.

Processors sum in another order, with other widths and instructions, so that last digits differ. A sum of n products in
a format of unit roundoff u has a relative error of about sqrt(n) u, since roundings are as good as independent (Higham
and Mary, A New Approach to Probabilistic Rounding Error Analysis, 2019). Matrix products add up in float32 whatever the
format of their operands is; what is stored in between is rounded to that format once more. After k such steps, each of
which hands on the error of those before it, the relative error has grown by sqrt(k): its standard deviation is

    sqrt(k) (u + u32 sqrt(n))

and three of them are allowed. Where texts are thousands of tokens some token lies further out; what makes up for it
is that magnitudes below are the largest possible ones. `test_tolerances.py` holds both ends: what float32 computes
is well within the bound of float64, and mistakes such as a shifted token are at least ten times beyond it.
"""

from collections.abc import Sequence
from math import sqrt
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from pan_scdg.models.devices import can_compute
from pan_scdg.scdg.sequences import ScoringInput

DEVIATIONS = 3
STEPS_OF_A_LAYER = 18
"""Norm, three projections, rotation (3), scores, softmax, mixture, projection, sum; norm, two, gate (2), one, sum."""


def relative_error(dtype: str, steps: int, terms: int) -> float:
    """Return the relative error of ``steps`` operations in a row whose sums have at most ``terms`` terms."""
    import torch

    def unit(name: str) -> float:
        return float(torch.finfo(getattr(torch, name)).eps) / 2

    return DEVIATIONS * sqrt(steps) * (unit(dtype) + unit("float32") * sqrt(terms))


def skip_unless_computed(dtype: str) -> None:
    """Skip a test on a CPU that does not compute in a type: torch's attention in bfloat16 needs its AVX-512."""
    if not can_compute(dtype, "cpu"):
        pytest.skip(f"torch cannot compute in {dtype} with this ATEN_CPU_CAPABILITY")


def log_prob_tolerance(model: Any, length: int) -> float:
    """Return the largest difference in nats that rounding leaves in a log-probability of an input of ``length`` tokens.

    A logit is the product of a row of the output head, times the weights of the final norm, and the last hidden state
    h, to which that norm gives the length sqrt(d). A relative error e of h moves no logit by more than e |row| sqrt(d),
    hence none by more than e M, where M is the largest logit that the model can give. The log-probability is a logit
    less the log-sum-exp of all, which moves no more than the logit that moves most: 2 e M in all. A gain, a difference
    of two log-probabilities, has twice this bound; so has any mean, median or best window of gains.
    """
    from pan_scdg.models.load import get_decoder_and_head

    decoder, head = get_decoder_and_head(model)
    text = model.config.get_text_config()
    rows = head.weight.detach().double() * decoder.norm.weight.detach().double()
    largest = float(rows.norm(dim=1).max()) * sqrt(rows.shape[1])
    steps, terms = STEPS_OF_A_LAYER * text.num_hidden_layers + 2, max(text.hidden_size, text.intermediate_size, length)
    return 2 * largest * relative_error(str(model.dtype).removeprefix("torch."), steps, terms)


def check_log_probs(model: Any, found: Sequence[Any], expected: Sequence[Any], items: Sequence[ScoringInput]) -> None:
    """Assert that two ways to compute the log-probabilities of ``items`` differ by no more than rounding."""
    for values, others, item in zip(found, expected, items, strict=True):
        assert np.shape(values) == np.shape(others) == item.target_ids.shape
        np.testing.assert_allclose(values, others, atol=2 * log_prob_tolerance(model, item.length), rtol=0)


def vector_tolerance(folder: Path) -> float:
    """Return the largest distance of two right unit vectors of the encoder in ``folder``.

    A relative error e moves a vector of length 1 by e, and two that err in opposite directions are 2 e apart; so far
    apart at most are the cosines of both with a third.
    """
    from transformers import AutoConfig

    config = AutoConfig.from_pretrained(folder)
    steps = STEPS_OF_A_LAYER * config.num_hidden_layers + 2
    return 2 * relative_error("float32", steps, max(config.hidden_size, config.intermediate_size))


def check_vectors(folder: Path, found: Any, expected: Any) -> None:
    """Assert that two ways to compute a unit vector with the encoder in ``folder`` differ by no more than rounding."""
    assert np.linalg.norm(np.asarray(found) - np.asarray(expected)) <= vector_tolerance(folder)
