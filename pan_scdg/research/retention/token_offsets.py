"""Where in the target each scored token stands (paper, Mapping Character Annotations to Target Tokens).

A fast tokenizer knows it, and is asked when it gives the very ids that are scored. Otherwise each token is decoded and
looked for in the text behind the one before it. What the paper leaves open of that search: tokens that decode to a
part of a character are taken together, up to `TOGETHER`, and share their interval; nothing farther than `AHEAD`
characters is found, also without the white space around it; and what is not found has no characters.
"""

from collections.abc import Sequence
from typing import Any, Literal, NamedTuple, cast

import numpy as np

from pan_scdg.errors import UserError
from pan_scdg.models.load import load_tokenizer
from pan_scdg.research.retention.token_labels import Offsets
from pan_scdg.retrieval.units import sentence_spans
from pan_scdg.scdg.arrays import TokenIds
from pan_scdg.scdg.sequences import Tokenizer
from pan_scdg.scoring.model import ScoringModel

TOGETHER = 8
AHEAD = 64
BROKEN = "\ufffd"


class PlacedTokens(NamedTuple):
    """The ids of a target as they are scored, ``[n]``, and their half-open intervals in characters, ``[n, 2]``."""

    token_ids: TokenIds
    offsets: Offsets
    how: Literal["fast tokenizer", "search"]


class TokenPlaces:
    """Finds the tokens of targets in their text.

    Args:
        scoring: the tokenizer that gains are computed with.
        fast: one of the same checkpoint that knows offsets; None: there is none.
    """

    def __init__(self, scoring: Tokenizer, fast: Tokenizer | None) -> None:
        self._scoring, self._fast = scoring, fast

    def of(self, target: str, segments: bool) -> PlacedTokens:
        """The scored tokens of a target.

        Args:
            target: the whole text.
            segments: it is scored segment by segment, so that each sentence is tokenised alone; else as a whole, and
                its first token is context.
        """
        if not segments:
            whole = self._placed(target, special=True)
            return PlacedTokens(whole.token_ids[1:], whole.offsets[1:], whole.how)
        spans = sentence_spans(target)
        parts = [self._placed(target[start:end], special=False) for start, end in spans]
        offsets = [part.offsets + start for part, (start, _) in zip(parts, spans)]
        fast = all(part.how == "fast tokenizer" for part in parts)
        ids = np.concatenate([part.token_ids for part in parts])
        return PlacedTokens(ids, np.concatenate(offsets), "fast tokenizer" if fast else "search")

    def _placed(self, text: str, special: bool) -> PlacedTokens:
        ids = self._scoring.encode(text, add_special_tokens=special)
        offsets = None if self._fast is None else fast_offsets(self._fast, text, ids, special)
        if offsets is not None:
            return PlacedTokens(np.array(ids, dtype=np.int64), offsets, "fast tokenizer")
        return PlacedTokens(np.array(ids, dtype=np.int64), searched_offsets(self._scoring, text, ids), "search")


def places_of(model: ScoringModel) -> TokenPlaces:
    """Finds the tokens of the model at hand, with the fast tokenizer of its checkpoint where it has one."""
    if model.settings.tokenizer == "fast":
        return TokenPlaces(model.tokenizer, model.tokenizer)
    try:
        fast = load_tokenizer(model.folder, model.settings.model_copy(update={"tokenizer": "fast"}))
    except UserError:
        return TokenPlaces(model.tokenizer, None)
    return TokenPlaces(model.tokenizer, fast)


def fast_offsets(tokenizer: Tokenizer, text: str, ids: Sequence[int], special: bool) -> Offsets | None:
    """The tokenizer's own intervals, empty for special tokens; None when all its ids are not exactly ``ids``."""
    found = cast(Any, tokenizer)(text, add_special_tokens=special, return_offsets_mapping=True)
    if list(found["input_ids"]) != list(ids):
        return None
    offsets = np.array(found["offset_mapping"], dtype=np.int64).reshape(-1, 2)
    offsets[np.isin(ids, sorted(_special_ids(tokenizer)))] = 0
    return offsets


def searched_offsets(tokenizer: Tokenizer, text: str, ids: Sequence[int]) -> Offsets:
    """Intervals found by decoding; they do not go back in the text."""
    offsets = np.zeros((len(ids), 2), dtype=np.int64)
    special, place, done = _special_ids(tokenizer), 0, 0
    while done < len(ids):
        count, interval = 1, None
        if ids[done] not in special:
            count, interval = _found(tokenizer, text, ids[done : done + TOGETHER], place)
        if interval is not None:
            offsets[done : done + count] = interval
            place = interval[1]
        done += count
    return offsets


def _found(tokenizer: Tokenizer, text: str, ids: Sequence[int], place: int) -> tuple[int, tuple[int, int] | None]:
    """How many of the next tokens stand where; None: it is not known of the first of them."""
    for count in range(1, len(ids) + 1):
        piece = cast(Any, tokenizer).decode(list(ids[:count]), clean_up_tokenization_spaces=False)
        if BROKEN in piece and not text.startswith(piece, place):
            continue  # a part of a character's bytes; with the next token it may be whole
        for wanted in (piece, piece.strip()):
            start = text.find(wanted, place, place + len(wanted) + AHEAD) if wanted else -1
            if start >= 0:
                return count, (start, start + len(wanted))
        break
    return 1, None


def _special_ids(tokenizer: Tokenizer) -> frozenset[int]:
    return frozenset(cast(Any, tokenizer).all_special_ids)
