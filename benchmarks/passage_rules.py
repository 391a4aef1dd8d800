"""The rules by which passages are made, each left out: ``python -m benchmarks.passage_rules --data DATA``.

By words alone, as a profile has it whose table ``[passages]`` names no encoder. DATA/pan13-dev has true passages: shown
are macro plagdet and the pairs without a case that have a detection. The other pairs have none: shown are those whose
passages differ from what all rules give, and the area under the ROC curve of the largest similarity of a passage, which
is one of the numbers that `offline` decides by.
"""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from copy import copy
from pathlib import Path
from typing import Any
from unittest.mock import patch

import click
from sklearn.metrics import roc_auc_score

from benchmarks.pairs import format_rows, list_pan13, read_answers
from benchmarks.passages import Spans, measure
from pan_scdg.align import passages
from pan_scdg.align.locator import PassageLocator
from pan_scdg.align.passages import Alignment
from pan_scdg.notices import Notices
from pan_scdg.pan.text_alignment import read_pairs
from pan_scdg.pan.truth import read_truth
from pan_scdg.records import MeasuredPassage, Passage

NEVER = 10**9
RULES: dict[str, tuple[Any, str, Any]] = {
    "split_patchwork": (Alignment, "split_patchwork", lambda self, measured, related=None: [measured]),
    "add_copies": (Alignment, "add_copies", lambda self, found: sorted(found)),
    "_find_exact_ends": (Alignment, "_find_exact_ends", lambda self, whole: None),
    "_reaches_beyond": (Alignment, "_reaches_beyond", lambda self, cluster, verbatim: True),
    "trim_cluster": (passages, "trim_cluster", lambda cluster: cluster),
    "summaries": (passages, "MIN_SUMMARY_RATIO", NEVER),
    "share of a passage in a summary": (passages, "MAX_PASSAGE_SHARE", NEVER),
    "more similar if short": (passages, "SHORT_COSINE", 0.0),
    "more similar in long texts": (passages, "LONG_TEXT_COSINE", 0.0),
}
"""What is replaced without each rule: owner, name and substitute."""


@contextmanager
def leave_out(rules: Sequence[str]) -> Iterator[None]:
    """Leave out rules inside the context."""
    if not rules:
        yield
        return
    owner, name, substitute = RULES[rules[0]]
    with patch.object(owner, name, substitute), leave_out(rules[1:]):
        yield


class AlignedPair(PassageLocator):
    """A pair of texts whose words are compared once, whatever is left out."""

    def __init__(self, target: str, source: str) -> None:
        super().__init__()
        self._texts, self._alignment = (target, source), super().align(target, source)

    def align(self, target: str, source: str) -> Alignment:
        """Return the alignment without its passages."""
        return copy(self._alignment)

    def find(self) -> tuple[list[MeasuredPassage], float]:
        """Return the passages, and the largest similarity of one that counts."""
        measured = self.align(*self._texts).list_measured()
        return self.locate(*self._texts), max((one.similarity for one in measured if one.counts), default=0.0)


def list_lengths(passage: Passage | MeasuredPassage) -> tuple[int, int, int, int]:
    """Return begin and length of both sides."""
    target, source = passage.target, passage.source
    return target.begin, target.length, source.begin, source.length


def read_truths(folder: Path) -> tuple[dict[str, Spans], list[tuple[str, str]]]:
    """Return the true passages of the PAN 2013 pairs, and their texts."""
    kinds = {f"{target} {source}": kind for target, source, kind in list_pan13(folder)}
    truth, texts = {}, []
    for pair in read_pairs(folder, Notices()).pairs:
        name = f"{pair.suspicious.reference} {pair.source.reference}"
        own = read_truth(folder / "truth" / kinds[name], [pair])[pair.key]
        truth[name] = list(map(list_lengths, own))
        texts.append((pair.suspicious.path.read_text("utf-8-sig"), pair.source.path.read_text("utf-8-sig")))
    return truth, texts


@click.command(help=__doc__)
@click.option("--data", type=click.Path(path_type=Path, exists=True), required=True)
def main(data: Path) -> None:
    truth, texts = read_truths(data / "pan13-dev")
    aligned = [AlignedPair(*both) for both in texts]
    answers = {name: read_answers(data / name) for name in ("answers-dev", "rewrites-dev")}
    others = {name: [AlignedPair(pair.target, pair.source) for pair in pairs] for name, pairs in answers.items()}
    whole: dict[str, list[list[MeasuredPassage]]] = {}
    rows = []
    for rules in ((), *((name,) for name in RULES)):
        with leave_out(rules):
            found = [list(map(list_lengths, own)) for own, _ in (one.find() for one in aligned)]
            plagdet = measure(truth, dict(zip(truth, found, strict=True)))
            false = sum(bool(own) for own, true in zip(found, truth.values()) if not true)
            cells: list[object] = [f"{plagdet[0]:.4f}", f"{plagdet[1]:.4f}", f"{plagdet[2]:.4f}", false]
            for name, pairs in others.items():
                located, similarities = zip(*(pair.find() for pair in pairs))
                changed = sum(own != former for own, former in zip(located, whole.setdefault(name, list(located))))
                area = roc_auc_score([pair.label for pair in answers[name]], similarities)
                cells += [f"{changed} of {len(pairs)}", f"{area:.4f}"]
        rows.append([" and ".join(rules) or "nothing", *cells])
    columns = ["left out", "plagdet", "recall", "precision", "false"]
    columns += [f"{name}: {what}" for name in others for what in ("other passages", "area")]
    click.echo(format_rows(columns, rows))


if __name__ == "__main__":
    main()
