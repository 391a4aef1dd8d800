"""Simple methods that SCDG is held against: pairs of texts in, scores out (paper, Pairwise Baselines)."""
