"""Find the characters of scored tokens (paper, Mapping Character Annotations to Target Tokens).

The paper searches for each decoded token in the text. The fast tokenizers, which we use for every model, return the
characters themselves, so that no token is missed and none is found at the wrong place.
"""

from typing import Any, NamedTuple, cast

import numpy as np

from pan_scdg.lm.model import ScoringModel
from pan_scdg.scdg.sequences import Offsets, TokenIds, Tokenizer
from pan_scdg.text.sentences import find_sentence_spans


class LocatedTokens(NamedTuple):
    """The scored ids of a target, ``[n]``, and their half-open intervals in characters, ``[n, 2]``."""

    token_ids: TokenIds
    offsets: Offsets
    """Empty for the special tokens that the tokenizer adds."""


class TokenLocator:
    """Locates the tokens of targets in their text."""

    def __init__(self, tokenizer: Tokenizer) -> None:
        self._tokenizer = cast(Any, tokenizer)

    def locate(self, target: str, segments: bool) -> LocatedTokens:
        """Return the scored tokens of a target.

        Args:
            target: the whole text.
            segments: True if the target is scored in segments, so that each sentence is tokenised alone; otherwise it
                is scored as a whole, and its first token is context.
        """
        if not segments:
            ids, offsets = self._locate_text(target, special=True)
            return LocatedTokens(ids[1:], offsets[1:])
        spans = find_sentence_spans(target)
        parts = [self._locate_text(target[start:end], special=False) for start, end in spans]
        offsets = np.concatenate([part.offsets + start for part, (start, _) in zip(parts, spans)])
        return LocatedTokens(np.concatenate([part.token_ids for part in parts]), offsets)

    def locate_query(self, query: str) -> LocatedTokens:
        """Return the tokens of a query, which is scored as a whole after an anchor."""
        return self._locate_text(query, special=False)

    def _locate_text(self, text: str, special: bool) -> LocatedTokens:
        encoded = self._tokenizer(text, add_special_tokens=special, return_offsets_mapping=True)
        ids = np.array(encoded["input_ids"], dtype=np.int64)
        return LocatedTokens(ids, np.array(encoded["offset_mapping"], dtype=np.int64).reshape(-1, 2))


def make_locator(model: ScoringModel) -> TokenLocator:
    """Return the locator of a model's tokens."""
    return TokenLocator(model.tokenizer)
