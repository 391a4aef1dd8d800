"""Turn texts into inputs of the language model and inputs into gains, with unconditional results in the store.

The classes of tasks can be pickled, since other processes compute them.
"""

import hashlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from pan_scdg.digests import hash_text
from pan_scdg.lm.ahead import TokenisedInputs
from pan_scdg.lm.works import Scored
from pan_scdg.profile import Control, PairSettings, RetrievalSettings
from pan_scdg.retrieval.sentences import find_sentence_spans
from pan_scdg.scdg.control import add_control, shuffle_source
from pan_scdg.scdg.gains import Gains, combine_passes, join_segments
from pan_scdg.scdg.segments import build_segment_passes, build_segment_unconditional
from pan_scdg.scdg.sequences import (
    Passes,
    ScoringInput,
    TokenIds,
    Tokenizer,
    build_pair_passes,
    build_pair_unconditional,
    build_retrieval_conditional,
)
from pan_scdg.scdg.windows import SourceWindows
from pan_scdg.scoring.batches import Batch, digest_keys, make_batches
from pan_scdg.scoring.model import ScoringModel
from pan_scdg.store import Store, make_key, pack_array, unpack_floats

LogProbs = npt.NDArray[np.float32]


class PairText(NamedTuple):
    """The texts of a document pair; ``segments`` is True if it is scored segment by segment."""

    source: str
    target: str
    segments: bool

    def make_passes(self, tokenizer: Tokenizer, settings: PairSettings) -> list[Passes]:
        """Return the passes: one of the whole texts, or one per segment; with a control if the profile has one."""
        control = settings.control != "none"
        if self.segments:
            spans = find_sentence_spans(self.target)
            return list(build_segment_passes(tokenizer, self.source, self.target, spans, settings.segments, control))
        passes = build_pair_passes(tokenizer, self.source, self.target)
        return [add_control(tokenizer, passes, self.source, self.target) if control else passes]

    def make_unconditional(self, tokenizer: Tokenizer, settings: PairSettings) -> list[ScoringInput]:
        """Return the unconditional inputs of the passes, which do not depend on the source."""
        if self.segments:
            return list(
                build_segment_unconditional(tokenizer, self.target, find_sentence_spans(self.target), settings.segments)
            )
        return [build_pair_unconditional(tokenizer, self.target)]


PairInput = PairText | ScoringInput
"""The texts of a pair, or its only input with a source."""


@dataclass(frozen=True)
class PairsWork:
    """The inputs with a source of some pairs, pair by pair."""

    pairs: Sequence[PairInput]
    settings: PairSettings

    def make_inputs(self, tokenizer: Tokenizer) -> list[ScoringInput]:
        """Return, for each segment of each pair, the conditional input and the control if the profile has one."""
        found = []
        for pair in self.pairs:
            if isinstance(pair, ScoringInput):
                found.append(pair)
            else:
                for passes in pair.make_passes(tokenizer, self.settings):
                    found += passes.with_source
        return found


class QueryText(NamedTuple):
    """A query: its token ids, terms for choosing windows, and the number of tokens left for a source."""

    token_ids: TokenIds
    terms: frozenset[str]
    budget: int
    digest: str


@dataclass(frozen=True)
class SourceWork:
    """The inputs of one candidate source with all its queries."""

    text: str
    queries: Sequence[QueryText]
    settings: RetrievalSettings

    def make_inputs(self, tokenizer: Tokenizer) -> list[ScoringInput]:
        """Return, for each query, the conditional input and the control if the profile has one.

        See the paper, PAN26 source-prefix construction.
        """
        # split and tokenised once for all queries
        source = SourceWindows(tokenizer, self.text, self.settings.windows)
        found = []
        for query in self.queries:
            prefix = source.build_prefix(set(query.terms), query.budget)
            found.append(build_retrieval_conditional(tokenizer, query.token_ids, prefix))
            if self.settings.control != "none":
                shuffled = shuffle_source(tokenizer, prefix, hash_text(self.text), query.digest)
                found.append(build_retrieval_conditional(tokenizer, query.token_ids, shuffled))
        return found


