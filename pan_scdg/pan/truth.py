"""Read the XML of the text-alignment layout: the truth of pairs, and passages as the official evaluator reads them."""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from pan_scdg.errors import UserError, UserErrors
from pan_scdg.normal_form import compose
from pan_scdg.pan.layout import list_truth_folders
from pan_scdg.pan.text_alignment import find_pairs_file, name_detection, read_text
from pan_scdg.pan.untrusted import DOCUMENT_BYTES, is_file, list_directory, parse_xml, read_bytes
from pan_scdg.progress import format_count
from pan_scdg.records import DocumentPair, Feature, Passage, Span, TextFile

TAG = "plagiarism"
"""Ending of the name of a feature that is reuse; older corpora write ``artificial-plagiarism``."""
RESULTS = ("job.json", ".pan_scdg", ".pan_scdg.json", "decisions.jsonl")
"""Files that mark a folder as the output of a run."""
MIN_WORD_ENDS = 4
"""Fewest ends of passages at words from which another count of line ends is concluded."""
MAX_OFFSET = 10**15
"""Largest offset and length: no document is longer, and their sums fit in 64 bits."""
THIS, SOURCE = ("this_offset", "this_length"), ("source_offset", "source_length")
_DETECTED = re.compile(rb"""detected-plagiarism["']""")


def find_truth(directory: Path) -> Path | None:
    """Return the folder with the truth of an input directory, or None.

    Tries the folders of `list_truth_folders`, then XML files beside ``pairs`` or one folder below it (PAN 2012 keeps
    each kind of obfuscation in its own folder). Results of a run are never taken for truth.

    Raises:
        UserError: the input has several folders with truth, or see `find_pairs_file`.
    """
    pairs = find_pairs_file(directory)
    if pairs is None:
        return None
    for candidates in list_truth_folders(pairs.parent):
        folders = [folder for folder in candidates if not _contains_results(folder)]
        if len(folders) > 1:
            names = ", ".join(p.name for p in folders)
            raise UserError(f"several folders with truth: {names}", "choose one with --truth", pairs.parent)
        if folders:
            return folders[0]
    if not _contains_results(pairs.parent) and any(list_truth_files(pairs.parent)):
        return pairs.parent
    return None


def list_truth_files(directory: Path) -> dict[str, list[Path]]:
    """Return the XML files in ``directory`` and one folder below, by name in NFC; results of a run are left out.

    Raises:
        UserError: the directory cannot be listed, or itself contains results of a run.
    """
    if _contains_results(directory):
        raise UserError("contains the results of a run, not the truth", "give the folder with the truth XML", directory)
    files: dict[str, list[Path]] = {}
    for folder in (directory, *(p for p in list_directory(directory) if p.is_dir())):
        if folder == directory or not _contains_results(folder):
            for path in _list_xml_files(folder):
                files.setdefault(compose(path.name).text, []).append(path)
    return files


def _contains_results(folder: Path) -> bool:
    """Return True if a run wrote ``folder``: it has a file of an output, or XML with detected passages."""
    if any((folder / name).exists() for name in RESULTS):
        return True
    return any(_DETECTED.search(read_bytes(path)) for path in _list_xml_files(folder) if is_file(path))


def _list_xml_files(folder: Path) -> Iterator[Path]:
    return (path for path in list_directory(folder) if path.suffix == ".xml")


def read_truth(directory: Path, pairs: Sequence[DocumentPair]) -> dict[tuple[str, str], tuple[Passage, ...]]:
    """Return the reused passages of each pair by ``(suspicious.doc_id, source.doc_id)``; empty without reuse.

    ``altered`` features are not reuse, and features of another source are not this pair's.

    Raises:
        UserErrors: every pair whose XML file is missing, different in two folders, malformed or about another document.
        UserError: the directory cannot be listed, or contains no truth.
    """
    files = list_truth_files(directory)
    if not files:
        raise UserError("contains no XML file with truth", "give the folder with the truth XML", directory)
    truth: dict[tuple[str, str], tuple[Passage, ...]] = {}
    errors: list[UserError] = []
    for pair in pairs:
        try:
            paths = files.get(compose(name_detection(pair)).text, [])
            truth[pair.suspicious.doc_id, pair.source.doc_id] = _read_passages(paths, pair, directory)
        except UserError as e:
            errors.append(e)
    if errors:
        raise UserErrors(errors)
    return truth


def warn_of_line_ends(truth: Mapping[tuple[str, str], Sequence[Passage]], pairs: Sequence[DocumentPair]) -> list[str]:
    r"""Return warnings if passages end after their document, or fit it better where ``\r\n`` counts as two characters.

    Passages begin and end at words; by another count they do so by chance.

    Args:
        truth: the result of `read_truth`.
        pairs: those of the truth; a document that cannot be read is left out.
    """
    spans: dict[TextFile, set[Span]] = {}
    for pair in pairs:
        for passage in truth[pair.suspicious.doc_id, pair.source.doc_id]:
            spans.setdefault(pair.suspicious, set()).add(passage.target)
            spans.setdefault(pair.source, set()).add(passage.source)
    short: list[TextFile] = []
    counted: list[TextFile] = []
    ends, as_one, as_two = 0, 0, 0
    for file, places in spans.items():
        with suppress(UserError):
            text = read_text(file)
            if len(text) < max(place.end for place in places):
                short.append(file)
            whole = text if file.text is not None else read_bytes(file.path, DOCUMENT_BYTES).decode("utf-8")
            if (first := whole.find("\r\n")) >= 0:
                counted.append(file)
                later = [(at, at == place.end) for place in places for at in place if at > first]
                ends += len(later)
                as_one += sum(_is_at_word(text, at, is_end) for at, is_end in later)
                as_two += sum(_is_at_word(whole, at, is_end) for at, is_end in later)
    lines = []
    if as_two >= MIN_WORD_ENDS and as_two > 2 * as_one:
        what = f"{as_two} of {ends} ends of passages are at words, and {as_one} if it is one, as here"
        lines.append(rf"warning: the truth counts \r\n as two characters: {what}: first {counted[0].path}")
    if short:
        count = format_count(len(short), "document")
        question = "" if lines or not counted else r"; does it count \r\n as two characters? Here it is one"
        lines.append(f"warning: the truth of {count} ends after the text: first {short[0].path}{question}")
    return lines


