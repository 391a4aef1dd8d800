"""A packed file of a few invented texts, and the tokenizer of its ids."""

import json
import lzma
import random
from pathlib import Path
from typing import Any

import pytest

from training.pack import LM_FILES, PARAPHRASE_FILES, pack
from training.tokenizer import train_tokenizer

WORDS = ["river", "bank", "water", "stone", "mill", "wheel", "grain", "flour", "bread", "oven", "market", "price"]


def sentence(rng: random.Random, words: list[str] = WORDS) -> str:
    return " ".join(rng.choices(words, k=9)).capitalize() + "."


def document(rng: random.Random) -> str:
    words = ["mill", *rng.sample(WORDS, 4)]
    return " ".join(sentence(rng, words) for _ in range(rng.randint(3, 90)))


def write(path: Path, records: list[dict[str, Any]]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    with lzma.open(path, "wt", encoding="utf-8") as file:
        file.writelines(json.dumps(r) + "\n" for r in records)


@pytest.fixture(scope="module")
def packed(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Any]:
    data, rng = tmp_path_factory.mktemp("data"), random.Random(1)
    for name in LM_FILES:
        write(data / "lm-text" / f"{name}.jsonl.xz", [{"text": document(rng)} for _ in range(12)])
    for name in PARAPHRASE_FILES:
        groups = [{"texts": [sentence(rng), sentence(rng), sentence(rng)], "license": "MIT"} for _ in range(9)]
        groups.append({"texts": ["Sharealike zebra.", "Zebra sharealike."], "license": "CC BY-SA 4.0"})
        write(data / "paraphrase" / f"{name}.jsonl.xz", groups)
    for folder in ("lm-text", "paraphrase"):
        held_out = {"text": "Heldout zebra.", "texts": ["Heldout zebra.", "Zebra."], "license": "MIT"}
        write(data / folder / "heldout.jsonl.xz", [held_out])
    write(data / "paraphrase" / "thesaurus-wordnet.jsonl.xz", [{"word": "river", "pos": "n", "synonyms": ["stream"]}])
    tokenizer = train_tokenizer([" ".join(WORDS), "Sharealike heldout zebra stream."] * 20, 400)
    target = data / "packed" / "text.npz"
    pack(data, tokenizer, target)
    return target, tokenizer
