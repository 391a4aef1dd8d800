"""The plan of packed rows: what it covers, what it shares, and that the budget is kept."""

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from pan_scdg.lm.packing import PackedCall, Shared, count_own_tokens, plan_rows
from pan_scdg.scdg.sequences import ScoringInput

contexts = st.lists(st.integers(0, 2), min_size=1, max_size=4)
inputs = st.lists(st.tuples(contexts, st.integers(1, 9)), max_size=12)


def made(spec: list[tuple[list[int], int]]) -> list[ScoringInput]:
    return [ScoringInput(np.array(context, np.int64), np.arange(n, dtype=np.int64)) for context, n in spec]


def tokens(row: PackedCall, items: list[ScoringInput]) -> int:
    prefixes = 0 if row.kept else sum(part.prefix for part in row.parts)
    return prefixes + sum(count_own_tokens(items[m], part.prefix) for part in row.parts for m in part.members)


def test_by_hand() -> None:
    # Two inputs share [7, 7] of their context [7, 7, 1], one has a context of its own, two have but one token.
    items = made([([7, 7, 1], 2), ([5], 4), ([7, 7, 1], 3), ([5], 1), ([6, 6], 2)])
    assert plan_rows(items, 100) == [
        [PackedCall((Shared((0, 2), 2), Shared((1,), 0), Shared((4,), 0), Shared((3,), 0)))],
    ]
    # 7 = 2 of the prefix, 2 and 3 of the two inputs ([1, t] and [1, t, t]): the shared part fills a row.
    assert [[row.members for row in chain] for chain in plan_rows(items, 7)] == [[(0, 2)], [(1, 4)], [(3,)]]
    # With 4 tokens the prefix is kept for a second row.
    chain = plan_rows(items, 4)[0]
    assert chain == [PackedCall((Shared((0,), 2),), keep=True), PackedCall((Shared((2,), 2),), kept=True)]


@settings(max_examples=200, deadline=None)
@given(inputs, st.integers(1, 40))
def test_every_input_is_scored_once_within_the_budget(spec: list[tuple[list[int], int]], budget: int) -> None:
    items = made(spec)
    chains = plan_rows(items, budget)
    assert sorted(m for chain in chains for row in chain for m in row.members) == list(range(len(items)))
    for chain in chains:
        for number, row in enumerate(chain):
            assert tokens(row, items) <= budget or len(row.members) == 1
            assert row.kept == (number > 0)
            assert row.keep == (number == 0 and len(chain) > 1)
            for part in row.parts:
                prefixes = {tuple(items[m].context_ids[: part.prefix]) for m in part.members}
                assert len(prefixes) == 1
    assert chains == plan_rows(items, budget)


@settings(max_examples=50, deadline=None)
@given(st.integers(2, 6), st.integers(2, 30), st.integers(1, 50))
def test_a_common_context_is_computed_once(count: int, length: int, budget: int) -> None:
    items = made([(list(range(length)), 5)] * count)
    rows = [row for chain in plan_rows(items, budget) for row in chain]
    assert sum(tokens(row, items) for row in rows) == length - 1 + 5 * count
