import json
from collections.abc import Callable
from pathlib import Path
from xml.dom import minidom

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pan_scdg.pan.detections import format_decision, format_detection, read_decisions
from pan_scdg.pan.text_alignment import name_detection
from pan_scdg.records import DocumentPair, TextFile
from tests.passages import make_passage

Write = Callable[..., Path]


def pair(suspicious: str, source: str) -> DocumentPair:
    first, second = (TextFile(i, f"{i.rpartition('/')[2]}.txt", Path(i)) for i in (suspicious, source))
    return DocumentPair(first, second, line=1)


def test_only_a_trailing_txt_is_cut_from_names() -> None:
    assert name_detection(pair("susp/1404.6257", "src/hep.txt.v2")) == "1404.6257-hep.txt.v2.xml"


def test_detection_file_word_by_word() -> None:
    assert format_detection(pair("s1", "r&1"), [make_passage(5, 1000, 100, 900, "hard")]).decode() == (
        "<?xml version='1.0' encoding='utf-8'?>\n"
        '<document reference="s1.txt">\n'
        '  <feature name="detected-plagiarism" this_offset="5" this_length="1000" source_reference="r&amp;1.txt" '
        'source_offset="100" source_length="900"/>\n'
        "</document>\n"
    )
    assert format_detection(pair("s1", "r1"), []).decode().endswith('<document reference="s1.txt"/>\n')


def test_the_official_check_accepts_written_detections(tmp_path: Path) -> None:
    check = pytest.importorskip("tira.check_format")
    for number in (1, 2, 3):
        passages = [make_passage(0, 10, 5, 20, "")] if number < 3 else []
        one = pair(f"s{number}", "größe")
        (tmp_path / name_detection(one)).write_bytes(format_detection(one, passages))
    assert check.check_format(tmp_path, "text-alignment-features")[0] == check.FormatMsgType.OK


def test_non_ascii_references_survive(tmp_path: Path) -> None:
    root = minidom.parseString(format_detection(pair("größe", "源"), [make_passage(0, 1, 0, 1, "")])).documentElement
    assert root is not None
    assert root.getAttribute("reference") == "größe.txt"
    assert root.getElementsByTagName("feature")[0].getAttribute("source_reference") == "源.txt"


@pytest.mark.parametrize("span", [(-1, 1, 0, 1), (0, 0, 0, 1), (0, 1, -2, 1), (0, 1, 0, 0)])
def test_spans_that_break_the_official_evaluator_are_not_written(span: tuple[int, int, int, int]) -> None:
    with pytest.raises(ValueError, match="negative offset or no characters"):
        format_detection(pair("s", "r"), [make_passage(*span, "")])


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
    assert format_decision(record) == (
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
    line = format_decision(record)
    assert json.loads(line) == record
    assert len(line.encode().decode().splitlines()) == 1


@settings(max_examples=50, deadline=None)
@given(st.floats(allow_nan=False, allow_infinity=False, min_value=-1e12, max_value=1e12))
def test_floats_have_six_decimals(value: float) -> None:
    text = format_decision({"x": value})[6:-2]
    assert len(text.partition(".")[2]) == 6
    assert abs(float(text) - value) <= 1e-6 + abs(value) * 1e-15
    assert text != "-0.000000"


@pytest.mark.parametrize("value", [float("nan"), float("inf"), object(), {1, 2}])
def test_values_without_a_json_form_are_refused(value: object) -> None:
    with pytest.raises(ValueError, match="no JSON form"):
        format_decision({"x": value})


def test_decisions_are_read_back(write: Write) -> None:
    records: list[dict[str, object]] = [
        {"suspicious": "s", "source": r, "decision": True, "score": 0.5, "warnings": []} for r in "ab"
    ]
    directory = write({"decisions.jsonl": "".join(map(format_decision, records))})
    assert read_decisions(directory / "decisions.jsonl") == records
