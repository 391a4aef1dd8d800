"""Source retrieval: rank sources, find the evidence, and make the page about it."""
