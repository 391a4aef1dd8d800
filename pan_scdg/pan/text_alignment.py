"""The text-alignment layout of PAN 2012 to 2025: ``pairs``, suspicious and source texts, and the detections of a pair.

Reads every layout that the official reader takes, and those of the archives (`pan.layout`). No text is read here: a
corpus is a list of paths.
"""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from pan_scdg.errors import UserError, UserErrors
from pan_scdg.normal_form import list_forms, normalize
from pan_scdg.notices import Notices
from pan_scdg.pan.layout import find_input_folder
from pan_scdg.pan.untrusted import check_id, is_file, list_directory, read_document, read_utf8
from pan_scdg.records import DocumentPair, Passage, TextFile

DETECTED = "detected-plagiarism"
"""The name of a feature of a system; that of the truth is `truth.TAG`."""

PAIRS, SIDES = "pairs", ("susp", "src")
MIN_ITEMS = 3
"""With fewer pairs (or queries) TIRA's format check refuses the result."""
FILE_NAME_BYTES = 255


class PairCorpus(NamedTuple):
    """A ``pairs`` file and its distinct pairs, in the order of the file."""

    pairs_file: Path
    pairs: tuple[DocumentPair, ...]


def read_text(file: TextFile) -> str:
    """Return the text of a document; offsets are indices into this string.

    Raises:
        UserError: see `read_document`.
    """
    return read_document(file.path) if file.text is None else file.text


def format_detection(pair: DocumentPair, passages: Sequence[Passage], name: str = DETECTED) -> bytes:
    """Return the detection file of one pair: one feature per passage, whose ``name`` is ``plagiarism`` in truth files.

    Raises:
        ValueError: a negative offset or a length below 1, with which the official evaluator counts wrongly or stops.
    """
    from lxml import etree

    root = etree.Element("document", {"reference": pair.suspicious.reference})
    for p in passages:
        if min(p.target.begin, p.source.begin) < 0 or min(p.target.length, p.source.length) < 1:
            raise ValueError(f"{p} has a negative offset or no characters")
        attributes = {
            "name": name,
            "this_offset": str(int(p.target.begin)),
            "this_length": str(int(p.target.length)),
            "source_reference": pair.source.reference,
            "source_offset": str(int(p.source.begin)),
            "source_length": str(int(p.source.length)),
        }
        etree.SubElement(root, "feature", attributes)
    xml: bytes = etree.tostring(root, xml_declaration=True, encoding="utf-8", pretty_print=True)
    return xml


def name_detection(pair: DocumentPair) -> str:
    """Return the name of the pair's result: ``<suspicious>-<source>.xml``, without folders and a trailing ``.txt``."""
    suspicious, source = (f.reference.removesuffix(".txt") for f in (pair.suspicious, pair.source))
    return f"{suspicious}-{source}.xml"


def find_pairs_file(directory: Path) -> Path | None:
    """Return the list of pairs of an input directory, None without one.

    It is the file in ``directory`` whose name ends in ``pairs``, else the only file ``pairs`` up to two levels below
    that has ``susp/`` and ``src/`` next to it or one level up.

    Raises:
        UserError: the directory cannot be listed, or there are several such files.
    """
    files = list_pairs_files(directory)
    if len(files) > 1:
        raise UserError(f"several pairs files: {', '.join(p.name for p in files)}", "keep one of them", directory)
    if files:
        return files[0]
    folder = find_input_folder(directory, is_pair_folder)
    return None if folder is None else folder / PAIRS


def list_pairs_files(directory: Path) -> list[Path]:
    """Return the files directly in a directory whose names end in ``pairs``, as the official reader takes them."""
    return [path for path in list_directory(directory) if path.name.endswith(PAIRS) and is_file(path)]


def is_pair_folder(folder: Path) -> bool:
    """Return True if a folder has a file ``pairs``, with ``susp/`` and ``src/`` next to it or one level up."""
    return is_file(folder / PAIRS) and any(_has_sides(one) for one in (folder, folder.resolve().parent))


def find_text_folder(pairs_file: Path) -> Path:
    """Return the folder of ``susp/`` and ``src/``: that of the list of pairs, or the one above (PAN 2012 to 2015)."""
    folder, above = pairs_file.parent, pairs_file.parent.resolve().parent
    has_own = any((folder / side).is_dir() for side in SIDES)
    return above if not has_own and _has_sides(above) else folder


def _has_sides(folder: Path) -> bool:
    return all((folder / side).is_dir() for side in SIDES)


