"""Build the token ids of both passes (paper, PAN25 input construction and PAN26 source prefix)."""

from collections.abc import Sequence
from typing import Any, NamedTuple, Protocol, cast

import numpy as np
import numpy.typing as npt

from pan_scdg.text.sentences import find_sentence_spans

TokenIds = npt.NDArray[np.int64]
"""Token ids, ``[n]``."""
Offsets = npt.NDArray[np.int64]
"""Half-open intervals in characters of a text, one per token, ``[n, 2]``."""
SEPARATOR = "\n\n"


class Tokenizer(Protocol):
    """The methods of a Hugging Face tokenizer that are used."""

    bos_token_id: int | None
    """Id of the beginning of a sequence; None if the tokenizer has none."""
    eos_token_id: int | None
    pad_token_id: int | None

    def encode(self, text: str, *, add_special_tokens: bool) -> list[int]:
        """Return the ids of ``text``, never truncated or padded."""
        ...

    def decode(self, token_ids: Sequence[int]) -> str:
        """Return the text of ``token_ids``."""
        ...

    def convert_ids_to_tokens(self, ids: Sequence[int]) -> list[str]:
        """Return the vocabulary's own spelling of each id."""
        ...


class ScoringInput(NamedTuple):
    """One teacher-forced sequence: ``context_ids`` (int64, at least one) are given, ``target_ids`` are scored."""

    context_ids: TokenIds
    target_ids: TokenIds

    @property
    def length(self) -> int:
        """Return the number of tokens of the whole sequence."""
        return len(self.context_ids) + len(self.target_ids)


class Passes(NamedTuple):
    """The inputs without and with the source, whose targets are the same ids."""

    unconditional: ScoringInput
    conditional: ScoringInput


class TokenMismatchError(ValueError):
    """The two passes cannot score the same target token ids; the text says where they differ."""


def build_pair_passes(tokenizer: Tokenizer, source: str, target: str, alone: ScoringInput | None = None) -> Passes:
    r"""Return both inputs of a document pair (paper, PAN25 input construction).

    ``target`` and ``source + "\n\n" + target`` are encoded with special tokens. The first id of the target
    is context, even if it is not a BOS (the paper's n = ids - 1); the combined ids must end with exactly the others.
    ``alone`` is the result of `build_pair_unconditional` for this target, if it is known.

    Raises:
        AlignmentError: the target has fewer than two ids, or the combined ids do not end with its ids.
    """
    alone = build_pair_unconditional(tokenizer, target) if alone is None else alone
    scored = alone.target_ids
    combined = encode_text(tokenizer, source + SEPARATOR + target, special=True)
    check_suffix(combined, scored)
    return Passes(alone, ScoringInput(combined[: -len(scored)], scored))


def build_pair_unconditional(tokenizer: Tokenizer, target: str) -> ScoringInput:
    """Return the unconditional input of `build_pair_passes`, which needs no source.

    Raises:
        AlignmentError: the target has fewer than two ids.
    """
    ids = encode_text(tokenizer, target, special=True)
    if len(ids) < 2:
        raise TokenMismatchError("empty target: nothing is left to score after its first token")
    return ScoringInput(ids[:1], ids[1:])


def check_suffix(combined: TokenIds, target: TokenIds) -> None:
    """Raise AlignmentError unless ``combined`` is one or more context ids followed by exactly ``target``."""
    if len(combined) <= len(target):
        raise TokenMismatchError(
            f"the combined text has {len(combined)} tokens, too few for a context and the {len(target)} of the target"
        )
    differs = np.flatnonzero(combined[-len(target) :] != target)
    if len(differs):
        at = int(differs[-1])
        alone, after = int(target[at]), int(combined[at - len(target)])
        raise TokenMismatchError(
            "the combined text is tokenised differently from the target alone: "
            f"scored token {at + 1} of {len(target)} is id {alone} alone and id {after} after the source"
        )


def find_anchor_id(tokenizer: Tokenizer) -> int:
    """Return the token in front of PAN26 inputs: BOS, else EOS, else PAD.

    Raises:
        AlignmentError: the tokenizer has none of them.
    """
    for candidate in (tokenizer.bos_token_id, tokenizer.eos_token_id, tokenizer.pad_token_id):
        if candidate is not None:
            return int(candidate)
    raise TokenMismatchError("the tokenizer has no BOS, EOS or PAD token to anchor the target")


def encode_separator(tokenizer: Tokenizer) -> TokenIds:
    """Return two newlines, encoded without special tokens."""
    return encode_text(tokenizer, SEPARATOR)


def encode_query(tokenizer: Tokenizer, query: str) -> TokenIds:
    """Return the query's ids without special tokens; encode a query once and give these ids to both passes.

    Raises:
        AlignmentError: the query has no tokens.
    """
    target = encode_text(tokenizer, query)
    if not len(target):
        raise TokenMismatchError("empty target: the query has no tokens")
    return target


def cut_target(tokenizer: Tokenizer, target: TokenIds, context: int) -> TokenIds:
    """Return the query, or its beginning if it leaves no token of the context for a source (not in the paper).

    The beginning has as many tokens as it leaves for the source, or one fewer.
    """
    free = context - 1 - len(encode_separator(tokenizer))
    return target if len(target) < free else target[: max(1, free // 2)]


def compute_prefix_budget(tokenizer: Tokenizer, target: TokenIds, context: int) -> int:
    """Return the tokens left for the source prefix beside anchor, separator and the query in ``context`` tokens.

    Raises:
        AlignmentError: no token is left.
    """
    budget = context - 1 - len(encode_separator(tokenizer)) - len(target)
    if budget < 1:
        what = f"a query of {len(target)} tokens leaves no token for a source in a context of {context}"
        raise TokenMismatchError(what)
    return budget


def build_retrieval_unconditional(tokenizer: Tokenizer, target: TokenIds) -> ScoringInput:
    """Return ``[anchor; query]`` (paper, Eq. supp-pan26-unconditional-input)."""
    return ScoringInput(np.array([find_anchor_id(tokenizer)], dtype=np.int64), target)


def build_retrieval_conditional(tokenizer: Tokenizer, target: TokenIds, prefix_ids: TokenIds) -> ScoringInput:
    """Return ``[anchor; source prefix; separator; query]`` (paper, Eq. supp-pan26-conditional-input)."""
    anchor = np.array([find_anchor_id(tokenizer)], dtype=np.int64)
    return ScoringInput(np.concatenate([anchor, prefix_ids, encode_separator(tokenizer)]), target)


def encode_text(tokenizer: Tokenizer, text: str, special: bool = False) -> TokenIds:
    """Return ``text`` as int64 ids, with the tokenizer's special tokens if ``special``."""
    return np.array(tokenizer.encode(text, add_special_tokens=special), dtype=np.int64)


class LocatedTokens(NamedTuple):
    """The scored ids of a target, ``[n]``, and their half-open intervals in characters, ``[n, 2]``."""

    token_ids: TokenIds
    offsets: Offsets
    """Empty for the special tokens that the tokenizer adds."""


class TokenLocator:
    """Locates the tokens of targets in their text (paper, Mapping Character Annotations to Target Tokens).

    The paper searches for each decoded token in the text. The fast tokenizers, which we use for every model, return the
    characters themselves, so that no token is missed and none is found at the wrong place.
    """

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
