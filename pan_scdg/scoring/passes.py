"""The forward passes of a job: works in, log-probabilities out; what was computed before is taken from the store."""

import hashlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from pan_scdg.lm.worker import Work
from pan_scdg.profile import Control
from pan_scdg.scdg.arrays import TokenIds
from pan_scdg.scdg.gains import Gains, gains_of, join
from pan_scdg.scdg.sequences import Passes, ScoringInput
from pan_scdg.scoring.batches import Batch, batches, digest_keys
from pan_scdg.scoring.model import ScoringModel
from pan_scdg.scoring.works import Ready, list_with_source
from pan_scdg.store import Store, key_of, pack_array, unpack_floats

LogProbs = npt.NDArray[np.float32]


class Scored(NamedTuple):
    """The target ids of one input, ``[n]``, and their log-probabilities in nats, ``[n]``."""

    target_ids: TokenIds
    log_probs: LogProbs


class PassScorer:
    """Log-probabilities of works by the model at hand.

    Args:
        model: its engine is made when something is to be computed.
        store: where unconditional passes are kept; None: nowhere.
    """

    def __init__(self, model: ScoringModel, store: Store | None) -> None:
        self.model, self.store = model, store
        self._planned: dict[str, tuple[Batch, tuple[ScoringInput, ...]]] = {}
        self._unstored: dict[str, LogProbs] = {}

    @property
    def tokens(self) -> int:
        """Tokens that went through the model so far."""
        return self.model.tokens

    def scored(self, works: Iterable[Work]) -> Iterator[list[Scored]]:
        """What each work asks for, in its order; each work is computed by itself."""
        for found in self.model.map(works):
            yield [Scored(*values) for values in found]

    def plan_unconditional(self, items: Iterable[ScoringInput]) -> None:
        """Say which unconditional inputs the job has; those that are computed together follow from all of them."""
        distinct = {digest_input(item): item for item in items}
        names, inputs = list(distinct), list(distinct.values())
        for batch in batches(names, [item.length for item in inputs], self.model.batch_tokens):
            members = tuple(inputs[i] for i in batch.members)
            self._planned.update(dict.fromkeys((names[i] for i in batch.members), (batch, members)))

    def batches_of(self, items: Iterable[ScoringInput]) -> str:
        """A digest of the batches in which these planned inputs are computed: gains over them depend on it."""
        return digest_keys([self._planned[digest_input(item)][0].digest for item in items])

    def compute_unconditional(self, items: Iterable[ScoringInput]) -> Iterator[int]:
        """Compute those of the items that are not known yet, with the rest of their batches; the tokens of each batch.

        What was not planned is a batch alone.
        """
        missing = {}
        for item in items:
            name = digest_input(item)
            batch, members = self._planned.setdefault(name, (Batch((0,), digest_keys([name])), (item,)))
            if batch.digest not in missing and self._stored(name, item) is None:
                missing[batch.digest] = members
        for members, found in zip(missing.values(), self.scored(map(Ready, missing.values())), strict=True):
            self._keep({digest_input(m): part.log_probs for m, part in zip(members, found, strict=True)})
            yield sum(member.length for member in members)

    def unconditional(self, item: ScoringInput) -> LogProbs:
        """Log-probabilities of a target without a source, ``[n]`` nats; computed with the rest of its batch."""
        list(self.compute_unconditional([item]))
        name = digest_input(item)
        found = self._stored(name, item)
        if found is None:
            raise ValueError("the store lost an unconditional pass")
        if self.store is not None:
            self.model.inherit(self.store.notes([self._key(name)]))
        return found

    def _stored(self, name: str, item: ScoringInput) -> LogProbs | None:
        if self.store is None:
            return self._unstored.get(name)
        return self.store.read(self._key(name), lambda data: _log_probs(data, len(item.target_ids)))

    def _keep(self, values: Mapping[str, LogProbs]) -> None:
        if self.store is None:
            self._unstored.update(values)
        else:
            items = [(self._key(name), pack_array(array)) for name, array in values.items()]
            incidents = self.model.incidents()
            self.store.put([*items, *(note for key, _ in items for note in self.store.note(key, incidents))])

    def _key(self, name: str) -> str:
        batch, _ = self._planned[name]
        return self.model.batched(key_of("unconditional", {**self.model.key_parts(), "ids": name}), batch.digest)

    def gains(self, passes: Iterable[Passes], baseline: Control = "none") -> Gains:
        """The gains over ``baseline`` of consecutive segments (one for a pair that is not cut), joined in order.

        Raises:
            ValueError: the baseline needs a control and the passes have none.
        """
        known = list(passes)
        (found,) = self.scored([Ready([item for p in known for item in list_with_source(p)])])
        return self.assembled([p.unconditional for p in known], found, baseline)

    def assembled(self, alone: Sequence[ScoringInput], found: Sequence[Scored], baseline: Control) -> Gains:
        """The gains of one pair or candidate from its passes with a source.

        Args:
            alone: the unconditional input of each segment.
            found: of each segment the conditional pass and, where there is one, the control.
            baseline: what the gains are gains over.

        Raises:
            AlignmentError: the passes do not score identical target ids.
            ValueError: the baseline needs a control and there is none.
        """
        each, rest = divmod(len(found), len(alone))
        if rest or each not in (1, 2):
            raise ValueError(f"{len(found)} passes for {len(alone)} segments")
        if baseline != "none" and each == 1:
            raise ValueError(f"baseline {baseline} needs passes with a control")
        return join(
            _gains(item, self.unconditional(item), found[i * each : (i + 1) * each], baseline)
            for i, item in enumerate(alone)
        )


def _gains(item: ScoringInput, alone: LogProbs, found: Sequence[Scored], baseline: Control) -> Gains:
    control = found[1].log_probs if len(found) > 1 else None
    return gains_of([item, *found], alone, found[0].log_probs, control, baseline)


def _log_probs(data: bytes, tokens: int) -> LogProbs:
    found = unpack_floats(data, 1)
    if len(found) != tokens:
        raise ValueError(f"not one number for each of {tokens} tokens")
    return found


def digest_input(item: ScoringInput) -> str:
    """What an input is known by: its ids, and where the target begins."""
    ids = np.concatenate([item.context_ids, [-1], item.target_ids]).astype(np.int64)
    return hashlib.sha256(ids.tobytes()).hexdigest()
