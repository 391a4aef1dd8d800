"""Dense search: the vectors of a corpus, and the exact best of them for each query."""
