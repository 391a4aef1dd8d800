"""Measure whether a long source hides the text that a target was written from.

    python -m benchmarks.source_length --development FILE --state DIR

Each chosen pair of the development set is scored twice under the profile's frozen rule: with a source of 1,500 tokens
that holds the pair's own source among texts that have nothing to do with it, and with one of 6,000 tokens that holds
those 1,500 and more. The last line is one JSON object with both AUROCs and their difference.
"""

import json
import random
from collections.abc import Sequence
from pathlib import Path

import click
import numpy as np
from sklearn.metrics import roc_auc_score

from benchmarks.development.compose import Pair
from benchmarks.pair_gains import at_most, development_set, pair_gains
from pan_scdg.jobs.requests import Computing
from pan_scdg.profile import load_profile
from pan_scdg.scdg.aggregation import choose_aggregate
from pan_scdg.scdg.gains import Gains
from pan_scdg.scoring.model import ScoringModel
from pan_scdg.store import Store

KINDS = ("same-question", "summary-inside", "passage-inside", "several-sources")


def lengthened(pair: Pair, others: Sequence[str], sizes: Sequence[int], model: ScoringModel) -> list[str]:
    """The pair's source among ``others``, of about each of ``sizes`` tokens, each source a part of the next."""
    rng = random.Random(pair.id)
    parts, made = [pair.source], []
    used = len(model.tokenizer.encode(pair.source, add_special_tokens=False))
    for size in sizes:
        while used < size:
            ids = model.tokenizer.encode(rng.choice(others), add_special_tokens=False)[: size - used]
            text = model.tokenizer.decode(ids)
            parts = [text, *parts] if rng.random() < 0.5 else [*parts, text]
            used += len(ids) + 2
        made.append("\n\n".join(parts))
    return made


@click.command(help=__doc__)
@click.option("--development", type=click.Path(path_type=Path, exists=True), required=True)
@click.option("--profile", default="offline", show_default=True)
@click.option("--most", default=16, show_default=True, help="Pairs of each kind and label.")
@click.option("--short", default=1500, show_default=True)
@click.option("--long", default=6000, show_default=True)
@click.option("--state", type=click.Path(path_type=Path), required=True)
def main(development: Path, profile: str, most: int, short: int, long: int, state: Path) -> None:
    chosen = load_profile(profile)
    settings = chosen.need_pairs()
    whole = development_set(development)
    picked = at_most(whole._replace(pairs=tuple(p for p in whole.pairs if p.kind in KINDS)), most).pairs
    others = sorted({p.source for p in whole.pairs if p.kind not in KINDS})
    model = Computing("cpu", state=state).open_model(chosen.need_model())
    sources = [lengthened(pair, others, (short, long), model) for pair in picked]
    labels = [pair.label for pair in picked]
    overall: list[float] = []
    aggregate = choose_aggregate(settings)
    if aggregate is None:
        raise click.UsageError("this profile has no aggregation of gains")
    with Store(state) as store:
        for number, tokens in enumerate((short, long)):
            pairs = [pair._replace(source=of[number]) for pair, of in zip(picked, sources, strict=True)]
            scores = []
            for arrays in pair_gains(f"sources of {tokens} tokens", pairs, model, settings, store):
                ids = np.zeros(len(arrays.unconditional), dtype=np.int64)
                alone, given, shuffled = (a.astype(np.float64) for a in arrays)
                gains = Gains(ids, alone, given, shuffled, settings.control)
                scores.append(aggregate.compute(gains.gains))
            overall.append(float(roc_auc_score(labels, scores)))
            for kind in KINDS:
                mine = [i for i, pair in enumerate(picked) if pair.kind == kind]
                value = roc_auc_score([labels[i] for i in mine], [scores[i] for i in mine])
                click.echo(f"{kind:18} source of {tokens} tokens: AUROC {value:.4f} on {len(mine)} pairs")
    click.echo(
        json.dumps(
            {
                "pairs": len(picked),
                **{f"auroc_{tokens}": round(value, 4) for tokens, value in zip((short, long), overall, strict=True)},
                "difference": round(overall[1] - overall[0], 4),
            }
        )
    )


if __name__ == "__main__":
    main()
