"""The packed text and what is drawn from it: held-out and share-alike text stays out, every draw can be repeated."""

import json
import lzma
from pathlib import Path
from typing import Any

import numpy as np

from training.mixture import Mixture
from training.pack import LM_FILES, PARAPHRASE_FILES, nearest_texts
from training.train import batch_shape


def test_packed_text_has_neither_held_out_nor_share_alike_texts(packed: tuple[Path, Any]) -> None:
    target, tokenizer = packed
    with np.load(target) as arrays:
        for name in (*LM_FILES, *PARAPHRASE_FILES):
            text = tokenizer.decode(arrays[name].tolist()).lower()
            assert "mill" in text
            assert "zebra" not in text


def test_packed_texts_are_those_of_the_files(packed: tuple[Path, Any]) -> None:
    target, tokenizer = packed
    mixture = Mixture(target, tokenizer, seed=1)
    name = next(iter(LM_FILES))
    with lzma.open(target.parents[1] / "lm-text" / f"{name}.jsonl.xz", "rt", encoding="utf-8") as lines:
        texts = [json.loads(line)["text"] for line in lines]
    assert [tokenizer.decode(mixture.texts[name][i]) for i in range(len(texts))] == texts


def test_a_sequence_depends_on_seed_step_row_and_length_alone(packed: tuple[Path, Any]) -> None:
    target, tokenizer = packed
    one, other = Mixture(target, tokenizer, seed=1), Mixture(target, tokenizer, seed=1)
    other.batch(3, 2, 90)
    assert one.batch(7, 3, 200) == other.batch(7, 3, 200)
    assert one.batch(7, 3, 200) != one.batch(8, 3, 200)
    assert one.batch(7, 3, 200) != Mixture(target, tokenizer, seed=2).batch(7, 3, 200)
    assert one.batch(7, 3, 200)[:2] == one.batch(7, 2, 200)


def test_sequences_have_the_asked_length_and_begin_with_a_bos(packed: tuple[Path, Any]) -> None:
    target, tokenizer = packed
    mixture = Mixture(target, tokenizer, seed=1)
    for length in (40, 640, 2560):
        for step in range(12):
            for ids in mixture.batch(step, 2, length):
                assert len(ids) == length + 1
                assert ids[0] == tokenizer.bos_token_id
                assert 0 <= min(ids) <= max(ids) < len(tokenizer)


def test_nearest_text_by_hand() -> None:
    texts = ["salt water harbour", "bread oven flour", "harbour water ship", "flour bread mill"]
    assert nearest_texts(texts, 4).tolist() == [2, 3, 0, 1]


def test_long_sequences_come_regularly_with_about_as_many_tokens() -> None:
    shapes = [batch_shape(step, 10, 640) for step in range(24)]
    assert shapes.count((10, 640)) == 20
    assert shapes.count((2, 2560)) == 3
    assert shapes.count((1, 6400)) == 1
