"""Plagdet of the alignment on PAN 2013 pairs: ``python -m benchmarks.passages --data DATA``.

``DATA`` holds ``pan13-dev`` and, for pairs that have nothing in common, ``lm-text`` and ``paraphrase``. Settings are
chosen on one half of the pairs and applied to the other; the halves share no document. Intervals are those of a
bootstrap over groups of pairs that share documents. Pairs are aligned by their words alone, without embedding model.
"""

import random
import time
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from itertools import product
from pathlib import Path
from typing import NamedTuple

import click
import numpy as np

from benchmarks.development.stock import stock
from benchmarks.development.texts import material_for_command
from benchmarks.pan13 import read_known_pairs
from pan_scdg.evaluation.plagdet import compute_plagdet
from pan_scdg.pan.text_alignment import read_text
from pan_scdg.align.align import Alignment
from pan_scdg.align.units import prepare_text
from pan_scdg.profile import PassageSettings
from pan_scdg.records import DocumentPair, Passage, Span

GRID = {
    "length": (100, 120, 150),
    "short_cosine": (0.2, 0.3, 0.4),
    "many_cosine": (0.0, 0.1, 0.2),
    "run_gap": (80, 150),
    "summary_ratio": (3.0, 3.5, 4.0),
}
RESAMPLES = 300
CROSS_PAIRS = 1000
ALIGNER_2015 = {
    "02-no-obfuscation": 0.986,
    "03-random-obfuscation": 0.885,
    "04-translation-obfuscation": 0.876,
    "05-summary-obfuscation": 0.633,
    "all": 0.901,
}
"""Macro plagdet of Sanchez-Perez, Gelbukh and Sidorov (2015) on the whole corpus, of which these pairs are a part."""


class Item(NamedTuple):
    """A pair of the development data, prepared."""

    pair: DocumentPair
    kind: str
    group: int
    truth: tuple[Passage, ...]
    alignment: Alignment


def read_items(data: Path, settings: PassageSettings) -> list[Item]:
    """Read and prepare all pairs."""
    known = list(read_known_pairs(data))
    groups = _group([one.pair for one in known])
    items = []
    for pair, kind, truth in known:
        target, source = (prepare_text(read_text(file), settings.unit_words) for file in pair[:2])
        alignment = Alignment(target, source, settings)
        items.append(Item(pair, kind, groups[pair.suspicious.doc_id], truth, alignment))
    return items


def _group(pairs: Sequence[DocumentPair]) -> dict[str, int]:
    """Number the groups of suspicious documents that are linked by common sources."""
    from scipy.sparse import coo_array
    from scipy.sparse.csgraph import connected_components

    targets, sources = (
        {name: i for i, name in enumerate(sorted(names))}
        for names in ({p.suspicious.doc_id for p in pairs}, {p.source.doc_id for p in pairs})
    )
    rows = [targets[p.suspicious.doc_id] for p in pairs]
    columns = [len(targets) + sources[p.source.doc_id] for p in pairs]
    size = len(targets) + len(sources)
    _, labels = connected_components(coo_array((np.ones(len(rows)), (rows, columns)), (size, size)), directed=False)
    return {name: int(labels[i]) for name, i in targets.items()}


def _list_spans(item: Item, passages: Iterable[Passage]) -> list[Span]:
    return [Span(item.pair.suspicious.reference, *p[:2], item.pair.source.reference, *p[2:4]) for p in passages]


class Found(NamedTuple):
    """Truth and detections of an item."""

    item: Item
    truth: list[Span]
    detections: list[Span]


def detect(items: Sequence[Item], settings: PassageSettings) -> list[Found]:
    """Align all items."""
    found = []
    for item in items:
        item.alignment.settings = settings
        passages = item.alignment.find_passages()
        found.append(Found(item, _list_spans(item, item.truth), _list_spans(item, passages)))
    return found


def measure(found: Iterable[Found]) -> tuple[float, float, float, float]:
    """Return macro plagdet, recall, precision and granularity."""
    truth, detections = [], []
    for one in found:
        truth += one.truth
        detections += one.detections
    result = compute_plagdet(truth, detections)
    return result.macro_plagdet, result.macro_recall, result.macro_precision, result.granularity


