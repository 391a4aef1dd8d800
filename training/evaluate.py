"""Held-out loss of a language model by source: ``python -m training.evaluate --data FOLDER --model FOLDER``.

For running text the loss is in nats per token and per character. For groups of rewritten texts the second text is
scored alone and after the first: the difference is the mean gain that the model has learnt to make of a source.
"""

from collections import defaultdict
from pathlib import Path
from typing import Any

import click
import numpy as np

from pan_scdg.lm.logprobs import compute_target_log_probs
from pan_scdg.models.load import LanguageModel, load_model
from pan_scdg.scdg.sequences import build_pair_passes
from pan_scdg.settings import ModelSettings
from training.pack import read_jsonl


def running_text(lm: LanguageModel, data: Path, characters: int) -> dict[str, tuple[float, float, int]]:
    """Source -> (nats per token, nats per character, documents) on the first ``characters`` of each document."""
    nats: dict[str, list[tuple[float, int, int]]] = defaultdict(list)
    for record in read_jsonl(data / "lm-text" / "heldout.jsonl.xz", 10**6):
        source = record["source"].replace("openstax/osbooks-", "openstax/").split("/")[0]
        if len(nats[source]) >= 40:
            continue
        text = record["text"][:characters]
        item = build_pair_passes(lm.tokenizer, "", text).unconditional
        nats[source].append((-float(compute_target_log_probs(lm, item, 1024).sum()), len(item.target_ids), len(text)))
    return {s: _rates(np.array(v)) for s, v in nats.items()}


def _rates(values: Any) -> tuple[float, float, int]:
    total, tokens, characters = values.sum(axis=0)
    return total / tokens, total / characters, len(values)


def rewritten_text(lm: LanguageModel, data: Path, groups: int) -> dict[str, tuple[float, float, int]]:
    """Source -> (nats per token alone, nats per token after the first version, groups)."""
    losses: dict[str, list[tuple[float, float]]] = defaultdict(list)
    for record in read_jsonl(data / "paraphrase" / "heldout.jsonl.xz", 10**6):
        if len(losses[record["source"]]) >= groups:
            continue
        passes = build_pair_passes(lm.tokenizer, record["texts"][0], record["texts"][1])
        alone, given = (-compute_target_log_probs(lm, p, 1024).mean() for p in passes)
        losses[record["source"]].append((float(alone), float(given)))
    return {s: (*np.array(v).mean(axis=0), len(v)) for s, v in losses.items()}


@click.command(help=__doc__)
@click.option("--data", type=click.Path(path_type=Path, exists=True), required=True)
@click.option("--model", type=click.Path(path_type=Path, exists=True), required=True)
def main(data: Path, model: Path) -> None:
    lm = load_model(model, ModelSettings(name="model", dtype="float32"), "cpu")
    click.echo("| held-out running text | documents | nats per token | nats per character |\n| --- | --- | --- | --- |")
    for source, (token, character, count) in sorted(running_text(lm, data, 6000).items()):
        click.echo(f"| {source} | {count} | {token:.3f} | {character:.3f} |")
    click.echo("\n| held-out rewrites | groups | alone | after the first version |\n| --- | --- | --- | --- |")
    for source, (alone, given, count) in sorted(rewritten_text(lm, data, 25).items()):
        click.echo(f"| {source} | {count} | {alone:.3f} | {given:.3f} |")


if __name__ == "__main__":
    main()
