"""Turn a table of document pairs into a directory in the text-alignment layout, with safe ids and a map of names.

For users whose files are not in a PAN layout: names may contain spaces and any Unicode, and may be equal in different
folders. A table in CSV, JSON Lines or Parquet may also contain the texts themselves, as data sets are exported.
"""

import csv
import io
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

from pan_scdg.errors import UserError, UserErrors, get_first_line, need_packages
from pan_scdg.normal_form import list_forms
from pan_scdg.pan.text_alignment import format_detection, name_detection, read_text
from pan_scdg.pan.untrusted import (
    DOCUMENT_BYTES,
    TEXT_BYTES,
    is_file,
    parse_json_object,
    read_document,
    read_utf8,
    stream_lines,
)
from pan_scdg.records import DocumentPair, Passage, Span, TextFile

COLUMNS = ("suspicious", "source", "reused")
"""The third is optional."""
LABEL = "label"
"""Another name of the third column."""
JSON_LINES, PARQUET = (".jsonl", ".ndjson"), ".parquet"
ANSWERS = {"yes": True, "1": True, "1.0": True, "true": True, "no": False, "0": False, "0.0": False, "false": False}
"""A column of whole numbers that lacks some is exported as floats."""
MAX_PATH_LENGTH = 4096
"""Characters; a longer cell is a text."""
NAMES = "names.csv"
NAMES_HEADER = ["id", "name"]
SIDES = (("suspicious", "susp"), ("source", "src"))
"""Prefix of the ids and folder of the files of both sides."""


class _Table(NamedTuple):
    """The checked content of a table."""

    pairs: list[tuple[DocumentPair, bool | None]]
    """Each with its answer; None: the table has none."""
    sides: tuple[dict[Path | str, TextFile], dict[Path | str, TextFile]]
    """Suspicious documents and sources by their resolved paths, or their texts."""
    names: dict[str, str]
    """The path of each document as it was written, or the line of its text, by id."""

    def add(self, side: int, name: str, document: Path | str) -> TextFile:
        """Return a document with its id; the same file or text of one side always gets the same one."""
        doc_id = f"{SIDES[side][0]}-document{len(self.sides[side]) + 1:05d}"
        reference = f"{doc_id}.txt"
        if isinstance(document, Path):
            file = self.sides[side].setdefault(document.resolve(), TextFile(doc_id, reference, document))
        else:
            file = self.sides[side].setdefault(document, TextFile(doc_id, reference, Path(reference), document))
        self.names.setdefault(file.doc_id, name)
        return file


@contextmanager
def open_pairs(path: Path) -> Iterator[Path]:
    """Open a folder as it is, or a table of pairs as the folder that `prepare_pairs` writes, which is then removed."""
    if not is_file(path):
        yield path
        return
    with tempfile.TemporaryDirectory(prefix="pan_scdg-") as folder:
        prepare_pairs(path, Path(folder) / path.name)
        yield Path(folder) / path.name


