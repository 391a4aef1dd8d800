from typing import Any

import numpy as np
import pytest

from pan_scdg.profile import DenseSettings, PairSettings, RetrievalSettings
from pan_scdg.scdg.aggregation import Aggregate, aggregate_of
from pan_scdg.scdg.gains import statistics, top_q_mean, window_mean, window_median

GAINS = np.array([0.5, -4.0, 3.0, 0.0, 1.0, -0.5, 2.0, -1.0, 0.25, 0.75])


@pytest.mark.parametrize(
    ("aggregate", "name", "expected"),
    [
        (Aggregate("top", 10), "top-10%", top_q_mean(GAINS, 10)),
        (Aggregate("top", 100.0), "average", top_q_mean(GAINS, 100)),
        (Aggregate("top", 2.5), "top-2.5%", top_q_mean(GAINS, 2.5)),
        (Aggregate("window", 3), "window-3", window_mean(GAINS, 3)),
        (Aggregate("window", 3.0), "window-3", window_mean(GAINS, 3)),
        (Aggregate("window-median", 4), "window-median-4", window_median(GAINS, 4)),
        (Aggregate("window", 1234567), "window-1234567", window_mean(GAINS, 10)),
    ],
)
def test_name_and_score(aggregate: Aggregate, name: str, expected: float) -> None:
    known = statistics(GAINS, (2.5, 10, 100), (3, 1234567), (4,))
    assert aggregate.name == name
    assert aggregate.of(known) == expected


@pytest.mark.parametrize("kind", ["top", "window", "window-median"])
def test_what_was_not_computed_is_an_error(kind: Any) -> None:
    with pytest.raises(KeyError):
        Aggregate(kind, 5).of(statistics(GAINS, (2,), (3,), (4,)))


@pytest.mark.parametrize("aggregate", [Aggregate("top", 5.0), Aggregate("window", 5), Aggregate("window-median", 5)])
def test_it_says_what_statistics_must_know(aggregate: Aggregate) -> None:
    known = statistics(GAINS, (5,) if aggregate.kind == "top" else (), aggregate.windows, aggregate.medians)
    assert (known.top.keys(), known.window.keys(), known.window_median.keys()).count({5}) == 1
    assert isinstance(aggregate.of(known), float)


def test_aggregation_of_a_profile() -> None:
    assert aggregate_of(PairSettings(limit=512)) is None
    assert aggregate_of(PairSettings(limit=512, q=5.0)) == Aggregate("top", 5.0)
    assert aggregate_of(PairSettings(limit=512, aggregation="window")) is None
    assert aggregate_of(PairSettings(limit=512, aggregation="window", w=96)) == Aggregate("window", 96)
    dense = DenseSettings(model="e")
    assert aggregate_of(RetrievalSettings(dense=dense)) == Aggregate("top", 2.0)
    median = RetrievalSettings(dense=dense, aggregation="window-median", w=64)
    assert aggregate_of(median) == Aggregate("window-median", 64)
