"""The simulated cluster takes the time that can be worked out by hand."""

import pytest
from benchmarks.simulate_cluster import Costs, Machine, simulate

FREE = Costs(0.0, 0.0)


def test_equal_works_are_divided_evenly() -> None:
    outcome = simulate([10.0] * 6, [Machine("one", 2)], FREE)
    assert (outcome.seconds, outcome.idle, outcome.retried) == (pytest.approx(30.0), pytest.approx(0.0), 0)


def test_a_longer_loading_and_a_slower_machine_take_their_time() -> None:
    assert simulate([10.0] * 3, [Machine("one", 1)], Costs(5.0, 1.0)).seconds == pytest.approx(5 + 3 * 11)
    assert simulate([10.0] * 3, [Machine("one", 1, slowness=2.0)], FREE).seconds == pytest.approx(60.0)


def test_what_a_lost_machine_had_is_computed_by_the_other() -> None:
    machines = [Machine("stays", 1), Machine("leaves", 1, lost=15.0)]
    outcome = simulate([10.0] * 6, machines, FREE)
    assert outcome.retried == 2  # one that it was computing, and the next
    assert 50.0 <= outcome.seconds <= 55.0  # five works on one machine, and the time until the loss is noticed
