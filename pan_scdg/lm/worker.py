"""One worker: a process with a model of its own that computes the works which come through its pipe."""

import os
import pickle
import signal
import traceback
from contextlib import suppress
from multiprocessing.connection import Connection
from pathlib import Path
from queue import PriorityQueue
from threading import Thread
from typing import Any, NamedTuple, NoReturn, Protocol

from pan_scdg.errors import UserError, UserErrors
from pan_scdg.lm.engine import Engine, EngineName, engine_of
from pan_scdg.lm.logprobs import LogProbs
from pan_scdg.models.load import LanguageModel, load_model
from pan_scdg.profile import ModelSettings
from pan_scdg.scdg.arrays import TokenIds
from pan_scdg.scdg.sequences import ScoringInput, Tokenizer

Key = tuple[int, int]
"""A work's place in a queue, the smallest first; no two are equal."""
Values = list[tuple[TokenIds, LogProbs]]
"""Of each input of a work the target ids, ``[n]``, and their log-probabilities in nats, ``[n]``."""


class Work(Protocol):
    """Inputs that are computed together; can be pickled."""

    def inputs(self, tokenizer: Tokenizer) -> list[ScoringInput]:
        """What is to be scored, in a fixed order."""
        ...


class Orders(NamedTuple):
    """What a worker is told at its start; see `load_model` and `engine_of`."""

    folder: Path
    settings: ModelSettings
    engine: EngineName
    device: str
    fingerprint: str
    threads: int


class Ready(NamedTuple):
    """Sent when the model is loaded."""


class Started(NamedTuple):
    """Sent before a work is computed."""

    key: Key


class Failure(NamedTuple):
    """An exception on its way to the caller; sent alone when the model cannot be loaded."""

    faults: list[tuple[str, str, str | Path | None, int | None]]
    """The arguments of each UserError; none for other exceptions."""
    what: str
    trace: str

    def error(self) -> Exception:
        """The UserError itself; for others a RuntimeError whose cause has the worker's traceback as its text."""
        if self.faults:
            errors = [UserError(*fault) for fault in self.faults]
            return errors[0] if len(errors) == 1 else UserErrors(errors)
        error = RuntimeError(self.what)
        error.__cause__ = RuntimeError(f"in the worker\n{self.trace}")
        return error


class Finished(NamedTuple):
    """Sent after a work: what it gave, the tokens it took and what had to be split for it."""

    key: Key
    outcome: Values | Failure
    tokens: int
    splits: list[dict[str, int]]


GO: tuple[Key, bytes] = (0, 0), b""
"""Comes before all works: the worker may load the model."""
Message = Ready | Started | Finished | Failure


def serve(orders: Orders, pipe: Connection) -> None:
    """Load the model after `GO`, then compute whatever arrives as ``(key, pickled work)``, small keys first, until the
    other end is closed."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C reaches all processes; the parent decides what it means
    inbox: PriorityQueue[tuple[Key, bytes]] = PriorityQueue()
    Thread(target=_receive, args=(pipe, inbox), daemon=True).start()
    with suppress(BrokenPipeError, ConnectionResetError):  # the parent is gone, and `_receive` ends this process
        try:
            _prepare(orders.threads)
            inbox.get()
            lm = _load(orders)
            engine = engine_of(orders.engine, lm, orders.settings)
        except Exception as e:
            pipe.send(_failure(e, orders.device))
            return
        pipe.send(Ready())
        while True:
            key, work = inbox.get()
            pipe.send(Started(key))
            pipe.send(_finished(key, work, lm, engine))


def _receive(pipe: Connection, inbox: "PriorityQueue[tuple[Key, bytes]]") -> NoReturn:
    """Take in works while others are computed.

    The parent then never waits in the middle of sending to a worker that waits in the middle of sending to it, and a
    parent that was killed is noticed at once.
    """
    with suppress(EOFError, OSError):
        while True:
            inbox.put(pipe.recv())
    os._exit(0)


def _prepare(threads: int) -> None:
    """What takes seconds and little memory, so that workers do it at the same time."""
    import torch
    from transformers.utils import logging

    no_bars: Any = logging.disable_progress_bar
    no_bars()
    torch.set_num_threads(threads)


def _load(orders: Orders) -> LanguageModel:
    return load_model(orders.folder, orders.settings, orders.device, fingerprint=orders.fingerprint)


def _finished(key: Key, work: bytes, lm: LanguageModel, engine: Engine) -> Finished:
    tokens, splits = engine.tokens, len(engine.splits)
    outcome: Values | Failure
    try:
        known: Work = pickle.loads(work)
        items = known.inputs(lm.tokenizer)
        outcome = [(i.target_ids, v) for i, v in zip(items, engine.log_probs(items), strict=True)]
    except Exception as e:
        outcome = _failure(e, lm.device)
    return Finished(key, outcome, engine.tokens - tokens, engine.splits[splits:])


def _failure(e: Exception, device: str) -> Failure:
    errors = e.errors if isinstance(e, UserErrors) else [e] if isinstance(e, UserError) else []
    faults = [(error.what, error.remedy, error.where, error.line) for error in errors]
    return Failure(faults, f"{type(e).__name__} in the worker on {device}: {e}", traceback.format_exc())
