"""Components: compared with a union-find written here, and independent of the order of the pairs."""

import random

from hypothesis import given, settings
from hypothesis import strategies as st

from studies.data.splits import name_components

PAIRS = st.lists(st.tuples(st.sampled_from("abcdefgh"), st.sampled_from("abcdefgh")), max_size=14)


def union_find(pairs: list[tuple[str, str]]) -> list[str]:
    """Merge the sets of both vertices of every pair; a set is named by its smallest vertex."""
    parent: dict[str, str] = {}

    def find(vertex: str) -> str:
        while parent.setdefault(vertex, vertex) != vertex:
            vertex = parent[vertex]
        return vertex

    for suspicious, source in pairs:
        a, b = sorted((find(f"susp:{suspicious}"), find(f"src:{source}")))
        parent[b] = a
    return [find(f"src:{source}") for _, source in pairs]


@settings(max_examples=50, deadline=None)
@given(PAIRS)
def test_components_are_those_of_union_find(pairs: list[tuple[str, str]]) -> None:
    assert name_components(pairs) == union_find(pairs)


@settings(max_examples=50, deadline=None)
@given(PAIRS, st.integers(0, 99))
def test_the_order_of_the_pairs_does_not_matter(pairs: list[tuple[str, str]], seed: int) -> None:
    order = list(range(len(pairs)))
    random.Random(seed).shuffle(order)
    found = name_components(pairs)
    assert name_components([pairs[i] for i in order]) == [found[i] for i in order]


def test_one_name_on_both_sides_is_two_documents() -> None:
    assert name_components([("x", "a"), ("b", "x")]) == ["src:a", "src:x"]


def test_a_chain_is_one_component() -> None:
    pairs = [("s1", "b"), ("s2", "b"), ("s2", "a"), ("s9", "z")]
    assert name_components(pairs) == ["src:a", "src:a", "src:a", "src:z"]
