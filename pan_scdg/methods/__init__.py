"""Score pairs of texts by the simple methods that SCDG is compared with (paper, Pairwise Baselines)."""
