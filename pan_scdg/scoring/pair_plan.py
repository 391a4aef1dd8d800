"""Read, tokenise, measure and align document pairs before a model is loaded."""

from collections.abc import Sequence
from functools import lru_cache
from typing import Any, Literal, NamedTuple

from pan_scdg.digests import hash_text
from pan_scdg.errors import UserError
from pan_scdg.notices import Notices
from pan_scdg.pan.text_alignment import read_text
from pan_scdg.profile import PairSettings
from pan_scdg.progress import Progress
from pan_scdg.records import DocumentPair
from pan_scdg.scdg.sequences import (
    AlignmentError,
    Passes,
    ScoringInput,
    Tokenizer,
    build_pair_passes,
    build_pair_unconditional,
)
from pan_scdg.scoring.model import ScoringModel
from pan_scdg.scoring.passes import PairInput, PairText
from pan_scdg.scoring.token_spool import KeptPair, TokenSpool
from pan_scdg.store import make_key

Mode = Literal["whole", "segments"]
OnError = Literal["stop", "negative"]
"""Treatment of pairs that cannot be scored: stop, or decide them negative with the reason."""
TARGETS = 64
"""Targets whose tokens are remembered while pairs are checked."""


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
        """Return what the pair's inputs are made of: its tokens, or its texts.

        Raises:
            UserError: a file cannot be read.
        """
        return self.read_texts() if self.kept is None else self.kept.read().conditional

    def make_unconditional(self, tokenizer: Tokenizer, settings: PairSettings) -> list[ScoringInput]:
        """Return the unconditional inputs of the pair."""
        if self.kept is not None:
            return [self.kept.read().unconditional]
        return self.read_texts().make_unconditional(tokenizer, settings)

    def use_segments(self, key: str) -> "PlannedPair":
        """Return the pair with another key, to be scored in segments."""
        return self._replace(mode="segments", key=key, kept=None)

    def read_texts(self) -> PairText:
        """Return the texts, read anew: those of all pairs may not fit in memory.

        Raises:
            UserError: a file cannot be read.
        """
        return PairText(read_text(self.pair.source), read_text(self.pair.suspicious), self.mode == "segments")


class FailedPair(NamedTuple):
    """A pair that cannot be scored, with the reason."""

    pair: DocumentPair
    error: UserError


def plan_pairs(
    pairs: Sequence[DocumentPair], model: ScoringModel, settings: PairSettings, notices: Notices
) -> tuple[list[PlannedPair], list[FailedPair]]:
    """Measure and align all pairs, one at a time; return those that can be scored and those that cannot."""
    planned: list[PlannedPair] = []
    failed: list[FailedPair] = []
    planner = _Planner(model, settings, notices)
    with Progress("checking pairs", len(pairs)) as progress:
        for pair in pairs:
            try:
                planned.append(planner.plan(pair))
            except UserError as e:
                failed.append(FailedPair(pair, e))
            progress.update()
    return planned, failed


class _Planner:
    """Measures pairs, one at a time, and keeps their tokens."""

    def __init__(self, model: ScoringModel, settings: PairSettings, notices: Notices) -> None:
        self._model, self._settings, self._notices = model, settings, notices
        self._spool = TokenSpool()
        # a target has many sources, which often follow each other
        self._encode_target = lru_cache(maxsize=TARGETS)(self._encode_anew)

    def _encode_anew(self, target: str) -> ScoringInput:
        return build_pair_unconditional(self._model.tokenizer, target)

    def plan(self, pair: DocumentPair) -> PlannedPair:
        """Return how a pair is scored.

        Raises:
            UserError: it cannot be.
        """
        source, target = read_text(pair.source), read_text(pair.suspicious)
        if not target.strip():
            raise UserError(
                "the suspicious document is empty", "remove the pair, or see --on-error", pair.suspicious.path
            )
        if not source.strip():
            self._notices.add("empty source document", str(pair.source.path))
        mode, passes = self._choose_mode(pair, source, target)
        key = make_pair_key(source, target, mode, self._model, self._settings)
        whole = mode == "whole" and self._settings.control == "none"
        kept = self._spool.keep(passes) if whole else None
        return PlannedPair(pair, mode, key, len(target), len(source), passes.conditional.length, kept)

    def _choose_mode(self, pair: DocumentPair, source: str, target: str) -> tuple[Mode, Passes]:
        """Return how a pair is scored and its inputs as a whole.

        Raises:
            UserError: the tokenizer cannot align it, or it is too long.
        """
        try:
            passes = build_pair_passes(self._model.tokenizer, source, target, self._encode_target(target))
        except AlignmentError as e:
            raise UserError(
                f"with {pair.source.doc_id} as source: {e}",
                "use another tokenizer mode, or see --on-error",
                pair.suspicious.path,
            ) from e
        length = passes.conditional.length
        if length <= self._settings.limit:
            return "whole", passes
        if self._settings.over_long == "segments":
            return "segments", passes
        raise UserError(
            f"with {pair.source.doc_id} as source: {length} tokens, the profile's limit is {self._settings.limit}",
            "use --over-long segments, or see --on-error",
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
