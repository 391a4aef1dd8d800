"""Verdicts on long texts: ``python -m benchmarks.long_texts --data DATA --development FILE``.

Pairs of `benchmarks.verdicts` are joined to longer pairs. Negatives: suspicious texts in a row against the same number
of sources, their own ones (one topic) or those of the next group (other topics); groups with verbatim runs in common,
which some kinds draw from one stock of texts, are left out. Positives: the same on one topic, with a positive pair
instead of one of the joined pairs.
"""

import random
from pathlib import Path

import click
import numpy as np

from benchmarks.development.compose import Pair
from benchmarks.pair_gains import development_set
from benchmarks.verdicts import gather, read_pan13
from pan_scdg.evaluation.report import format_table
from pan_scdg.align.units import prepare_text
from pan_scdg.align.verbatim import find_runs
from pan_scdg.profile import PassageSettings, load_profile
from pan_scdg.profile.baseline import Alignment
from pan_scdg.records import TextPair
from pan_scdg.scoring.baseline_registry import METHODS, Given, find_parts
from pan_scdg.store import Store

JOINED = (1, 2, 4, 8, 16)
MOST_GROUPS = 200
MOST_VERBATIM = 80
"""Characters in verbatim runs; more are no chance."""


def join(pairs: list[Pair], count: int, topics: str) -> list[TextPair]:
    """Return pairs of ``count`` joined texts."""
    groups = [pairs[i : i + count] for i in range(0, len(pairs) - count + 1, count)][:MOST_GROUPS]
    found = []
    for number, group in enumerate(groups):
        others = group if topics == "one" else groups[(number + 1) % len(groups)]
        target, source = ("\n\n".join(texts) for texts in ([p.target for p in group], [p.source for p in others]))
        if measure_verbatim(target, source) <= MOST_VERBATIM:
            found.append(TextPair(str(number), str(number), target, source))
    return found


def join_with_reuse(pairs: list[Pair], positives: list[Pair], count: int) -> list[TextPair]:
    """Return pairs of ``count`` joined texts, one of which reuses its source."""
    chance, found = random.Random(count), []
    for number in range(min(MOST_GROUPS, len(pairs) // count)):
        group = pairs[number * count : (number + 1) * count]
        group[chance.randrange(count)] = positives[(7 * number + count) % len(positives)]
        target, source = ("\n\n".join(texts) for texts in ([p.target for p in group], [p.source for p in group]))
        found.append(TextPair(str(number), str(number), target, source))
    return found


def measure_verbatim(target: str, source: str) -> int:
    """Return the characters of the target in verbatim runs."""
    settings = PassageSettings()
    first, second = (prepare_text(text, settings.unit_words) for text in (target, source))
    return sum(run.end - run.start for run in find_runs(first, second, settings.run_words))


@click.command(help=__doc__)
@click.option("--data", type=click.Path(path_type=Path), required=True, help="Folder with pan13-dev.")
@click.option("--development", type=click.Path(path_type=Path), required=True)
@click.option("--state", type=click.Path(path_type=Path), default=Path("out/long-texts"), show_default=True)
@click.option("--profile", default="offline", show_default=True)
def main(data: Path, development: Path, state: Path, profile: str) -> None:
    settings = load_profile(profile).baseline
    if not isinstance(settings, Alignment) or settings.threshold is None:
        raise click.UsageError(f"{profile} is no alignment with a threshold")
    everything = gather([development_set(development).pairs, read_pan13(data / "pan13-dev")]).pairs
    pairs = [pair for pair in everything if not pair.label]
    random.Random(3).shuffle(pairs)
    positives = [pair for pair in everything if pair.label]
    random.Random(4).shuffle(positives)
    rows = []
    with Store(state) as store:
        scorer = find_parts(settings, Given("cpu")).make_alignment(settings, store)
        for topics in ("one", "other"):
            for count in JOINED:
                texts = join(pairs, count, topics)
                scores = METHODS[Alignment].combine(settings, list(scorer.score(texts)))
                length = int(np.median([len(text.target) for text in texts]))
                false = int((scores >= settings.threshold).sum())
                most = np.quantile(scores, 0.97)
                rows.append([topics, str(count), f"{length:,}", f"{false} of {len(texts)}", f"{most:.3f}"])
        for count in JOINED:
            texts = join_with_reuse(pairs, positives, count)
            scores = METHODS[Alignment].combine(settings, list(scorer.score(texts)))
            found_ones = int((scores >= settings.threshold).sum())
            length = int(np.median([len(text.target) for text in texts]))
            rows.append(["with reuse", str(count), f"{length:,}", f"{found_ones} of {len(texts)}", ""])
    columns = ["topics", "joined", "characters", "called positive", "97th percentile"]
    click.echo(format_table([dict(zip(columns, row, strict=True)) for row in rows], columns))


if __name__ == "__main__":
    main()
