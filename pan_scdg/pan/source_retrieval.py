"""Read the retrieval layout of PAN 2026: corpus and queries in JSON Lines, and relevance judgements."""

import hashlib
import zlib
from collections.abc import Collection, Iterator, KeysView, Mapping, Sequence
from pathlib import Path
from typing import Any

from pan_scdg.digests import hash_file
from pan_scdg.errors import UserError
from pan_scdg.normal_form import SURPLUS_MARKS, Composed, compose, has_surplus_marks
from pan_scdg.notices import Notices
from pan_scdg.pan.layout import find_input_folder, list_truth_folders
from pan_scdg.pan.text_alignment import MIN_ITEMS
from pan_scdg.pan.untrusted import (
    COMMENT,
    STREAM_BYTES,
    check_id,
    is_file,
    parse_json_object,
    stream_columns,
    stream_lines,
)
from pan_scdg.records import Document, Query

CORPUS_NAMES = ("documents.jsonl.gz", "corpus.jsonl.gz", "documents.jsonl", "corpus.jsonl")
QUERIES_NAME, QRELS_NAME = "queries.jsonl", "qrels.txt"
QUERIES_BYTES = 1 << 30
"""Largest queries file in bytes, since queries are kept in memory; the official limit of all input files is 900 MB."""


class Corpus:
    """The documents of a corpus file, each of them checked, in the order of the file.

    Only the ids stay in memory; each iteration reads the file again. Texts are in the Unicode form NFC unless
    ``raw_text``. ``queries`` are looked for among the documents.

    Raises:
        UserError: see `stream_corpus`.
    """

    def __init__(
        self, directory: Path, notices: Notices, raw_text: bool = False, queries: Sequence[Query] = ()
    ) -> None:
        self._directory, self.raw_text = directory, raw_text
        self._ids: dict[str, None] = {}
        searched = {query.query_id: _hash_words(query.text) for query in queries}
        words = {*searched.values()}
        documents: set[bytes] = set()
        for document in stream_corpus(directory, notices):
            self._ids[document.doc_id] = None
            if words and (digest := _hash_words(document.text)) in words:
                documents.add(digest)
        self.queries_in_it = [query_id for query_id, digest in searched.items() if digest in documents]
        """Ids of the ``queries`` whose words are those of a document."""
        self.digest = hash_file(_require_corpus(directory))
        """SHA-256 (hex) of the corpus file."""

    @property
    def ids(self) -> KeysView[str]:
        """Return the ids of all documents, a set in the order of the corpus."""
        return self._ids.keys()

    def __len__(self) -> int:
        return len(self._ids)

    def __iter__(self) -> Iterator[Document]:
        return stream_corpus(self._directory, Notices(), self.raw_text)

    def select(self, doc_ids: Collection[str]) -> Iterator[Document]:
        """Yield the documents that ``doc_ids`` name and the corpus has, in the order of the corpus."""
        missing = set(doc_ids) & self.ids
        for document in self:
            if not missing:
                return
            if document.doc_id in missing:
                missing.remove(document.doc_id)
                yield document

    def read_in_order(self, groups: Sequence[Collection[str]], spool: Path) -> Iterator[Document]:
        """Yield the documents of each group, group by group, while the corpus is read once.

        Args:
            groups: ids of documents; inside a group they come in the order of the corpus.
            spool: a file that is written here, with the texts of later groups, compressed.
        """
        numbers = {doc_id: number for number, group in enumerate(groups) for doc_id in group}
        later: list[list[tuple[str, int, int]]] = [[] for _ in groups]
        with spool.open("w+b") as file:
            for document in self.select(numbers):
                if (number := numbers[document.doc_id]) == 0:
                    yield document
                    continue
                data = zlib.compress(document.text.encode(), 1)
                later[number].append((document.doc_id, file.tell(), len(data)))
                file.write(data)
            for doc_id, offset, size in (place for places in later for place in places):
                file.seek(offset)
                yield Document(doc_id, zlib.decompress(file.read(size)).decode())


