"""Target tokens a second of whole pairs under a profile: ``python -m benchmarks.pair_speed [--profile NAME]``.

Sources and targets of a given number of tokens are cut from the texts of the shipped examples, joined in turn. Wall
clock covers what a run does for a pair: tokenising, choosing windows, all passes, the control among them, and the
score. The model is loaded and has scored one pair before the clock starts.
"""

import json
import time
from pathlib import Path

import click

from pan_scdg.jobs.demo import PAIRS
from pan_scdg.jobs.requests import Computing
from pan_scdg.notices import Notices
from pan_scdg.pan.text_alignment import read_pairs, read_text
from pan_scdg.profile import load_profile
from pan_scdg.scdg.aggregation import list_stored
from pan_scdg.scoring.model import ScoringModel
from pan_scdg.scoring.pair_plan import Mode
from pan_scdg.scoring.passes import PairText, PassScorer
from pan_scdg.store import MemoryStore


def texts_of(model: ScoringModel, count: int, source_tokens: int, target_tokens: int) -> list[tuple[str, str]]:
    """Return ``count`` pairs of texts of about these numbers of tokens; no two pairs have a target in common."""
    pairs = read_pairs(PAIRS, Notices()).pairs
    sources = "\n\n".join(read_text(p.source) for p in pairs)
    targets = "\n\n".join(read_text(p.suspicious) for p in pairs)
    source_ids = model.tokenizer.encode(sources * 4, add_special_tokens=False)
    target_ids = model.tokenizer.encode(targets * 4, add_special_tokens=False)
    if min(len(source_ids) // source_tokens, len(target_ids) // target_tokens) < count:
        raise click.UsageError(f"the examples have too few tokens for {count} pairs of this length")
    return [
        (
            model.tokenizer.decode(source_ids[i * source_tokens : (i + 1) * source_tokens]),
            model.tokenizer.decode(target_ids[i * target_tokens : (i + 1) * target_tokens]),
        )
        for i in range(count)
    ]


@click.command(help=__doc__)
@click.option("--profile", default="scdg-mini", show_default=True)
@click.option("--model", type=click.Path(path_type=Path))
@click.option("--device", default="cpu", show_default=True)
@click.option("--count", default=20, show_default=True)
@click.option("--source-tokens", default=3000, show_default=True)
@click.option("--target-tokens", default=1000, show_default=True)
def main(profile: str, model: Path | None, device: str, count: int, source_tokens: int, target_tokens: int) -> None:
    chosen = load_profile(profile)
    settings = chosen.need_pairs()
    at_hand = Computing(device, model=model).open_model(chosen.need_model())
    pairs = texts_of(at_hand, count + 1, source_tokens, target_tokens)
    scorer, scored, began, before = PassScorer(at_hand, MemoryStore()), 0, 0.0, 0
    for number, (source, target) in enumerate(pairs):
        if number == 1:
            began, before, scored = time.perf_counter(), scorer.model.tokens, 0
        mode: Mode = "whole" if source_tokens + target_tokens + 3 <= settings.limit else "segments"
        gains = scorer.compute_gains(
            PairText(source, target, mode == "segments").make_passes(at_hand.tokenizer, settings), settings.control
        )
        gains.summarise(list_stored("pairs"))
        scored += len(gains.token_ids)
    seconds = time.perf_counter() - began
    click.echo(
        json.dumps(
            {
                "profile": chosen.name,
                "pairs": count,
                "target_tokens_per_second": round(scored / seconds),
                "tokens_per_second": round((scorer.model.tokens - before) / seconds),
                "seconds_per_pair": round(seconds / count, 3),
            }
        )
    )


if __name__ == "__main__":
    main()
