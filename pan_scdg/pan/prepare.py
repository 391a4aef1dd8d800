"""Turn a table of document pairs into a directory in the text-alignment layout, with safe ids and a map of names.

For users whose files are not in a PAN layout: names may contain spaces and any Unicode, and may be equal in different
folders.
"""

import csv
import io
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from pan_scdg.errors import UserError, UserErrors
from pan_scdg.pan.detections import format_detection
from pan_scdg.pan.text_alignment import name_detection, read_text
from pan_scdg.pan.untrusted import is_file, read_document, read_utf8
from pan_scdg.records import DocumentPair, Passage, TextFile

HEADER = ["suspicious", "source"]
REUSED = "reused"
"""The optional third column."""
ANSWERS = {"yes": True, "1": True, "no": False, "0": False}
NAMES = "names.csv"
NAMES_HEADER = ["id", "name"]
PREFIXES, FOLDERS = ("suspicious", "source"), ("susp", "src")
"""Of the ids and of the files of both sides."""


class _Table(NamedTuple):
    """The checked content of a table."""

    pairs: list[tuple[DocumentPair, bool | None]]
    """Each with its answer; None: the table has none."""
    sides: tuple[dict[Path, TextFile], dict[Path, TextFile]]
    """Suspicious documents and sources by their resolved paths."""
    names: dict[str, str]
    """The path of each document as it was written, by id."""

    def add(self, side: int, name: str, path: Path) -> TextFile:
        """Return a document with its id; the same file of one side always gets the same one."""
        doc_id = f"{PREFIXES[side]}-document{len(self.sides[side]) + 1:05d}"
        file = self.sides[side].setdefault(path.resolve(), TextFile(doc_id, f"{doc_id}.txt", path))
        self.names.setdefault(file.doc_id, name)
        return file


def prepare_pairs(table: Path, output: Path) -> int:
    """Write the pairs of the CSV file ``table`` as the new directory ``output``, and return the number of pairs.

    The table has two columns, suspicious and source, with or without the header ``suspicious,source``; paths are
    relative to the table. A third column, ``reused``, says yes or no and becomes truth, of whole documents: a table
    does not say where in them. Beside the texts, ``names.csv`` maps each id to the path as it was written.

    Raises:
        UserErrors: every faulty line: another number of columns, an answer that is neither or cannot be, a file that
            is missing or not UTF-8.
        UserError: the table cannot be read or holds no pairs, or ``output`` is not empty or not writable.
    """
    checked = _read_table(table)
    try:
        if output.exists() and (not output.is_dir() or any(output.iterdir())):
            raise UserError("exists and is not an empty directory", "choose another --output", output)
        target = output.resolve()
        target.parent.mkdir(parents=True, exist_ok=True)
        # written beside its place and renamed, so that a stop half-way leaves no directory that looks complete
        with tempfile.TemporaryDirectory(dir=target.parent, prefix=f".{target.name}.") as beside:
            staged = Path(beside) / "corpus"
            _write_corpus(staged, checked)
            staged.rename(target)
    except OSError as e:
        raise UserError(f"cannot be written: {e.strerror}", "choose another --output", output) from e
    return len(checked.pairs)


def _read_table(table: Path) -> _Table:
    found = _Table([], ({}, {}), {})
    answers: dict[tuple[Path, Path], bool | None] = {}
    errors, columns = [], None
    for index, (line, row) in enumerate(_read_rows(table)):
        if index == 0 and [c.strip().lower() for c in row] in (HEADER, [*HEADER, REUSED]):
            columns = len(row)
            continue
        try:
            if len(row) not in (2, 3) or len(row) != (columns or len(row)):
                expected = {None: "two or three", 2: "two", 3: "three"}[columns]
                raise UserError(
                    f"expected {expected} columns, found {len(row)}",
                    "write 'suspicious,source' on each line",
                    table,
                    line,
                )
            columns = len(row)
            suspicious, source = (_check_document(table, name, line) for name in row[:2])
            reused = _parse_answer(table, row[2], line) if columns == 3 else None
            if reused and not (suspicious.stat().st_size and source.stat().st_size):  # truth has no such passages
                raise UserError("the answer is yes, but a file of the pair is empty", "correct the answer", table, line)
            if answers.setdefault((suspicious.resolve(), source.resolve()), reused) != reused:
                raise UserError("contradicts an earlier line about the same pair", "correct one of them", table, line)
        except UserError as e:
            errors.append(e)
            continue
        pair = DocumentPair(found.add(0, row[0], suspicious), found.add(1, row[1], source))
        found.pairs.append((pair, reused))
    if errors:
        raise UserErrors(errors)
    if not found.pairs:
        raise UserError("contains no pairs", "add lines 'suspicious,source'", table)
    return found


