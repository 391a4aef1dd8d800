"""Before a model is loaded: every pair is read, tokenised, measured and aligned, and every fault is known."""

from collections.abc import Callable, Sequence
from typing import Any, Literal, NamedTuple

from pan_scdg.digests import text_digest
from pan_scdg.errors import UserError
from pan_scdg.notices import Notices
from pan_scdg.pan.text_alignment import read_text
from pan_scdg.profile import PairSettings
from pan_scdg.progress import Progress
from pan_scdg.records import DocumentPair
from pan_scdg.scdg.sequences import AlignmentError, pair_passes
from pan_scdg.scoring.model import ScoringModel
from pan_scdg.scoring.works import PairText
from pan_scdg.store import key_of

Mode = Literal["whole", "segments"]
OnError = Literal["stop", "negative"]
"""What is done about pairs that cannot be scored: stop, or decide them negative with the reason."""
ReadPair = Callable[[DocumentPair], tuple[str, str]]
"""Gives the texts of a pair: the source's, then the target's."""


def read_files(pair: DocumentPair) -> tuple[str, str]:
    """The texts of a pair whose documents are files.

    Raises:
        UserError: one cannot be read.
    """
    return read_text(pair.source), read_text(pair.suspicious)


class PlannedPair(NamedTuple):
    """A pair that can be scored: how, under which key, and its texts' lengths in characters."""

    pair: DocumentPair
    mode: Mode
    key: str
    target_length: int
    source_length: int
    tokens: int
    """Of both texts together: the size by which pairs are put in batches."""
    read: ReadPair = read_files

    def texts(self) -> PairText:
        """The texts, read again: not all fit in memory."""
        return PairText(*self.read(self.pair), self.mode == "segments")


class FailedPair(NamedTuple):
    """A pair that cannot be scored, and why."""

    pair: DocumentPair
    error: UserError


def plan_pairs(
    pairs: Sequence[DocumentPair],
    model: ScoringModel,
    settings: PairSettings,
    notices: Notices,
    read: ReadPair = read_files,
) -> tuple[list[PlannedPair], list[FailedPair]]:
    """Measure and align all pairs; texts are read one pair at a time.

    Where ``read`` is another than `read_files`, the paths of the documents are no more than what errors name.
    """
    planned: list[PlannedPair] = []
    failed: list[FailedPair] = []
    with Progress("checking pairs", len(pairs)) as progress:
        for pair in pairs:
            try:
                planned.append(_plan(pair, model, settings, notices, read))
            except UserError as e:
                failed.append(FailedPair(pair, e))
            progress.update()
    return planned, failed


def _plan(
    pair: DocumentPair, model: ScoringModel, settings: PairSettings, notices: Notices, read: ReadPair
) -> PlannedPair:
    source, target = read(pair)
    if not target.strip():
        raise UserError(
            "the suspicious document is empty", "remove the pair, or use --on-error negative", pair.suspicious.path
        )
    if not source.strip():
        notices.add("empty source document", str(pair.source.path))
    mode, tokens = _mode(pair, source, target, model, settings)
    key = make_pair_key(source, target, mode, model, settings)
    return PlannedPair(pair, mode, key, len(target), len(source), tokens, read)


def _mode(
    pair: DocumentPair, source: str, target: str, model: ScoringModel, settings: PairSettings
) -> tuple[Mode, int]:
    """How a pair is scored, and its tokens. Raises UserError where it cannot be."""
    try:
        length = pair_passes(model.tokenizer, source, target).conditional.length
    except AlignmentError as e:
        raise UserError(
            f"with {pair.source.doc_id} as source: {e}",
            "use another tokenizer mode, or --on-error negative",
            pair.suspicious.path,
        ) from e
    if length <= settings.limit:
        return "whole", length
    if settings.over_long == "segments":
        return "segments", length
    raise UserError(
        f"with {pair.source.doc_id} as source: {length} tokens, the profile's limit is {settings.limit}",
        "use --over-long segments, or --on-error negative",
        pair.suspicious.path,
    )


def make_pair_key(source: str, target: str, mode: Mode, model: ScoringModel, settings: PairSettings) -> str:
    """The store's key of a pair's features: neither the aggregation nor the threshold is part of it."""
    # a control is named only where there is one, so that what was stored without keeps its key
    parts: dict[str, Any] = {
        **model.key_parts(),
        **({} if settings.control == "none" else {"control": settings.control}),
        "mode": mode,
        "segments": settings.segments.model_dump(mode="json") if mode == "segments" else None,
        "source": text_digest(source),
        "target": text_digest(target),
    }
    return key_of("pair", parts)
