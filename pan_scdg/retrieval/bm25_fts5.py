"""BM25-Full and BM25-Sentence1 on SQLite FTS5 (paper, First-Stage PAN26 Retrieval: the original sparse routes)."""

import sqlite3
from collections.abc import Iterable, Iterator, Sequence
from contextlib import closing, contextmanager
from pathlib import Path

from pan_scdg.errors import UserError
from pan_scdg.records import Document, Ranked, Ranking
from pan_scdg.retrieval.bm25 import LexicalIndex, pick_rarest

DATABASE = "index.sqlite"
_DOCUMENTS = "CREATE TABLE documents (rowid INTEGER PRIMARY KEY, doc_id TEXT NOT NULL UNIQUE)"
_TERMS = "CREATE VIRTUAL TABLE terms USING fts5vocab(texts, row)"
_TABLE = "CREATE VIRTUAL TABLE {} USING fts5(text, content='', tokenize='unicode61 remove_diacritics 2')"
_SCORES = "SELECT rowid, -bm25(texts) FROM texts WHERE texts MATCH ?"
# CROSS JOIN keeps the full-text table in the outer loop. SQLite orders text by its UTF-8 bytes, which is the order of
# Python's strings, so ties at the cut agree with every other ranking of this package.
_SEARCH = """
    SELECT doc_id, -bm25(texts) AS score FROM texts CROSS JOIN documents ON documents.rowid = texts.rowid
    WHERE texts MATCH ? {} ORDER BY score DESC, doc_id LIMIT ?
"""
MAX_COMMON_SCORE = 3e-6
"""More than a term in half of all documents or more can add to a score: FTS5 gives it an idf of 1e-6, times k1 + 1."""


def build_index(documents: Iterable[Document], folder: Path) -> None:
    """Write the index of a stream of documents into an empty folder; the texts themselves are not stored.

    Raises:
        UserError: this Python's SQLite has no FTS5.
    """
    with closing(sqlite3.connect(folder / DATABASE, isolation_level=None)) as connection:
        # A file that is thrown away when anything fails needs no journal.
        connection.execute("PRAGMA journal_mode = OFF")
        connection.execute("PRAGMA synchronous = OFF")
        connection.execute("BEGIN")
        _create_table(connection, "texts")
        connection.execute(_TERMS)
        connection.execute(_DOCUMENTS)
        for number, document in enumerate(documents):
            connection.execute("INSERT INTO documents VALUES (?, ?)", (number, document.doc_id))
            connection.execute("INSERT INTO texts (rowid, text) VALUES (?, ?)", (number, document.text))
        connection.execute("COMMIT")


def _create_table(connection: sqlite3.Connection, name: str) -> None:
    try:
        connection.execute(_TABLE.format(name))
    except sqlite3.OperationalError as e:
        if "no such module" not in str(e):
            raise
        raise UserError(
            f"the SQLite {sqlite3.sqlite_version} of this Python cannot do full-text search (FTS5): {e}",
            "use a Python whose sqlite3 module has FTS5, for example a python.org or a distribution's build",
        ) from e


class Fts5Index(LexicalIndex):
    """An index written by `build_index`.

    Raises:
        UserError: the file cannot be read, or this Python's SQLite has no FTS5.
    """

    def __init__(self, folder: Path) -> None:
        self._path = folder / DATABASE
        self._frequencies: dict[str, int] = {}
        self._words = _Words()
        with self._explain_errors():
            self._index = sqlite3.connect(f"{self._path.resolve().as_uri()}?mode=ro&immutable=1", uri=True)
            self._count = self._index.execute("SELECT count(*) FROM documents").fetchone()[0]

    def rank(self, units: Sequence[str], terms: int, depth: int) -> list[Ranking]:
        """Return the ranking for each unit by FTS5's BM25."""
        rankings = []
        with self._explain_errors():
            for words in self._words.list_terms(units):
                rarest = pick_rarest({word: self._count_documents(word) for word in words}, terms)
                rankings.append(self._search_terms(rarest, depth))
        return rankings

    def close(self) -> None:
        """Close the file."""
        self._index.close()
        self._words.close()

    def _count_documents(self, term: str) -> int:
        """Return the number of documents with the term, 0 if it is not indexed."""
        if term not in self._frequencies:
            row = self._index.execute("SELECT doc FROM terms WHERE term = ?", (term,)).fetchone()
            self._frequencies[term] = 0 if row is None else row[0]
        return self._frequencies[term]

    def _search_terms(self, terms: list[str], depth: int) -> Ranking:
        """Rank the documents with any of the terms by FTS5's BM25 (k1 1.2, b 0.75), equal ones by document id."""
        if not terms:
            return []
        rare = [term for term in terms if 2 * self._count_documents(term) < self._count]
        condition = self._restrict_rows(rare, len(terms) - len(rare), depth) if 0 < len(rare) < len(terms) else ""
        return [Ranked(*row) for row in self._index.execute(_SEARCH.format(condition), (_match_any(terms), depth))]

    def _restrict_rows(self, rare: list[str], common: int, depth: int) -> str:
        """Return an SQL condition that every document of the result meets, or "".

        To score a document costs as much as its common words occur in it, which is nearly the whole search, while
        they decide only between almost equal documents. Whatever is in the result has, by its rare terms alone, at
        least the score of the document at the cut less what all common terms together could add to others.
        """
        rows = self._index.execute(_SCORES, (_match_any(rare),)).fetchall()
        if len(rows) <= depth:
            return ""
        cut = sorted((score for _, score in rows), reverse=True)[depth - 1]
        least = cut - common * MAX_COMMON_SCORE
        # The plus keeps SQLite from a query of FTS5 for each row; the row numbers are our own integers.
        return f"AND +texts.rowid IN ({','.join(str(row) for row, score in rows if score >= least)})"

    @contextmanager
    def _explain_errors(self) -> Iterator[None]:
        """Raise UserError with a remedy for an error of SQLite."""
        try:
            yield
        except sqlite3.DatabaseError as e:
            raise UserError(f"not a readable search index: {e}", "delete it and run again", self._path) from e


def _match_any(terms: list[str]) -> str:
    """Return the FTS5 query that matches any of the terms, as strings, so that ``NEAR`` and the like are words."""
    return " OR ".join('"' + term.replace('"', '""') + '"' for term in terms)


class _Words:
    """The index's own tokenizer: texts go through an FTS5 table of the same kind in memory."""

    def __init__(self) -> None:
        self._memory = sqlite3.connect(":memory:", isolation_level=None)
        # FTS5 cuts a word at 32,768 bytes, maybe inside a letter. It then decodes to a term that no index has.
        self._memory.text_factory = lambda raw: raw.decode("utf-8", "replace")
        _create_table(self._memory, "units")
        self._memory.execute("CREATE VIRTUAL TABLE words USING fts5vocab(units, instance)")

    def list_terms(self, units: Sequence[str]) -> list[set[str]]:
        """Return the distinct terms of each unit."""
        terms: list[set[str]] = [set() for _ in units]
        self._memory.execute("BEGIN")
        self._memory.executemany("INSERT INTO units (rowid, text) VALUES (?, ?)", enumerate(units))
        for term, unit in self._memory.execute("SELECT term, doc FROM words"):
            terms[unit].add(term)
        self._memory.execute("ROLLBACK")
        return terms

    def close(self) -> None:
        self._memory.close()
