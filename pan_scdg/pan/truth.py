"""The truth of the text-alignment layout: one XML file a pair, with one ``plagiarism`` feature a reused passage."""

import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from pan_scdg.errors import UserError, UserErrors
from pan_scdg.pan.text_alignment import DocumentPair, detection_name, pairs_file
from pan_scdg.pan.untrusted import is_file, list_directory, parse_xml


class Passage(NamedTuple):
    """A reused passage: half-open spans in characters of the suspicious (``this``) and the source text."""

    this_offset: int
    this_length: int
    source_offset: int
    source_length: int
    obfuscation: str
    """``simple``, ``medium``, ``hard``, ...; empty where the truth does not say."""


FOLDERS = ("truth", "03_train_truth", "03_test_truth")


def find_truth(directory: Path) -> Path | None:
    """The folder with the truth that an input directory carries itself, None when it carries none.

    Looked for: ``<folder of pairs>_truth``, ``truth/``, ``03_train_truth/``, ``03_test_truth/``, then XML files beside
    ``pairs`` or one folder below it (PAN 2012 keeps each kind of obfuscation in a folder of its own).

    Raises:
        UserError: several of the folders exist, or see `pairs_file`.
    """
    pairs = pairs_file(directory)
    if pairs is not None and pairs.parent != directory:
        own = directory / f"{pairs.parent.name}_truth"
        if own.is_dir():
            return own
    found = [directory / name for name in FOLDERS if (directory / name).is_dir()]
    if len(found) > 1:
        names = ", ".join(p.name for p in found)
        raise UserError(f"several folders with truth: {names}", "say which one", directory)
    if found:
        return found[0]
    if pairs is not None and any(_xml_files(pairs.parent)):
        return pairs.parent
    return None


def _xml_files(directory: Path) -> Iterator[Path]:
    """XML files in ``directory`` and one folder below, as the official evaluator looks for them."""
    entries = list_directory(directory)
    yield from (p for p in entries if p.suffix == ".xml")
    for folder in entries:
        if folder.is_dir():
            yield from (p for p in list_directory(folder) if p.suffix == ".xml")


def truth_files(directory: Path) -> dict[str, list[Path]]:
    """The XML files in ``directory`` and one folder below, by file name.

    Raises:
        UserError: the directory cannot be listed.
    """
    files: dict[str, list[Path]] = {}
    for path in _xml_files(directory):
        files.setdefault(path.name, []).append(path)
    return files


def read_truth(directory: Path, pairs: Sequence[DocumentPair]) -> dict[tuple[str, str], tuple[Passage, ...]]:
    """The reused passages of each pair, keyed by ``(suspicious.doc_id, source.doc_id)``; empty where nothing is reused.

    ``altered`` features are not reuse, and features of another source are not this pair's.

    Raises:
        UserErrors: every pair whose XML file is missing, found twice, malformed or about another document.
        UserError: the directory cannot be listed.
    """
    files = truth_files(directory)
    truth: dict[tuple[str, str], tuple[Passage, ...]] = {}
    errors: list[UserError] = []
    for pair in pairs:
        try:
            path = _only_file(files.get(detection_name(pair), []), directory, pair)
            truth[pair.suspicious.doc_id, pair.source.doc_id] = _passages(path, pair)
        except UserError as e:
            errors.append(e)
    if errors:
        raise UserErrors(errors)
    return truth


def _only_file(found: list[Path], directory: Path, pair: DocumentPair) -> Path:
    name = detection_name(pair)
    if not found or not is_file(found[0]):
        raise UserError(f"there is no truth file {name!r}", "add it, or name the right directory", directory)
    if len(found) > 1:
        raise UserError(f"the truth file {name!r} is in {len(found)} folders", "keep one of them", directory)
    return found[0]


def _passages(path: Path, pair: DocumentPair) -> tuple[Passage, ...]:
    root = parse_xml(path)
    reference = root.get("reference")
    if reference is None or _bare(reference) != _bare(pair.suspicious.reference):
        raise UserError(
            f"the root's reference is {reference!r}, not {pair.suspicious.reference!r}",
            "correct the attribute or the file's name",
            path,
            root.sourceline,
        )
    features = (e for e in root.iterchildren(tag="{*}*") if e.get("name") == "plagiarism")
    return tuple(
        _passage(e, path) for e in features if _bare(e.get("source_reference") or "") == _bare(pair.source.reference)
    )


def _bare(reference: str) -> str:
    """References are compared as the official evaluator does: every ``.txt`` is deleted."""
    return reference.replace(".txt", "")


def _passage(feature: Any, path: Path) -> Passage:
    return Passage(
        _number(feature, "this_offset", path, 0),
        _number(feature, "this_length", path, 1),
        _number(feature, "source_offset", path, 0),
        _number(feature, "source_length", path, 1),
        feature.get("obfuscation") or "",
    )


def _number(feature: Any, name: str, path: Path, smallest: int) -> int:
    text = feature.get(name) or ""
    if not re.fullmatch(r"[0-9]{1,15}", text) or int(text) < smallest:
        raise UserError(
            f"{name}={text!r} is not a whole number of at least {smallest}",
            "correct the attribute",
            path,
            feature.sourceline,
        )
    return int(text)
