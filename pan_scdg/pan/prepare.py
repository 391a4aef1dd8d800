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
from typing import Any, NamedTuple

from pan_scdg.errors import UserError, UserErrors
from pan_scdg.normal_form import list_forms
from pan_scdg.pan.detections import format_detection
from pan_scdg.pan.text_alignment import name_detection, read_text
from pan_scdg.pan.untrusted import is_file, read_document, read_utf8
from pan_scdg.records import DocumentPair, Passage, Span, TextFile

COLUMNS = ("suspicious", "source", "reused")
"""The third is optional."""
ANSWERS = {"yes": True, "1": True, "true": True, "no": False, "0": False, "false": False}
NAMES = "names.csv"
NAMES_HEADER = ["id", "name"]
SIDES = (("suspicious", "susp"), ("source", "src"))
"""Prefix of the ids and folder of the files of both sides."""


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
        doc_id = f"{SIDES[side][0]}-document{len(self.sides[side]) + 1:05d}"
        file = self.sides[side].setdefault(path.resolve(), TextFile(doc_id, f"{doc_id}.txt", path))
        self.names.setdefault(file.doc_id, name)
        return file


def prepare_pairs(table: Path, output: Path) -> int:
    """Write the pairs of the CSV file ``table`` as the new directory ``output``, and return the number of pairs.

    The table has two columns, suspicious and source, in this order or in that of a header with these names; paths are
    relative to the table. A third column, ``reused``, says yes or no and becomes truth, of whole documents: a table
    does not say where in them. Beside the texts, ``names.csv`` maps each id to the path as it was written.

    Raises:
        UserErrors: every faulty line: another number of columns, an answer that is neither or cannot be, a file that
            is missing or not UTF-8.
        UserError: the table cannot be read or contains no pairs, or ``output`` is not empty or not writable.
    """
    checked = _read_table(table)
    try:
        if output.exists() and (not output.is_dir() or any(output.iterdir())):
            raise UserError("exists and is not an empty directory", "choose another --output", output)
        target = output.resolve()
        target.parent.mkdir(parents=True, exist_ok=True)
        # renamed when complete, so that a stop half-way leaves no directory that looks complete
        with tempfile.TemporaryDirectory(dir=target.parent, prefix=f".{target.name}.") as work:
            staged = Path(work) / "corpus"
            _write_corpus(staged, checked)
            staged.rename(target)
    except OSError as e:
        raise UserError(f"cannot be written: {e.strerror}", "choose another --output", output) from e
    return len(checked.pairs)


def _read_table(path: Path) -> _Table:
    table = _Table([], ({}, {}), {})
    answers: dict[tuple[Path, Path], bool | None] = {}
    errors = []
    rows = read_rows(path)
    header = [name.strip().lower() for name in rows[0][1]] if rows else []
    columns: tuple[str, ...] = COLUMNS[: len(header)]
    if sorted(header) in (sorted(COLUMNS), sorted(COLUMNS[:2])):
        columns, rows = tuple(header), rows[1:]
    for line, row in rows:
        try:
            if len(columns) < 2 or len(row) != len(columns):
                expected = f"{len(columns)} columns" if len(columns) > 1 else "two or three columns"
                what = f"expected {expected}, found {len(row)}"
                raise UserError(what, "write 'suspicious,source' on each line", path, line)
            cells = dict(zip(columns, row, strict=True))
            files = [_check_document(path, cells[side], line) for side in COLUMNS[:2]]
            reused = parse_answer(path, cells["reused"], line) if "reused" in cells else None
            if reused and not all(file.stat().st_size for file in files):  # truth has no such passages
                raise UserError("the answer is yes, but a file of the pair is empty", "correct the answer", path, line)
            if answers.setdefault((files[0].resolve(), files[1].resolve()), reused) != reused:
                raise UserError("contradicts an earlier line about the same pair", "correct one of them", path, line)
        except UserError as e:
            errors.append(e)
            continue
        documents = [table.add(side, cells[COLUMNS[side]], files[side]) for side in (0, 1)]
        table.pairs.append((DocumentPair(documents[0], documents[1]), reused))
    if errors:
        raise UserErrors(errors)
    if not table.pairs:
        raise UserError("contains no pairs", "add lines 'suspicious,source'", path)
    return table


def read_rows(path: Path) -> list[tuple[int, list[str]]]:
    """Return line number and columns of each line that is not blank."""
    text = read_utf8(path).removeprefix("\ufeff")
    # spreadsheets also separate with semicolons or tabs; a first line without a comma cannot be meant otherwise
    first = text.partition("\n")[0]
    delimiter = next((mark for mark in ",;\t" if mark in first), ",")
    rows = _parse_csv(text, path, delimiter=delimiter, skipinitialspace=True)
    return [(line, row) for line, row in rows if row]


def _parse_csv(text: str, path: Path, **options: Any) -> Iterator[tuple[int, list[str]]]:
    reader = csv.reader(io.StringIO(text, newline=""), strict=True, **options)
    try:
        for row in reader:
            yield reader.line_num, row
    except csv.Error as e:
        raise UserError(f"not CSV: {e}", "correct the line", path, reader.line_num) from e


def _check_document(table: Path, name: str, line: int) -> Path:
    if not name or not name.isprintable():
        raise UserError(f"the file name {name!r} is empty or contains control characters", "rename it", table, line)
    path = next((path for form in list_forms(name) if is_file(path := table.parent / form)), None)
    if path is None:
        remedy = "correct the path, which is relative to the table"
        raise UserError(f"the file {name!r} does not exist", remedy, table, line)
    read_document(path)
    return path


def parse_answer(table: Path, text: str, line: int) -> bool:
    """Return True for yes.

    Raises:
        UserError: the text is neither yes nor no.
    """
    answer = ANSWERS.get(text.strip().lower())
    if answer is None:
        raise UserError(f"{text!r} is not an answer in the column reused", "write yes or no", table, line)
    return answer


def _write_corpus(folder: Path, table: _Table) -> None:
    for (_, name), files in zip(SIDES, table.sides):
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
        if reused is not None:  # one feature that spans both documents, or none
            whole = [Passage(_span_text(pair.suspicious), _span_text(pair.source))] if reused else []
            (folder / "truth").mkdir(exist_ok=True)
            (folder / "truth" / name_detection(pair)).write_bytes(format_detection(pair, whole, "plagiarism"))


def _span_text(file: TextFile) -> Span:
    return Span(0, len(read_text(file)))


def read_names(directory: Path) -> dict[str, str]:
    """Return original path by document id, from the ``names.csv`` of a prepared directory; empty without one.

    Raises:
        UserError: the map cannot be read, is malformed, or names an id twice.
    """
    path = directory / NAMES
    if not is_file(path):
        return {}
    names: dict[str, str] = {}
    for index, (line, row) in enumerate(_parse_csv(read_utf8(path), path)):
        if (index == 0 and row != NAMES_HEADER) or len(row) != 2 or row[0] in names:
            raise UserError("not a map 'id,name'", "remove it or prepare again", path, line)
        if index:
            names[row[0]] = row[1]
    return names
