"""Passages of positive pairs: one feature each in the detection XML, one line each in ``passages.jsonl``."""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from pan_scdg.pan.detections import format_decision
from pan_scdg.pan.text_alignment import read_text
from pan_scdg.passages.align import Evidence
from pan_scdg.passages.locate import Locator
from pan_scdg.progress import Progress
from pan_scdg.scoring.pair_method import Verdict, name_pair
from pan_scdg.scoring.verification import Verifier

PASSAGES = "passages.jsonl"
NO_PASSAGE = "no passage was found: the detection covers both documents"


class Located(NamedTuple):
    """A verdict and the evidence of its passages."""

    verdict: Verdict
    evidence: list[Evidence]


def find_passages(verdicts: Sequence[Verdict], locator: Locator, verifier: Verifier | None) -> list[Located]:
    """Return each verdict with its passages in the place of the one over both documents, and their evidence.

    Negative verdicts stay as they are; the passages that they leave out are found, too. A positive pair without
    passages keeps its detection, with a warning. With a verifier, the evidence contains gains.
    """
    with Progress("finding passages", sum(map(_has_passages, verdicts))) as progress:
        return [_locate(verdict, locator, verifier, progress) for verdict in verdicts]


def _locate(verdict: Verdict, locator: Locator, verifier: Verifier | None, progress: Progress) -> Located:
    if not _has_passages(verdict):
        return Located(verdict, [])
    texts = read_text(verdict.pair.suspicious), read_text(verdict.pair.source)
    found = locator.find(*texts, positive=bool(verdict.passages))
    if verifier is not None:
        found = verifier.add_gains(*texts, found)
    progress.update()
    if not verdict.passages:
        return Located(verdict, found)
    if not found:
        return Located(verdict._replace(record=_add_warning(verdict, NO_PASSAGE)), [])
    return Located(verdict._replace(passages=tuple(evidence.passage for evidence in found)), found)


def _has_passages(verdict: Verdict) -> bool:
    return bool(verdict.passages or verdict.record.get("left_out"))


def _add_warning(verdict: Verdict, warning: str) -> dict[str, object]:
    return {**verdict.record, "warnings": [*verdict.record.get("warnings", ()), warning]}


def write_passages(folder: Path, located: Sequence[Located]) -> str:
    """Write a JSON line per passage, in the order of the verdicts; return the name of the file.

    ``suspicious`` and ``source`` are ids; for the other fields see `Evidence`.
    """
    with open(folder / PASSAGES, "w", encoding="utf-8", newline="\n") as file:
        file.writelines(line for verdict, found in located for line in _format_lines(verdict, found))
    return PASSAGES


def _format_lines(verdict: Verdict, found: Sequence[Evidence]) -> Iterator[str]:
    for evidence in found:
        yield format_decision({**name_pair(verdict.pair, {}), **evidence.to_json()})
