"""The shuffled source: a control with the source's words and without their order (not in the paper).

Two texts on one topic share words, which alone shortens the code of the target. The same source with its words in
another order gives that part of the gain too; the rest depends on the order of the words.
"""

import hashlib
import random
from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import numpy.typing as npt

from pan_scdg.digests import hash_text
from pan_scdg.scdg.sequences import Passes, ScoringInput, TokenIds, Tokenizer, encode_text

COMPARED = 1024
"""Numbers that are compared at a time."""
BYTE_LEVEL = ("Ġ", "Ċ", "ĉ", "č")
"""Spellings in byte-level BPE of space, newline, tab and carriage return at the start of a token."""
SENTENCE_PIECE = ("▁", "\n", "<0x0A>", "<0x09>", "<0x0D>")
"""The same for SentencePiece; it has no pieces for newlines and tabs and falls back on bytes."""


def add_control(tokenizer: Tokenizer, passes: Passes, source: str, target: str) -> Passes:
    r"""Return the ``passes`` of a pair with a control: the conditional context with the ids of the source shuffled.

    The source's ids are those that the context shares, from its beginning, with the source tokenised alone, without
    the special tokens in front of every text. So BOS and separator stay where they are, and so does an id in
    which a tokenizer merges the end of the source with the separator (".\n\n").
    """
    context = passes.conditional.context_ids
    start = count_shared(context, encode_text(tokenizer, "", special=True))
    end = max(start, count_shared(context, encode_text(tokenizer, source, special=True)))
    shuffled = shuffle_source(tokenizer, context[start:end], hash_text(source), hash_text(target))
    control = np.concatenate([context[:start], shuffled, context[end:]])
    return replace(passes, control=ScoringInput(control, passes.conditional.target_ids))


def shuffle_source(tokenizer: Tokenizer, prefix_ids: TokenIds, source_text_digest: str, target_digest: str) -> TokenIds:
    """Return the ids of a source prefix with its words in another order (int64, the same ids).

    Ids are moved in groups that begin where a word begins (`find_word_starts`). Each group draws a number from Python's
    ``random.Random``, seeded with the SHA-256 of ``shuffled-source``, source digest and target digest (three lines, no
    end of line after the last) as a whole number, and the groups are put in the order of their numbers. Python
    guarantees the same draws in every version, but not the same shuffle.
    """
    starts = np.flatnonzero(find_word_starts(tokenizer, prefix_ids))
    if len(starts) < 2:
        return prefix_ids
    seed = hashlib.sha256(f"shuffled-source\n{source_text_digest}\n{target_digest}".encode()).hexdigest()
    generator = random.Random(int(seed, 16))
    draws = [generator.random() for _ in starts]
    groups = np.split(prefix_ids, starts[1:])
    return np.concatenate([groups[i] for i in sorted(range(len(groups)), key=draws.__getitem__)])


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


def count_shared(one: npt.NDArray[np.integer], other: npt.NDArray[np.integer]) -> int:
    """Return the length of the longest common beginning."""
    most = min(len(one), len(other))
    for start in range(0, most, COMPARED):
        stop = min(start + COMPARED, most)
        differ = np.flatnonzero(one[start:stop] != other[start:stop])
        if differ.size:
            return start + int(differ[0])
    return most
