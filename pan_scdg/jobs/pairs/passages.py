"""Passages of positive pairs: one feature each in the detection XML, one line each in ``passages.jsonl``."""

from collections.abc import Sequence
from pathlib import Path

from pan_scdg.pan.detections import format_decision
from pan_scdg.pan.text_alignment import read_text
from pan_scdg.passages.finder import Locator
from pan_scdg.progress import Progress
from pan_scdg.scoring.pair_method import Verdict, name_pair
from pan_scdg.scoring.verification import Verifier

PASSAGES = "passages.jsonl"
NO_PASSAGE = "no passage was found: the detection covers both documents"


def find_passages(verdicts: Sequence[Verdict], locator: Locator, verifier: Verifier | None) -> list[Verdict]:
    """Return each verdict with its passages instead of the one over both documents, and their evidence.

    Negative verdicts stay as they are; the passages that they leave out are found, too. A positive pair without
    passages keeps its detection, with a warning. With a verifier, the evidence contains gains.
    """
    with Progress("finding passages", sum(map(_has_passages, verdicts))) as progress:
        return [_locate(verdict, locator, verifier, progress) for verdict in verdicts]


def _locate(verdict: Verdict, locator: Locator, verifier: Verifier | None, progress: Progress) -> Verdict:
    if not _has_passages(verdict):
        return verdict
    texts = read_text(verdict.pair.suspicious), read_text(verdict.pair.source)
    found = locator.find(*texts, positive=bool(verdict.passages))
    if verifier is not None:
        found = verifier.add_gains(*texts, found)
    progress.update()
    if verdict.passages and not found:
        warnings = [*verdict.record.get("warnings", ()), NO_PASSAGE]
        return verdict._replace(record={**verdict.record, "warnings": warnings})
    passages = tuple(evidence.passage for evidence in found) if verdict.passages else ()
    return verdict._replace(passages=passages, evidence=found)


def _has_passages(verdict: Verdict) -> bool:
    return bool(verdict.passages or verdict.record.get("left_out"))


def write_passages(folder: Path, verdicts: Sequence[Verdict]) -> str:
    """Write a JSON line per passage, in the order of the verdicts; return the name of the file.

    ``suspicious`` and ``source`` are ids; for the other fields see `Evidence`.
    """
    with open(folder / PASSAGES, "w", encoding="utf-8", newline="\n") as file:
        for pair, _, _, found in verdicts:
            file.writelines(format_decision({**name_pair(pair, {}), **evidence.to_json()}) for evidence in found)
    return PASSAGES
