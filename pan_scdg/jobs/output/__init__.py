"""The life of a result: the output directory, its mark, its status and its metadata."""
