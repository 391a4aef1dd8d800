"""Token ids of both passes: the same target ids, and where they differ."""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pan_scdg.scdg.sequences import (
    TokenMismatchError,
    build_pair_passes,
    build_retrieval_conditional,
    build_retrieval_unconditional,
    compute_prefix_budget,
    cut_target,
    encode_query,
    find_anchor_id,
)


class Letters:
    """One id a character, but "\n\n\n" is a single token: merges that span the joint of source and target."""

    bos_token_id: int | None = 1
    eos_token_id: int | None = 2
    pad_token_id: int | None = 3

    def encode(self, text: str, *, add_special_tokens: bool) -> list[int]:
        ids = [ord(c) for c in text.replace("\n\n\n", "\x10")]
        return [1, *ids] if add_special_tokens and self.bos_token_id is not None else ids

    def decode(self, token_ids: Sequence[int]) -> str:
        return "".join(map(chr, token_ids))


def without_bos() -> Letters:
    tokenizer = Letters()
    tokenizer.bos_token_id = None
    return tokenizer


def test_pair_inputs_by_hand() -> None:
    passes = build_pair_passes(Letters(), "ab", "cd")
    assert passes.unconditional.context_ids.tolist() == [1]
    assert passes.conditional.context_ids.tolist() == [1, 97, 98, 10, 10]
    assert passes.unconditional.target_ids.tolist() == passes.conditional.target_ids.tolist() == [99, 100]
    assert passes.conditional.length == 7


def test_first_target_token_is_context_where_there_is_no_bos() -> None:
    passes = build_pair_passes(without_bos(), "ab", "cd")
    assert passes.unconditional.context_ids.tolist() == [99]
    assert passes.conditional.context_ids.tolist() == [97, 98, 10, 10, 99]
    assert passes.conditional.target_ids.tolist() == [100]


def test_merge_across_the_joint_is_an_error_that_says_where() -> None:
    with pytest.raises(TokenMismatchError, match=r"scored token 1 of 3 is id 10 alone and id 16 after the source"):
        build_pair_passes(Letters(), "ab", "\ncd")


def test_without_bos_a_merge_of_the_context_token_is_no_fault() -> None:
    """The paper asks for the ids after the first, and those agree."""
    passes = build_pair_passes(without_bos(), "ab", "\ncd")
    assert passes.conditional.context_ids.tolist() == [97, 98, 16]
    assert passes.conditional.target_ids.tolist() == [99, 100]


def test_combined_text_too_short_is_an_error() -> None:
    class Shrinking(Letters):
        def encode(self, text: str, *, add_special_tokens: bool) -> list[int]:
            return super().encode(text.rpartition("\n")[2][-3:], add_special_tokens=False)[: 3 if text == "abc" else 2]

    with pytest.raises(TokenMismatchError, match="too few"):
        build_pair_passes(Shrinking(), "s", "abc")


@pytest.mark.parametrize(("tokenizer", "target"), [(Letters(), ""), (without_bos(), ""), (without_bos(), "c")])
def test_nothing_to_score_is_an_error(tokenizer: Letters, target: str) -> None:
    with pytest.raises(TokenMismatchError, match="empty target"):
        build_pair_passes(tokenizer, "ab", target)


def test_retrieval_inputs_by_hand() -> None:
    target = encode_query(Letters(), "q")
    assert build_retrieval_unconditional(Letters(), target).context_ids.tolist() == [1]
    item = build_retrieval_conditional(Letters(), target, np.array([97, 98], dtype=np.int64))
    assert item.context_ids.tolist() == [1, 97, 98, 10, 10]
    assert item.target_ids.tolist() == [113]
    assert item.context_ids.dtype == item.target_ids.dtype == np.int64


def test_empty_query_is_an_error() -> None:
    with pytest.raises(TokenMismatchError, match="empty target"):
        encode_query(Letters(), "")


def test_budget_is_what_anchor_separator_and_query_leave() -> None:
    target = np.arange(10)
    assert compute_prefix_budget(Letters(), target, 14) == 1
    with pytest.raises(TokenMismatchError, match="leaves no token"):
        compute_prefix_budget(Letters(), target, 13)


def test_only_a_query_without_room_for_a_source_is_cut_to_half_of_the_context() -> None:
    tokenizer = Letters()  # anchor and separator take 3 of 16 tokens
    assert cut_target(tokenizer, np.arange(12), 16).tolist() == list(range(12))
    assert cut_target(tokenizer, np.arange(13), 16).tolist() == list(range(6))
    assert compute_prefix_budget(tokenizer, cut_target(tokenizer, np.arange(999), 16), 16) == 7


def test_anchor_falls_back_from_bos_to_eos_to_pad() -> None:
    tokenizer = Letters()
    assert find_anchor_id(tokenizer) == 1
    tokenizer.bos_token_id = None
    assert find_anchor_id(tokenizer) == 2
    tokenizer.eos_token_id = None
    assert find_anchor_id(tokenizer) == 3
    tokenizer.pad_token_id = None
    with pytest.raises(TokenMismatchError, match="no BOS, EOS or PAD"):
        find_anchor_id(tokenizer)


def test_anchor_with_id_zero_is_an_anchor() -> None:
    tokenizer = Letters()
    tokenizer.bos_token_id = 0
    assert find_anchor_id(tokenizer) == 0


white_space = st.text(st.sampled_from(" \n\t\r\u00a0\u2003"), max_size=6)


@settings(max_examples=50, deadline=None)
@given(source=st.text(max_size=40), lead=white_space, target=st.text(min_size=1, max_size=40), bos=st.booleans())
def test_project_tokenizer_aligns_any_target(
    tiny_tokenizer: Callable[..., Any], source: str, lead: str, target: str, bos: bool
) -> None:
    tokenizer = tiny_tokenizer(bos=bos)
    alone = tokenizer.encode(lead + target, add_special_tokens=True)
    if len(alone) < 2:
        return
    passes = build_pair_passes(tokenizer, source, lead + target)
    combined = tokenizer.encode(source + "\n\n" + lead + target, add_special_tokens=True)
    assert passes.unconditional.target_ids.tolist() == passes.conditional.target_ids.tolist() == alone[1:]
    assert [*passes.conditional.context_ids, *passes.conditional.target_ids] == combined
    assert passes.unconditional.context_ids.tolist() == alone[:1]
