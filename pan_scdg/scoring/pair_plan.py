"""Read, tokenise, measure and align document pairs before a model is loaded."""

from collections.abc import Sequence
from typing import Any, Literal, NamedTuple

import numpy as np

from pan_scdg.digests import hash_text
from pan_scdg.errors import UserError
from pan_scdg.lm.ahead import take_ahead
from pan_scdg.models.fit import explain_lack_of_memory
from pan_scdg.notices import Notices
from pan_scdg.pan.text_alignment import read_text
from pan_scdg.profile import PairSettings
from pan_scdg.progress import Progress
from pan_scdg.records import DocumentPair
from pan_scdg.scdg.aggregation import GainStatistics
from pan_scdg.scdg.sequences import (
    AlignmentError,
    Passes,
    ScoringInput,
    TokenIds,
    Tokenizer,
    encode_text,
)
from pan_scdg.scoring.model import ScoringModel
from pan_scdg.scoring.pair_method import FailedPair, OnError, refuse_failed
from pan_scdg.scoring.pair_tokens import KeptPair, PairTokens, Result, TokenSpool
from pan_scdg.scoring.passes import PairInput, PairText
from pan_scdg.store import make_key

Mode = Literal["whole", "segments"]
USE_SEGMENTS = 'divide over-long pairs into segments (over_long = "segments" in the profile)'


class PlannedPair(NamedTuple):
    """A pair that can be scored, with its mode, its key in the store and the lengths of its texts in characters."""

    pair: DocumentPair
    mode: Mode
    key: str
    target_length: int
    source_length: int
    tokens: int
    """Of both texts together; pairs are put into batches by this size."""
    kept: KeptPair | None = None
    """The tokens of a pair that is scored as a whole and without a control; None: it is tokenised again."""

    def prepare(self) -> PairInput:
        """Return the tokens of the pair if they were kept, otherwise its texts.

        Raises:
            UserError: a file cannot be read.
        """
        return self.read_texts() if self.kept is None else self.kept.read().conditional

    def make_unconditional(self, tokenizer: Tokenizer, settings: PairSettings) -> list[ScoringInput]:
        """Return the unconditional inputs of the pair."""
        if self.kept is not None:
            return [self.kept.read().unconditional]
        return self.read_texts().make_unconditional(tokenizer, settings)

    def encode_target(self, tokenizer: Tokenizer, text: str) -> TokenIds:
        """Return the ids of the target's ``text`` without special tokens; those that were kept are not made again."""
        front = encode_text(tokenizer, "", special=True)
        if self.kept is not None:
            ids = np.concatenate(self.kept.read().unconditional)
            if np.array_equal(ids[: len(front)], front):
                return ids[len(front) :]
        return encode_text(tokenizer, text)

    def use_segments(self, key: str) -> "PlannedPair":
        """Return the pair with another key, to be scored in segments."""
        return self._replace(mode="segments", key=key, kept=None)

    def read_texts(self) -> PairText:
        """Read and return the texts, which are not kept: those of all pairs may not fit in memory.

        Raises:
            UserError: a file cannot be read.
        """
        return PairText(read_text(self.pair.source), read_text(self.pair.suspicious), self.mode == "segments")


class ScoredPair(NamedTuple):
    """A planned pair with the statistics of its gains."""

    plan: PlannedPair
    features: GainStatistics

    @property
    def pair(self) -> DocumentPair:
        """Return the pair itself."""
        return self.plan.pair


def check_pairs(
    pairs: Sequence[DocumentPair],
    model: ScoringModel,
    settings: PairSettings,
    notices: Notices,
    on_error: OnError = "stop",
) -> tuple[list[PlannedPair], list[FailedPair]]:
    """Measure and align all pairs without loading the model's weights.

    Raises:
        UserErrors: naming every pair that cannot be scored, if ``on_error`` is "stop".
        UserError: the longest pair does not fit in the memory of the device.
    """
    model.check_length(settings.limit, "pairs.limit")
    planned, failed = plan_pairs(pairs, model, settings, notices)
    if on_error == "stop":
        refuse_failed([item.error for item in failed])
    if model.may_compute:
        check_longest_pair(planned, model)
    return planned, failed


