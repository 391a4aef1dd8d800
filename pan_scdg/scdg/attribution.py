"""Which candidate explains which part of a query: shares of the target among sources (not in the paper).

A query written from several sources owes each part of it to one of them. An average over the whole query dilutes the
gain of a source that gave a part, and a single large gain says little. So the candidates compete for every stretch.
"""

import numpy as np

from pan_scdg.scdg.arrays import Floats


def attribution_shares(gains: Floats, w: int) -> Floats:
    r"""The share of the target that each candidate explains best, ``[candidates]``; the shares add up to 1.

    ``share(S) = (1/n) * sum_t [S = argmax_{S'} m_t(S')]`` with ``m_t(S) = sum of g_i(S) over |i - t| <= w/2``, the gain
    of the ``w`` tokens around each one (fewer at the ends of the target, for all candidates alike; an even ``w`` has
    its surplus token in front). Candidates that are equal share a token equally.

    Args:
        gains: ``[candidates, n]`` gains in nats of the same target behind each candidate.
        w: Width in tokens.

    Raises:
        ValueError: there is no candidate or no token, a gain is not finite, or ``w`` is below 1.
    """
    values = np.asarray(gains, dtype=np.float64)
    if values.ndim != 2 or not values.size or w < 1:
        raise ValueError(f"needs gains [candidates, tokens] and a width of 1 or more, not {values.shape} and {w}")
    if not np.isfinite(values).all():
        raise ValueError("a gain is not finite")
    n = values.shape[1]
    # Sums are taken over windows of their own, not as differences of running totals: equal windows give equal sums.
    padded = np.pad(values, ((0, 0), (w // 2, (w - 1) // 2)))
    around = np.zeros_like(values)
    for offset in range(w):
        around += padded[:, offset : offset + n]
    best = around == around.max(axis=0)
    shares: Floats = (best / best.sum(axis=0)).mean(axis=1)
    return shares
