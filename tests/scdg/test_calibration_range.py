"""The range of a calibration: what is measured, and what lies outside."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pan_scdg.report.wording import describe_fact
from pan_scdg.scdg.aggregation import Aggregate
from pan_scdg.scdg.calibration_range import (
    RANGE_MARGIN,
    TargetFacts,
    compute_share_at_least,
    find_range,
    list_range_reasons,
    measure_common_words,
    thin_scores,
)
from pan_scdg.settings import CalibrationRange

KNOWN = CalibrationRange(tokens=(200, 900), nats_per_byte=(1.0, 2.0), common_words=0.6)
INSIDE = TargetFacts(500, 1.5, 0.7)
AVERAGE, WINDOW = Aggregate("top", 100), Aggregate("window", 128)


def describe(facts: TargetFacts, aggregate: Aggregate) -> list[str]:
    return [describe_fact(reason) for reason in list_range_reasons(facts, KNOWN, aggregate)]


class Words:
    """One id a word that it knows, else one a letter; marks and spaces are ids of their own."""

    bos_token_id = eos_token_id = pad_token_id = None
    known = ("the", "tide", "turned", "again")

    def encode(self, text: str, *, add_special_tokens: bool = False) -> list[int]:
        ids: list[int] = []
        for i, word in enumerate(text.split(" ")):
            space = 1000 if i else 0
            bare = word.rstrip(".,")
            ids += [space + 2000 + self.known.index(bare)] if bare in self.known else [*map(ord, bare)]
            if bare not in self.known and i and bare:
                ids[-len(bare)] += 1000
            ids += map(ord, word[len(bare) :])
        return ids

    def decode(self, ids: Any) -> str:
        return "".join(
            (" " if i // 1000 in (1, 3) else "") + (self.known[i % 1000] if i >= 2000 else chr(i % 1000)) for i in ids
        )

    def convert_ids_to_tokens(self, ids: list[int]) -> list[str]:
        return [self.decode([i]).replace(" ", "Ġ") for i in ids]


@pytest.mark.parametrize(
    ("text", "share"),
    [
        ("the tide turned again", 1.0),
        ("the tide turned, again", 0.75),
        ("the tide tvrned again", 0.75),
        ("12 34 the tide", 1.0),
        ("12 34.", 0.0),
        ("the x 5", 1.0),
    ],
)
def test_common_words_by_hand(text: str, share: float) -> None:
    """A mark makes two ids of a word, a misread letter one id a letter; what holds no letter is no word."""
    words = Words()
    ids = np.array(words.encode(text), dtype=np.int64)
    assert words.decode(ids.tolist()) == text
    assert measure_common_words(words, ids) == share


def test_no_ids_no_words(tiny_tokenizer: Callable[..., Any]) -> None:
    assert measure_common_words(tiny_tokenizer(), np.array([], dtype=np.int64)) == 0.0


def test_range_spans_all_targets() -> None:
    facts = [TargetFacts(300, 1.23456, 0.71), TargetFacts(120, 1.5, 0.62349), TargetFacts(700, 1.1, 0.9)]
    assert find_range(facts) == CalibrationRange(tokens=(120, 700), nats_per_byte=(1.1, 1.5), common_words=0.6235)


@pytest.mark.parametrize("aggregate", [AVERAGE, WINDOW])
def test_inside_and_at_the_margin_nothing_is_said(aggregate: Aggregate) -> None:
    edge = 1 - RANGE_MARGIN
    for facts in (
        INSIDE,
        TargetFacts(200, 1.0, 0.6),
        TargetFacts(1035, 2.0, 1.0),
        TargetFacts(170, 1.0 * edge, 0.6 * edge),
        TargetFacts(170, 2.0 * (1 + RANGE_MARGIN), 0.6),
    ):
        assert list_range_reasons(facts, KNOWN, aggregate) == []


@pytest.mark.parametrize(
    ("changes", "told"),
    [
        ({"tokens": 40}, "outside calibration: 40 target tokens, calibrated on 200 to 900"),
        (
            {"common_words": 0.254},
            "outside calibration: language or characters: share of common words 0.25, calibrated on at least 0.60",
        ),
        (
            {"nats_per_byte": 2.31},
            "outside calibration: 2.31 nats per byte without the source, above the maximum 2.00",
        ),
        (
            {"nats_per_byte": 0.2},
            "target nearly predictable without the source: 0.20 nats per byte, calibrated on at least 1.00",
        ),
    ],
)
@pytest.mark.parametrize("aggregate", [AVERAGE, WINDOW])
def test_each_warning(changes: dict[str, Any], told: str, aggregate: Aggregate) -> None:
    assert describe(INSIDE._replace(**changes), aggregate) == [told]


def test_everything_can_be_wrong_at_once() -> None:
    assert len(list_range_reasons(TargetFacts(3, 9.0, 0.0), KNOWN, WINDOW)) == 3


def test_a_target_that_holds_a_window_is_long_enough_for_windows() -> None:
    short = INSIDE._replace(tokens=130)
    assert list_range_reasons(short, KNOWN, WINDOW) == []
    assert list_range_reasons(short, KNOWN, Aggregate("window-median", 192)) != []
    assert list_range_reasons(short, KNOWN, AVERAGE) != []
    assert list_range_reasons(short, KNOWN, Aggregate("top", 10.0)) != [], "q is no number of tokens"


def test_only_windows_find_more_in_a_longer_target() -> None:
    long = INSIDE._replace(tokens=2 * KNOWN.tokens[1])
    told = f"outside calibration: {long.tokens} target tokens, calibrated on at most {KNOWN.tokens[1]}: more windows"
    assert describe(long, WINDOW) == [told]
    assert list_range_reasons(INSIDE._replace(tokens=KNOWN.tokens[1]), KNOWN, WINDOW) == []
    assert list_range_reasons(long, KNOWN, AVERAGE) == []


shares = st.integers(0, 1000).map(lambda n: n / 1000)


@settings(max_examples=30, deadline=None)
@given(facts=st.lists(st.builds(TargetFacts, st.integers(1, 10**5), st.floats(0.05, 9), shares), min_size=1))
def test_what_was_calibrated_on_never_warns(facts: list[TargetFacts]) -> None:
    known = find_range(facts)
    assert not any(list_range_reasons(f, known, aggregate) for f in facts for aggregate in (AVERAGE, WINDOW))


def test_few_negatives_are_kept_whole() -> None:
    assert thin_scores(np.array([0.31, -0.12345, 0.2])) == (-0.1235, 0.2, 0.31)


def test_many_negatives_are_thinned_evenly() -> None:
    kept = thin_scores(np.random.Generator(np.random.PCG64(0)).permutation(np.arange(4996) / 10))
    assert (len(kept), kept[0], kept[-1]) == (1000, 0.0, 499.5)
    assert set(np.diff(kept).round(1)) == {0.5}


def test_share_of_negatives_by_hand() -> None:
    shares = [compute_share_at_least((0.1, 0.2, 0.3), score) for score in (0.0, 0.1, 0.15, 0.2, 0.3, 0.31)]
    assert shares == [1, 1, 0.6667, 0.6667, 0.3333, 0]
    assert compute_share_at_least((0.1235,), 0.12346) == 1, "compared as they were rounded"
