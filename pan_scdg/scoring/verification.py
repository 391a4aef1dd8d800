"""Measure the gain of single passages with a language model.

The gain of a passage is computed like that of a document, with the matching span of the source in the context. The
same span with shuffled words is the control: its gain is the part that the topic and the words alone explain.
"""

import json
from collections.abc import Sequence
from typing import Annotated, NamedTuple

import numpy as np
from pydantic import Strict, TypeAdapter

from pan_scdg.digests import hash_text
from pan_scdg.own_files import EXACT, parse_as
from pan_scdg.align.align import Evidence
from pan_scdg.records import Passage
from pan_scdg.scdg.aggregation import Floats
from pan_scdg.scdg.control import shuffle_source
from pan_scdg.scdg.sequences import Passes, ScoringInput, encode_separator, encode_text, find_anchor_id
from pan_scdg.scoring.model import ScoringModel
from pan_scdg.scoring.passes import PassScorer
from pan_scdg.store import Store, make_key

TARGET_TOKENS = 256
"""Tokens of a passage that are scored; the rest of a longer one is left out, which bounds the cost."""
SOURCE_TOKENS = 512
"""Tokens of the place in the source."""
PRECEDING_TOKENS = 64
PRECEDING_CHARACTERS = 400
"""Text in front of the passage that both passes begin with, so that its first words are no surprise."""
LARGEST = 3.0
"""Gains count up to this many nats, either way: one rare name proves no reuse."""
DECIMALS = 6
"""Precision of stored gains, which a computed and a stored one share."""


class PassageGains(NamedTuple):
    """Gains of the first `TARGET_TOKENS` tokens of a passage, in nats."""

    gains: tuple[float, ...]
    """With the place of the source in context."""
    controls: tuple[float, ...]
    """With its words in another order."""

    @property
    def gain(self) -> float:
        """Return the mean gain in nats per token, each bounded to `LARGEST`; 0 without tokens."""
        return _average(self.gains)

    @property
    def control(self) -> float:
        """Return the same of the control."""
        return _average(self.controls)


_STORED = TypeAdapter(Annotated[tuple[list[float], list[float]], Strict(False)], config=EXACT)


class Verifier:
    """Measures gains of passages; equal texts and model give equal numbers, whatever else is measured."""

    def __init__(self, model: ScoringModel, store: Store) -> None:
        self.model, self._store = model, store

    def make_key(self, target: str, source: str, passage: Passage) -> str:
        """Return the store's key of a passage's gain."""
        texts = {"target": hash_text(target), "source": hash_text(source), "passage": passage[:4]}
        sizes = [TARGET_TOKENS, SOURCE_TOKENS, PRECEDING_TOKENS, PRECEDING_CHARACTERS, LARGEST]
        return make_key("passage gains", {**self.model.list_key_parts(), "sizes": sizes, **texts})

    def measure(self, target: str, source: str, passage: Passage) -> PassageGains:
        """Return the gains of a passage of a target and a source, and their controls."""
        key = self.make_key(target, source, passage)
        self._store.use([key])
        stored = self._store.read(key, lambda data: parse_as(data, _STORED))
        if stored is not None:
            return PassageGains(*map(tuple, stored))
        found = self._compute(self._build(target, source, passage))
        self._store.put([(key, json.dumps(found).encode())])
        return found

    def add_gains(self, target: str, source: str, found: Sequence[Evidence]) -> list[Evidence]:
        """Return the passages of a pair with gain and control."""
        measured = [self.measure(target, source, evidence.passage) for evidence in found]
        return [
            evidence._replace(gain=gains.gain, control=gains.control)
            for evidence, gains in zip(found, measured, strict=True)
        ]

    def _compute(self, passes: Passes) -> PassageGains:
        if not len(passes.unconditional.target_ids):
            return PassageGains((), ())
        gains = PassScorer(self.model, self._store).compute_gains([passes])
        if gains.control is None:
            raise ValueError("the control is missing")
        return PassageGains(_round(gains.gains), _round(gains.control - gains.unconditional))

    def _build(self, target: str, source: str, passage: Passage) -> Passes:
        tokenizer = self.model.tokenizer
        start, length, source_start, source_length, *_ = passage
        text, region = target[start : start + length], source[source_start : source_start + source_length]
        scored, given = encode_text(tokenizer, text)[:TARGET_TOKENS], encode_text(tokenizer, region)[:SOURCE_TOKENS]
        before = encode_text(tokenizer, target[max(0, start - PRECEDING_CHARACTERS) : start])
        before = before[max(0, len(before) - PRECEDING_TOKENS) :]
        shuffled = shuffle_source(tokenizer, given, hash_text(region), hash_text(text))
        anchor = np.array([find_anchor_id(tokenizer)], np.int64)
        after = np.concatenate([encode_separator(tokenizer), before])
        return Passes(
            ScoringInput(np.concatenate([anchor, before]), scored),
            ScoringInput(np.concatenate([anchor, given, after]), scored),
            ScoringInput(np.concatenate([anchor, shuffled, after]), scored),
        )


def _round(gains: Floats) -> tuple[float, ...]:
    return tuple(np.round(gains.astype(np.float64), DECIMALS).tolist())


def _average(gains: Sequence[float]) -> float:
    return float(np.clip(gains, -LARGEST, LARGEST).mean()) if gains else 0.0