def find_corpus(directory: Path) -> Path | None:
    """Return the corpus of a retrieval input, up to two levels below ``directory``; None without one.

    Raises:
        UserError: there are several corpora or corpus files.
    """
    folder = find_input_folder(directory, lambda folder: bool(_list_corpus_files(folder)))
    files = [] if folder is None else _list_corpus_files(folder)
    if len(files) > 1:
        raise UserError(f"several corpus files: {', '.join(p.name for p in files)}", "keep one of them", folder)
    return files[0] if files else None


def _list_corpus_files(folder: Path) -> list[Path]:
    return [folder / name for name in CORPUS_NAMES if is_file(folder / name)]


def find_queries(directory: Path) -> Path:
    """Return the queries file of a retrieval input, next to its corpus; it may be missing."""
    corpus = find_corpus(directory)
    return (directory if corpus is None else corpus.parent) / QUERIES_NAME


def is_retrieval_folder(folder: Path) -> bool:
    """Return True if a folder has a corpus and queries."""
    return bool(_list_corpus_files(folder)) and is_file(folder / QUERIES_NAME)


def find_qrels(directory: Path) -> Path:
    """Return the judgements of a retrieval input: next to its queries or in a folder of `list_truth_folders`.

    The file may be missing.
    """
    folder = find_queries(directory).parent
    candidates = [folder, *(path for paths in list_truth_folders(folder) for path in paths)]
    return next((path / QRELS_NAME for path in candidates if is_file(path / QRELS_NAME)), folder / QRELS_NAME)


def _require_corpus(directory: Path) -> Path:
    path = find_corpus(directory)
    if path is None:
        raise UserError(f"no corpus: expected one of {', '.join(CORPUS_NAMES)}", "add one of these files", directory)
    return path


def stream_corpus(directory: Path, notices: Notices, raw_text: bool = False) -> Iterator[Document]:
    """Yield the documents of a corpus of any size, in the order of the file.

    Only two digests and a line number per id stay in memory. A duplicate is counted and skipped, an empty document
    is counted and kept.

    Raises:
        UserError: no corpus or an empty one, a malformed line, an unusable id, or one id with two texts.
    """
    path = _require_corpus(directory)
    seen: dict[bytes, tuple[bytes, int]] = {}
    for number, record in _read_records(path, notices):
        doc_id = _parse_id(record, ("docno", "docid", "doc_id"), path, number)
        text = _parse_text(record, ("text", "default_text"), path, number, notices)
        document = Document(doc_id, *_compose(text, raw_text, path, number, notices))
        digest = _hash_text(document.text)
        first, line = seen.setdefault(_hash_text(document.doc_id), (digest, number))
        if first != digest:
            what = f"the document {document.doc_id!r} has a different text in line {line}"
            raise UserError(what, "keep one of them", path, number)
        if line != number:
            notices.add("duplicate corpus document, skipped", f"{path}:{number}")
            continue
        if not document.text.strip():
            notices.add("empty corpus document", f"{path}:{number}")
        yield document
    if not seen:
        raise UserError("the corpus is empty", "add documents", path)


def read_queries(directory: Path, notices: Notices, raw_text: bool = False) -> list[Query]:
    """Return all queries, in the order of the file; in the Unicode form NFC unless ``raw_text``.

    Raises:
        UserError: no queries file or an empty one, a malformed line, an unusable or repeated id, or an empty text.
    """
    path = find_queries(directory)
    queries: dict[str, Query] = {}
    for number, record in _read_records(path, notices, QUERIES_BYTES):
        query_id = _parse_id(record, ("qid", "query_id"), path, number)
        text = _parse_text(record, ("query",), path, number, notices)
        if query_id.startswith((COMMENT, "\ufeff")):
            what = f"the query id {query_id!r} begins with {query_id[0]!r}, so that evaluators skip or change its lines"
            raise UserError(what, "rename the query", path, number)
        if not text.strip():
            raise UserError(f"the query {query_id!r} is empty", "give it a text or remove it", path, number)
        if query_id in queries:
            raise UserError(f"the query {query_id!r} occurs twice", "keep one of them", path, number)
        queries[query_id] = Query(query_id, *_compose(text, raw_text, path, number, notices))
    if not queries:
        raise UserError("the file has no queries", "add queries", path)
    if len(queries) < MIN_ITEMS:
        notices.add(f"fewer than {MIN_ITEMS} queries: TIRA's check will refuse this output", str(path))
    return list(queries.values())


