"""Passages of a target that correspond to passages of a source: found by words, verbatim runs and embeddings."""
