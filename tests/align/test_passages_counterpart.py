"""The place of a source that a passage of a target is most like."""

import pytest

from pan_scdg.align.counterpart import find_counterparts

OTHERS = (
    "Beekeepers count mites on a white board every second week of the summer.",
    "A choir of forty voices rehearsed in the old brewery until the roof leaked.",
    "Concrete bridges need new bearings after thirty winters of salt.",
)
TIDE = (
    "The tide turned before noon, and the nets of the village came up empty.",
    "Nobody on the quay said a word about it; the harbour master wrote the hour into his book.",
    "In the evening the boats left again, further out, towards the sandbank.",
)
PASSAGE = (
    "Before noon the tide had turned and the village pulled up empty nets. The harbour master noted the hour in a book "
    "while the quay kept silent. By evening, boats went out again to the sandbank."
)


@pytest.mark.parametrize("place", range(4))
def test_all_of_a_reworded_place_is_found_and_nothing_else(place: int) -> None:
    source = " ".join([*OTHERS[:place], *TIDE, *OTHERS[place:]])
    target = f"{OTHERS[0]} {PASSAGE}"
    begin = len(OTHERS[0]) + 1
    (found,) = find_counterparts(target, source, [(begin, len(target))], unit_words=3)
    assert found is not None
    start, length, first, size, *_ = found.passage
    assert (start, length) == (begin, len(PASSAGE))
    assert source[first : first + size] == " ".join(TIDE)
    assert found.verbatim == 0
    assert 0 < found.similarity < 1


def test_without_a_common_word_there_is_no_place() -> None:
    target = "Nur deutsche Wörter stehen hier."
    assert find_counterparts(target, " ".join(TIDE), [(0, len(target))], 3) == [None]
    assert find_counterparts(target, "", [(0, len(target))], 3) == [None]
