"""Train an encoder of fewer layers: ``python -m training.distil --data FOLDER --export FOLDER``.

The student begins with some layers of reuse-minilm, its teacher, and learns the last states of the teacher's tokens and
their mean. Each sentence is read once by both, so that nothing is stored.
"""

import json
import math
import random
from collections.abc import Iterable, Iterator, Sequence
from itertools import chain
from pathlib import Path

import click
import numpy as np
import torch
from safetensors.torch import load_file
from torch import Tensor
from torch.nn.functional import cosine_similarity
from transformers import AutoTokenizer, BertModel

from pan_scdg.models.find import find_encoder
from training.encoder import BASE, SIDES, export, split
from training.pack import read_jsonl

TEACHER = "reuse-minilm"
LAYERS = (0, 2, 5)
"""Layers of the teacher that the student begins with."""
FILES = {  # records that are read: rewritten modern prose first
    "paraphrase/llm-rewrites": 2400,
    "paraphrase/humanized-texts": 2000,
    "lm-text/openstax-textbooks": 200,
    "lm-text/arxiv-abstracts-1": 2000,
    "lm-text/technical-and-government": 150,
    "lm-text/public-domain-books": 30,
}
MAX_TOKENS, BATCH_TOKENS, RATE, WARM_UP, MEAN_WEIGHT = 128, 1024, 5e-4, 0.02, 10.0


def read_sentences(data: Path, excluded: Iterable[str], seed: int) -> list[str]:
    """Return the sentences of the training files, shuffled; none under a share-alike licence."""
    sentences = set[str]()
    for name, count in FILES.items():
        for record in read_jsonl(data / f"{name}.jsonl.xz", count):
            if "SA" not in record["license"]:
                sentences.update(chain.from_iterable(map(split, record.get("texts", [record.get("text", "")]))))
    kept = sorted(sentences.difference(excluded))
    random.Random(seed).shuffle(kept)
    return kept


def draw_batches(token_ids: Iterable[Sequence[int]]) -> Iterator[Tensor]:
    """Yield sentences of equal length together, ``[n, length]``, so that nothing is padded."""
    waiting: dict[int, list[Sequence[int]]] = {}
    for ids in token_ids:
        same = waiting.setdefault(len(ids), [])
        same.append(ids)
        if len(same) * len(ids) >= BATCH_TOKENS:
            yield torch.tensor(waiting.pop(len(ids)))


def load_teacher(folder: Path, base: Path) -> BertModel:
    model = BertModel.from_pretrained(base, hidden_dropout_prob=0.0, attention_probs_dropout_prob=0.0)
    layers = load_file(folder / "model.safetensors")
    model.encoder.load_state_dict({name.removeprefix("encoder."): weight.float() for name, weight in layers.items()})
    return model.eval().requires_grad_(requires_grad=False)


def make_student(teacher: BertModel, layers: Sequence[int] = LAYERS) -> BertModel:
    """Return a model with some of the teacher's layers, and its embeddings, which stay as they are."""
    student = BertModel(type(teacher.config)(**{**teacher.config.to_dict(), "num_hidden_layers": len(layers)}))
    student.embeddings.load_state_dict(teacher.embeddings.state_dict())
    student.embeddings.requires_grad_(requires_grad=False)
    for own, number in zip(student.encoder.layer, layers, strict=True):
        own.load_state_dict(teacher.encoder.layer[number].state_dict())
    return student


def compute_losses(states: Tensor, wanted: Tensor) -> tuple[Tensor, Tensor]:
    """Return the error of tokens as a share of their variance, and one minus the cosine of the sentences' means."""
    tokens = (states - wanted).square().mean() / wanted.var()
    return tokens, (1 - cosine_similarity(states.mean(1), wanted.mean(1))).mean()


def train(student: BertModel, teacher: BertModel, batches: Iterable[Tensor], tokens: int) -> None:
    """Train on a number of tokens; the rate falls to zero with them."""
    parameters = list(student.encoder.parameters())
    optimizer = torch.optim.AdamW(parameters, lr=RATE, weight_decay=0.01)
    read, losses = 0, []
    student.train()
    for step, ids in enumerate(batches, 1):
        done = read / tokens
        if done >= 1:
            break
        optimizer.param_groups[0]["lr"] = RATE * min(done / WARM_UP, 0.5 + 0.5 * math.cos(math.pi * done))
        with torch.inference_mode():
            wanted = teacher(ids).last_hidden_state
        parts = compute_losses(student(ids).last_hidden_state, wanted.clone())
        (parts[0] + MEAN_WEIGHT * parts[1]).backward()
        torch.nn.utils.clip_grad_norm_(parameters, 1.0)
        optimizer.step()
        optimizer.zero_grad()
        read += ids.numel()
        losses.append([part.item() for part in parts])
        if step % 50 == 0:
            means = np.mean(losses[-50:], axis=0).round(4).tolist()
            click.echo(f"{step} steps, {done:.0%} of the tokens: error of tokens {means[0]}, of means {means[1]}")


@click.command()
@click.option("--data", type=click.Path(path_type=Path, exists=True), required=True, help="Has paraphrase and lm-text.")
@click.option(
    "--without", type=click.Path(path_type=Path, exists=True), multiple=True, help="Pairs whose sentences are left out."
)
@click.option("--tokens", default=1_200_000, show_default=True)
@click.option("--seed", default=0, show_default=True)
@click.option("--export", "folder", type=click.Path(path_type=Path), required=True, help="The folder for the model.")
def main(data: Path, without: tuple[Path, ...], tokens: int, seed: int, folder: Path) -> None:
    """Train and write the model."""
    torch.manual_seed(seed)
    base = find_encoder(BASE).folder
    pairs = [json.loads(line) for path in without for line in path.open(encoding="utf-8")]
    excluded = {sentence for pair in pairs for side in SIDES for sentence in split(pair.get(side, ""))}
    sentences = read_sentences(data, excluded, seed)
    click.echo(f"{len(sentences):,} sentences")
    tokenizer = AutoTokenizer.from_pretrained(base)
    teacher = load_teacher(find_encoder(TEACHER).folder, base)
    student = make_student(teacher)
    encoded = (tokenizer(text, truncation=True, max_length=MAX_TOKENS)["input_ids"] for text in sentences)
    train(student, teacher, draw_batches(encoded), tokens)
    export(student, base, folder)
    settings = json.loads((folder / "config.json").read_text(encoding="utf-8")) | {"num_hidden_layers": len(LAYERS)}
    (folder / "config.json").write_text(json.dumps(settings, indent=2) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
