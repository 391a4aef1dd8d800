"""Read what a system hands in: a result of `run`, a folder of detection XML of any system, or a TREC run.

Everything else is refused, with a message of its own.
"""

import zipfile
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from pan_scdg.errors import UserError
from pan_scdg.normal_form import compose
from pan_scdg.pan.runs import RUN_NAMES
from pan_scdg.pan.text_alignment import DETECTED, name_detection
from pan_scdg.pan.truth import TAG, read_features, read_reference
from pan_scdg.pan.untrusted import is_file, list_directory
from pan_scdg.progress import format_count
from pan_scdg.records import DocumentPair, Feature
from pan_scdg.results.files import DECISIONS, SCORES
from pan_scdg.results.folder import WORK_FOLDER
from pan_scdg.results.records import Decision, read_decisions

NAMED_FILES = 3
"""Most files that a warning names."""
NAMED_FOLDERS = 5
"""Most folders that a message names."""


class PairOutput(NamedTuple):
    """The decisions and detections of a system."""

    records: Sequence[Decision]
    """The decision about each pair; of another system than this one without a score."""
    detections: Sequence[Feature]
    notes: Sequence[str]


def read_pair_output(output: Path, pairs: Sequence[DocumentPair]) -> PairOutput:
    """Return the decisions about the pairs, and the detections, in a folder or a file of decisions.

    Raises:
        UserError: the output is not one, is malformed, or lacks the decision about a pair.
    """
    check_output(output)
    if output.is_file():
        return PairOutput(_match_decisions(output, output, pairs), (), ())
    detections = read_features(output, DETECTED)
    if (output / DECISIONS).exists():
        records = _match_decisions(output / DECISIONS, output, pairs)
        positive = [pair for pair, record in zip(pairs, records) if record.decision]
        return PairOutput(records, detections, _warn_about_missing(output, positive, len(pairs), "without a detection"))
    names = {path.name for path in list_directory(output)}
    if not any(name.endswith(".xml") for name in names):
        raise _describe_other_folder(output, names)
    detected = {(span.suspicious, span.source) for span in detections}
    references = [(read_reference(p.suspicious.reference), read_reference(p.source.reference)) for p in pairs]
    missing = [pair for pair, reference in zip(pairs, references) if reference not in detected]
    notes = _warn_about_missing(output, missing, len(pairs), "negative")
    if not detections:
        notes.append(_describe_no_detections(output))
    records = [Decision.decide_alone(pair.key, own in detected) for pair, own in zip(pairs, references, strict=True)]
    return PairOutput(records, detections, notes)


def find_run_output(output: Path) -> Path:
    """Return the TREC run of a folder, or ``output`` if it is a file itself.

    Raises:
        UserError: the output does not exist, or contains no run or two.
    """
    check_output(output)
    runs = [path for path in (output, *(output / name for name in RUN_NAMES)) if path.is_file()]
    if len(runs) > 1:
        raise UserError(f"contains {' and '.join(RUN_NAMES)}", "keep one of them", output)
    if runs:
        return runs[0]
    raise UserError(f"contains neither {' nor '.join(RUN_NAMES)}", "give a TREC run or the folder of one", output)


def check_output(output: Path) -> None:
    """Raise UserError if an output does not exist, is packed, is empty or contains only folders."""
    if not output.exists():
        raise UserError("does not exist", "correct the path of the output", output)
    if output.is_file():
        if zipfile.is_zipfile(output):
            raise UserError("is a zip file", "unpack it, and give the folder", output)
        return
    entries = list_directory(output)
    if not entries and not (output / WORK_FOLDER).exists():
        raise UserError("is an empty folder", "give the folder of a result", output)
    if entries and all(path.is_dir() for path in entries):
        names = ", ".join(path.name for path in entries[:NAMED_FOLDERS])
        more = f" and {len(entries) - NAMED_FOLDERS} more" if len(entries) > NAMED_FOLDERS else ""
        raise UserError(f"contains only folders: {names}{more}", f"give one of them, such as {entries[0]}", output)


def _match_decisions(file: Path, output: Path, pairs: Sequence[DocumentPair]) -> list[Decision]:
    records = {record.key: record for record in read_decisions(file)}
    if missing := [pair.key for pair in pairs if pair.key not in records]:
        what = f"no decision for {missing[0][0]} and {missing[0][1]}"
        raise UserError(what, "run again on this input", output)
    return [records[pair.key] for pair in pairs]


def _warn_about_missing(output: Path, pairs: Sequence[DocumentPair], total: int, effect: str) -> list[str]:
    """Return a warning about those of these pairs that have no detection XML."""
    files = {compose(path.name).text for path in list_directory(output)}
    missing = [name for pair in pairs if compose(name := name_detection(pair)).text not in files]
    if not missing:
        return []
    names = ", ".join(missing[:NAMED_FILES])
    more = f" and {len(missing) - NAMED_FILES} more" if len(missing) > NAMED_FILES else ""
    verb = "is missing and counts" if len(missing) == 1 else "are missing and count"
    return [f"warning: {len(missing)} of {format_count(total, 'XML file')} {verb} as {effect}: {names}{more}"]


def _describe_no_detections(output: Path) -> str:
    """Return the warning about a folder in which no file has a detection, so that all pairs are negative."""
    if other := read_features(output, TAG):
        what = f"{format_count(len(other), 'feature')} named {TAG} do not count: detections are named {DETECTED}"
        return f"warning: all pairs are negative: {what}"
    return f"warning: all pairs are negative: no XML file has a feature named {DETECTED}"


def _describe_other_folder(output: Path, names: set[str]) -> UserError:
    """Return the error about a folder without decisions and XML."""
    if SCORES in names:
        remedy = "decide with `pan-scdg decide`, by a threshold or a profile of `calibrate`"
        return UserError("contains scores only, and no decisions", remedy, output)
    if (output / WORK_FOLDER).exists():
        return UserError("contains an unfinished result", "finish `run` with this --output first", output)
    if packed := sorted(name for name in names if is_file(output / name) and zipfile.is_zipfile(output / name)):
        return UserError(f"contains the zip file {packed[0]} and no XML", "unpack it", output)
    if upper := sorted(name for name in names if name.lower().endswith(".xml")):
        return UserError(f"contains {upper[0]}, which evaluators do not read", "rename it to end in .xml", output)
    return UserError(f"contains neither {DECISIONS} nor XML files", "give the output folder of a system", output)