def check_longest_pair(planned: Sequence[PlannedPair], model: ScoringModel) -> None:
    """Raise UserError if the longest pair that is scored as a whole does not fit in memory with the weights."""
    whole = [plan for plan in planned if plan.mode == "whole"]
    if not whole:
        return
    longest = max(whole, key=lambda plan: plan.tokens)
    if (lacking := explain_lack_of_memory(model.folder, model.settings, model.device, longest.tokens)) is not None:
        raise UserError(
            f"with {longest.pair.source.doc_id} as source: {longest.tokens} tokens take at least {lacking}",
            f"{USE_SEGMENTS}, with a smaller limit, or use a device with more memory",
            longest.pair.suspicious.path,
        )


def plan_pairs(
    pairs: Sequence[DocumentPair], model: ScoringModel, settings: PairSettings, notices: Notices
) -> tuple[list[PlannedPair], list[FailedPair]]:
    """Measure and align all pairs; return those that can be scored and those that cannot.

    Raises:
        UserError: a process that tokenises ended.
    """
    planned: list[PlannedPair] = []
    failed: list[FailedPair] = []
    with Progress("checking pairs", len(pairs)) as progress, PairTokens(model, pairs) as tokens:
        planner = _Planner(model, settings, notices, tokens)
        for pair, started in take_ahead(((pair, planner.start(pair)) for pair in pairs), tokens.ahead):
            try:
                planned.append(planner.plan(pair, started))
            except UserError as e:
                failed.append(FailedPair(pair, e))
            progress.update()
    return planned, failed


class _Texts(NamedTuple):
    source: str
    target: str
    result: Result


class _Planner:
    """Measures pairs, one at a time, and keeps their tokens."""

    def __init__(self, model: ScoringModel, settings: PairSettings, notices: Notices, tokens: PairTokens) -> None:
        self._model, self._settings, self._notices, self._tokens = model, settings, notices, tokens
        self._spool = TokenSpool()

    def start(self, pair: DocumentPair) -> _Texts | UserError:
        """Read a pair and begin with its tokens; return the error if it cannot be read."""
        try:
            source, target = read_text(pair.source), read_text(pair.suspicious)
            if not target.strip():
                raise UserError("the suspicious document is empty", "remove the pair", pair.suspicious.path)
        except UserError as e:
            return e
        return _Texts(source, target, self._tokens.start(source, target))

    def plan(self, pair: DocumentPair, started: _Texts | UserError) -> PlannedPair:
        """Return the plan for scoring a pair.

        Raises:
            UserError: it cannot be.
        """
        if isinstance(started, UserError):
            raise started
        source, target, result = started
        if not source.strip():
            self._notices.add("empty source document", str(pair.source.path))
        mode, passes = self._choose_mode(pair, result)
        key = make_pair_key(source, target, mode, self._model, self._settings)
        whole = mode == "whole" and self._settings.control == "none"
        kept = self._spool.keep(passes) if whole else None
        return PlannedPair(pair, mode, key, len(target), len(source), passes.conditional.length, kept)

    def _choose_mode(self, pair: DocumentPair, result: Result) -> tuple[Mode, Passes]:
        """Return the mode in which a pair is scored, and its inputs as a whole.

        Raises:
            UserError: the tokenizer cannot align it, or it is too long.
        """
        try:
            passes = result()
        except AlignmentError as e:
            raise UserError(
                f"with {pair.source.doc_id} as source: {e}",
                "use another tokenizer mode",
                pair.suspicious.path,
            ) from e
        length = passes.conditional.length
        if length <= self._settings.limit:
            return "whole", passes
        if self._settings.over_long == "segments":
            return "segments", passes
        raise UserError(
            f"with {pair.source.doc_id} as source: {length} tokens, the profile's limit is {self._settings.limit}",
            USE_SEGMENTS,
            pair.suspicious.path,
        )


def make_pair_key(source: str, target: str, mode: Mode, model: ScoringModel, settings: PairSettings) -> str:
    """Return the store's key of a pair's features; the aggregation and the threshold are not part of it."""
    # named only if the profile has one, so that features stored without a control keep their keys
    parts: dict[str, Any] = {
        **model.list_key_parts(),
        **({} if settings.control == "none" else {"control": settings.control}),
        "mode": mode,
        "segments": settings.segments.model_dump(mode="json") if mode == "segments" else None,
        "source": hash_text(source),
        "target": hash_text(target),
    }
    return make_key("pair", parts)
