"""The verdict of alignment beside simple methods: ``python -m benchmarks.verdicts --data DATA --development FILE``.

Pairs: the development set (`benchmarks.development`) and the 510 PAN 2013 pairs in DATA/pan13-dev. For each kind the
AUROC of every method; then what the threshold of the profile ``offline`` does, and what a threshold does that was
chosen by the same rule on all other kinds. Vectors lie in the state folder: the same command goes on where it was
stopped.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

import click
import numpy as np
import numpy.typing as npt

from benchmarks.development.compose import Pair
from benchmarks.pair_gains import ALL, QualitySet, development_set
from benchmarks.pan13 import read_known_pairs
from benchmarks.simple_pair_scores import best_four_sentences, four_gram_containment, minilm_cosine, tfidf_cosine
from pan_scdg.evaluation.pairs import DecidedPairs, bootstrap_pair_differences, bootstrap_pairs, compute_pair_metrics
from pan_scdg.evaluation.report import format_table
from pan_scdg.pan.text_alignment import read_text
from pan_scdg.align.units import prepare_text
from pan_scdg.profile import PassageSettings, load_profile
from pan_scdg.profile.baseline import Alignment
from pan_scdg.progress import Progress
from pan_scdg.records import TextPair
from pan_scdg.scdg.decision import choose_threshold
from pan_scdg.scoring.baseline_registry import METHODS, Given, find_parts
from pan_scdg.store import Store

Floats = npt.NDArray[np.float64]
Bools = npt.NDArray[np.bool_]
CLEAN = "pan13, no plagiarism"
MOST_IN_A_KIND = 0.08
"""Largest share of false positives that the threshold may give in a kind of negatives."""


class Items(NamedTuple):
    """All pairs, and what each is."""

    pairs: tuple[Pair, ...]
    kinds: npt.NDArray[np.str_]
    labels: Bools

    def select(self, kind: str) -> Bools:
        """Return True for the pairs of a kind; positive PAN 2013 pairs stand beside all negative ones of PAN 2013."""
        if kind == ALL:
            return np.ones(len(self.kinds), np.bool_)
        if kind.startswith("pan13"):
            negative = np.char.startswith(self.kinds, "pan13") & ~self.labels
            return np.asarray((self.kinds == kind) | negative)
        return np.asarray(self.kinds == kind)


def read_pan13(folder: Path) -> list[Pair]:
    """Return the PAN 2013 pairs; a pair is positive if its truth has a passage."""
    found = []
    for pair, kind, passages in read_known_pairs(folder):
        number = f"{pair.suspicious.doc_id}/{pair.source.doc_id}"
        name = f"pan13, {kind.partition('-')[2].removesuffix('-obfuscation').replace('-', ' ')}"
        found.append(Pair(number, name, int(bool(passages)), read_text(pair.source), read_text(pair.suspicious)))
    return found


def gather(sets: Sequence[Sequence[Pair]]) -> Items:
    """Return all pairs of several sets."""
    pairs = tuple(pair for pairs in sets for pair in pairs)
    return Items(pairs, np.array([p.kind for p in pairs]), np.array([bool(p.label) for p in pairs]))


def measure(items: Items, store: Store, settings: Alignment) -> tuple[Floats, Floats]:
    """Return the alignment scores, and the best mean over four sentences of each one's largest cosine."""
    scorer = find_parts(settings, Given("cpu")).make_alignment(settings, store)
    rows, four = [], []
    with Progress("aligning", len(items.pairs)) as progress:
        for pair in items.pairs:
            texts = TextPair(pair.id, pair.id, pair.target, pair.source)
            rows += list(scorer.score([texts]))
            prepared = [prepare_text(text, PassageSettings().unit_words) for text in (pair.target, pair.source)]
            four.append(
                best_four_sentences(*map(scorer.encode_units, (pair.target, pair.source), prepared)),
            )
            progress.update()
    return np.asarray(METHODS[Alignment].combine(settings, rows), np.float64), np.array(four)


def choose(scores: Floats, items: Items, among: Bools, most: float) -> float:
    """Return the threshold with the largest F1 that keeps the false positives of all and of each kind few."""
    threshold = choose_threshold({0.0: scores[among]}, items.labels[among], most).threshold
    for kind in np.unique(items.kinds[among & ~items.labels]):
        negative = np.sort(scores[among & ~items.labels & (items.kinds == kind)])[::-1]
        allowed = int(MOST_IN_A_KIND * len(negative))
        threshold = max(threshold, float(np.nextafter(negative[allowed], np.inf)))
    return threshold


