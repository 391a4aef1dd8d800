"""Tables as they look."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pan_scdg.evaluation.report import Estimate, format_cell, format_table


def test_table():
    rows = [
        {"method": "SCDG", "AUROC": Estimate(0.91234, 0.88012, 0.941), "pairs": 20, "good": True},
        {"method": "4-gram containment", "AUROC": Estimate(0.5, float("nan"), float("nan")), "pairs": 7},
    ]
    assert format_table(rows, ["method", "AUROC", "pairs", "good"]).splitlines() == [
        "method                                AUROC  pairs  good",
        "------------------  -----------------------  -----  ----",
        "SCDG                0.9123 [0.8801, 0.9410]     20  yes",
        "4-gram containment            0.5000 [-, -]      7  -",
    ]


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0.5, "0.5000"),
        (np.float32(0.25), "0.2500"),
        (np.int64(3), "3"),
        (-0.00001, "0.0000"),
        (float("inf"), "inf"),
        (float("nan"), "-"),
        (None, "-"),
        (False, "no"),
        (np.bool_(True), "yes"),
        ("Zürich\x1b", "Zürich\\x1b"),
    ],
)
def test_cells(value, text):
    assert format_cell(value) == text


def test_no_rows_and_no_columns():
    assert format_table([], ["a"]) == "a\n-\n"
    with pytest.raises(ValueError, match="column"):
        format_table([{}], [])


@settings(max_examples=50, deadline=None)
@given(st.lists(st.dictionaries(st.sampled_from("ab"), st.one_of(st.text(), st.floats(), st.integers())), max_size=4))
def test_any_table_is_printable_with_one_line_a_row(rows):
    text = format_table(rows, ["a", "b"])
    assert text.replace("\n", "").isprintable()
    assert len(text.split("\n")) == len(rows) + 3
