"""Lines of a result: their bytes, and that they are read as they were written."""

import json
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pan_scdg.results.files import format_line, write_lines
from pan_scdg.results.records import read_decisions


def test_decision_line_word_by_word() -> None:
    record = {
        "source": "é",
        "score": 1 / 3,
        "n": 7,
        "ok": True,
        "none": None,
        "warnings": ["a\u2028\x1b\x7f\n"],
        "z": -1e-9,
    }
    assert format_line(record) == (
        '{"source": "é", "score": 0.333333, "n": 7, "ok": true, "none": null, '
        '"warnings": ["a\\u2028\\u001b\\u007f\\n"], "z": 0.000000}\n'
    )


@settings(max_examples=50, deadline=None)
@given(
    st.dictionaries(
        st.text(),
        st.recursive(
            st.one_of(
                st.none(),
                st.booleans(),
                st.integers(),
                st.text(),
                st.text(alphabet=st.characters(categories=["Cs", "Cc"]), max_size=1),
            ),
            lambda inner: st.one_of(st.lists(inner), st.dictionaries(st.text(), inner)),
            max_leaves=5,
        ),
    )
)
def test_decision_lines_are_json_on_one_printable_line(record: dict[str, object]) -> None:
    line = format_line(record)
    assert json.loads(line) == record
    assert len(line.encode().decode().splitlines()) == 1


@settings(max_examples=50, deadline=None)
@given(st.floats(allow_nan=False, allow_infinity=False, min_value=-1e12, max_value=1e12))
def test_floats_have_six_decimals(value: float) -> None:
    text = format_line({"x": value})[6:-2]
    assert len(text.partition(".")[2]) == 6
    assert abs(float(text) - value) <= 1e-6 + abs(value) * 1e-15
    assert text != "-0.000000"


@pytest.mark.parametrize("value", [float("nan"), float("inf"), object(), {1, 2}])
def test_values_without_a_json_form_are_refused(value: object) -> None:
    with pytest.raises(ValueError, match="no JSON form"):
        format_line({"x": value})


def test_decisions_are_read_back(tmp_path: Path) -> None:
    records: list[dict[str, object]] = [
        {"suspicious": "s", "source": r, "decision": True, "score": 0.5, "warnings": []} for r in "ab"
    ]
    write_lines(tmp_path, "decisions.jsonl", records, rounded=True)
    assert read_decisions(tmp_path / "decisions.jsonl") == records
