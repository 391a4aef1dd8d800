"""BM25-Full and BM25-Sentence1 on SQLite FTS5 (paper, First-Stage PAN26 Retrieval: the original sparse routes)."""

import os
import shutil
import sqlite3
from collections.abc import Iterable, Iterator, Sequence
from contextlib import closing, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from pan_scdg.errors import UserError
from pan_scdg.profile import Bm25Settings
from pan_scdg.retrieval.bm25.lexical import LexicalIndex
from pan_scdg.retrieval.bm25.terrier_terms import pick_rarest
from pan_scdg.retrieval.index_folder import REDO, check_seal, stage_folder, write_seal
from pan_scdg.retrieval.ranking import Ranked, Ranking

if TYPE_CHECKING:
    from pan_scdg.records import Document

DATABASE = "index.sqlite"
VERSION = "unicode61"
_DOCUMENTS = "CREATE TABLE documents (rowid INTEGER PRIMARY KEY, doc_id TEXT NOT NULL UNIQUE)"
_TERMS = "CREATE VIRTUAL TABLE terms USING fts5vocab(texts, row)"
_TABLE = "CREATE VIRTUAL TABLE {} USING fts5(text, content='', tokenize='unicode61 remove_diacritics 2')"
_SCHEMA = "SELECT type, name, tbl_name, sql FROM sqlite_master ORDER BY name"
_SCORES = "SELECT rowid, -bm25(texts) FROM texts WHERE texts MATCH ?"
# CROSS JOIN keeps the full-text table in the outer loop. SQLite orders text by its UTF-8 bytes, which is the order of
# Python's strings, so ties at the cut agree with every other ranking of this package.
_SEARCH = """
    SELECT doc_id, -bm25(texts) AS score FROM texts CROSS JOIN documents ON documents.rowid = texts.rowid
    WHERE texts MATCH ? {} ORDER BY score DESC, doc_id LIMIT ?
"""
MOST_OF_A_COMMON_TERM = 3e-6
"""More than a term in half of all documents or more can add to a score: FTS5 gives it an idf of 1e-6, times k1 + 1."""


def build_index(documents: Iterable["Document"], folder: Path, grown_from: Path | None = None) -> None:
    """Write the index of a stream of documents; ``folder`` exists only once the index is complete.

    The texts themselves are not stored, and only one at a time is in memory. The documents come after those of the
    index in ``grown_from``, which is copied.

    Raises:
        UserError: this Python's SQLite has no FTS5, or the index cannot be written.
    """
    need_fts5()
    count = 0
    with stage_folder(folder) as part:
        if grown_from is not None:
            with Bm25Index(grown_from, Bm25Settings()) as known:  # finds damage
                count = known.count
            shutil.copyfile(grown_from / DATABASE, part / DATABASE)
        with closing(sqlite3.connect(part / DATABASE, isolation_level=None)) as connection:
            count = _fill(connection, documents, count)
        with (part / DATABASE).open("rb+") as file:
            os.fsync(file.fileno())
        write_seal(part, "fts5", VERSION, count)


def _fill(connection: sqlite3.Connection, documents: Iterable["Document"], count: int) -> int:
    """Write all documents after the ``count`` that the index has, and return the number of all."""
    # A file that is thrown away when anything fails needs no journal.
    connection.execute("PRAGMA journal_mode = OFF")
    connection.execute("PRAGMA synchronous = OFF")
    connection.execute("BEGIN")
    if not count:
        _create(connection)
    for document in documents:
        connection.execute("INSERT INTO documents VALUES (?, ?)", (count, document.doc_id))
        connection.execute("INSERT INTO texts (rowid, text) VALUES (?, ?)", (count, document.text))
        count += 1
    connection.execute("COMMIT")
    return count


def _create(connection: sqlite3.Connection) -> None:
    for statement in (_TABLE.format("texts"), _TERMS, _DOCUMENTS):
        connection.execute(statement)


def need_fts5() -> None:
    """Check that this Python's SQLite can do full-text search.

    Raises:
        UserError: it cannot.
    """
    with closing(sqlite3.connect(":memory:")) as connection:
        try:
            connection.execute(_TABLE.format("probe"))
        except sqlite3.OperationalError as e:
            raise UserError(
                f"the SQLite {sqlite3.sqlite_version} of this Python cannot do full-text search (FTS5): {e}",
                "use a Python whose sqlite3 module has FTS5, for example a python.org or a distribution's build",
            ) from e


