"""The shuffled source: the same ids in another order of words, whatever the tokenizer, and nothing else is moved."""

import hashlib
import random
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from functools import cache
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pan_scdg.digests import hash_text
from pan_scdg.profile import SegmentSettings, WindowSettings
from pan_scdg.scdg.control import add_control, find_word_starts, shuffle_source
from pan_scdg.scdg.segments import build_segment_passes
from pan_scdg.scdg.sequences import Passes, build_pair_passes

TRAINING = (
    "The tide turned before noon, and the nets came up empty again.\n\nNobody on the quay said a word about it.\n\n"
    "The third was lost.\n\nMeasured twice, the samples held 17.5 grams of salt per litre.\n\nA word was lost.\n\n"
) * 4
SOURCE = "The tide turned twice, and nobody said a word.\n\nMeasured again: 17 grams.  Käse, too. It was lost."
TARGET = "Nobody on the quay measured the salt again."
QWEN = r"(?i:'s|'t)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"


def wrapped(tokenizer: Any, bos: bool) -> Any:
    from tokenizers import processors
    from transformers import PreTrainedTokenizerFast

    if bos:
        start = [("<s>", tokenizer.token_to_id("<s>"))]
        tokenizer.post_processor = processors.TemplateProcessing(single="<s> $A", special_tokens=start)
    return PreTrainedTokenizerFast(tokenizer_object=tokenizer, clean_up_tokenization_spaces=False)


def merging() -> Any:
    """As Qwen and Llama 3: byte-level, no BOS, and an end of sentence grows together with the newlines behind it."""
    from tokenizers import Regex, Tokenizer, decoders, models, pre_tokenizers, trainers

    tokenizer = Tokenizer(models.BPE())
    split = pre_tokenizers.Split(Regex(QWEN), behavior="isolated")
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
        [split, pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)]
    )
    tokenizer.decoder = decoders.ByteLevel()
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    tokenizer.train_from_iterator([TRAINING], trainers.BpeTrainer(vocab_size=340, initial_alphabet=alphabet))
    return wrapped(tokenizer, bos=False)


def sentence_piece() -> Any:
    """As Llama 2: spaces are spelt as a mark in front of a word, newlines as bytes, BOS in front.

    There is no mark in front of the first word: ``build_pair_passes`` needs a target spelt alike behind a source.
    """
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers

    special = ["<unk>", "<s>", *(f"<0x{i:02X}>" for i in range(256))]
    tokenizer = Tokenizer(models.BPE(unk_token="<unk>", byte_fallback=True))
    tokenizer.pre_tokenizer = pre_tokenizers.Metaspace(prepend_scheme="never")
    tokenizer.decoder = decoders.Sequence(
        [decoders.Replace("▁", " "), decoders.ByteFallback(), decoders.Fuse(), decoders.Strip(" ", 1, 0)]
    )
    trainer = trainers.BpeTrainer(vocab_size=420, special_tokens=special)
    tokenizer.train_from_iterator([TRAINING.replace("\n", " ")], trainer)
    return wrapped(tokenizer, bos=True)


class Letters:
    """One id a character and a vocabulary that says nothing about spaces."""

    bos_token_id = 1
    eos_token_id = pad_token_id = None

    def encode(self, text: str, *, add_special_tokens: bool) -> list[int]:
        return [1] * add_special_tokens + [ord(c) for c in text]

    def decode(self, ids: list[int]) -> str:
        return "".join(map(chr, ids))

    def convert_ids_to_tokens(self, ids: list[int]) -> list[str]:
        return [str(i) for i in ids]


@pytest.fixture(scope="module")
def tokenizer_of(tiny_tokenizer: Callable[..., Any]) -> Callable[[str], Any]:
    makers = {"gpt-2": tiny_tokenizer, "qwen": merging, "llama-2": sentence_piece, "letters": Letters}
    return cache(lambda name: makers[name]())


NAMES = ("gpt-2", "qwen", "llama-2", "letters")


def ids_of(tokenizer: Any, text: str) -> np.ndarray:
    return np.array(tokenizer.encode(text, add_special_tokens=False), dtype=np.int64)


def groups(tokenizer: Any, ids: np.ndarray) -> list[tuple[int, ...]]:
    return [tuple(g.tolist()) for g in np.split(ids, np.flatnonzero(find_word_starts(tokenizer, ids))[1:])]


@pytest.mark.parametrize("name", NAMES)
def test_groups_are_the_words(tokenizer_of: Callable[[str], Any], name: str) -> None:
    tokenizer = tokenizer_of(name)
    text = "The tide turned.\nNobody lost 17 grams, twice."
    found = [tokenizer.decode(list(g)).strip() for g in groups(tokenizer, ids_of(tokenizer, text))]
    words = ["The", "tide", "turned.", "Nobody", "lost", "17", "grams,", "twice."]
    # a newline that the tokenizer joins with the end of a sentence begins no word
    expected = ["The", "tide", "turned.\nNobody", *words[4:]] if name == "qwen" else words
    assert found == expected


@pytest.mark.parametrize("name", NAMES)
@settings(max_examples=30, deadline=None)
@given(text=st.text(st.sampled_from("ab \n.é▁ĠЖ"), max_size=40), digest=st.sampled_from(["1", "2"]))
def test_the_same_words_and_as_many_ids(tokenizer_of: Callable[[str], Any], name: str, text: str, digest: str) -> None:
    tokenizer = tokenizer_of(name)
    ids = ids_of(tokenizer, text)
    shuffled = shuffle_source(tokenizer, ids, digest, "0")
    assert shuffled.dtype == np.int64
    assert sorted(shuffled.tolist()) == sorted(ids.tolist())