def _is_at_word(text: str, at: int, is_end: bool) -> bool:
    """Return True if a passage that begins or ends at a character has a whole word there."""
    before, after = text[max(0, at - 1) : at], text[at : at + 1]
    inner, outer = (before, after) if is_end else (after, before)
    return inner != "" and not inner.isspace() and not outer.isalnum()


def _read_passages(paths: Sequence[Path], pair: DocumentPair, directory: Path) -> tuple[Passage, ...]:
    """Return the passages of a pair from its file, or from several files that say the same."""
    name = name_detection(pair)
    if not paths or not is_file(paths[0]):
        raise UserError(f"the truth file {name!r} does not exist", "add it, or give another directory", directory)
    first, *others = (_parse_passages(path, pair) for path in paths)
    if any(other != first for other in others):
        folders = " and ".join(str(path.parent) for path in paths[:2])
        raise UserError(f"the truth file {name!r} differs in {folders}", "choose one with --truth", directory)
    return first


def _parse_passages(path: Path, pair: DocumentPair) -> tuple[Passage, ...]:
    root = parse_xml(path)
    reference = root.get("reference")
    if reference is None or read_reference(reference) != read_reference(pair.suspicious.reference):
        raise UserError(
            f"the root's reference is {reference!r}, not {pair.suspicious.reference!r}",
            "correct the attribute or the file's name",
            path,
            root.sourceline,
        )
    source = read_reference(pair.source.reference)
    return tuple(
        Passage(
            _read_span(feature, THIS, path, 1), _read_span(feature, SOURCE, path, 1), feature.get("obfuscation") or ""
        )
        for feature in root.iterchildren("{*}*")
        if (feature.get("name") or "").endswith(TAG) and read_reference(feature.get("source_reference") or "") == source
    )


def read_features(directory: str | Path, tag: str) -> list[Feature]:
    """Return all passages of a directory whose feature name ends with ``tag``.

    Reads ``*.xml`` of the directory, whatever their names; the official evaluator also reads the folders in it, which
    would take several outputs in one folder for one. A passage belongs to the documents that its references name,
    after every ".txt" in them is deleted. Left out as in the official evaluator: hidden files, files whose root has no
    ``reference``, features without ``this_offset`` or ``this_length``. A feature that lacks one of the three source
    attributes has no source.

    Raises:
        UserError: the directory is missing, a file is not well-formed or has a DOCTYPE, an offset or length is not a
            whole number from 0 to `MAX_OFFSET`, or all lengths of a passage are 0; with the file and the line.
    """
    folder = Path(directory)
    if not folder.is_dir():
        raise UserError("the directory does not exist", "give the directory with the XML files", directory)
    return read_feature_files(_list_xml_files(folder), tag)


def read_feature_files(paths: Iterable[Path], tag: str) -> list[Feature]:
    """Return all passages of these XML files whose feature name ends with ``tag``; see `read_features`."""
    return [span for path in paths for span in _parse_features(path, tag)]


def _parse_features(path: Path, tag: str) -> Iterator[Feature]:
    root = parse_xml(path)
    suspicious = root.get("reference")
    if suspicious is None:
        return
    for node in root.iterchildren("*"):
        if _has_attributes(node, ("name", *THIS)) and node.get("name").endswith(tag):
            target, source, source_span = _read_span(node, THIS, path), None, Span(0, 0)
            if _has_attributes(node, ("source_reference", *SOURCE)):
                source = read_reference(node.get("source_reference"))
                source_span = _read_span(node, SOURCE, path)
            if target.length + source_span.length == 0:
                raise UserError(
                    "the lengths of a feature are 0", "give the length of the passage", path, node.sourceline
                )
            yield Feature(read_reference(suspicious), target, source, source_span)


def _read_span(feature: Any, names: tuple[str, str], path: Path, min_length: int = 0) -> Span:
    """Return the span of an offset and a length."""
    begin, length = _parse_number(feature, names[0], path), _parse_number(feature, names[1], path, min_length)
    return Span(begin, begin + length)


def _has_attributes(node: Any, names: tuple[str, ...]) -> bool:
    return all(node.get(name) is not None for name in names)


def read_reference(reference: str) -> str:
    """Return a reference in NFC without any ``.txt``, which the official evaluator deletes before it compares."""
    return compose(reference).text.replace(".txt", "")


def _parse_number(feature: Any, name: str, path: Path, minimum: int = 0) -> int:
    text = feature.get(name) or ""
    try:
        number = int(text)
    except ValueError:
        number = -1
    if not minimum <= number <= MAX_OFFSET:
        shortened = text if len(text) <= 40 else f"{text[:40]}..."
        what = f"{name}={shortened!r} is not a whole number from {minimum} to {MAX_OFFSET}"
        raise UserError(what, "correct the attribute", path, feature.sourceline)
    return number
