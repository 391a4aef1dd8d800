from typing import Any, get_args

import numpy as np
import pytest

from pan_scdg.profile import Aggregation, DenseSettings, PairSettings, RetrievalSettings
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
        (Aggregate("window-bounded", 4), "window-bounded-4", window_mean(GAINS.clip(-2, 2), 4)),
        (Aggregate("window", 1234567), "window-1234567", window_mean(GAINS, 10)),
    ],
)
def test_name_and_score(aggregate: Aggregate, name: str, expected: float) -> None:
    known = statistics(GAINS, (2.5, 10, 100), (3, 1234567), (4,), (4,))
    assert aggregate.name == name
    assert aggregate.of(known) == expected


@pytest.mark.parametrize("kind", get_args(Aggregation))
def test_what_was_not_computed_is_an_error(kind: Any) -> None:
    with pytest.raises(KeyError):
        Aggregate(kind, 5).of(statistics(GAINS, (2,), (3,), (4,)))


@pytest.mark.parametrize("aggregate", [Aggregate(kind, 5.0) for kind in get_args(Aggregation)])
def test_it_says_what_statistics_must_know(aggregate: Aggregate) -> None:
    grid = (5,) if aggregate.kind == "top" else ()
    known = statistics(GAINS, grid, aggregate.windows, aggregate.medians, aggregate.bounded)
    assert [t.keys() for t in (known.top, known.window, known.window_median, known.window_bounded)].count({5}) == 1
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
