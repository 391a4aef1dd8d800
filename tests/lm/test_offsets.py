"""Where tokens stand: a fast tokenizer's own intervals, the search without one, and targets in segments."""

import json
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pan_scdg.lm.offsets import TokenLocator, read_fast_offsets, search_offsets
from pan_scdg.models.load import load_tokenizer
from pan_scdg.profile import ModelSettings, SegmentSettings, WindowSettings, load_profile
from pan_scdg.retrieval.sentences import find_sentence_spans
from pan_scdg.scdg.segments import build_segment_unconditional
from pan_scdg.scdg.sequences import build_pair_unconditional

transformers = pytest.importorskip("transformers")

MINI = Path(__file__).parents[2] / "model_cache" / "scdg-mini"
TEXT = "  The naïve café, “quoted”: 12345 漢字 and 🙂🙂.\n\nNew line; two  spaces.\tA tab. <|bos|> The end"
WORDS = st.text(alphabet="abcdefghij .,\n é漢🙂", max_size=60)


@cache
def mini() -> Any:
    return load_tokenizer(MINI, load_profile("offline").need_model())


def spelt(text: str, offsets: np.ndarray) -> list[str]:
    return [text[start:end] for start, end in offsets]


def test_a_fast_tokenizer_is_asked_when_its_ids_are_those_scored() -> None:
    ids = mini().encode(TEXT, add_special_tokens=True)
    offsets = read_fast_offsets(mini(), TEXT, ids, special=True)
    assert [spelt(TEXT, offsets)[i] for i in (1, 2)] == [" ", " The"]
    assert offsets[0].tolist() == [0, 0], "BOS"
    literal = [i for i, token in enumerate(ids) if i and token == mini().bos_token_id]
    assert len(literal) == 1
    assert offsets[literal[0]].tolist() == [0, 0], "a special token that the text spells out is special all the same"
    assert read_fast_offsets(mini(), TEXT, ids[:-1], special=True) is None
    assert read_fast_offsets(mini(), TEXT, [*ids[:-1], ids[0]], special=True) is None


@settings(max_examples=100, deadline=None)
@given(WORDS)
def test_the_search_finds_every_token_of_ordinary_text(text: str) -> None:
    ids = mini().encode(text, add_special_tokens=False)
    found = search_offsets(mini(), text, ids)
    own = read_fast_offsets(mini(), text, ids, special=False)
    whole = [i for i, token in enumerate(ids) if "\ufffd" not in mini().decode([token])]
    assert [text[a:b] for a, b in found[whole]] == [mini().decode([ids[i]]) for i in whole]
    assert (found[whole, 1] == own[whole, 1]).all(), "the end is that of the fast tokenizer, which may trim in front"
    if ids:
        assert found[0, 0] == 0
        assert found[-1, 1] == len(text), "parts of characters are found together"
    assert (np.diff(found.ravel()[::2]) >= 0).all()


def test_what_is_not_in_the_text_has_no_characters_and_loses_nothing_behind_it() -> None:
    text = "The end of it."
    ids = mini().encode(" ZZQQ" + text, add_special_tokens=False)
    extra = len(mini().encode(" ZZQQ", add_special_tokens=False))
    found = search_offsets(mini(), text, ids)
    assert found[-1].tolist() == [13, 14]
    assert "".join(spelt(text, found[extra:])) == text
    far = search_offsets(mini(), "x" * 90 + " end", mini().encode(" end", add_special_tokens=False))
    assert far.tolist() == [[0, 0]], "too far away"


def test_literal_replacement_characters_do_not_stop_the_search() -> None:
    text = "One \ufffd\ufffd two three"
    found = search_offsets(mini(), text, mini().encode(text, add_special_tokens=False))
    assert found[-1, 1] == len(text)
    assert spelt(text, found[-1:])[0].strip() in text


class OtherIds:
    """A fast tokenizer that gives one id too many."""

    def __getattr__(self, name: str) -> Any:
        return getattr(mini(), name)

    def __call__(self, text: str, **more: Any) -> Any:
        found = mini()(text, **more)
        return {"input_ids": [*found["input_ids"], 5], "offset_mapping": [*found["offset_mapping"], (0, 1)]}


@pytest.mark.parametrize("fast", [mini, lambda: None, OtherIds], ids=["fast", "none", "other ids"])
def test_scored_ids_have_their_places(fast: Callable[[], Any]) -> None:
    placed = TokenLocator(mini(), fast()).locate(TEXT, segments=False)
    assert placed.how == ("fast tokenizer" if fast is mini else "search")
    assert placed.token_ids.tolist() == build_pair_unconditional(mini(), TEXT).target_ids.tolist()
    assert "".join(TEXT[a:b] for a, b in placed.offsets if TEXT[a:b].isascii()).replace(" ", "").startswith("Thena")


def test_segments_are_placed_in_the_whole_target() -> None:
    target = " ".join(f"Sentence {number} of the plain text is here." for number in range(20))
    sizes = SegmentSettings(target_tokens=30, context_tokens=4, source_tokens=30, windows=WindowSettings())
    scored = [
        item.target_ids for item in build_segment_unconditional(mini(), target, find_sentence_spans(target), sizes)
    ]
    for fast in (mini(), None):
        placed = TokenLocator(mini(), fast).locate(target, segments=True)
        assert placed.token_ids.tolist() == np.concatenate(scored).tolist()
        assert [target[a:b].strip() for a, b in placed.offsets] == [
            mini().decode([t]).strip() for t in placed.token_ids
        ]
        assert (np.diff(placed.offsets[:, 1]) > 0).all()
        assert placed.offsets[-1, 1] == len(target)


@pytest.mark.skipif(transformers.__version__ >= "5", reason="transformers 5 has no slow tokenizer of Qwen")
def test_a_slow_tokenizer_is_placed_by_the_fast_one_of_its_folder(
    tiny_tokenizer: Callable[..., Any], tmp_path: Path
) -> None:
    model = json.loads(tiny_tokenizer().backend_tokenizer.to_str())["model"]
    (tmp_path / "vocab.json").write_text(json.dumps(model["vocab"]))
    (tmp_path / "merges.txt").write_text("#version: 0.2\n" + "\n".join(map(" ".join, model["merges"])) + "\n")
    (tmp_path / "tokenizer_config.json").write_text(json.dumps({"tokenizer_class": "Qwen2Tokenizer"}))
    (tmp_path / "config.json").write_text(json.dumps({"model_type": "qwen3", "architectures": ["Qwen3ForCausalLM"]}))
    (tmp_path / "model.safetensors").write_bytes(b"")
    slow, fast = (load_tokenizer(tmp_path, ModelSettings(name="tiny", tokenizer=kind)) for kind in ("slow", "fast"))
    text = "The tide turned.\n\nNobody said 17.5 words. Übermut!"
    known, searched = (TokenLocator(slow, other).locate(text, segments=False) for other in (fast, None))
    assert (known.how, searched.how) == ("fast tokenizer", "search")
    assert known.token_ids.tolist() == searched.token_ids.tolist()
    assert known.offsets[:, 1].tolist() == searched.offsets[:, 1].tolist()