@pytest.mark.parametrize("name", NAMES)
def test_whole_words_move(tokenizer_of: Callable[[str], Any], name: str) -> None:
    tokenizer = tokenizer_of(name)
    ids = ids_of(tokenizer, " " + SOURCE)
    shuffled = shuffle_source(tokenizer, ids, hash_text(SOURCE), hash_text(TARGET))
    assert Counter(groups(tokenizer, shuffled)) == Counter(groups(tokenizer, ids))
    assert not np.array_equal(shuffled, ids)


def test_the_order_is_that_of_the_documented_draws(tokenizer_of: Callable[[str], Any]) -> None:
    tokenizer = tokenizer_of("gpt-2")
    ids = ids_of(tokenizer, SOURCE)
    seed = hashlib.sha256(b"shuffled-source\nsource digest\ntarget digest").hexdigest()
    generator = random.Random(int(seed, 16))
    drawn = sorted((generator.random(), group) for group in groups(tokenizer, ids))
    expected = [i for _, group in drawn for i in group]
    assert shuffle_source(tokenizer, ids, "source digest", "target digest").tolist() == expected


def test_the_order_is_the_same_today_and_tomorrow_and_depends_on_both_texts() -> None:
    letters = Letters()
    ids = ids_of(letters, "one two three four five six seven")

    def order(source: str, target: str) -> str:
        return letters.decode(shuffle_source(letters, ids, source, target).tolist())

    assert order("a", "b") == "one six two four three seven five"
    assert len({order(*digests) for digests in ("ab", "ba", "ac", "cb")}) == 4


@pytest.mark.parametrize("text", ["", "word", "   "])
def test_nothing_to_shuffle(tokenizer_of: Callable[[str], Any], text: str) -> None:
    ids = ids_of(tokenizer_of("gpt-2"), text)
    assert np.array_equal(shuffle_source(tokenizer_of("gpt-2"), ids, "a", "b"), ids)


@pytest.mark.parametrize("name", NAMES)
def test_only_the_source_of_a_pair_is_shuffled(tokenizer_of: Callable[[str], Any], name: str) -> None:
    tokenizer = tokenizer_of(name)
    plain = build_pair_passes(tokenizer, SOURCE, TARGET)
    assert list(plain) == [plain.unconditional, plain.conditional]
    passes = add_control(tokenizer, plain, SOURCE, TARGET)
    assert (passes.unconditional, passes.conditional) == (plain.unconditional, plain.conditional)
    assert passes.control is not None
    assert list(passes)[2] is passes.control
    before, behind = passes.conditional.context_ids, passes.control.context_ids
    assert np.array_equal(passes.control.target_ids, plain.conditional.target_ids)
    assert sorted(before.tolist()) == sorted(behind.tolist())
    if name == "qwen":
        alone = ids_of(tokenizer, SOURCE)
        merged, first = before[-2:].tolist()
        assert tokenizer.decode([merged]) == ".\n\n", "end of sentence and separator are one id"
        assert [first] == plain.unconditional.context_ids.tolist(), "no BOS: the target's first id is context"
        assert before.tolist() == [*alone[:-1], merged, first]
        head, tail, source = [], [merged, first], alone[:-1]
    else:
        head, tail, source = before[:1].tolist(), before[-2:].tolist(), ids_of(tokenizer, SOURCE)
        assert tokenizer.decode(tail) == "\n\n"
        assert before.tolist() == [*head, *source, *tail]
    shuffled = shuffle_source(tokenizer, source, hash_text(SOURCE), hash_text(TARGET))
    assert behind.tolist() == [*head, *shuffled, *tail]
    assert not np.array_equal(before, behind)


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("source", ["", "word"])
def test_a_source_without_order_is_its_own_control(tokenizer_of: Callable[[str], Any], name: str, source: str) -> None:
    tokenizer = tokenizer_of(name)
    passes = add_control(tokenizer, build_pair_passes(tokenizer, source, TARGET), source, TARGET)
    assert passes.control is not None
    assert np.array_equal(passes.control.context_ids, passes.conditional.context_ids)


def test_segments_keep_anchor_separator_and_preceding_text() -> None:
    letters = Letters()
    plan = SegmentSettings(
        target_tokens=20, context_tokens=3, source_tokens=25, windows=WindowSettings(words=2, stride=2, considered=99)
    )
    source, target = "nobody lost salt and the tide turned twice", "The tide turned. Nobody lost a gram of salt."
    spans = [(0, 16), (17, 44)]
    plain = list(build_segment_passes(letters, source, target, spans, plan))
    controlled = list(build_segment_passes(letters, source, target, spans, plan, control=True))
    assert len(plain) == len(controlled) > 1
    digests = hash_text(source), hash_text(target)
    for without, with_control in zip(plain, controlled):
        assert without.control is None
        assert same(without, replace(with_control, control=None))
        context = with_control.conditional.context_ids
        stop = letters.decode(context.tolist()).rindex("\n\n")
        shuffled = shuffle_source(letters, context[1:stop], *digests)
        assert with_control.control is not None
        assert with_control.control.context_ids.tolist() == [1, *shuffled, *context[stop:]]
        assert np.array_equal(with_control.control.target_ids, with_control.conditional.target_ids)


def same(one: Passes, other: Passes) -> bool:
    return all(
        np.array_equal(a.context_ids, b.context_ids) and np.array_equal(a.target_ids, b.target_ids)
        for a, b in zip(one, other, strict=True)
    )
