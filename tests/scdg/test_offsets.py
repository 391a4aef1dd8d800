"""Where tokens stand: targets as a whole and in segments, queries, special tokens that a text spells out."""

from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from pan_scdg.models.load import load_tokenizer
from pan_scdg.profile import load_profile
from pan_scdg.scdg.segments import cut_segments
from pan_scdg.scdg.sequences import TokenLocator, build_pair_unconditional, encode_query
from pan_scdg.text.sentences import find_sentence_spans

MINI = Path(__file__).parents[2] / "model_cache" / "scdg-mini"
TEXT = "  The naïve café, “quoted”: 12345 漢字 and 🙂🙂.\n\nNew line; two  spaces.\tA tab. <|bos|> The end"
WORDS = st.text(alphabet="abcdefghij .,\n é漢🙂", min_size=1, max_size=60)


@cache
def mini() -> Any:
    return load_tokenizer(MINI, load_profile("scdg-mini").need_model())


@settings(max_examples=100, deadline=None)
@given(WORDS)
def test_decoded_tokens_end_where_the_search_of_the_paper_finds_them(text: str) -> None:
    """The search, written out: each token that decodes to whole characters, after the one before."""
    ids, offsets = TokenLocator(mini()).locate_query(text)
    np.testing.assert_array_equal(ids, encode_query(mini(), text))
    place = 0
    for token, (_, end) in zip(ids.tolist(), offsets.tolist()):
        piece = mini().decode([token])
        if "\ufffd" not in piece:
            place = text.index(piece, place) + len(piece)
            assert end == place
    assert offsets[-1, 1] == len(text)
    assert (np.diff(offsets[:, 1]) >= 0).all()


def test_a_whole_target_has_the_tokens_that_are_scored() -> None:
    ids, offsets = TokenLocator(mini()).locate(TEXT, segments=False)
    np.testing.assert_array_equal(ids, build_pair_unconditional(mini(), TEXT).target_ids)
    assert [TEXT[start:end] for start, end in offsets[:2]] == [" ", " The"]
    assert mini().bos_token_id not in ids, "what the text spells out is text"
    assert "".join(TEXT[start:end] for start, end in offsets if TEXT[start:end].isascii()).endswith(" <|bos|> The end")


def test_segments_are_located_in_the_whole_target() -> None:
    target = " ".join(f"Sentence {number} of the plain text is here." for number in range(20))
    segments = cut_segments(mini(), target, find_sentence_spans(target), 30)
    ids, offsets = TokenLocator(mini()).locate(target, segments=True)
    np.testing.assert_array_equal(ids, np.concatenate([segment.token_ids for segment in segments]))
    assert [target[start:end].strip() for start, end in offsets] == [mini().decode([t]).strip() for t in ids]
    assert (np.diff(offsets[:, 1]) > 0).all()
    assert offsets[-1, 1] == len(target)
