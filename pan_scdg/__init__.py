"""pan_scdg: which sources was a suspicious document written from?

Source-conditioned description-length gain (SCDG) scores how much better a frozen causal language model predicts a
suspicious document with a candidate source in its context than without.
"""

__version__ = "0.1.0"
