"""Teacher-forced token log-probabilities (paper, Teacher-Forced Token Log Probabilities)."""

from collections.abc import Callable
from inspect import signature
from typing import TYPE_CHECKING, TypeVar

import numpy as np
import numpy.typing as npt

from pan_scdg.errors import InputError, UserError
from pan_scdg.models.devices import explain_too_large, free_memory, is_out_of_memory
from pan_scdg.models.load import LanguageModel, call, get_decoder_and_head, needs_cache
from pan_scdg.scdg.sequences import ScoringInput

if TYPE_CHECKING:
    import torch

Value = TypeVar("Value")
LogProbs = npt.NDArray[np.float32]
HEAD_ROWS = 1024
"""Largest number of targets whose logits exist at one time; bounds memory."""


def compute_target_log_probs(lm: LanguageModel, item: ScoringInput, rows: int = HEAD_ROWS) -> LogProbs:
    """Return the log-probability in nats of each target token given all before it (float32, one per token).

    One forward pass of batch size one through the decoder; logits exist for at most ``rows`` positions at a time, or
    for all targets where only the model's own forward pass gives them.

    Raises:
        UserError: the input exceeds the model's positions or the device's memory, or the model gives no finite number.
        ValueError: no context or target token, an id outside the vocabulary, or ``rows`` below 1.
    """
    check_input(lm, item)
    if rows < 1:
        raise ValueError(f"rows must be at least 1, not {rows}")
    result = compute_within_memory(lambda: _compute(lm, item, rows), item.length, lm.device)
    if not np.isfinite(result).all():
        raise build_not_finite_error(lm)
    return result


def _compute(lm: LanguageModel, item: ScoringInput, rows: int) -> LogProbs:
    import torch

    with torch.inference_mode():
        ids = torch.from_numpy(np.concatenate([item.context_ids, item.target_ids])).to(lm.device)
        # A mask of ones changes nothing. Without mask and cache, transformers checks for several sequences packed into
        # one and builds a [length, length] causal mask; attention then takes twice the time on a CPU.
        seen = torch.ones_like(ids[None])
        inputs = {"input_ids": ids[None], "attention_mask": seen, "use_cache": needs_cache(lm.model)}
        target = ids[len(item.context_ids) :]
        # The logits of position t predict token t + 1; those of the last position are not needed.
        if lm.has_plain_logits:
            decoder, head = get_decoder_and_head(lm.model)
            before = call(decoder, **inputs).last_hidden_state[0, -len(target) - 1 : -1]
        else:
            if "logits_to_keep" in signature(lm.model.forward).parameters:
                inputs["logits_to_keep"] = len(target) + 1
            head, before = torch.nn.Identity(), call(lm.model, **inputs).logits[0, -len(target) - 1 : -1]
        chunks = (
            gather_log_softmax(head(h), t)
            for h, t in zip(torch.split(before, rows), torch.split(target, rows), strict=True)
        )
        result: LogProbs = torch.cat(list(chunks)).cpu().numpy()
    return result


def gather_log_softmax(logits: "torch.Tensor", ids: "torch.Tensor") -> "torch.Tensor":
    """Return ``z[id] - m - log(sum(exp(z - m)))``, ``m = max z``, of each row in fp32 (Eq. stable-token-logprob).

    The result does not depend on the number of threads.

    Args:
        logits: ``[rows, vocabulary]`` in any float type; may be overwritten.
        ids: ``[rows]``, one vocabulary index per row.
    """
    if len(logits) == 1:
        # torch divides rows among threads, but splits a single row, which changes the order of the sum
        return gather_log_softmax(logits.repeat(2, 1), ids.repeat(2))[:1]
    z = logits.float()
    z = z.sub_(z.amax(dim=-1, keepdim=True))
    chosen = z.gather(-1, ids[:, None])[:, 0]
    return chosen - z.exp_().sum(dim=-1).log()


def check_input(lm: LanguageModel, item: ScoringInput) -> None:
    """Check an input; raise the errors of `compute_target_log_probs` before anything is computed."""
    if not len(item.context_ids) or not len(item.target_ids):
        raise ValueError("needs at least one context token and one target token")
    if lm.positions is not None and item.length > lm.positions:
        raise UserError(
            f"an input of {item.length} tokens exceeds the {lm.positions} positions of {lm.name}",
            'lower the limit or context in the profile, or use over_long = "segments" in it',
        )
    vocabulary = lm.model.get_input_embeddings().num_embeddings
    for ids in (item.context_ids, item.target_ids):
        # On a GPU an index out of range is an assertion that ends the whole process.
        if ids.min() < 0 or ids.max() >= vocabulary:
            raise ValueError(f"a token id is outside the vocabulary of {vocabulary}")


def compute_within_memory(compute: Callable[[], Value], length: int, device: str) -> Value:
    """Return what ``compute`` returns; a lack of memory for an input of ``length`` tokens is a UserError."""
    import torch

    try:
        return compute()
    except (torch.OutOfMemoryError, MemoryError, RuntimeError) as e:
        if not is_out_of_memory(e):
            raise
    # outside the except block: the traceback of its exception would keep the tensors of the failed computation
    free_memory(device)
    raise explain_too_large(length, device)


def build_not_finite_error(lm: LanguageModel) -> InputError:
    """Return the error about a model whose probabilities are not finite."""
    return InputError(
        f"{lm.name} gives probabilities that are not finite in {lm.model.dtype}", "use bfloat16 or float32"
    )
