"""The forward passes of a target, with everything that was computed before taken from the store."""

import hashlib
from collections.abc import Iterable

import numpy as np
import numpy.typing as npt

from pan_scdg.lm.logprobs import target_log_probs
from pan_scdg.profile import Control
from pan_scdg.scdg.gains import Gains, gains_of, join
from pan_scdg.scdg.sequences import Passes, ScoringInput
from pan_scdg.store import Store, key_of, pack_array, unpack_array
from pan_scdg.tasks.model_at_hand import ModelAtHand

LogProbs = npt.NDArray[np.float32]


class PassScorer:
    """Gains of passes. The unconditional pass of a target is computed once per store, whatever the sources are."""

    def __init__(self, model: ModelAtHand, store: Store | None) -> None:
        self.model, self.store = model, store
        self.tokens = 0
        """Tokens that went through the model so far."""

    def gains(self, passes: Iterable[Passes], baseline: Control = "none") -> Gains:
        """The gains over ``baseline`` of consecutive segments (one for a pair that is not cut), joined in order.

        Raises:
            ValueError: the baseline needs a control and the passes have none.
        """
        return join([self._gains(p, baseline) for p in passes])

    def _gains(self, passes: Passes, baseline: Control) -> Gains:
        if baseline != "none" and passes.control is None:
            raise ValueError(f"baseline {baseline} needs passes with a control")
        return gains_of(
            passes,
            self.unconditional(passes.unconditional),
            self._forward(passes.conditional),
            None if passes.control is None else self._forward(passes.control),
            baseline,
        )

    def unconditional(self, item: ScoringInput) -> LogProbs:
        """Log-probabilities of the target without a source, ``[n]`` nats."""
        if self.store is None:
            return self._forward(item)
        ids = hashlib.sha256(np.concatenate([item.context_ids, [-1], item.target_ids]).astype(np.int64).tobytes())
        key = key_of("unconditional", {**self.model.key_parts(), "ids": ids.hexdigest()})
        stored = self.store.get(key)
        if stored is not None:
            return unpack_array(stored)
        values = self._forward(item)
        self.store.put([(key, pack_array(values))])
        return values

    def _forward(self, item: ScoringInput) -> LogProbs:
        self.tokens += item.length
        return target_log_probs(self.model.loaded, item, self.model.settings.head_rows)