def _read_rows(table: Path) -> Iterator[tuple[int, list[str]]]:
    """Yield line number and columns of each line that is not blank."""
    text = read_utf8(table).removeprefix("\ufeff")
    # spreadsheets of many countries separate with semicolons; a first line without a comma cannot be meant otherwise
    first = text.partition("\n")[0]
    delimiter = ";" if ";" in first and "," not in first else ","
    reader = csv.reader(io.StringIO(text, newline=""), delimiter=delimiter, skipinitialspace=True, strict=True)
    try:
        for row in reader:
            if row:
                yield reader.line_num, row
    except csv.Error as e:
        raise UserError(f"not CSV: {e}", "correct the line", table, reader.line_num) from e


def _check_document(table: Path, name: str, line: int) -> Path:
    if not name or not name.isprintable():
        raise UserError(f"the file name {name!r} is empty or contains control characters", "rename it", table, line)
    path = table.parent / name
    if not is_file(path):
        raise UserError(
            f"the file {name!r} does not exist", "correct the path, which is relative to the table", table, line
        )
    read_document(path)
    return path


def _parse_answer(table: Path, said: str, line: int) -> bool:
    answer = ANSWERS.get(said.strip().lower())
    if answer is None:
        raise UserError(f"{said!r} is not an answer in the column reused", "write yes or no", table, line)
    return answer


def _write_corpus(folder: Path, table: _Table) -> None:
    for name, files in zip(FOLDERS, table.sides):
        (folder / name).mkdir(parents=True)
        for file in files.values():
            shutil.copyfile(file.path, folder / name / file.reference)
    lines = (f"{pair.suspicious.reference} {pair.source.reference}\n" for pair, _ in table.pairs)
    (folder / "pairs").write_text("".join(lines), encoding="utf-8", newline="\n")
    with open(folder / NAMES, "w", encoding="utf-8", newline="") as names:
        writer = csv.writer(names, lineterminator="\n")
        writer.writerow(NAMES_HEADER)
        writer.writerows((file.doc_id, table.names[file.doc_id]) for files in table.sides for file in files.values())
    for pair, reused in table.pairs:
        if reused is not None:
            _write_truth(folder / "truth", pair, reused)


def _write_truth(folder: Path, pair: DocumentPair, reused: bool) -> None:
    """Write the truth of one pair: one feature that spans both documents, or none."""
    whole = [Passage(0, len(read_text(pair.suspicious)), 0, len(read_text(pair.source)))] if reused else []
    folder.mkdir(exist_ok=True)
    (folder / name_detection(pair)).write_bytes(format_detection(pair, whole, "plagiarism"))


def read_names(directory: Path) -> dict[str, str]:
    """Return original path by document id, from the ``names.csv`` of a prepared directory; empty without one.

    Raises:
        UserError: the map cannot be read, is malformed, or names an id twice.
    """
    path = directory / NAMES
    if not is_file(path):
        return {}
    reader = csv.reader(io.StringIO(read_utf8(path), newline=""), strict=True)
    names: dict[str, str] = {}
    try:
        for index, row in enumerate(reader):
            if (index == 0 and row != NAMES_HEADER) or len(row) != 2 or row[0] in names:
                raise UserError("not a map 'id,name'", "remove it or prepare again", path, reader.line_num)
            if index:
                names[row[0]] = row[1]
    except csv.Error as e:
        raise UserError(f"not CSV: {e}", "remove it or prepare again", path, reader.line_num) from e
    return names
