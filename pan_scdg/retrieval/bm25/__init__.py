"""BM25: Terrier's ranking by an index of our own, by Terrier itself, and SQLite's."""
