"""The paired randomisation test: could two methods that are alike differ so much on the same queries?"""

import numpy as np
import numpy.typing as npt

from pan_scdg.evaluation.resampling import Floats

RESAMPLES = 9999
BATCH = 500
"""Resamples that exist at one time."""


def randomisation_test(differences: npt.ArrayLike, seed: int = 42, resamples: int = RESAMPLES) -> float:
    """Two-sided p-value of the mean of paired differences, by swapping the two methods at random in each pair.

    All swaps are tried where there are no more of them than ``resamples``, random ones otherwise; what was observed
    counts among these, so that no p-value is 0. It is twice the smaller of both tails, at most 1.

    Args:
        differences: value of one method minus value of the other on the same query, ``[queries]``, two or more.
        seed: of the random swaps.
        resamples: number of random swaps.

    Raises:
        ValueError: fewer than two differences, or one that is not finite.
    """
    from scipy.stats import permutation_test

    values = np.asarray(differences, dtype=np.float64)
    if values.ndim != 1 or len(values) < 2 or not np.isfinite(values).all():
        raise ValueError(f"needs two finite differences or more, not shape {values.shape}")

    def mean(sample: Floats, axis: int) -> Floats:
        return np.asarray(sample.mean(axis=axis))

    found = permutation_test(
        (values,),
        mean,
        permutation_type="samples",
        vectorized=True,
        n_resamples=resamples,
        batch=BATCH,
        rng=np.random.default_rng(seed),
    )
    return float(found.pvalue)
