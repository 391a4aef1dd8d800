"""Pair detection: decide pairs, find their passages, and make the page about them."""
