"""Plagdet of the alignment on PAN 2013 pairs: ``python -m benchmarks.passages --data DATA``.

``DATA`` has ``pan13-dev`` and, for pairs that have nothing in common, ``lm-text`` and ``paraphrase``. A profile that
calls every pair positive has all pairs aligned by their words alone, and ``run`` writes the passages. Intervals are
those of a bootstrap over groups of pairs that share documents.
"""

import random
from collections import defaultdict
from collections.abc import Mapping, Sequence
from pathlib import Path

import click
import numpy as np

from benchmarks.development.stock import stock
from benchmarks.development.texts import material_for_command
from benchmarks.pairs import decide, format_rows, list_pan13
from pan_scdg.evaluation.plagdet import compute_plagdet
from pan_scdg.notices import Notices
from pan_scdg.pan.text_alignment import read_pairs
from pan_scdg.pan.truth import read_truth
from pan_scdg.records import Feature, Span
from pan_scdg.results.files import PASSAGES, read_lines
from pan_scdg.results.records import PassageLine

PROFILE = """name = "every-pair"
description = "aligns every pair"
[decide]
method = "containment"
threshold = 0.0
[containment]
[passages]
"""
RESAMPLES = 300
UNRELATED_PAIRS = 1000
ALIGNER_2015 = {
    "02-no-obfuscation": 0.986,
    "03-random-obfuscation": 0.885,
    "04-translation-obfuscation": 0.876,
    "05-summary-obfuscation": 0.633,
    "all": 0.901,
}
"""Macro plagdet of Sanchez-Perez, Gelbukh and Sidorov (2015) on the whole corpus, of which these pairs are a part."""
Spans = list[tuple[int, int, int, int]]


def find_passages(pairs: Sequence[tuple[str, str]], folder: Path, encoder: str | None = None) -> list[Spans]:
    """Return the passages of each pair of target and source: begin and length in the one, then in the other."""
    folder.mkdir(parents=True, exist_ok=True)
    profile = folder / "every-pair.toml"
    profile.write_text(PROFILE + (f'encoder = "{encoder}"\n' if encoder else ""), encoding="utf-8")
    decisions = decide(pairs, folder, str(profile))
    passages: dict[tuple[str, str], Spans] = defaultdict(list)
    for line in read_lines(folder / "result-every-pair" / PASSAGES, PassageLine.from_json):
        target, source = line.passage.target, line.passage.source
        passages[line.key].append((target.begin, target.length, source.begin, source.length))
    return [passages[line.key] for line in decisions]


def measure(truth: Mapping[str, Spans], detections: Mapping[str, Spans]) -> tuple[float, float, float, float]:
    """Return macro plagdet, recall, precision and granularity of pairs by their names."""
    spans = [
        [
            Feature(name, Span(begin, begin + length), name, Span(other, other + size))
            for name, places in by_pair.items()
            for begin, length, other, size in places
        ]
        for by_pair in (truth, detections)
    ]
    result = compute_plagdet(*spans)
    return result.macro_plagdet, result.macro_recall, result.macro_precision, result.granularity


def group_pairs(pairs: Sequence[tuple[str, str]]) -> list[int]:
    """Return the number of the group of each pair; pairs that share documents, also through others, are a group."""
    from scipy.sparse import coo_array
    from scipy.sparse.csgraph import connected_components

    numbers: dict[str, int] = {}
    places = [[numbers.setdefault(f"{side}/{name}", len(numbers)) for side, name in enumerate(pair)] for pair in pairs]
    rows, columns = zip(*places)
    size = (len(numbers), len(numbers))
    _, labels = connected_components(coo_array((np.ones(len(rows)), (rows, columns)), size), directed=False)
    return [int(labels[row]) for row in rows]


def resample(
    members: Sequence[str], groups: Mapping[str, int], truth: Mapping[str, Spans], detections: Mapping[str, Spans]
) -> str:
    """Return a 95 % interval of macro plagdet over groups of pairs."""
    parts: dict[int, list[str]] = defaultdict(list)
    for name in members:
        parts[groups[name]].append(name)
    rng, numbers, values = np.random.default_rng(1), list(parts), []
    for _ in range(RESAMPLES):
        drawn = [
            (f"{copy}/{name}", name)
            for copy, number in enumerate(rng.choice(numbers, len(numbers)))
            for name in parts[int(number)]
        ]
        samples = [{copy: spans[name] for copy, name in drawn} for spans in (truth, detections)]
        values.append(measure(*samples)[0])
    return f"{np.quantile(values, 0.025):.3f} to {np.quantile(values, 0.975):.3f}"


@click.command(help=__doc__)
@click.option("--data", type=click.Path(path_type=Path, exists=True), required=True)
@click.option("--work", type=click.Path(path_type=Path), default=Path("out/passages"), show_default=True)
def main(data: Path, work: Path) -> None:
    folder = data / "pan13-dev"
    listed = list_pan13(folder)
    kinds = {f"{target} {source}": kind for target, source, kind in listed}
    groups = dict(zip(kinds, group_pairs([row[:2] for row in listed]), strict=True))
    truth: dict[str, Spans] = {}
    texts = []
    for pair in read_pairs(folder, Notices()).pairs:
        name = f"{pair.suspicious.reference} {pair.source.reference}"
        passages = read_truth(folder / "truth" / kinds[name], [pair])[pair.suspicious.doc_id, pair.source.doc_id]
        truth[name] = [(p.target.begin, p.target.length, p.source.begin, p.source.length) for p in passages]
        texts.append((pair.suspicious.path.read_text("utf-8-sig"), pair.source.path.read_text("utf-8-sig")))
    detections = dict(zip(truth, find_passages(texts, work / "pan13"), strict=True))
    rows = []
    for kind, other in ALIGNER_2015.items():
        members = [name for name in truth if kind in (kinds[name], "all")]
        part = [{name: spans[name] for name in members} for spans in (truth, detections)]
        plagdet, *values = measure(*part)
        interval = resample(members, groups, truth, detections)
        cells = [f"{plagdet:.3f} ({interval})", *(f"{value:.3f}" for value in values), f"{other:.3f}"]
        rows.append([kind, sum(map(len, part[0].values())), *cells])
    columns = ["kind", "cases", "macro plagdet (95 %)", "recall", "precision", "granularity", "aligner of 2015"]
    click.echo(format_rows(columns, rows))
    clean = [name for name, spans in truth.items() if not spans]
    false = sum(bool(detections[name]) for name in clean)
    click.echo(f"pairs without a case that have a detection: {false} of {len(clean)}")
    documents, rng = stock(material_for_command(data)), random.Random(1)
    drawn = [rng.sample(documents, 2) for _ in range(UNRELATED_PAIRS)]
    unrelated = [tuple("\n\n".join(document.paragraphs) for document in both) for both in drawn]
    wrong = sum(map(bool, find_passages(unrelated, work / "unrelated")))  # type: ignore[arg-type]
    click.echo(f"unrelated documents with a detection: {wrong} of {len(unrelated)}")


if __name__ == "__main__":
    main()
