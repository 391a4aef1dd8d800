"""How gains answer to retained evidence: curves with intervals, and slopes resampled by pair (paper, Pair-Level
Bootstrap Confidence Intervals; Cluster-Bootstrap Slope Results). All in nats per token; slopes per unit of retention.

Where the paper leaves it open: one set of 1,000 draws of pairs from ``default_rng(42)`` serves every level, content
and slope, and the linear slope model is least squares with an intercept for each content. Every pair has the same
levels, so that its fit to a resample gives the mean over the drawn pairs of the slopes of each.
"""

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from pan_scdg.evaluation.report import Estimate
from pan_scdg.evaluation.resampling import resample_counts
from pan_scdg.research.retention.contexts import LEVELS
from pan_scdg.research.retention.means import CONTENT, MeanTable

SEED = 42
RESAMPLES = 1000

Floats = npt.NDArray[np.float64]


@dataclass(frozen=True)
class Point:
    """A point of the figure: mean of the bootstrap means and their 2.5th and 97.5th percentiles."""

    content: str
    retention: float
    pairs: int
    gain: Estimate


class Slopes(NamedTuple):
    """Bootstrap means and percentile intervals of the slopes."""

    plagiarism: Estimate
    new: Estimate
    difference: Estimate
    """Of plagiarism-labelled and new content."""
    plagiarism_positive: float
    """Share of resamples in which the slope of plagiarism-labelled content is above 0."""


def bootstrap_weights(pairs: int, resamples: int = RESAMPLES, seed: int = SEED) -> Floats:
    """What part of each resample each pair is, ``[resamples, pairs]``; as many pairs are drawn as there are.

    Raises:
        ValueError: there is no pair.
    """
    return np.concatenate(list(resample_counts(pairs, resamples, seed))) / pairs


def curves(table: MeanTable) -> tuple[Point, ...]:
    """A point for each content and retention, in the order of the table."""
    means = np.einsum("bp,pcl->bcl", bootstrap_weights(len(table.pair_ids)), table.gains)
    return tuple(
        Point(content, level, len(table.pair_ids), _estimate(means[:, c, number]))
        for c, content in enumerate(CONTENT.values())
        for number, level in enumerate(LEVELS)
    )


def bootstrap_slopes(table: MeanTable) -> Slopes:
    """Slopes of the resampled pairs."""
    centred = np.array(LEVELS) - np.mean(LEVELS)
    of_pairs = table.gains @ centred / (centred @ centred)
    plagiarism, new = (bootstrap_weights(len(table.pair_ids)) @ of_pairs).T
    difference = _estimate(plagiarism - new)
    return Slopes(_estimate(plagiarism), _estimate(new), difference, float(np.mean(plagiarism > 0)))


def _estimate(values: Floats) -> Estimate:
    low, high = np.percentile(values, [2.5, 97.5])
    return Estimate(float(values.mean()), float(low), float(high))
