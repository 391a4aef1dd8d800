"""Units of scoring, and their computation in an actor of a cluster."""

import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from threading import Lock
from typing import NamedTuple, Protocol

from pan_scdg.cluster.actor import SWITCH, Place
from pan_scdg.lm.engine import Engine, EngineName, make_engine
from pan_scdg.lm.logprobs import LogProbs
from pan_scdg.models.fingerprint import check_same, fingerprint_weights
from pan_scdg.models.load import load_model
from pan_scdg.models.memory import explain_memory
from pan_scdg.profile import ModelSettings
from pan_scdg.scdg.sequences import ScoringInput, TokenIds, Tokenizer

AT_ONCE = 2
"""Tasks that an actor has at once: one that the model computes, and the next one, whose inputs are made meanwhile."""


class Work(Protocol):
    """Inputs that are computed together; can be pickled."""

    def make_inputs(self, tokenizer: Tokenizer) -> list[ScoringInput]:
        """Return the inputs to be scored, in a fixed order."""
        ...


class Scored(NamedTuple):
    """The target ids of one input, ``[n]``, and their log-probabilities in nats, ``[n]``."""

    target_ids: TokenIds
    log_probs: LogProbs


Values = list[Scored]
"""The result of a task: one entry per input."""


def score_inputs(items: Sequence[ScoringInput], engine: Engine) -> Values:
    """Return the target ids and log-probabilities of the inputs of a task."""
    return [Scored(i.target_ids, v) for i, v in zip(items, engine.compute_log_probs(items), strict=True)]


class Computed(NamedTuple):
    """The result of a task, and its cost."""

    values: Values
    tokens: int
    splits: list[int]
    """See `Engine`."""


@dataclass(frozen=True)
class ScoringOrders:
    """The preparation of an actor that scores; see `load_model` and `make_engine`."""

    folder: Path
    settings: ModelSettings
    engine: EngineName
    fingerprint: str

    def prepare(self) -> None:
        """Import the libraries."""
        import torch  # noqa: F401
        from transformers.utils import logging

        logging.disable_progress_bar()

    def load(self, place: Place) -> Callable[[Work], Computed]:
        """Return the function that scores a task; `AT_ONCE` threads may call it.

        Raises:
            UserError: the model is not at this path, or it is another one.
        """
        import torch

        if not place.here:
            check_same(self.folder, fingerprint_weights, self.fingerprint)
        torch.set_num_threads(place.threads)
        lm = load_model(self.folder, self.settings, place.device, fingerprint=self.fingerprint)
        return share_engine(make_engine(self.engine, lm, self.settings), lm.tokenizer)


def share_engine(engine: Engine, tokenizer: Tokenizer) -> Callable[[Work], Computed]:
    """Return a function that scores a task, for threads: one makes inputs while another one computes."""
    sys.setswitchinterval(SWITCH)
    tokenizing, computing = Lock(), Lock()  # neither part may be used by two threads

    def compute(work: Work) -> Computed:
        with tokenizing:
            items = work.make_inputs(tokenizer)
        with computing:
            tokens, splits = engine.tokens, len(engine.splits)
            values = score_inputs(items, engine)
            return Computed(values, engine.tokens - tokens, engine.splits[splits:])

    return explain_memory(compute)
