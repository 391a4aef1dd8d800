"""The pairs that ``offline`` is calibrated on: ``python -m benchmarks.development.calibration --pairs FILE --out DIR``.

DIR becomes a text-alignment directory with truth, for ``calibrate``: of every kind of the built development set the
first pairs of each label, and the calibration half of the shipped examples. Documents are numbered, so that neither
name nor order tells kind or label to anything that reads the directory.
"""

import json
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import click

from pan_scdg.digests import hash_text
from pan_scdg.jobs.demo import EXAMPLES
from pan_scdg.notices import Notices
from pan_scdg.pan.detections import format_detection
from pan_scdg.pan.text_alignment import name_detection, read_pairs, read_text
from pan_scdg.pan.truth import read_truth
from pan_scdg.records import DocumentPair, Passage, TextFile

MOST = {"verbatim-inside": 16, "altered-inside": 16, "several-sources": 32, "obfuscated-1": 12, "obfuscated-2": 12}
"""Pairs of each label that are taken of a kind; the long kinds are separated by any threshold and cost most."""
OTHERWISE = 48


class LabelledTexts(NamedTuple):
    """A pair as it is calibrated on."""

    label: bool
    source: str
    target: str


def development_pairs(built: Path) -> Iterator[LabelledTexts]:
    """Some pairs of every kind and label.

    Ids begin alike where pairs are alike, so they are taken in the order of the digests of their ids; a positive and
    the negative made with it come together.
    """
    taken: Counter[tuple[str, bool]] = Counter()
    with open(built, encoding="utf-8") as lines:
        records = [json.loads(line) for line in lines]
    for record in sorted(records, key=lambda r: (hash_text(r["id"].rpartition("/")[0]), r["id"])):
        kind = record["kind"], bool(record["label"])
        taken[kind] += 1
        if taken[kind] <= MOST.get(kind[0], OTHERWISE):
            yield LabelledTexts(kind[1], record["source"], record["target"])


def example_pairs() -> Iterator[LabelledTexts]:
    """The calibration half of the shipped examples."""
    half = EXAMPLES / "pan25-pairs" / "calibration"
    corpus = read_pairs(half, Notices())
    truth = read_truth(half / "truth", corpus.pairs)
    for pair in corpus.pairs:
        label = bool(truth[pair.suspicious.doc_id, pair.source.doc_id])
        yield LabelledTexts(label, read_text(pair.source), read_text(pair.suspicious))


def write_corpus(pairs: list[LabelledTexts], folder: Path) -> None:
    """``pairs``, ``susp``, ``src`` and ``truth``; a positive pair has one passage that spans both documents."""
    for name in ("susp", "src", "truth"):
        (folder / name).mkdir(parents=True)
    names: list[str] = []
    for number, item in enumerate(sorted(pairs, key=lambda p: hash_text(p.target + p.source)), 1):
        susp, src = f"suspicious-document{number:05d}", f"source-document{number:05d}"
        pair = DocumentPair(
            TextFile(susp, f"{susp}.txt", folder / "susp" / f"{susp}.txt"),
            TextFile(src, f"{src}.txt", folder / "src" / f"{src}.txt"),
            number,
        )
        pair.suspicious.path.write_text(item.target, encoding="utf-8", newline="")
        pair.source.path.write_text(item.source, encoding="utf-8", newline="")
        whole = (Passage(0, len(item.target), 0, len(item.source), ""),) if item.label else ()
        truth = format_detection(pair, whole, "plagiarism")
        (folder / "truth" / name_detection(pair)).write_bytes(truth)
        names.append(f"{susp}.txt {src}.txt\n")
    (folder / "pairs").write_text("".join(names), encoding="utf-8")


@click.command(help=__doc__)
@click.option("--pairs", type=click.Path(path_type=Path, exists=True), required=True, help="Of development.build.")
@click.option("--out", type=click.Path(path_type=Path), required=True, help="New folder.")
def main(pairs: Path, out: Path) -> None:
    chosen = [*development_pairs(pairs), *example_pairs()]
    write_corpus(chosen, out)
    click.echo(f"{len(chosen)} pairs, {sum(p.label for p in chosen)} positive: {out}")


if __name__ == "__main__":
    main()
