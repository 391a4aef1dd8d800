from pathlib import Path
from xml.dom import minidom

import pytest

from pan_scdg.pan.text_alignment import format_detection, name_detection
from pan_scdg.records import DocumentPair, TextFile
from tests.passages import make_passage


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