def _read_records(path: Path, notices: Notices, total: int = STREAM_BYTES) -> Iterator[tuple[int, dict[str, Any]]]:
    for number, line in stream_lines(path, total):
        line = line.removeprefix("\ufeff") if number == 1 else line
        if line.strip():
            yield number, parse_json_object(line, path, number)
        else:
            notices.add(f"blank line in {path.name}, skipped", f"{path}:{number}")


def _parse_id(record: Mapping[str, Any], names: tuple[str, ...], path: Path, number: int) -> str:
    """Return the id under any of ``names``; whole numbers count as their digits, as in the official check."""
    values = [record[name] for name in names if name in record]
    if not values:
        raise UserError(f"no id: expected one of {', '.join(names)}", "add the field", path, number)
    if any(isinstance(v, bool) or not isinstance(v, str | int) for v in values):
        raise UserError("the id is neither a string nor a whole number", "correct the id", path, number)
    ids = {str(v) for v in values}
    if len(ids) > 1:
        raise UserError(f"the ids in {', '.join(names)} differ", "make them equal", path, number)
    return check_id(ids.pop(), path, number)


def _compose(text: str, raw_text: bool, path: Path, number: int, notices: Notices) -> Composed:
    if not raw_text and has_surplus_marks(text):
        notices.add(SURPLUS_MARKS, f"{path}:{number}")
    return compose(text, raw_text)


def _parse_text(record: Mapping[str, Any], names: tuple[str, ...], path: Path, number: int, notices: Notices) -> str:
    """Return the text under the first of ``names`` that is present."""
    name = next((n for n in names if n in record), None)
    if name is None:
        raise UserError(f"no text: expected {' or '.join(names)}", "add the field", path, number)
    text = record[name]
    if not isinstance(text, str):
        raise UserError(f"the field {name} is not a string", "correct the field", path, number)
    try:
        text.encode("utf-8")
    except UnicodeEncodeError:
        # JSON can spell half of a surrogate pair, which no tokenizer and no file can hold
        notices.add("unpaired surrogate in a text, read as U+FFFD", f"{path}:{number}")
        return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
    return text


def _hash_text(text: str) -> bytes:
    return hashlib.blake2b(text.encode("utf-8"), digest_size=16).digest()


def _hash_words(text: str) -> bytes:
    return _hash_text(" ".join(text.split()))


def read_qrels(path: Path) -> dict[str, dict[str, int]]:
    """Return relevance grades by query and document, from lines ``qid 0 doc_id grade``.

    Raises:
        UserError: not readable, empty, not four columns, a grade that is not an integer, or a document judged twice.
    """
    qrels: dict[str, dict[str, int]] = {}
    for number, columns in stream_columns(path, lambda columns: len(columns) == 4 and _is_grade(columns[3])):
        if len(columns) != 4:
            raise UserError(f"expected 4 columns, found {len(columns)}", "write 'qid 0 doc_id grade'", path, number)
        query_id, _, doc_id, grade = columns
        if not _is_grade(grade):
            raise UserError(f"the grade {grade!r} is not a whole number", "correct the grade", path, number)
        grades = qrels.setdefault(query_id, {})
        if doc_id in grades:
            raise UserError(f"{doc_id!r} is judged twice for query {query_id!r}", "keep one line", path, number)
        grades[doc_id] = int(grade)
    if not qrels:
        raise UserError("contains no judgements", "add lines 'qid 0 doc_id grade'", path)
    return qrels


def find_grade_above(path: Path, largest: int) -> tuple[int, int] | None:
    """Return the line and the grade of the first judgement above a grade, None without one; see `read_qrels`."""
    for number, columns in stream_columns(path, lambda columns: len(columns) == 4 and _is_grade(columns[3])):
        if int(columns[3]) > largest:
            return number, int(columns[3])
    return None


def _is_grade(text: str) -> bool:
    return text.isascii() and text.removeprefix("-").isdecimal() and len(text) <= 9
