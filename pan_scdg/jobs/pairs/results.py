"""Find the passages of positive pairs, and write the results: detection XML, decisions, passages and gains."""

import json
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from pan_scdg.pan.detections import format_decision, format_detection
from pan_scdg.pan.runs import open_gzip_text
from pan_scdg.pan.text_alignment import name_detection, read_text
from pan_scdg.align.finder import Locator
from pan_scdg.progress import Progress
from pan_scdg.scoring.pair_method import LocatedGains, Verdict, name_pair
from pan_scdg.scoring.verification import Verifier

DECISIONS = "decisions.jsonl"
PASSAGES = "passages.jsonl"
GAINS = "gains.jsonl.gz"
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


def write_verdicts(folder: Path, verdicts: Sequence[Verdict]) -> list[str]:
    """Write a detection XML per pair, then the decisions; return the names of the files in this order."""
    written = []
    for verdict in verdicts:
        written.append(name_detection(verdict.pair))
        (folder / written[-1]).write_bytes(format_detection(verdict.pair, verdict.passages))
    with open(folder / DECISIONS, "w", encoding="utf-8", newline="\n") as file:
        file.writelines(format_decision(verdict.record) for verdict in verdicts)
    return [*written, DECISIONS]


def write_gains(path: Path, located: Iterable[LocatedGains], about: Mapping[str, str]) -> None:
    """Write a JSON line per pair: the gain of each token in nats, rounded to 6 decimals, and its characters.

    ``offsets`` holds the first character of each token in the suspicious document and the one after its last.
    Each line also has the fields ``about`` the result.
    """
    with open_gzip_text(path) as file:
        for pair, gains, offsets in located:
            values = [round(float(gain), 6) for gain in gains.gains]
            file.write(
                json.dumps({**name_pair(pair, {}), **about, "gains": values, "offsets": offsets.tolist()}) + "\n"
            )
