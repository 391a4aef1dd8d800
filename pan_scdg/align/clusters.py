"""Group seeds into passages: near one another in both texts, similar as a whole, and without loose ends."""

from collections.abc import Sequence
from itertools import accumulate
from typing import NamedTuple

from pan_scdg.align.similarity import Comparison, Seed


class Cluster(NamedTuple):
    """Seeds of one passage, and the ranges of units that they span."""

    seeds: tuple[Seed, ...]
    target: range
    source: range


def group_seeds(seeds: Sequence[Seed], gap: int) -> list[Cluster]:
    """Group seeds so that at most ``gap`` units without a seed lie between two neighbours, in both texts.

    Groups are split in one text and in the other in turn until both agree.
    """
    waiting = [(tuple(seeds), 0, False)] if seeds else []
    groups: list[Cluster] = []
    while waiting:
        group, side, whole = waiting.pop()
        parts = _split_at_gaps(group, side, gap)
        if len(parts) > 1:
            waiting += [(part, 1 - side, False) for part in parts]
        elif whole:
            groups.append(make_cluster(group))
        else:
            waiting.append((group, 1 - side, True))
    return sorted(groups)


def _split_at_gaps(seeds: Sequence[Seed], side: int, gap: int) -> list[tuple[Seed, ...]]:
    ordered = sorted(seeds, key=lambda seed: (seed[side], seed))
    cuts = [i for i in range(1, len(ordered)) if ordered[i][side] - ordered[i - 1][side] > gap + 1]
    return [tuple(ordered[a:b]) for a, b in zip([0, *cuts], [*cuts, len(ordered)])]


def make_cluster(seeds: Sequence[Seed]) -> Cluster:
    """Return the cluster of some seeds."""
    target, source = [seed.target for seed in seeds], [seed.source for seed in seeds]
    return Cluster(tuple(sorted(seeds)), range(min(target), max(target) + 1), range(min(source), max(source) + 1))


def find_clusters(
    comparison: Comparison, seeds: Sequence[Seed], gap: int, least_gap: int, least_cosine: float
) -> list[Cluster]:
    """Return the clusters whose two sides are similar as a whole.

    A cluster that is not is grouped again with a smaller gap, down to ``least_gap``; what is left then is dropped.
    """
    found = []
    for cluster in group_seeds(seeds, gap):
        if comparison.compare_ranges(cluster.target, cluster.source) >= least_cosine:
            found.append(cluster)
        elif gap > least_gap:
            found += find_clusters(comparison, cluster.seeds, gap - (4 if gap > 6 else 1), least_gap, least_cosine)
    return found


def trim_cluster(cluster: Cluster, worth: float, penalty: float) -> Cluster:
    """Drop seeds at the ends that do not make up for the units without seeds between them and the rest.

    A unit counts the cosine of its best seed less ``worth``, one without a seed minus ``penalty``; kept is the stretch
    of the largest sum, in the target, the source, and the target again.
    """
    for side in (0, 1, 0):
        units = (cluster.target, cluster.source)[side]
        values = [-penalty] * len(units)
        for seed in cluster.seeds:
            place = (seed.target, seed.source)[side] - units.start
            values[place] = max(values[place], seed.cosine - worth)
        first, last = _find_best_stretch(values)
        kept = [seed for seed in cluster.seeds if first <= seed[side] - units.start < last]
        cluster = make_cluster(kept)
    return cluster


def _find_best_stretch(values: Sequence[float]) -> tuple[int, int]:
    """Return the bounds of the stretch with the largest sum, the first and shortest of equal ones."""
    sums = [0.0, *accumulate(values)]
    low, best, bounds = 0, float("-inf"), (0, 1)
    for end in range(1, len(sums)):
        if sums[end] - sums[low] > best:
            best, bounds = sums[end] - sums[low], (low, end)
        if sums[end] < sums[low]:
            low = end
    return bounds


def drop_overlaps(clusters: Sequence[Cluster]) -> list[Cluster]:
    """Return the clusters without those that overlap a better one in the target.

    Of two that overlap, the one with the larger cosine in the part that both have is kept.
    """
    kept: list[Cluster] = []
    for cluster in sorted(clusters, key=lambda c: (c.target.start, c.target.stop, c.source.start)):
        while kept and kept[-1].target.stop > cluster.target.start:
            common = range(cluster.target.start, min(kept[-1].target.stop, cluster.target.stop))
            if _find_best_cosine(kept[-1], common) >= _find_best_cosine(cluster, common):
                break
            kept.pop()
        else:
            kept.append(cluster)
    return kept


def _find_best_cosine(cluster: Cluster, units: range) -> float:
    return max((seed.cosine for seed in cluster.seeds if seed.target in units), default=0.0)
