"""Attribution of a query's passages to sources: the docstring restated with loops."""

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from pan_scdg.scdg.attribution import attribute_passages

UNITS = [(0, 10), (11, 20), (20, 35), (36, 40)]


def literal_sources(gains: list[list[float]], offsets: list[tuple[int, int]]) -> list[int | None]:
    """The source of each unit."""
    found: list[int | None] = []
    for begin, end in UNITS:
        inside = [i for i, (a, b) in enumerate(offsets) if b > a and begin <= (a + b) / 2 < end]
        means = [sum(row[i] for i in inside) / len(inside) for row in gains] if inside else [0.0]
        found.append(means.index(max(means)) if max(means) > 0 else None)
    return found


@given(st.integers(1, 4), st.integers(0, 12), st.integers(0, 999))
@settings(max_examples=150, deadline=None)
def test_units_belong_to_the_source_with_the_largest_mean(sources: int, tokens: int, seed: int) -> None:
    rng = np.random.default_rng(seed)
    gains = rng.integers(-8, 9, (sources, tokens)) / 4  # exact sums, and some that are equal
    starts = np.sort(rng.integers(0, 40, tokens))
    offsets = np.stack([starts, starts + rng.integers(0, 4, tokens)], axis=1).reshape(-1, 2)
    expected = literal_sources(gains.tolist(), [(a, b) for a, b in offsets.tolist()])
    found = attribute_passages(gains, offsets, UNITS)
    by_unit = [next((p.best for p in found if p.begin <= a and b <= p.end), None) for a, b in UNITS]
    assert by_unit == expected
    assert all(one.end <= other.begin for one, other in zip(found, found[1:]))
    for passage in found:
        middle = offsets.sum(axis=1) / 2
        inside = (offsets[:, 1] > offsets[:, 0]) & (middle >= passage.begin) & (middle < passage.end)
        means = gains[:, inside].mean(axis=1)
        assert passage.gain == means[passage.best]
        if sources == 1:
            assert (passage.second, passage.margin) == (None, None)
        else:
            assert passage.second != passage.best
            assert passage.margin == passage.gain - np.delete(means, passage.best).max()


def test_neighbours_of_one_source_are_one_passage() -> None:
    gains = np.array([[1.0, 1.0, -1.0], [0.0, 0.5, -2.0]])
    offsets = np.array([[0, 4], [12, 15], [22, 30]])
    (only,) = attribute_passages(gains, offsets, UNITS[:3])
    assert only == (0, 20, 0, 1.0, 1, 0.75)
