"""A result folder: the names of its files, their records, one reader and one writer, and atomic publication."""