def prepare_pairs(table: Path, output: Path) -> int:
    """Write the pairs of the file ``table`` as the new directory ``output``, and return the number of pairs.

    The table has two columns, suspicious and source: those of a header or of fields with these names, beside which
    there may be others, or without a header in this order. A cell is a path relative to the table, or, if it has white
    space and no file has this name, a text. A third column, ``reused`` or ``label``, says yes or no and becomes truth,
    of whole documents: a table does not say where in them. Beside the texts, ``names.csv`` maps each id to the path as
    it was written.

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
    answers: dict[tuple[Path | str, ...], bool | None] = {}
    errors = []
    for line, cells in _read_cells(path):
        try:
            if isinstance(cells, UserError):
                raise cells
            found = [_find_document(path, cells[side], line) for side in COLUMNS[:2]]
            reused = parse_answer(path, cells["reused"], line) if "reused" in cells else None
            sizes = [one.stat().st_size if isinstance(one, Path) else len(one) for one in found]
            if reused and not all(sizes):  # truth has no such passages
                raise UserError("the answer is yes, but a file of the pair is empty", "correct the answer", path, line)
            key = tuple(one.resolve() if isinstance(one, Path) else one for one in found)
            if answers.setdefault(key, reused) != reused:
                raise UserError("contradicts an earlier line about the same pair", "correct one of them", path, line)
        except UserError as e:
            errors.append(e)
            continue
        names = [cells[name] if isinstance(one, Path) else f"{path.name}:{line}" for name, one in zip(COLUMNS, found)]
        documents = [table.add(side, names[side], found[side]) for side in (0, 1)]
        table.pairs.append((DocumentPair(documents[0], documents[1]), reused))
    if errors:
        raise UserErrors(errors)
    if not table.pairs:
        raise UserError("contains no pairs", "add lines 'suspicious,source'", path)
    return table


def _read_cells(path: Path) -> Iterator[tuple[int, dict[str, str] | UserError]]:
    """Yield the cells of each line by the names of columns, or what is wrong with it."""
    if path.suffix.lower() in JSON_LINES:
        lines = ((number, line.removeprefix("\ufeff")) for number, line in stream_lines(path) if line.strip())
        records = ((number, parse_json_object(line, path, number)) for number, line in lines)
        yield from ((number, _pick_cells(record, path, number)) for number, record in records)
        return
    if path.suffix.lower() == PARQUET:
        yield from ((number, _pick_cells(record, path, number)) for number, record in _read_parquet(path))
        return
    rows = read_rows(path)
    header = [name.strip().lower() for name in rows[0][1]] if rows else []
    columns: list[str] = [*COLUMNS[: len(header)]]
    if {*COLUMNS[:2]} <= {*header}:
        columns, rows = header, rows[1:]
    for line, row in rows:
        if len(columns) < 2 or len(row) != len(columns):
            expected = f"{len(columns)} columns" if len(columns) > 1 else "two or three columns"
            what = f"expected {expected}, found {len(row)}"
            yield line, UserError(what, "write 'suspicious,source' on each line", path, line)
        else:
            yield line, _pick_cells(dict(zip(columns, row, strict=True)), path, line)


def _pick_cells(record: dict[str, Any], path: Path, line: int) -> dict[str, str] | UserError:
    """Return the cells of `COLUMNS` as text; a missing answer has none."""
    for name in COLUMNS[:2]:
        if not isinstance(record.get(name), str):
            return UserError(f"has no text in {name}", "write suspicious and source as text", path, line)
    cells = {name: record[name] for name in COLUMNS[:2]}
    answer = record.get(COLUMNS[2], record.get(LABEL))
    return cells if answer is None else {**cells, COLUMNS[2]: str(answer)}


def _read_parquet(path: Path) -> Iterator[tuple[int, dict[str, Any]]]:
    """Yield the rows of a Parquet file, numbered from 1.

    Raises:
        UserError: pyarrow is not installed, or the file is none.
    """
    need_packages("parquet", "pyarrow")
    import pyarrow
    import pyarrow.parquet

    try:
        with pyarrow.parquet.ParquetFile(path) as file:
            names = [name for name in (*COLUMNS, LABEL) if name in file.schema_arrow.names]
            rows = (row for batch in file.iter_batches(columns=names) for row in batch.to_pylist())
            yield from enumerate(rows, 1)
    except (OSError, pyarrow.ArrowException) as e:
        raise UserError(f"not a readable Parquet file: {get_first_line(e)}", "export it again", path) from e


def read_rows(path: Path) -> list[tuple[int, list[str]]]:
    """Return line number and columns of each line that is not blank."""
    text = read_utf8(path).removeprefix("\ufeff")
    # spreadsheets also separate with semicolons or tabs; a first line without a comma cannot be meant otherwise
    first = text.partition("\n")[0]
    delimiter = next((mark for mark in ",;\t" if mark in first), ",")
    rows = _parse_csv(text, path, delimiter=delimiter, skipinitialspace=True)
    return [(line, row) for line, row in rows if row]


def _parse_csv(text: str, path: Path, **options: Any) -> Iterator[tuple[int, list[str]]]:
    csv.field_size_limit(TEXT_BYTES)  # a cell may be a text
    reader = csv.reader(io.StringIO(text, newline=""), strict=True, **options)
    try:
        for row in reader:
            yield reader.line_num, row
    except csv.Error as e:
        raise UserError(f"not CSV: {e}", "correct the line", path, reader.line_num) from e


def _find_document(table: Path, cell: str, line: int) -> Path | str:
    """Return the path that a cell names; the cell itself if it is a text, which has white space and names no file."""
    is_path = len(cell) <= MAX_PATH_LENGTH and cell.isprintable() and cell
    path = next((path for form in list_forms(cell) if is_file(path := table.parent / form)), None) if is_path else None
    if path is not None:
        read_document(path)
        return path
    if any(map(str.isspace, cell)) and not cell.endswith(".txt"):
        _check_text(cell, table, line)
        return cell
    if not is_path:
        raise UserError(f"the file name {cell!r} is empty or contains control characters", "rename it", table, line)
    remedy = "correct the path, which is relative to the table"
    raise UserError(f"the file {cell!r} does not exist", remedy, table, line)


def _check_text(text: str, table: Path, line: int) -> None:
    try:
        size = len(text.encode("utf-8"))
    except UnicodeEncodeError:
        raise UserError("a text has half of a surrogate pair", "correct the text", table, line) from None
    if size > DOCUMENT_BYTES:
        raise UserError(f"a text has {size} bytes (limit {DOCUMENT_BYTES})", "shorten it", table, line)


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
            if file.text is None:
                shutil.copyfile(file.path, folder / name / file.reference)
            else:
                (folder / name / file.reference).write_text(file.text, encoding="utf-8", newline="")
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
