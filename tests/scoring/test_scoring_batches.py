"""What is scored together follows from all that is to be scored."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pan_scdg.scoring.batches import digest_keys, make_batches

things = st.lists(st.tuples(st.integers(0, 1000), st.integers(1, 50)), max_size=20, unique_by=lambda thing: thing[0])


def test_by_hand() -> None:
    found = make_batches(["a", "b", "c", "d"], [3, 9, 4, 3], 7)
    assert [batch.members for batch in found] == [(1,), (2, 0), (3,)]  # the longest first, then 4 + 3, then 3
    assert [batch.digest for batch in found] == [digest_keys(keys) for keys in (["b"], ["c", "a"], ["d"])]
    with pytest.raises(ValueError, match="2 keys but 1 sizes"):
        make_batches(["a", "b"], [1], 7)


@settings(max_examples=100, deadline=None)
@given(things, st.integers(1, 80), st.randoms())
def test_order_does_not_matter_and_the_budget_is_kept(spec, budget, random) -> None:
    keys, sizes = [str(key) for key, _ in spec], [size for _, size in spec]
    found = make_batches(keys, sizes, budget)
    assert sorted(i for batch in found for i in batch.members) == list(range(len(keys)))
    assert all(len(batch.members) == 1 or sum(sizes[i] for i in batch.members) <= budget for batch in found)
    largest = [max(sizes[i] for i in batch.members) for batch in found]
    assert largest == sorted(largest, reverse=True)
    order = list(range(len(keys)))
    random.shuffle(order)
    shuffled = make_batches([keys[i] for i in order], [sizes[i] for i in order], budget)
    assert [batch.digest for batch in shuffled] == [batch.digest for batch in found]
