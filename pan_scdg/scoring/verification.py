"""Ask the language model about single passages: is this one cheaper because of that place in the source?

The gain of a passage is measured as that of a document is, with a place of the source as the source. The same place
with its words in another order is the control: it shows how much of the gain the topic and its words alone explain.
"""

import json
from collections.abc import Sequence
from typing import Annotated, Any, NamedTuple

import numpy as np
from pydantic import Strict, TypeAdapter

from pan_scdg.digests import hash_text
from pan_scdg.own_files import EXACT, parse_as
from pan_scdg.passages.align import Evidence
from pan_scdg.passages.window import Span, Window
from pan_scdg.records import Passage, TextPair
from pan_scdg.scdg.control import shuffle_source
from pan_scdg.scdg.gains import Gains
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


class PassageGain(NamedTuple):
    """Means over the tokens of a passage, in nats per token, of gains bounded to `LARGEST`."""

    gain: float
    """With the place of the source in context."""
    control: float | None
    """With its words in another order; None if it was not measured."""


_STORED = TypeAdapter(Annotated[tuple[float, float | None], Strict(False)], config=EXACT)


class Verifier:
    """Measures gains of passages; equal texts and model give equal numbers, whatever else is measured.

    Args:
        model: the language model.
        store: keeps the gains and the unconditional log-probabilities; None: nothing is kept.
    """

    def __init__(self, model: ScoringModel, store: Store | None) -> None:
        self.model, self._store = model, store
        self.keys: dict[str, None] = {}
        """The store's keys of all gains that were asked for."""

    def identify(self) -> dict[str, Any]:
        """Return what the numbers depend on."""
        sizes = [TARGET_TOKENS, SOURCE_TOKENS, PRECEDING_TOKENS, PRECEDING_CHARACTERS, LARGEST]
        return {**self.model.list_key_parts(), "sizes": sizes}

    def make_key(self, target: str, source: str, window: Window, control: bool) -> str:
        """Return the store's key of a gain."""
        texts = {"target": hash_text(target), "source": hash_text(source), "spans": list(map(list, window))}
        return make_key("passage gain", {**self.identify(), **texts, "control": control})

    def measure_window(self, texts: TextPair, window: Window) -> float:
        """Return the gain of a window, without a control."""
        return self.measure(texts.target, texts.source, window, control=False).gain

    def measure(self, target: str, source: str, window: Window, *, control: bool) -> PassageGain:
        """Return the gain of a passage; 0 if it has no tokens.

        Args:
            target: the suspicious document.
            source: the source.
            window: the passage and its place in the source.
            control: measure the control, too.
        """
        key = self.make_key(target, source, window, control)
        self.keys[key] = None
        stored = None if self._store is None else self._store.read(key, lambda data: parse_as(data, _STORED))
        if stored is not None:
            return PassageGain(*stored)
        found = self._compute(self._build(target, source, *window, control))
        if self._store is not None:
            self._store.put([(key, json.dumps(found).encode())])
        return found

    def add_gains(self, target: str, source: str, found: Sequence[Evidence]) -> list[Evidence]:
        """Return the passages of a pair with gain and control."""
        return [evidence._replace(**self._measure(target, source, evidence.passage)._asdict()) for evidence in found]

    def _measure(self, target: str, source: str, passage: Passage) -> PassageGain:
        start, length, source_start, source_length, *_ = passage
        window = Window((start, start + length), (source_start, source_start + source_length))
        return self.measure(target, source, window, control=True)

    def _compute(self, passes: Passes) -> PassageGain:
        if not len(passes.unconditional.target_ids):
            return PassageGain(0.0, None if passes.control is None else 0.0)
        gains = PassScorer(self.model, self._store).compute_gains([passes])
        return PassageGain(_average(gains.gains), _average_control(gains))

    def _build(self, target: str, source: str, here: Span, there: Span, control: bool) -> Passes:
        tokenizer = self.model.tokenizer
        scored = encode_text(tokenizer, target[slice(*here)])[:TARGET_TOKENS]
        before = encode_text(tokenizer, target[max(0, here[0] - PRECEDING_CHARACTERS) : here[0]])
        before = before[max(0, len(before) - PRECEDING_TOKENS) :]
        region = source[slice(*there)]
        given = encode_text(tokenizer, region)[:SOURCE_TOKENS]
        anchor = np.array([find_anchor_id(tokenizer)], np.int64)
        behind = np.concatenate([encode_separator(tokenizer), before])
        shuffled = None
        if control:
            ids = shuffle_source(tokenizer, given, hash_text(region), hash_text(target[slice(*here)]))
            shuffled = ScoringInput(np.concatenate([anchor, ids, behind]), scored)
        return Passes(
            ScoringInput(np.concatenate([anchor, before]), scored),
            ScoringInput(np.concatenate([anchor, given, behind]), scored),
            shuffled,
        )


def _average(gains: np.ndarray[Any, Any]) -> float:
    return float(np.clip(gains, -LARGEST, LARGEST).mean(dtype=np.float64))


def _average_control(gains: Gains) -> float | None:
    return None if gains.control is None else _average(gains.control - gains.unconditional)
