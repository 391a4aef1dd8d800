"""The range of the calibration targets, and the reasons why a target is outside it (not in the paper).

A threshold is valid for texts like those it was chosen on. A short target, another language, a damaged scan, or text
that the model predicts without any source has gains of another size, whatever the source is.
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from pan_scdg.records import Reason
from pan_scdg.scdg.aggregation import Aggregate, Floats
from pan_scdg.scdg.sequences import TokenIds, Tokenizer
from pan_scdg.settings import CalibrationRange

RANGE_MARGIN = 0.15
"""Tolerated distance from the range, as a share: the first 150 words of a text differ from the whole by up to 13 %."""
RARE_WORDS = "rare_words"
"""The code of a reason: the text is in another language, or damaged."""
MAX_NEGATIVES = 1000
BYTE_LEVEL = ("Ġ", "Ċ", "ĉ", "č")
"""Spellings in byte-level BPE of space, newline, tab and carriage return at the start of a token."""
SENTENCE_PIECE = ("▁", "\n", "<0x0A>", "<0x09>", "<0x0D>")
"""The same for SentencePiece; it has no pieces for newlines and tabs and falls back on bytes."""


class TargetFacts(NamedTuple):
    """Measurements of a target that are compared with the range."""

    tokens: int
    """Number of scored tokens."""
    nats_per_byte: float
    """Code length without the source, divided by the target's UTF-8 bytes."""
    common_words: float
    """Share of its words that are a single token; see `measure_common_words`."""


def measure_common_words(tokenizer: Tokenizer, ids: TokenIds) -> float:
    """Return the share of words that are a single token, of all words with a letter; 0 without words.

    Words are the groups of `find_word_starts`, so that a mark after a word makes it more than one id.
    """
    starts = np.flatnonzero(find_word_starts(tokenizer, ids))
    known = words = 0
    letters: dict[tuple[int, ...], bool] = {}
    for group in (tuple(g.tolist()) for g in np.split(ids, starts[1:])):
        if group not in letters:
            letters[group] = any(c.isalpha() for c in tokenizer.decode(group))
        words += letters[group]
        known += letters[group] and len(group) == 1
    return known / words if words else 0.0


def find_range(facts: Sequence[TargetFacts]) -> CalibrationRange:
    """Return the range of the targets of all calibration pairs, rounded to 4 decimals."""
    tokens, nats, words = zip(*facts, strict=True)
    return CalibrationRange(
        tokens=(min(tokens), max(tokens)),
        nats_per_byte=(round(min(nats), 4), round(max(nats), 4)),
        common_words=round(min(words), 4),
    )


def list_range_reasons(facts: TargetFacts, known: CalibrationRange, aggregate: Aggregate) -> list[Reason]:
    """Return a reason for each way in which a target lies outside the range by more than `RANGE_MARGIN`.

    For a window aggregation the lower limit of the length is at most w, since a target of one window is scored like a
    longer one. Only window aggregations have an upper limit: the best of more windows is larger by chance.
    """
    low, high = 1 - RANGE_MARGIN, 1 + RANGE_MARGIN
    (fewest, most), (least, largest) = known.tokens, known.nats_per_byte
    enough = fewest if aggregate.entry.parameter != "w" else min(fewest, int(aggregate.parameter))
    reasons = []
    if facts.tokens < low * enough:
        reasons.append(Reason("few_tokens", {"tokens": facts.tokens, "least": fewest, "most": most}))
    if aggregate.entry.parameter == "w" and facts.tokens > high * most:
        reasons.append(Reason("many_tokens", {"tokens": facts.tokens, "most": most}))
    if facts.common_words < low * known.common_words:
        reasons.append(Reason(RARE_WORDS, {"share": facts.common_words, "least": known.common_words}))
    if facts.nats_per_byte > high * largest:
        reasons.append(Reason("unpredictable", {"nats_per_byte": facts.nats_per_byte, "most": largest}))
    if facts.nats_per_byte < low * least:
        reasons.append(Reason("predictable", {"nats_per_byte": facts.nats_per_byte, "least": least}))
    return reasons


def thin_scores(scores: Floats) -> tuple[float, ...]:
    """Return ``scores`` in order, rounded to 4 decimals: all of them, or 1,000 that are evenly spaced."""
    ordered = np.sort(scores)
    if len(ordered) > MAX_NEGATIVES:
        ordered = ordered[np.linspace(0, len(ordered) - 1, MAX_NEGATIVES).round().astype(int)]
    return tuple(round(float(s), 4) for s in ordered)


def compute_share_at_least(negatives: Sequence[float], score: float) -> float:
    """Return the share of the negatives that score at least ``score``, compared and rounded to 4 decimals."""
    at_least = sum(n >= round(score, 4) for n in negatives)
    return round(at_least / len(negatives), 4)


def find_word_starts(tokenizer: Tokenizer, ids: TokenIds) -> npt.NDArray[np.bool_]:
    """Return True for the first id, and for each whose token begins with white space, ``[n]``."""
    distinct, at = np.unique(ids, return_inverse=True)
    starts = np.array(_check_spaces(tokenizer, distinct.tolist()), dtype=np.bool_)[at]
    starts[:1] = True
    return starts


def _check_spaces(tokenizer: Tokenizer, ids: Sequence[int]) -> list[bool]:
    # A decoded SentencePiece token loses its leading space, so the vocabulary is used if its spelling shows spaces.
    if not len(ids):
        return []
    spelt = "".join(tokenizer.convert_ids_to_tokens(tokenizer.encode("a a", add_special_tokens=False)))
    for space, marks in (("▁", SENTENCE_PIECE), ("Ġ", BYTE_LEVEL)):
        if space in spelt:
            return [str(token).startswith(marks) for token in tokenizer.convert_ids_to_tokens(ids)]
    return [tokenizer.decode([i])[:1].isspace() for i in ids]
