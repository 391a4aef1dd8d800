"""The calibration pairs of ``scdg-mini``: ``python -m benchmarks.development.calibration --pairs FILE --out DIR``.

DIR becomes a PAN folder with truth, for ``calibrate``: of every kind of the built development set the first pairs of
each label, and the calibration half of the shipped examples. A positive pair has one passage that spans both documents.
"""

from collections import Counter
from collections.abc import Iterator
from hashlib import sha256
from pathlib import Path

import click

from benchmarks.development.compose import Pair
from benchmarks.pairs import ROOT, read_development, write_folder

PAIRS_OF_A_KIND = {
    "verbatim-inside": 16,
    "altered-inside": 16,
    "several-sources": 32,
    "obfuscated-1": 12,
    "obfuscated-2": 12,
}
"""Pairs of each label that are taken of a kind; the long kinds are separated by any threshold and cost most."""
OTHERWISE = 48
EXAMPLES = ROOT / "examples" / "pan25-pairs" / "calibration"


def choose_pairs(path: Path) -> Iterator[Pair]:
    """Yield some pairs of every kind and label, in the order of the digests of their ids without the label."""
    taken: Counter[tuple[str, int]] = Counter()

    def order(pair: Pair) -> tuple[str, str]:
        return sha256(pair.id.rpartition("/")[0].encode()).hexdigest(), pair.id

    for pair in sorted(read_development(path), key=order):
        taken[pair.kind, pair.label] += 1
        if taken[pair.kind, pair.label] <= PAIRS_OF_A_KIND.get(pair.kind, OTHERWISE):
            yield pair


def read_examples() -> Iterator[Pair]:
    """Yield the calibration half of the shipped examples."""
    for line in (EXAMPLES / "pairs").read_text(encoding="utf-8").splitlines():
        target, source = line.split()
        truth = EXAMPLES / "truth" / f"{Path(target).stem}-{Path(source).stem}.xml"
        texts = [(EXAMPLES / side / name).read_text("utf-8") for side, name in (("src", source), ("susp", target))]
        yield Pair(line, "examples", int("<feature" in truth.read_text("utf-8")), *texts)


@click.command(help=__doc__)
@click.option(
    "--pairs", "path", type=click.Path(path_type=Path, exists=True), required=True, help="Of development.build."
)
@click.option("--out", type=click.Path(path_type=Path), required=True, help="New folder.")
def main(path: Path, out: Path) -> None:
    pairs = [*choose_pairs(path), *read_examples()]
    ids = write_folder([(pair.target, pair.source) for pair in pairs], out)
    (out / "truth").mkdir()
    for pair, (target, source) in zip(pairs, ids, strict=True):
        feature = (
            f'<feature name="plagiarism" this_offset="0" this_length="{len(pair.target)}" '
            f'source_reference="{source}.txt" source_offset="0" source_length="{len(pair.source)}"/>'
        )
        xml = f'<document reference="{target}.txt">{feature if pair.label else ""}</document>\n'
        (out / "truth" / f"{target}-{source}.xml").write_text(xml, encoding="utf-8")
    click.echo(f"{len(pairs)} pairs, {sum(pair.label for pair in pairs)} positive: {out}")


if __name__ == "__main__":
    main()
