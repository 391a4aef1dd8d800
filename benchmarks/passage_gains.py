"""Add gains of passages to the alignment: ``python -m benchmarks.passage_gains --data DATA --development FILE``.

Of each kind of pair in `benchmarks.verdicts` some are drawn. Of every target the run of sentences with at least 60
words whose sentences are nearest to the source is the passage, and its side of the source is the run of at least 120
words that is nearest to the passage. The language model of the profile measures its gain and its control; the AUROC of
the alignment, of both numbers, and of weighted sums follow. Numbers lie in the state folder: the same command goes on.
"""

import random
from collections import defaultdict
from pathlib import Path

import click
import numpy as np
import numpy.typing as npt

from benchmarks.development.compose import Pair
from benchmarks.pair_gains import development_set
from benchmarks.verdicts import Floats, Items, gather, read_pan13, tabulate
from pan_scdg.evaluation.pairs import compute_pair_metrics
from pan_scdg.evaluation.report import format_table
from pan_scdg.align.units import PreparedText, prepare_text
from pan_scdg.profile import PassageSettings, load_profile
from pan_scdg.profile.baseline import Alignment
from pan_scdg.progress import Progress
from pan_scdg.records import Passage, TextPair
from pan_scdg.scoring.baseline_registry import METHODS, Given, find_parts
from pan_scdg.scoring.model import ScoringModel
from pan_scdg.scoring.verification import Verifier
from pan_scdg.store import Store

TARGET_WORDS, SOURCE_WORDS = 60, 120
WEIGHTS = (0.025, 0.05, 0.1, 0.2)
Vectors = npt.NDArray[np.float32]


def draw(pairs: tuple[Pair, ...], count: int) -> tuple[Pair, ...]:
    """Return ``count`` pairs of each kind and label, or all."""
    groups = defaultdict(list)
    for pair in pairs:
        groups[pair.kind, pair.label].append(pair)
    drawn = (random.Random(5).sample(group, min(count, len(group))) for _, group in sorted(groups.items()))
    return tuple(pair for group in drawn for pair in group)


def list_runs(text: PreparedText, least: int) -> list[tuple[int, int]]:
    """Return the runs of sentences, each the shortest from its first, of ``least`` words; all if too few."""
    counts = np.concatenate([[0], np.cumsum(np.diff(text.units, axis=1)[:, 0])])
    ends = np.searchsorted(counts, counts[:-1] + least)
    return [(begin, int(end)) for begin, end in enumerate(ends) if end < len(counts)] or [(0, len(text.units))]


def choose_passage(target: PreparedText, source: PreparedText, one: Vectors, other: Vectors) -> Passage:
    """Return the run of target sentences nearest to the source, and the run of source sentences nearest to that."""
    words = np.diff(target.units, axis=1)[:, 0]
    nearest = (one @ other.T).max(axis=1)
    begin, end = max(
        list_runs(target, TARGET_WORDS), key=lambda r: float(np.average(nearest[slice(*r)], weights=words[slice(*r)]))
    )
    cosines = one[begin:end] @ other.T
    first, last = max(list_runs(source, SOURCE_WORDS), key=lambda r: float(cosines[:, slice(*r)].max(axis=1).mean()))
    start, there = int(target.spans[begin, 0]), int(source.spans[first, 0])
    return Passage(start, int(target.spans[end - 1, 1]) - start, there, int(source.spans[last - 1, 1]) - there)


def measure(items: Items, settings: Alignment, model: ScoringModel, store: Store) -> tuple[Floats, Floats, Floats]:
    """Return the alignment score of each pair, and the gain and the control of its best passage, ``[pairs]``."""
    scorer = find_parts(settings, Given("cpu")).make_alignment(settings, store)
    verifier, rows, gains = Verifier(model, store), [], []
    with Progress("measuring", len(items.pairs)) as progress:
        for pair in items.pairs:
            rows += list(scorer.score([TextPair(pair.id, pair.id, pair.target, pair.source)]))
            texts = pair.target, pair.source
            target, source = (prepare_text(text, PassageSettings().unit_words) for text in texts)
            vectors = scorer.encode_units(texts[0], target), scorer.encode_units(texts[1], source)
            measured = verifier.measure(*texts, choose_passage(target, source, *vectors))
            gains.append((measured.gain, measured.control))
            progress.update()
    gain, control = np.array(gains).T
    return np.asarray(METHODS[Alignment].combine(settings, rows)), gain, control


@click.command(help=__doc__)
@click.option("--data", type=click.Path(path_type=Path), required=True, help="Folder with pan13-dev.")
@click.option("--development", type=click.Path(path_type=Path), required=True)
@click.option("--state", type=click.Path(path_type=Path), default=Path("out/passage-gains"), show_default=True)
@click.option("--profile", default="offline-135m", show_default=True)
@click.option("--pairs", default=16, show_default=True, help="Pairs of each kind and label.")
def main(data: Path, development: Path, state: Path, profile: str, pairs: int) -> None:
    chosen = load_profile(profile)
    if not isinstance(chosen.baseline, Alignment):
        raise click.UsageError(f"{profile} is no alignment")
    everything = gather([development_set(development).pairs, read_pan13(data / "pan13-dev")])
    items = gather([draw(everything.pairs, pairs)])
    model = ScoringModel(chosen.need_model(), "cpu", state=state)
    with Store(state) as store:
        scores, gain, control = measure(items, chosen.baseline, model, store)
    methods = {"alignment": scores, "gain": gain, "control": control, "gain less control": gain - control}
    methods |= {f"alignment + {weight} gain": scores + weight * gain for weight in WEIGHTS}
    click.echo(format_table(tabulate(items, methods), ["kind", "pairs", *methods]))
    for name, values in methods.items():
        least = np.quantile(values[~items.labels], 0.97)
        recall = compute_pair_metrics(items.labels, values, values >= least)["recall"]
        click.echo(f"{name}: recall {recall:.3f} at 3 % false positives")


if __name__ == "__main__":
    main()