class PassScorer:
    """Computes log-probabilities and gains with a language model.

    Args:
        model: the language model; its engine is created when first needed.
        store: keeps unconditional log-probabilities.
    """

    def __init__(self, model: ScoringModel, store: Store) -> None:
        self.model, self.store = model, store
        self._planned: dict[str, tuple[Batch, tuple[ScoringInput, ...]]] = {}

    def plan_unconditional(self, items: Iterable[ScoringInput]) -> None:
        """Divide all unconditional inputs of the job into batches."""
        distinct = {digest_input(item): item for item in items}
        names, inputs = list(distinct), list(distinct.values())
        for batch in make_batches(names, [item.length for item in inputs], self.model.batch_tokens):
            members = tuple(inputs[i] for i in batch.members)
            self._planned.update(dict.fromkeys((names[i] for i in batch.members), (batch, members)))

    def digest_batches(self, items: Iterable[ScoringInput]) -> str:
        """Return a hash of the batches of these planned inputs, which last digits of their gains depend on."""
        return digest_keys([self._planned[digest_input(item)][0].digest for item in items])

    def compute_unconditional(self, items: Iterable[ScoringInput]) -> Iterator[int]:
        """Compute the missing inputs with the rest of their batches; yield the tokens of each batch.

        An input that was not planned is a batch of its own.
        """
        missing = {}
        for item in items:
            name = digest_input(item)
            batch, members = self._planned.setdefault(name, (Batch((0,), digest_keys([name])), (item,)))
            if batch.digest not in missing and self._read_stored(name, item) is None:
                missing[batch.digest] = members
        scored = self.model.map(map(TokenisedInputs, missing.values()))
        for members, found in zip(missing.values(), scored, strict=True):
            self._store_values({digest_input(m): part.log_probs for m, part in zip(members, found, strict=True)})
            yield sum(member.length for member in members)

    def score_unconditional(self, item: ScoringInput) -> LogProbs:
        """Return the log-probabilities of a target without a source, ``[n]`` nats; its whole batch is computed."""
        list(self.compute_unconditional([item]))
        name = digest_input(item)
        found = self._read_stored(name, item)
        if found is None:
            raise ValueError("an unconditional result is missing in the store")
        self.model.inherit(self.store.read_notes([self._make_key(name)]))
        return found

    def _read_stored(self, name: str, item: ScoringInput) -> LogProbs | None:
        return self.store.read(self._make_key(name), lambda data: _parse_log_probs(data, len(item.target_ids)))

    def _store_values(self, values: Mapping[str, LogProbs]) -> None:
        items = [(self._make_key(name), pack_array(array)) for name, array in values.items()]
        incidents = self.model.list_incidents()
        self.store.put([*items, *(note for key, _ in items for note in self.store.note(key, incidents))])

    def _make_key(self, name: str) -> str:
        batch, _ = self._planned[name]
        return self.model.make_batch_key(
            make_key("unconditional", {**self.model.list_key_parts(), "ids": name}), batch.digest
        )

    def compute_gains(self, passes: Iterable[Passes], baseline: Control = "none") -> Gains:
        """Return the gains over ``baseline`` of consecutive segments, or of a whole pair, joined in order.

        Raises:
            ValueError: the baseline needs a control that is missing.
        """
        known = list(passes)
        (found,) = self.model.map([TokenisedInputs([item for p in known for item in p.with_source])])
        (gains,) = self.assemble_batch([[p.unconditional for p in known]], found, baseline)
        return gains

    def assemble_batch(
        self, alone: Sequence[Sequence[ScoringInput]], found: Sequence[Scored], baseline: Control
    ) -> Iterator[Gains]:
        """Yield the gains of each pair or candidate of a batch.

        Args:
            alone: for each of them, the unconditional input of each segment.
            found: for each segment, the scored conditional input and, with a control, the scored control.
            baseline: the control, or "none" for gains over the unconditional log-probabilities.

        Raises:
            AlignmentError: the passes do not score identical target ids.
            ValueError: the baseline needs a control that is missing.
        """
        segments = sum(map(len, alone))
        each, rest = divmod(len(found), segments)
        if rest or each not in (1, 2):
            raise ValueError(f"{len(found)} passes for {segments} segments")
        scored = iter(found)
        for items in alone:
            yield join_segments(self._compute_gains(item, list(islice(scored, each)), baseline) for item in items)

    def _compute_gains(self, alone: ScoringInput, found: Sequence[Scored], baseline: Control) -> Gains:
        """Return the gains of a segment from its scored inputs with a source."""
        targets = [alone.target_ids, *(scored.target_ids for scored in found)]
        control = found[1].log_probs if len(found) > 1 else None
        return combine_passes(targets, self.score_unconditional(alone), found[0].log_probs, control, baseline)


def _parse_log_probs(data: bytes, tokens: int) -> LogProbs:
    found = unpack_floats(data, 1)
    if len(found) != tokens:
        raise ValueError(f"{len(found)} log-probabilities for {tokens} tokens")
    return found


def digest_input(item: ScoringInput) -> str:
    """Return a hash of the ids of an input and the position where its target begins."""
    ids = np.concatenate([item.context_ids, [-1], item.target_ids]).astype(np.int64)
    return hashlib.sha256(ids.tobytes()).hexdigest()
