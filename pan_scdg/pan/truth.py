"""Read the truth of the text-alignment layout: one XML file per pair, one ``plagiarism`` feature per reused passage."""

import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from pan_scdg.errors import UserError, UserErrors
from pan_scdg.own_files import HIDDEN, MARK
from pan_scdg.pan.text_alignment import find_pairs_file, name_detection
from pan_scdg.pan.untrusted import is_file, list_directory, parse_xml, read_bytes
from pan_scdg.records import DocumentPair, Passage

FOLDERS = ("truth", "03_train_truth", "03_test_truth")
RESULTS = (MARK, HIDDEN, "decisions.jsonl")
"""Files that mark a folder as the output of a run."""
_DETECTED = re.compile(rb"""detected-plagiarism["']""")


def find_truth(directory: Path) -> Path | None:
    """Return the folder with the truth of an input directory, or None.

    Tries ``<folder of pairs>_truth``, ``truth/``, ``03_train_truth/``, ``03_test_truth/``, then XML files beside
    ``pairs`` or one folder below it (PAN 2012 keeps each kind of obfuscation in its own folder). Results of a run are
    never taken for truth.

    Raises:
        UserError: several of the folders exist, or see `find_pairs_file`.
    """
    pairs = find_pairs_file(directory)
    if pairs is not None and pairs.parent != directory:
        own = directory / f"{pairs.parent.name}_truth"
        if own.is_dir() and not holds_results(own):
            return own
    named = [directory / name for name in FOLDERS if (directory / name).is_dir()]
    found = [folder for folder in named if not holds_results(folder)]
    if len(found) > 1:
        names = ", ".join(p.name for p in found)
        raise UserError(f"several folders with truth: {names}", "choose one with --truth", directory)
    if found:
        return found[0]
    if pairs is not None and not holds_results(pairs.parent) and any(list_truth_files(pairs.parent)):
        return pairs.parent
    return None


def list_truth_files(directory: Path) -> dict[str, list[Path]]:
    """Return the XML files in ``directory`` and one folder below, by file name; results of a run are left out.

    Raises:
        UserError: the directory cannot be listed, or itself holds results of a run.
    """
    if holds_results(directory):
        raise UserError("contains the results of a run, not the truth", "give the folder with the truth XML", directory)
    files: dict[str, list[Path]] = {}
    for folder in (directory, *(p for p in list_directory(directory) if p.is_dir())):
        if folder == directory or not holds_results(folder):
            for path in _list_xml_files(folder):
                files.setdefault(path.name, []).append(path)
    return files


def holds_results(folder: Path) -> bool:
    """Return True if a run wrote ``folder``: it has the mark of an output, or XML with detected passages."""
    if any((folder / name).exists() for name in RESULTS):
        return True
    return any(_DETECTED.search(read_bytes(path)) for path in _list_xml_files(folder) if is_file(path))


def _list_xml_files(folder: Path) -> Iterator[Path]:
    return (path for path in list_directory(folder) if path.suffix == ".xml")


def read_truth(directory: Path, pairs: Sequence[DocumentPair]) -> dict[tuple[str, str], tuple[Passage, ...]]:
    """Return the reused passages of each pair by ``(suspicious.doc_id, source.doc_id)``; empty without reuse.

    ``altered`` features are not reuse, and features of another source are not this pair's.

    Raises:
        UserErrors: every pair whose XML file is missing, found twice, malformed or about another document.
        UserError: the directory cannot be listed, or contains no truth.
    """
    files = list_truth_files(directory)
    if not files:
        raise UserError("contains no XML file with truth", "give the folder with the truth XML", directory)
    truth: dict[tuple[str, str], tuple[Passage, ...]] = {}
    errors: list[UserError] = []
    for pair in pairs:
        try:
            path = _find_truth_file(files.get(name_detection(pair), []), directory, pair)
            truth[pair.suspicious.doc_id, pair.source.doc_id] = _read_passages(path, pair)
        except UserError as e:
            errors.append(e)
    if errors:
        raise UserErrors(errors)
    return truth


def _find_truth_file(found: list[Path], directory: Path, pair: DocumentPair) -> Path:
    name = name_detection(pair)
    if not found or not is_file(found[0]):
        raise UserError(f"the truth file {name!r} does not exist", "add it, or give another directory", directory)
    if len(found) > 1:
        raise UserError(f"the truth file {name!r} is in {len(found)} folders", "keep one of them", directory)
    return found[0]


def _read_passages(path: Path, pair: DocumentPair) -> tuple[Passage, ...]:
    root = parse_xml(path)
    reference = root.get("reference")
    if reference is None or _strip_txt(reference) != _strip_txt(pair.suspicious.reference):
        raise UserError(
            f"the root's reference is {reference!r}, not {pair.suspicious.reference!r}",
            "correct the attribute or the file's name",
            path,
            root.sourceline,
        )
    features = (e for e in root.iterchildren(tag="{*}*") if e.get("name") == "plagiarism")
    return tuple(
        _parse_passage(e, path)
        for e in features
        if _strip_txt(e.get("source_reference") or "") == _strip_txt(pair.source.reference)
    )


def _strip_txt(reference: str) -> str:
    """Delete every ``.txt`` in a reference, as the official evaluator does before it compares."""
    return reference.replace(".txt", "")


def _parse_passage(feature: Any, path: Path) -> Passage:
    return Passage(
        _parse_number(feature, "this_offset", path, 0),
        _parse_number(feature, "this_length", path, 1),
        _parse_number(feature, "source_offset", path, 0),
        _parse_number(feature, "source_length", path, 1),
        feature.get("obfuscation") or "",
    )


def _parse_number(feature: Any, name: str, path: Path, smallest: int) -> int:
    text = feature.get(name) or ""
    if not re.fullmatch(r"[0-9]{1,15}", text) or int(text) < smallest:
        raise UserError(
            f"{name}={text!r} is not a whole number of at least {smallest}",
            "correct the attribute",
            path,
            feature.sourceline,
        )
    return int(text)
