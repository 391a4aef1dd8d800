"""Score an over-long pair in segments (not in the paper, which excludes such pairs).

The target is split at sentence boundaries. Every token is scored exactly once, in both passes as the same ids after the
same preceding target text; only the conditional pass has source windows in its context.
"""

from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import NamedTuple

import numpy as np

from pan_scdg.scdg.sequences import (
    Passes,
    ScoringInput,
    TokenIds,
    Tokenizer,
    encode_separator,
    encode_text,
    find_anchor_id,
)
from pan_scdg.scdg.windows import SourceWindows, extract_terms
from pan_scdg.settings import SegmentSettings


class Segment(NamedTuple):
    """Consecutive target ids (int64) and their text, which is exact unless a span had to be cut by tokens."""

    token_ids: TokenIds
    text: str


def build_segment_passes(
    tokenizer: Tokenizer,
    source: str,
    target: str,
    spans: Sequence[tuple[int, int]],
    settings: SegmentSettings,
) -> Iterator[Passes]:
    """Yield both inputs of every segment of ``target``, in order.

    Unconditional ``[anchor; preceding; segment]``, conditional ``[anchor; windows; separator; preceding; segment]``:
    ``windows`` are those of ``source`` that share the most terms with the segment, ``preceding`` is up to
    ``context_tokens`` ids directly before it. The unconditional inputs depend on target and settings alone.

    Args:
        tokenizer: Encodes spans and windows without special tokens.
        source: The whole source text.
        target: The whole target text.
        spans: Character spans of the target's sentences, in order.
        settings: Sizes of segment, preceding text and source prefix.

    Raises:
        ValueError: ``spans`` are not in order or not inside ``target``.
    """
    windows = SourceWindows(tokenizer, source, settings.windows)
    anchor = np.array([find_anchor_id(tokenizer)], dtype=np.int64)
    separator = encode_separator(tokenizer)
    before: TokenIds = np.empty(0, dtype=np.int64)
    for ids, text in cut_segments(tokenizer, target, spans, settings.target_tokens):
        prefix = windows.build_prefix(extract_terms(text), settings.source_tokens)
        yield Passes(
            ScoringInput(np.concatenate([anchor, before]), ids),
            ScoringInput(np.concatenate([anchor, prefix, separator, before]), ids),
        )
        seen = np.concatenate([before, ids])
        before = seen[max(0, len(seen) - settings.context_tokens) :]


def cut_segments(tokenizer: Tokenizer, target: str, spans: Sequence[tuple[int, int]], most: int) -> list[Segment]:
    """Return consecutive segments of at most ``most`` tokens that cover the whole ``target``.

    Each span, with the white space in front of it, is tokenised alone, and cuts lie between spans; only a span that
    alone exceeds ``most`` is cut by tokens, and its parts are decoded.

    Raises:
        ValueError: ``most`` is below 1, or ``spans`` are not in order or not inside ``target``.
    """
    if most < 1:
        raise ValueError(f"most must be at least 1, not {most}")
    segments: list[Segment] = []
    held: list[Segment] = []
    for text in _cover_target(target, spans):
        for piece in _split_span(tokenizer, text, most):
            if held and sum(len(p.token_ids) for p in held) + len(piece.token_ids) > most:
                segments.append(_join_pieces(held))
                held = []
            held.append(piece)
    return [*segments, _join_pieces(held)] if held else segments


def _cover_target(target: str, spans: Sequence[tuple[int, int]]) -> Iterator[str]:
    """Yield texts that add up to ``target``: text between two spans belongs to the later one, the rest to the last."""
    cuts = [0, *(end for _, end in spans[:-1]), len(target)]
    for (start, end), before in zip(spans, cuts):
        if not before <= start <= end <= len(target):
            raise ValueError(f"span {start}-{end} is out of order or outside a text of {len(target)} characters")
    return (target[start:end] for start, end in pairwise(cuts))


def _split_span(tokenizer: Tokenizer, text: str, most: int) -> Iterator[Segment]:
    ids = encode_text(tokenizer, text)
    if len(ids) <= most:
        return iter([Segment(ids, text)] if len(ids) else [])
    parts = (ids[i : i + most] for i in range(0, len(ids), most))
    return (Segment(part, tokenizer.decode(part.tolist())) for part in parts)


def _join_pieces(pieces: list[Segment]) -> Segment:
    return Segment(np.concatenate([p.token_ids for p in pieces]), "".join(p.text for p in pieces))