def judge(scores: Floats, items: Items, threshold: float, of: Bools) -> tuple[str, str]:
    """Return true and false positive rates with their counts."""
    rates = []
    for label in (True, False):
        some = of & (items.labels == label)
        hits = int((scores[some] >= threshold).sum())
        rates.append(f"{hits / some.sum():.3f} ({hits} of {some.sum()})" if some.any() else "-")
    return rates[0], rates[1]


def tabulate(items: Items, methods: Mapping[str, Floats]) -> list[dict[str, str]]:
    """Return a row a kind: its name, its pairs, and the AUROC of every method."""
    rows = []
    for kind in [*dict.fromkeys(items.kinds.tolist()), ALL]:
        some = items.select(kind)
        if kind == CLEAN or items.labels[some].all():
            continue
        labels = items.labels[some]
        aurocs = [compute_pair_metrics(labels, s[some], labels)["auroc"] for s in methods.values()]
        cells = [kind, f"{labels.sum()} + {(~labels).sum()}", *(f"{value:.3f}" for value in aurocs)]
        rows.append(dict(zip(("kind", "pairs", *methods), cells, strict=True)))
    return rows


def compare_peers(items: Items, methods: Mapping[str, Floats]) -> list[str]:
    """Return a line for each kind and method with a larger AUROC than the first: the difference and its interval."""
    lines = []
    (_, own), *peers = methods.items()
    for kind in [*dict.fromkeys(items.kinds.tolist()), ALL]:
        some = items.select(kind)
        labels = items.labels[some]
        if kind == CLEAN or labels.all():
            continue
        for name, scores in peers:
            judged = [_make_judged(labels, s[some]) for s in (own, scores)]
            here, there = (compute_pair_metrics(labels, s[some], labels)["auroc"] for s in (own, scores))
            if there > here:
                low, high = bootstrap_pair_differences(*judged)["auroc"]
                lines.append(f"{kind}: {name} {there - here:+.4f}, 95 % interval {low:+.4f} to {high:+.4f}")
    return lines


def _make_judged(labels: Bools, scores: Floats) -> DecidedPairs:
    keys = [(str(number), "") for number in range(len(labels))]
    return DecidedPairs(keys, labels.tolist(), scores.tolist(), [False] * len(labels), None)


@click.command(help=__doc__)
@click.option("--data", type=click.Path(path_type=Path), required=True, help="Folder with pan13-dev.")
@click.option("--development", type=click.Path(path_type=Path), required=True)
@click.option("--state", type=click.Path(path_type=Path), default=Path("out/verdicts"), show_default=True)
@click.option("--profile", default="offline", show_default=True)
def main(data: Path, development: Path, state: Path, profile: str) -> None:
    settings = load_profile(profile).baseline
    if not isinstance(settings, Alignment):
        raise click.UsageError(f"{profile} is no alignment")
    items = gather([development_set(development).pairs, read_pan13(data / "pan13-dev")])
    texts = QualitySet(ALL, items.pairs).texts
    with Store(state) as store:
        scores, four = measure(items, store, settings)
        methods = {
            "alignment": scores,
            "best four sentences": four,
            "MiniLM cosine": minilm_cosine(texts, store),
            "4-gram containment": four_gram_containment(texts),
            "TF-IDF": tfidf_cosine(texts),
        }
    click.echo("AUROC\n")
    click.echo(format_table(tabulate(items, methods), ["kind", "pairs", *methods]))
    low, high = bootstrap_pairs(items.labels, scores, np.zeros(len(scores), np.bool_))["auroc"]
    click.echo("".join(f"\n{line}" for line in ("\nPeers with a larger AUROC:", *compare_peers(items, methods))))
    click.echo(f"\nalignment, all pairs: 95 % interval {low:.3f} to {high:.3f}")
    every = items.select(ALL)
    best = choose(scores, items, every, settings.most_false_positives)
    threshold = best if settings.threshold is None else settings.threshold
    click.echo(f"\nthreshold of the profile {threshold!r}; by the rule {best!r}\n")
    heads = ["true positives", "false positives"]
    columns = ["kind", *heads, *(f"{head}, kind left out" for head in heads)]
    rows = []
    for kind in [*dict.fromkeys(items.kinds.tolist()), ALL]:
        of = every if kind == ALL else items.kinds == kind
        held_out = best if kind == ALL else choose(scores, items, ~of, settings.most_false_positives)
        cells = [kind, *judge(scores, items, threshold, of), *judge(scores, items, held_out, of)]
        rows.append(dict(zip(columns, cells, strict=True)))
    click.echo(format_table(rows, columns))


if __name__ == "__main__":
    main()