def read_pairs(directory: Path, notices: Notices, may_lack_files: bool = False) -> PairCorpus:
    """Find all pairs of an input directory and the files they name.

    A repeated pair is counted and used once, a blank line is counted and skipped. With ``may_lack_files`` a pair may
    name a file that does not exist, which is an error when its text is read.

    Raises:
        UserErrors: every faulty line: not two columns, an id that cannot be used, leads outside the directory, names
            no file or several, or whose result would overwrite that of another pair.
        UserError: no or several ``pairs`` files, or one that is unreadable or without pairs.
    """
    file = find_pairs_file(directory)
    if file is None:
        raise UserError(
            "no file whose name ends in 'pairs'", "give a directory in the text-alignment layout", directory
        )
    errors: list[UserError] = []
    pairs: dict[tuple[str, str], DocumentPair] = {}
    names: dict[str, DocumentPair] = {}
    documents = _Documents(find_text_folder(file), may_lack_files)
    for number, line in _read_lines(file, notices):
        try:
            pair = _parse_pair(line, documents, file, number)
            key = (pair.suspicious.doc_id, pair.source.doc_id)
            if key not in pairs:
                _claim_name(pair, names, file)
        except UserError as e:
            errors.append(e)
            continue
        if key in pairs:
            notices.add("repeated pair, used once", f"{file}:{number}")
        pairs.setdefault(key, pair)
    if errors:
        raise UserErrors(errors)
    if not pairs:
        raise UserError("contains no pairs", "add at least one line with two ids", file)
    if len(pairs) < MIN_ITEMS:
        notices.add(f"fewer than {MIN_ITEMS} pairs: TIRA's check will refuse this output", str(file))
    return PairCorpus(file, tuple(pairs.values()))


def _read_lines(file: Path, notices: Notices) -> Iterator[tuple[int, str]]:
    text = read_utf8(file)
    if text.startswith("\ufeff"):
        notices.add("byte-order mark in the pairs file, ignored", str(file))
    # not splitlines(), which also cuts at separators that the official reader leaves inside a line
    lines = text.removeprefix("\ufeff").removesuffix("\n").split("\n")
    for number, line in enumerate(lines, start=1):
        if line.strip():
            yield number, line
        elif text:
            notices.add("blank line in the pairs file, skipped", f"{file}:{number}")


def _parse_pair(line: str, documents: "_Documents", file: Path, number: int) -> DocumentPair:
    columns = line.split()
    if len(columns) != 2:
        raise UserError(
            f"expected two columns, found {len(columns)}",
            "write one suspicious and one source id per line",
            file,
            number,
        )
    files, errors = [], []
    for name in columns:
        try:
            files.append(documents.find(name, file, number))
        except UserError as e:
            errors.append(e)
    if errors:
        raise UserErrors(errors)
    return DocumentPair(files[0], files[1], number)


def _claim_name(pair: DocumentPair, names: dict[str, DocumentPair], file: Path) -> None:
    """Raise UserError if a result's name is hidden, too long, or that of another result.

    Names that differ only in case or in Unicode normalisation count as equal, as on some file systems.
    """
    name = name_detection(pair)
    if name.startswith("."):
        what = f"the result {name!r} would be a hidden file, which evaluators skip"
        raise UserError(what, "rename the suspicious document", file, pair.line)
    if len(name.encode()) > FILE_NAME_BYTES:
        raise UserError(f"the result's name {name!r} is too long for a file name", "shorten the ids", file, pair.line)
    first = names.setdefault(normalize("NFC", name).casefold(), pair)
    if first is not pair:
        raise UserError(
            f"the result {name!r} would overwrite that of line {first.line}",
            "rename one of the documents",
            file,
            pair.line,
        )


class _Documents:
    """Finds documents by id in one input directory: at its root or one folder down, with ``.txt`` added or not.

    A name that is stored in another Unicode form, as on macOS, is found, too.
    """

    def __init__(self, directory: Path, may_lack_files: bool) -> None:
        self._directory, self._may_lack_files = directory, may_lack_files
        self._root = directory.resolve()
        self._folders = [directory, *(p for p in list_directory(directory) if p.is_dir())]
        self._files: dict[str, TextFile] = {}
        self._paths: dict[str, Path] = {}

    def find(self, name: str, file: Path, line: int) -> TextFile:
        """Return the document that ``name``, read in ``line`` of ``file``, refers to."""
        if name not in self._files:
            check_id(name, file, line)
            if name.startswith("/") or ".." in name.split("/"):
                raise UserError(f"the id {name!r} leads outside the directory", "correct the id", file, line)
            if name.rpartition("/")[2] in ("", ".", ".txt"):
                raise UserError(f"the id {name!r} names no file", "correct the id", file, line)
            path = self._find_path(name, file, line)
            doc_id = name.removesuffix(".txt")
            if self._paths.setdefault(doc_id, path) != path:
                raise UserError(
                    f"the id {doc_id!r} refers to two files: {self._paths[doc_id]} and {path}",
                    "rename one of them",
                    file,
                    line,
                )
            self._files[name] = TextFile(doc_id, f"{doc_id.rpartition('/')[2]}.txt", path)
        return self._files[name]

    def _find_path(self, name: str, file: Path, line: int) -> Path:
        file_names = [n for form in list_forms(name) for n in (form, f"{form}.txt")]
        candidates = (folder / n for folder in self._folders for n in file_names)
        # keyed by the resolved path: two paths to one file are not ambiguous
        paths = {p.resolve(): p for p in candidates if is_file(p)}
        if not paths and self._may_lack_files:
            return self._directory / name
        if not paths:
            raise UserError(f"no file for the id {name!r}", "add the text or correct the id", file, line)
        if len(paths) > 1:
            names = ", ".join(map(str, paths.values()))
            raise UserError(f"several files for the id {name!r}: {names}", "keep one, or name its folder", file, line)
        ((target, path),) = paths.items()
        if not target.is_relative_to(self._root):
            raise UserError(f"the id {name!r} leads outside the directory", "replace the link by the file", file, line)
        return path
