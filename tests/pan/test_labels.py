"""The table of known pairs, which is the truth of a check."""

from pathlib import Path

import pytest

from pan_scdg.errors import UserError
from pan_scdg.pan.labels import match_labels, read_labels

TABLE = "rank;Source;note;suspicious;label\n1;b.txt;x;a.txt;yes\n2;c.txt;;a.txt;0\n3;d.txt;;a.txt;\n"


def test_columns_are_found_by_name_and_lines_without_an_answer_are_skipped(tmp_path: Path) -> None:
    table = tmp_path / "table.csv"
    table.write_text(f"\ufeff{TABLE}", encoding="utf-8")
    assert read_labels(table) == {("a.txt", "b.txt"): True, ("a.txt", "c.txt"): False}


def test_the_order_of_names_does_not_matter_within_a_class(tmp_path: Path) -> None:
    table = tmp_path / "table.csv"
    table.write_text("suspicious,source,reused\nb,a,yes\na,c,no\n")
    keys = [("a", "b"), ("a", "c"), ("b", "c")]
    assert match_labels(table, keys, within_class=True) == {("a", "b"): True, ("a", "c"): False}
    both = tmp_path / "both.csv"
    both.write_text("suspicious,source,label\na,b,yes\nb,a,no\n")
    with pytest.raises(UserError, match="contradicts itself about 'a' and 'b'"):
        match_labels(both, keys, within_class=True)
    with pytest.raises(UserError, match="'b' and 'a' are no pair of this check"):
        match_labels(table, keys, within_class=False)


@pytest.mark.parametrize(
    ("text", "what"),
    [
        ("a,b\n", "lacks a column. Begin the table with suspicious,source,label"),
        ("", "lacks a column"),
        ("suspicious,source,label\na,b,\n", "contains no answers"),
        ("suspicious,source,label\na,b,maybe\n", ":2: 'maybe' is not an answer"),
        ("suspicious,source,label\na,b,yes\na , b,no\n", ":3: contradicts an earlier line"),
        ("label,suspicious,source\nyes,a\n", ":2: lacks a name"),
    ],
)
def test_faults(tmp_path: Path, text: str, what: str) -> None:
    (tmp_path / "table.csv").write_text(text)
    with pytest.raises(UserError) as caught:
        read_labels(tmp_path / "table.csv")
    assert what in str(caught.value)
