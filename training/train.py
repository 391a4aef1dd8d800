"""Train scdg-mini: ``python -m training.train --data FOLDER --work FOLDER --minutes 60``. Resumes its own checkpoints.

The work folder holds the tokenizer, the packed text, the last checkpoint and ``log.jsonl``; ``--export FOLDER`` writes
the model as bf16 safetensors, in pieces of 15 MB with ``--pieces``. Data order depends on the seed and the step alone,
so a resumed run sees what an undisturbed one sees. Once text is packed, ``--data`` is not needed: the work folder can
be carried to another machine.
"""

import json
import math
import os
import shutil
import time
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import click
import numpy as np
import torch
from torch.nn.functional import cross_entropy
from transformers import AutoTokenizer, Qwen2ForCausalLM

from training.meaning import meaning_vectors
from training.mixture import KINDS, Mixture
from training.pack import LM_FILES, PARAPHRASE_FILES, pack, read_jsonl
from training.start import MEANING, Shape, copying_model
from training.tokenizer import save_tokenizer


def build_tokenizer(data: Path, work: Path, vocabulary: int) -> None:
    """Train the tokenizer on a fifth of the running text and write it into ``work / "start"``."""
    texts = [
        r["text"] for name, k in LM_FILES.items() for r in read_jsonl(data / "lm-text" / f"{name}.jsonl.xz", k // 5)
    ]
    save_tokenizer(texts, vocabulary, work / "start")


def build_start(work: Path, shape: Shape, random_meaning: bool) -> None:
    """Write the constructed, untrained model for the packed text into ``work / "start"``."""
    tokenizer = AutoTokenizer.from_pretrained(work / "start")
    with np.load(work / "packed" / "text.npz") as arrays:
        ids = np.concatenate([arrays[name] for name in (*LM_FILES, *PARAPHRASE_FILES)])
        sample = torch.tensor(arrays["openstax-textbooks"][: 12 * 300].astype(np.int64)).view(12, 300)
        thesaurus = json.loads(arrays["thesaurus"].tobytes())
    counts = torch.tensor(np.bincount(ids, minlength=len(tokenizer)))
    meaning = None
    if not random_meaning:
        meaning = torch.tensor(meaning_vectors(ids, tokenizer, len(tokenizer), thesaurus, MEANING))
    torch.manual_seed(0)
    copying_model(counts, sample, shape, meaning).save_pretrained(work / "start")


def optimizers(model: Qwen2ForCausalLM) -> list[torch.optim.Optimizer]:
    """Muon for the matrices of layers 2 and up and all feed-forwards, AdamW for the rest; the constructed attention
    of layers 0 and 1 learns slower, or training would undo it before it is understood."""
    muon: list[Any] = []
    slow: list[Any] = []
    rest: list[Any] = []
    for name, parameter in model.named_parameters():
        if "self_attn" in name and (".layers.0." in name or ".layers.1." in name):
            slow.append(parameter)
        elif parameter.ndim == 2 and "embed" not in name:
            muon.append(parameter)
        else:
            rest.append(parameter)
    adam = torch.optim.AdamW(
        [{"params": slow, "lr": 7e-4}, {"params": rest, "lr": 1.4e-3}], betas=(0.9, 0.95), weight_decay=0.01
    )
    return [torch.optim.Muon(muon, lr=0.02, momentum=0.95, weight_decay=0.01), adam]


def schedule(step: int, steps: int) -> float:
    """Factor on the learning rates: 40 steps of warm-up, constant to three fifths, then linear to 3 %."""
    done = step / steps
    return min(1.0, (step + 1) / 40) * (1.0 if done < 0.6 else 1.0 - 0.97 * (done - 0.6) / 0.4)


def batch_shape(step: int, rows: int, length: int) -> tuple[int, int]:
    """Rows and length of a step: mostly short sequences; every sixth step longer ones, every 24th very long ones, with
    about as many tokens, so that copying holds over the distances of whole documents."""
    factor = 10 if step % 24 == 23 else 4 if step % 6 == 5 else 1
    return max(1, rows // factor), length * factor


def save_atomically(state: dict[str, Any], path: Path) -> None:
    """A checkpoint is whole or absent."""
    torch.save(state, path.with_suffix(".part"))
    os.replace(path.with_suffix(".part"), path)


def train(
    work: Path,
    steps: int,
    rows: int,
    length: int,
    minutes: float,
    rate: float,
    seed: int = 1,
    without: Sequence[str] = (),
) -> Qwen2ForCausalLM:
    """Run until ``steps`` are done or ``minutes`` have passed, from the last checkpoint in ``work``; kinds of sequences
    in ``without`` are not drawn."""
    packed = work / "packed" / "text.npz"
    tokenizer = AutoTokenizer.from_pretrained(work / "start")
    model = Qwen2ForCausalLM.from_pretrained(work / "start", dtype=torch.float32)
    device = "cuda" if torch.cuda.is_available() else "cpu"
    model.to(device).train()
    opts, first, checkpoint = optimizers(model), 0, work / "checkpoint.pt"
    base = [[rate * group["lr"] for group in o.param_groups] for o in opts]
    if checkpoint.exists():
        state = torch.load(checkpoint, map_location=device, weights_only=True)
        model.load_state_dict(state["model"])
        for o, saved in zip(opts, state["optimizers"], strict=True):
            o.load_state_dict(saved)
        first = state["step"]
    body = torch.compile(model.model)
    mixture, began, tokens = Mixture(packed, tokenizer, seed, without), time.monotonic(), 0
    for step in range(first, steps):
        for o, rates in zip(opts, base, strict=True):
            for group, own in zip(o.param_groups, rates, strict=True):
                group["lr"] = own * schedule(step, steps)
        shape = batch_shape(step, rows, length)
        loss = training_step(model, body, mixture.batch(step, *shape), step, device)
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        for o in opts:
            o.step()
            o.zero_grad(set_to_none=True)
        tokens += shape[0] * shape[1]
        last = step + 1 == steps or time.monotonic() - began > minutes * 60
        if step % 20 == 0 or last:
            record = {
                "step": step,
                "length": shape[1],
                "loss": round(loss, 4),
                "tokens_per_second": round(tokens / (time.monotonic() - began)),
            }
            with open(work / "log.jsonl", "a", encoding="utf-8") as log:
                log.write(json.dumps(record) + "\n")
        if step % 100 == 99 or last:
            state = {"model": model.state_dict(), "optimizers": [o.state_dict() for o in opts], "step": step + 1}
            save_atomically(state, checkpoint)
        if last:
            break
    return model


def _has_bf16(device: str) -> bool:
    """Return whether matrix products in bf16 are native: any recent GPU, or a CPU with AVX512-BF16."""
    if device == "cuda":
        return torch.cuda.is_bf16_supported()
    return "avx512_bf16" in Path("/proc/cpuinfo").read_text() if Path("/proc/cpuinfo").exists() else False


def training_step(model: Qwen2ForCausalLM, body: Any, batch: list[list[int]], step: int, device: str) -> float:
    """Forward and backward on one batch, in two parts to save memory; the loss is taken on half of the positions."""
    ids = torch.tensor(batch, device=device)
    total = 0.0
    parts = ids.chunk(2)
    for part in parts:
        with torch.autocast(device, dtype=torch.bfloat16, enabled=_has_bf16(device)):
            # no mask: attention is then causal by itself, which costs half of what an explicit mask costs
            hidden = body(input_ids=part[:, :-1], attention_mask={"full_attention": None}).last_hidden_state
            generator = torch.Generator().manual_seed(step)
            chosen = torch.randperm(hidden.shape[1], generator=generator)[: hidden.shape[1] // 2].to(device)
            logits = model.lm_head(hidden[:, chosen])
        loss = cross_entropy(logits.float().flatten(0, 1), part[:, 1:][:, chosen].flatten()) * len(part) / len(ids)
        loss.backward()
        total += loss.item()
    if not math.isfinite(total):
        raise FloatingPointError(f"loss is {total} at step {step}; lower the learning rates")
    return total


def export(model: Qwen2ForCausalLM, work: Path, folder: Path, piece: str = "1GB") -> None:
    """Write ``model`` in bf16 with its tokenizer, weights in files of at most ``piece``."""
    folder.mkdir(parents=True, exist_ok=True)
    model.cpu().to(torch.bfloat16).save_pretrained(folder, safe_serialization=True, max_shard_size=piece)
    AutoTokenizer.from_pretrained(work / "start").save_pretrained(folder)


@click.command(help=__doc__)
@click.option("--data", type=click.Path(path_type=Path, exists=True), help="Not needed once text is packed.")
@click.option("--work", type=click.Path(path_type=Path), required=True)
@click.option("--steps", default=1500, show_default=True)
@click.option("--rows", default=10, show_default=True)
@click.option("--length", default=640, show_default=True)
@click.option("--minutes", default=60.0, show_default=True, help="Stop after this long, with a checkpoint.")
@click.option("--rate", default=1.0, show_default=True, help="Factor on all learning rates.")
@click.option("--seed", default=1, show_default=True, help="Of the data's order; a run after --init needs another.")
@click.option("--init", type=click.Path(path_type=Path, exists=True), help="Begin from this model folder.")
@click.option("--threads", default=2, show_default=True)
@click.option("--width", default=Shape.width, show_default=True)
@click.option("--layers", default=Shape.layers, show_default=True)
@click.option("--feed-forward", default=Shape.feed_forward, show_default=True)
@click.option("--random-meaning", is_flag=True, help="Construct the start without vectors of meaning (to compare).")
@click.option("--without", multiple=True, type=click.Choice(list(KINDS)), help="Leave this kind out (to compare).")
@click.option("--pieces", is_flag=True, help="Export weights in files of at most 15 MB.")
@click.option("--export", "target", type=click.Path(path_type=Path), help="Write the finished model here.")
def main(
    data: Path | None,
    work: Path,
    steps: int,
    rows: int,
    length: int,
    minutes: float,
    rate: float,
    seed: int,
    init: Path | None,
    threads: int,
    width: int,
    layers: int,
    feed_forward: int,
    random_meaning: bool,
    without: tuple[str, ...],
    pieces: bool,
    target: Path | None,
) -> None:
    torch.set_num_threads(threads)
    work.mkdir(parents=True, exist_ok=True)
    if init is not None and not (work / "start" / "config.json").exists():
        shutil.copytree(init, work / "start", dirs_exist_ok=True)
    shape = Shape(width=width, layers=layers, feed_forward=feed_forward)
    tokenizer, packed = work / "start" / "tokenizer.json", work / "packed" / "text.npz"
    if data is None and not (tokenizer.exists() and packed.exists()):
        raise click.UsageError("give --data: the work folder has no tokenizer or no packed text yet")
    if data is not None and not tokenizer.exists():
        build_tokenizer(data, work, 12288)
    if data is not None and not packed.exists():
        pack(data, AutoTokenizer.from_pretrained(work / "start"), packed)
    if not (work / "start" / "config.json").exists():
        build_start(work, shape, random_meaning)
    recipe = {
        "steps": steps,
        "rows": rows,
        "length": length,
        "rate": rate,
        "seed": seed,
        "without": without,
        **asdict(shape),
    }
    (work / "recipe.json").write_text(json.dumps(recipe) + "\n")
    model = train(work, steps, rows, length, minutes, rate, seed, without)
    if target is not None:
        export(model, work, target, "15MB" if pieces else "1GB")


if __name__ == "__main__":
    main()
