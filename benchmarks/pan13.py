"""The PAN 2013 development pairs with their kind and truth, for all benchmarks that use them."""

from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from pan_scdg.notices import Notices
from pan_scdg.pan.text_alignment import read_pairs
from pan_scdg.pan.truth import read_truth
from pan_scdg.records import DocumentPair, Passage


class KnownPair(NamedTuple):
    """A pair, the folder of its truth, and the passages that are reused; none in a negative pair."""

    pair: DocumentPair
    kind: str
    passages: tuple[Passage, ...]


def read_known_pairs(folder: Path) -> Iterator[KnownPair]:
    """Yield the pairs of the folder ``pan13-dev``, in its order."""
    lines = (folder / "kinds.tsv").read_text(encoding="utf-8").splitlines()
    kinds = {(target, source): kind for target, source, kind in (line.split("\t") for line in lines)}
    for pair in read_pairs(folder, Notices()).pairs:
        kind = kinds[pair.suspicious.reference, pair.source.reference]
        truth = read_truth(folder / "truth" / kind, [pair])
        yield KnownPair(pair, kind, truth[pair.suspicious.doc_id, pair.source.doc_id])
