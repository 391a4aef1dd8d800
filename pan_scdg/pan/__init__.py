"""Read and write the official formats, with limits for hostile input."""
