"""Lines of a result: their bytes, and that they are read as they were written."""

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pan_scdg.records import MeasuredPassage, Passage, Ranked, Reason, Span, TokenGains
from pan_scdg.report.wording import describe_reasons
from pan_scdg.results.files import format_line, read_lines, write_lines
from pan_scdg.results.records import (
    CANDIDATE_KEY,
    CandidateLine,
    Decision,
    EvidenceLine,
    GainsLine,
    MeasuredCandidate,
    PassageLine,
    QueryLine,
    ScoreLine,
    TextLine,
    read_decisions,
)


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
    write_lines(tmp_path, "decisions.jsonl", [whole], rounded=True)
    with (tmp_path / "decisions.jsonl").open("a") as file:
        file.write('{"suspicious": "s", "source": "b", "decision": true, "notes": ["ignored"]}\n')
    assert read_decisions(tmp_path / "decisions.jsonl") == [whole, other]


PASSAGE = MeasuredPassage(
    Passage(Span(1, 9), Span(2, 7)), 0.5, 0.25, 1.5, "table", False, (Reason("shared", {"texts": 3, "of": 5}),)
)
GAINS = TokenGains(((0, 1), (1, 3)), (0.25, -1.5))
SCORE = MeasuredCandidate(
    "q", "d", 2, "ab", -2.5, {"mean": 0.5, "top_2": 1.0}, [0.75], [0.25, -1.5], ("out of memory",)
)


@pytest.mark.parametrize(
    "record",
    [
        ScoreLine("s", "r", {"score": 0.5}, (Reason("segments"),), ("out of memory",), GAINS),
        PassageLine("s", "r", PASSAGE._replace(reasons=())),
        PassageLine("s", "r", PASSAGE, (["One."], ["Two.", "Three."])),
        GainsLine(("s", "r"), GAINS),
        GainsLine(("q", "d"), GAINS, CANDIDATE_KEY),
        TextLine("a", "old", 3, ("short",), ((0, 2, "in the template"),), "abc"),
        QueryLine("q", {"bm25-full": [Ranked("d", 1.5)]}, [Ranked("d", 0.5)]),
        SCORE,
        CandidateLine("q", "d", 1, 0.5, 2, 1.5, {"bm25-full": None, "abstract": 3}, SCORE, 0.25),
        CandidateLine("q", "d", 2, None, 1, 2.5, {}),
        EvidenceLine("q", "d", 1, PASSAGE._replace(within=None, counts=True, reasons=()), "e", 0.125),
        EvidenceLine("q", "d", 1, MeasuredPassage(Passage(Span(1, 9), Span(0, 0)), 0.0, 0.0, 1.5), None, None),
    ],
)
def test_a_line_is_read_as_it_was_written(tmp_path: Path, record: Any) -> None:
    write_lines(tmp_path, "lines.jsonl.gz", [record])
    if isinstance(record, CandidateLine) and record.score is not None:  # what is long stays in the score file
        record = record._replace(score=record.score._replace(cosines=None, gains=None, incidents=()))
    assert [*read_lines(tmp_path / "lines.jsonl.gz", type(record).from_json)] == [record]


def test_a_swapped_decision_names_the_same_texts() -> None:
    reason = Reason("few_words", {"side": "source", "words": 3})
    decision = Decision("s", "r", 0.5, 0.25, False, "unclear", reasons=(reason,))
    swapped = decision.swap()
    assert (swapped.key, swapped.swapped) == (("r", "s"), True)
    assert describe_reasons(decision) == describe_reasons(swapped) == ["r has 3 words: too short to tell"]
