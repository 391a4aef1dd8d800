"""Lines of a result: their bytes, and that they are read as they were written."""

import json
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pan_scdg.records import Reason
from pan_scdg.report.wording import describe_reasons
from pan_scdg.results.files import format_line, write_lines
from pan_scdg.results.records import Decision, read_decisions


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


def test_decisions_are_read_as_they_were_written_and_those_of_other_systems_by_their_decision(tmp_path: Path) -> None:
    whole = Decision(
        *("s", "a", 0.5, 0.25, False, "unclear"),
        near_threshold=True,
        reasons=(Reason("few_words", {"side": "source", "words": 3}), Reason("not_scored", {"cause": "é"})),
        method="alignment",
        numbers={"alignment": 1.5, "aggregation": "top"},
        negatives_at_least=0.125,
        negatives=8,
        suspicious_name="essay",
        source_name="book",
    )
    other = Decision("s", "b", None, None, True, "likely")
    lines = [whole.to_json(), {"suspicious": "s", "source": "b", "decision": True, "notes": ["ignored"]}]
    write_lines(tmp_path, "decisions.jsonl", lines, rounded=True)
    assert read_decisions(tmp_path / "decisions.jsonl") == [whole, other]


def test_a_swapped_decision_names_the_same_texts() -> None:
    reason = Reason("few_words", {"side": "source", "words": 3})
    decision = Decision("s", "r", 0.5, 0.25, False, "unclear", reasons=(reason,))
    swapped = decision.swap()
    assert (swapped.key, swapped.swapped) == (("r", "s"), True)
    assert describe_reasons(decision) == describe_reasons(swapped) == ["r has 3 words: too short to tell"]
