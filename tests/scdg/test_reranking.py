"""Reranking: a permutation, ties by document id."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pan_scdg.scdg.reranking import rerank, scale_min_max


def test_min_max_by_hand() -> None:
    assert scale_min_max([3.0, -1.0, 1.0]).tolist() == [1.0, 0.0, 0.5]


def test_constant_list_becomes_zeros() -> None:
    assert scale_min_max([7.5, 7.5]).tolist() == [0.0, 0.0]
    assert scale_min_max([2.0]).tolist() == [0.0]
    assert scale_min_max([]).tolist() == []


@pytest.mark.parametrize("values", [[1.0, math.nan], [math.inf, 0.0], [-1e308, 1e308]])
def test_what_cannot_be_scaled_is_an_error(values: list[float]) -> None:
    with pytest.raises(ValueError, match="not finite"):
        scale_min_max(values)


def test_rerank_by_hand() -> None:
    """coarse -> 1, 0.5, 0; gain -> 0, 1, 0.5: 0.25, 0.875, 0.375."""
    found = rerank(["a", "b", "c"], [30, 20, 10], [1.0, 3.0, 2.0], 0.75)
    assert found == [("b", 0.875), ("c", 0.375), ("a", 0.25)]


def test_equal_gains_leave_the_coarse_order() -> None:
    assert [d for d, _ in rerank(["a", "b", "c"], [1, 3, 2], [5, 5, 5], 0.75)] == ["b", "c", "a"]


def test_ties_are_broken_by_document_id() -> None:
    assert rerank(["d9", "d10", "c"], [1, 1, 1], [2, 2, 2], 0.75) == [("c", 0.0), ("d10", 0.0), ("d9", 0.0)]


def test_scores_that_differ_by_rounding_are_equal() -> None:
    assert rerank(["b", "a", "z"], [1, 1 - 1e-9, 0], [0, 0, 0], 0.5) == [("a", 0.5), ("b", 0.5), ("z", 0.0)]


@pytest.mark.parametrize(
    ("doc_ids", "coarse", "gain", "weight"),
    [(["a"], [1, 2], [1], 0.5), (["a", "a"], [1, 2], [1, 2], 0.5), (["a"], [1], [1], 1.5), (["a"], [1], [1], math.nan)],
)
def test_wrong_arguments_are_an_error(
    doc_ids: list[str], coarse: list[float], gain: list[float], weight: float
) -> None:
    with pytest.raises(ValueError, match=r"needs one|weight"):
        rerank(doc_ids, coarse, gain, weight)


@settings(max_examples=50, deadline=None)
@given(
    rows=st.lists(st.tuples(st.text(max_size=4), st.floats(-9, 9), st.integers(-3, 3)), unique_by=lambda r: r[0]),
    weight=st.floats(0, 1),
    data=st.data(),
)
def test_a_permutation_that_does_not_depend_on_the_order_of_input(
    rows: list[tuple[str, float, int]], weight: float, data: st.DataObject
) -> None:
    def ranked(some: list[tuple[str, float, int]]) -> list[tuple[str, float]]:
        return rerank([r[0] for r in some], [r[1] for r in some], np.array([r[2] for r in some]), weight)

    found = ranked(rows)
    assert sorted(d for d, _ in found) == sorted(r[0] for r in rows)
    assert [s for _, s in found] == sorted((s for _, s in found), reverse=True)
    assert ranked(data.draw(st.permutations(rows))) == found
