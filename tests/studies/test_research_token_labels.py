"""Labels of tokens against the paper's rules restated one by one."""

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from studies.retention.instances import Span
from studies.retention.scoring import NEITHER, NEW, REUSED, label_tokens

LENGTH = 40
SPANS = st.tuples(st.integers(0, LENGTH + 5), st.integers(0, LENGTH + 5)).map(lambda ends: (min(ends), max(ends)))
TOKENS = st.lists(st.tuples(st.integers(0, LENGTH), st.integers(0, LENGTH)).map(sorted), max_size=12)


def literal_label(start: int, end: int, selected: Span, reused: list[Span]) -> int:
    characters = set(range(start, end))
    target = characters & set(range(*selected))
    others = {c for c in characters - target if any(c in range(*span) for span in reused)}
    neither = characters - target - others
    half = 0.5 * len(characters)
    if not characters:
        return -1
    if len(target) >= half:
        return 1
    if len(others) >= half:
        return 1
    if len(neither) >= half:
        return 0
    return -1


@settings(max_examples=200, deadline=None)
@given(TOKENS, SPANS, st.lists(SPANS, max_size=4))
def test_labels_are_those_of_the_rules(tokens: list[list[int]], selected: Span, others: list[Span]) -> None:
    offsets = np.array(tokens, dtype=np.int64).reshape(-1, 2)
    expected = [literal_label(start, end, selected, others) for start, end in tokens]
    assert label_tokens(offsets, selected, others, LENGTH).tolist() == expected
    assert label_tokens(offsets, selected, [*others, selected], LENGTH).tolist() == expected


def test_each_rule_once() -> None:
    tokens = np.array([[0, 4], [8, 12], [9, 13], [20, 24], [18, 21], [28, 32], [15, 18], [7, 7]])
    labels = label_tokens(tokens, (10, 16), [(17, 22), (10, 16)], LENGTH)
    #        outside, half in, more, half in another, inside it, outside, a third of each, no characters
    assert labels.tolist() == [NEW, REUSED, REUSED, REUSED, REUSED, NEW, NEITHER, NEITHER]
