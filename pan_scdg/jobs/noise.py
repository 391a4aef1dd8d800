"""The noise of scores: how far they differ between processors, estimated from two computations on one machine."""

FACTOR = 10
"""The noise as a multiple of the largest difference between two engines or types. Scores of another processor differ up
to seven times as much as those of another engine (``benchmarks/results/processor-noise.md``)."""
LAST_DIGIT = 1e-6
"""Of the scores in the files; the noise is at least this."""


def estimate_noise(largest_difference: float) -> float:
    """Return the noise, with two digits, for the largest difference of scores that was measured."""
    return max(float(f"{FACTOR * largest_difference:.1e}"), LAST_DIGIT)