def list_settings() -> Iterator[PassageSettings]:
    """Yield every combination of the grid."""
    for values in product(*GRID.values()):
        yield PassageSettings.model_validate(dict(zip(GRID, values)))


def choose(items: Sequence[Item]) -> PassageSettings:
    """Return the settings with the largest macro plagdet; of equal ones the middle one in the order of the grid."""
    values = [(measure(detect(items, settings))[0], settings) for settings in list_settings()]
    largest = max(value for value, _ in values)
    equal = [settings for value, settings in values if value == largest]
    return equal[len(equal) // 2]


def resample(found: Sequence[Found], kind: str) -> tuple[float, float]:
    """Return the 95 % interval of macro plagdet over groups of pairs."""
    groups = defaultdict(list)
    for one in found:
        if kind in (one.item.kind, "all"):
            groups[one.item.group].append(one)
    rng, members, values = np.random.default_rng(1), list(groups.values()), []
    for _ in range(RESAMPLES):
        drawn = [members[i] for i in rng.integers(len(members), size=len(members))]
        values.append(measure(_rename(drawn))[0])
    return float(np.quantile(values, 0.025)), float(np.quantile(values, 0.975))


def _rename(drawn: Sequence[Sequence[Found]]) -> Iterator[Found]:
    """Make the documents of a group that was drawn twice different ones."""
    for number, group in enumerate(drawn):
        for item, truth, detections in group:
            named = [
                [s._replace(suspicious=f"{number}/{s.suspicious}") for s in spans] for spans in (truth, detections)
            ]
            yield Found(item, *named)


def count_false(data: Path, settings: PassageSettings) -> tuple[int, int]:
    """Return the number of pairs of unrelated held-out documents with a detection, and of all such pairs."""
    documents = stock(material_for_command(data))
    rng = random.Random(1)
    chosen = [rng.sample(documents, 2) for _ in range(CROSS_PAIRS)]
    false = 0
    for both in chosen:
        target, source = (prepare_text("\n\n".join(text.paragraphs), settings.unit_words) for text in both)
        false += bool(Alignment(target, source, settings).find_passages())
    return false, len(chosen)


@click.command(help=__doc__)
@click.option("--data", type=click.Path(path_type=Path, exists=True), required=True)
def main(data: Path) -> None:
    began = time.process_time()
    items = read_items(data / "pan13-dev", PassageSettings())
    click.echo(f"prepared {len(items)} pairs in {time.process_time() - began:.1f} s of a core")
    groups = sorted({item.group for item in items})
    halves = [[item for item in items if groups.index(item.group) % 2 == half] for half in (0, 1)]
    found = []
    for half, other in ((0, 1), (1, 0)):
        settings = choose(halves[other])
        chosen = {name: getattr(settings, name) for name in GRID}
        click.echo(f"half {half}: {len(halves[half])} pairs, settings from the other half: {chosen}")
        found += detect(halves[half], settings)
    shipped = detect(items, PassageSettings())
    click.echo(
        "| kind | cases | twofold (95 %) | recall | precision | granularity | shipped settings | aligner of 2015 |"
    )
    click.echo("| --- | --- | --- | --- | --- | --- | --- | --- |")
    for kind in ALIGNER_2015:
        part, own = ([one for one in of if kind in (one.item.kind, "all")] for of in (found, shipped))
        cases, values, (low, high) = sum(len(one.truth) for one in part), measure(part), resample(found, kind)
        cells = (
            f"{values[0]:.3f} ({low:.3f} to {high:.3f})",
            *(f"{v:.3f}" for v in values[1:]),
            f"{measure(own)[0]:.3f}",
        )
        click.echo(f"| {kind} | {cases} | {' | '.join(cells)} | {ALIGNER_2015[kind]:.3f} |")
    clean = [one for one in found if not one.truth]
    click.echo(
        f"pairs without a case that have a detection: {sum(bool(one.detections) for one in clean)} of {len(clean)}"
    )
    wrong, total = count_false(data, PassageSettings())
    click.echo(f"unrelated documents with a detection: {wrong} of {total}")


if __name__ == "__main__":
    main()