class Bm25Index(LexicalIndex):
    """An index written by ``build_index``."""

    def __init__(self, folder: Path, settings: Bm25Settings) -> None:
        """Open the index, reading it through once to find damage.

        Raises:
            UserError: the folder is missing, damaged or not such an index, or SQLite has no FTS5.
        """
        need_fts5()
        super().__init__(settings)
        self._path = folder / DATABASE
        self._frequencies: dict[str, int] = {}
        self.count = check_seal(folder, "fts5", VERSION).documents
        with self._explain_errors():
            # Immutable: no journal that lies beside the file is played back, and none is looked for.
            self._index = sqlite3.connect(f"{self._path.resolve().as_uri()}?mode=ro&immutable=1", uri=True)
            self._index.execute("PRAGMA trusted_schema = OFF")
            self._check_schema()
        self._words = _Words()

    def rank(self, units: Sequence[str], terms: int) -> list[Ranking]:
        """Return the ranking for each unit by FTS5's BM25."""
        found = []
        for words in self._words.list_terms(units):
            rarest = pick_rarest({word: self._count_documents(word) for word in words}, terms)
            found.append(self._search_terms(rarest))
        return found

    def close(self) -> None:
        """Close the file."""
        self._index.close()
        self._words.close()

    def _count_documents(self, term: str) -> int:
        """Return the number of documents with the term, 0 if it is not indexed."""
        if term not in self._frequencies:
            with self._explain_errors():
                row = self._index.execute("SELECT doc FROM terms WHERE term = ?", (term,)).fetchone()
            self._frequencies[term] = 0 if row is None else row[0]
        return self._frequencies[term]

    def _search_terms(self, terms: list[str]) -> Ranking:
        """Rank the documents with any of the terms by FTS5's BM25 (k1 1.2, b 0.75), equal ones by document id."""
        if not terms:
            return []
        rare = [term for term in terms if 2 * self._count_documents(term) < self.count]
        chosen = self._restrict_rows(rare, len(terms) - len(rare)) if 0 < len(rare) < len(terms) else ""
        with self._explain_errors():
            rows = self._index.execute(_SEARCH.format(chosen), (_match_any(terms), self._settings.depth))
            return [Ranked(*row) for row in rows]

    def _restrict_rows(self, rare: list[str], common: int) -> str:
        """Return an SQL condition that every document of the result meets, or "".

        To score a document costs as much as its common words occur in it, which is nearly the whole search, while
        they decide only between almost equal documents. Whatever is in the result has, by its rare terms alone, at
        least the score of the document at the cut less what all common terms together could add to others.
        """
        with self._explain_errors():
            rows = self._index.execute(_SCORES, (_match_any(rare),)).fetchall()
        if len(rows) <= self._settings.depth:
            return ""
        cut = sorted((score for _, score in rows), reverse=True)[self._settings.depth - 1]
        least = cut - common * MOST_OF_A_COMMON_TERM
        # The plus keeps SQLite from a query of FTS5 for each row; the row numbers are our own integers.
        return f"AND +texts.rowid IN ({','.join(str(row) for row, score in rows if score >= least)})"

    def _check_schema(self) -> None:
        """Raise DatabaseError unless the tables are those of an index and no others: a view could compute anything."""
        with closing(sqlite3.connect(":memory:")) as empty:
            _create(empty)
            wanted = empty.execute(_SCHEMA).fetchall()
        if self._index.execute(_SCHEMA).fetchall() != wanted:
            raise sqlite3.DatabaseError("it has other tables than an index")
        count = self._index.execute("SELECT count(*) FROM documents").fetchone()[0]
        if count != self.count:
            raise sqlite3.DatabaseError(f"it holds {count} documents, not {self.count}")

    @contextmanager
    def _explain_errors(self) -> Iterator[None]:
        """Raise UserError with a remedy for an error of SQLite."""
        try:
            yield
        except sqlite3.DatabaseError as e:
            raise UserError(f"not a readable search index: {e}", REDO, self._path) from e


def _match_any(terms: list[str]) -> str:
    """Return the FTS5 query that matches any of the terms, as strings, so that ``NEAR`` and the like are words."""
    return " OR ".join('"' + term.replace('"', '""') + '"' for term in terms)


class _Words:
    """The index's own tokenizer: texts go through an FTS5 table of the same kind in memory."""

    def __init__(self) -> None:
        self._memory = sqlite3.connect(":memory:", isolation_level=None)
        # FTS5 cuts a word at 32,768 bytes, maybe inside a letter. It then decodes to a term that no index holds.
        self._memory.text_factory = lambda raw: raw.decode("utf-8", "replace")
        self._memory.execute(_TABLE.format("units"))
        self._memory.execute("CREATE VIRTUAL TABLE words USING fts5vocab(units, instance)")

    def list_terms(self, units: Sequence[str]) -> list[set[str]]:
        """Return the distinct terms of each unit."""
        found: list[set[str]] = [set() for _ in units]
        self._memory.execute("BEGIN")
        try:
            self._memory.executemany("INSERT INTO units (rowid, text) VALUES (?, ?)", enumerate(units))
            for term, unit in self._memory.execute("SELECT term, doc FROM words"):
                found[unit].add(term)
        finally:
            self._memory.execute("ROLLBACK")
        return found

    def close(self) -> None:
        self._memory.close()
