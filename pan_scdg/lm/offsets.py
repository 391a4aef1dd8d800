"""Find the character offsets of scored tokens (paper, Mapping Character Annotations to Target Tokens).

A fast tokenizer returns them if its ids are exactly those that are scored. Otherwise each token is decoded and searched
for in the text after the previous one. The paper leaves details of this search open. Here, up to `TOGETHER` tokens that
decode to parts of a character share one interval; a token is searched for in the next `AHEAD` characters, first as it
is, then without surrounding white space; a token that is not found has an empty interval.
"""

from collections.abc import Sequence
from typing import Any, Literal, NamedTuple, cast

import numpy as np

from pan_scdg.errors import UserError
from pan_scdg.lm.model import ScoringModel
from pan_scdg.models.load import load_tokenizer
from pan_scdg.retrieval.sentences import find_sentence_spans
from pan_scdg.scdg.sequences import Offsets, TokenIds, Tokenizer

TOGETHER = 8
AHEAD = 64
BROKEN = "\ufffd"


class LocatedTokens(NamedTuple):
    """The scored ids of a target, ``[n]``, and their half-open intervals in characters, ``[n, 2]``."""

    token_ids: TokenIds
    offsets: Offsets
    how: Literal["fast tokenizer", "search"]


class TokenLocator:
    """Locates the tokens of targets in their text."""

    def __init__(self, scoring: Tokenizer, fast: Tokenizer | None) -> None:
        self._scoring, self._fast = scoring, fast

    def locate(self, target: str, segments: bool) -> LocatedTokens:
        """Return the scored tokens of a target.

        Args:
            target: the whole text.
            segments: True if the target is scored in segments, so that each sentence is tokenised alone; otherwise it
                is scored as a whole, and its first token is context.
        """
        if not segments:
            whole = self._locate_text(target, special=True)
            return LocatedTokens(whole.token_ids[1:], whole.offsets[1:], whole.how)
        spans = find_sentence_spans(target)
        parts = [self._locate_text(target[start:end], special=False) for start, end in spans]
        offsets = [part.offsets + start for part, (start, _) in zip(parts, spans)]
        fast = all(part.how == "fast tokenizer" for part in parts)
        ids = np.concatenate([part.token_ids for part in parts])
        return LocatedTokens(ids, np.concatenate(offsets), "fast tokenizer" if fast else "search")

    def locate_query(self, query: str) -> LocatedTokens:
        """Return the tokens of a query, which is scored as a whole after an anchor."""
        return self._locate_text(query, special=False)

    def _locate_text(self, text: str, special: bool) -> LocatedTokens:
        ids = self._scoring.encode(text, add_special_tokens=special)
        offsets = None if self._fast is None else read_fast_offsets(self._fast, text, ids, special)
        if offsets is not None:
            return LocatedTokens(np.array(ids, dtype=np.int64), offsets, "fast tokenizer")
        return LocatedTokens(np.array(ids, dtype=np.int64), search_offsets(self._scoring, text, ids), "search")


def make_locator(model: ScoringModel) -> TokenLocator:
    """Return the locator of a model's tokens; it uses the fast tokenizer of the checkpoint if that loads."""
    if model.settings.tokenizer == "fast":
        return TokenLocator(model.tokenizer, model.tokenizer)
    try:
        fast = load_tokenizer(model.folder, model.settings.model_copy(update={"tokenizer": "fast"}))
    except UserError:
        return TokenLocator(model.tokenizer, None)
    return TokenLocator(model.tokenizer, fast)


def read_fast_offsets(tokenizer: Tokenizer, text: str, ids: Sequence[int], special: bool) -> Offsets | None:
    """Return the tokenizer's own intervals, empty for special tokens; None unless its ids are exactly ``ids``."""
    found = cast(Any, tokenizer)(text, add_special_tokens=special, return_offsets_mapping=True)
    if list(found["input_ids"]) != list(ids):
        return None
    offsets = np.array(found["offset_mapping"], dtype=np.int64).reshape(-1, 2)
    offsets[np.isin(ids, sorted(_list_special_ids(tokenizer)))] = 0
    return offsets


def search_offsets(tokenizer: Tokenizer, text: str, ids: Sequence[int]) -> Offsets:
    """Return the intervals of decoded tokens in the text, in increasing order."""
    offsets = np.zeros((len(ids), 2), dtype=np.int64)
    special, place, done = _list_special_ids(tokenizer), 0, 0
    while done < len(ids):
        count, interval = 1, None
        if ids[done] not in special:
            count, interval = _find_next(tokenizer, text, ids[done : done + TOGETHER], place)
        if interval is not None:
            offsets[done : done + count] = interval
            place = interval[1]
        done += count
    return offsets


def _find_next(tokenizer: Tokenizer, text: str, ids: Sequence[int], place: int) -> tuple[int, tuple[int, int] | None]:
    """Return the number of tokens that share the next interval, and the interval or None."""
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


def _list_special_ids(tokenizer: Tokenizer) -> frozenset[int]:
    return frozenset(cast(Any, tokenizer).all_special_ids)
