"""Read, tokenise, measure and align document pairs before a model is loaded."""

from collections.abc import Sequence
from typing import Any, Literal, NamedTuple

from pan_scdg.digests import hash_text
from pan_scdg.errors import UserError
from pan_scdg.notices import Notices
from pan_scdg.pan.text_alignment import read_text
from pan_scdg.profile import PairSettings
from pan_scdg.progress import Progress
from pan_scdg.records import DocumentPair
from pan_scdg.scdg.sequences import AlignmentError, build_pair_passes
from pan_scdg.scoring.model import ScoringModel
from pan_scdg.scoring.passes import PairText
from pan_scdg.store import make_key

Mode = Literal["whole", "segments"]
OnError = Literal["stop", "negative"]
"""Treatment of pairs that cannot be scored: stop, or decide them negative with the reason."""


class PlannedPair(NamedTuple):
    """A pair that can be scored, with its mode, its key in the store and the lengths of its texts in characters."""

    pair: DocumentPair
    mode: Mode
    key: str
    target_length: int
    source_length: int
    tokens: int
    """Of both texts together; pairs are put into batches by this size."""

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
    with Progress("checking pairs", len(pairs)) as progress:
        for pair in pairs:
            try:
                planned.append(_plan_pair(pair, model, settings, notices))
            except UserError as e:
                failed.append(FailedPair(pair, e))
            progress.update()
    return planned, failed


def _plan_pair(pair: DocumentPair, model: ScoringModel, settings: PairSettings, notices: Notices) -> PlannedPair:
    source, target = read_text(pair.source), read_text(pair.suspicious)
    if not target.strip():
        raise UserError("the suspicious document is empty", "remove the pair, or see --on-error", pair.suspicious.path)
    if not source.strip():
        notices.add("empty source document", str(pair.source.path))
    mode, tokens = _choose_mode(pair, source, target, model, settings)
    key = make_pair_key(source, target, mode, model, settings)
    return PlannedPair(pair, mode, key, len(target), len(source), tokens)


def _choose_mode(
    pair: DocumentPair, source: str, target: str, model: ScoringModel, settings: PairSettings
) -> tuple[Mode, int]:
    """Return how a pair is scored and the number of its tokens.

    Raises:
        UserError: the tokenizer cannot align it, or it is too long.
    """
    try:
        length = build_pair_passes(model.tokenizer, source, target).conditional.length
    except AlignmentError as e:
        raise UserError(
            f"with {pair.source.doc_id} as source: {e}",
            "use another tokenizer mode, or see --on-error",
            pair.suspicious.path,
        ) from e
    if length <= settings.limit:
        return "whole", length
    if settings.over_long == "segments":
        return "segments", length
    raise UserError(
        f"with {pair.source.doc_id} as source: {length} tokens, the profile's limit is {settings.limit}",
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
