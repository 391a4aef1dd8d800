import json
from collections.abc import Callable
from pathlib import Path

import pytest

from pan_scdg.errors import UserError, UserErrors
from pan_scdg.notices import Notices
from pan_scdg.pan.prepare import prepare_pairs, read_names
from pan_scdg.pan.text_alignment import read_pairs, read_text
from pan_scdg.pan.truth import find_truth, read_truth
from tests.passages import make_passage
from tests.tables import write_table

Write = Callable[..., Path]
FILES = {
    "essay one.txt": "first\r\nessay",
    "Kurs Ä/essay one.txt": "second",
    "books/源 (1).txt": "book",
    "books/essay one.txt": "third",
}
ROWS = [
    ("essay one.txt", "books/源 (1).txt"),
    ("Kurs Ä/essay one.txt", "books/源 (1).txt"),
    ("./essay one.txt", "books/essay one.txt"),
]
HEADER = "suspicious,source\n"


def table(rows: list[tuple[str, str]], separator: str = ",") -> str:
    return "".join(f"{a}{separator}{b}\n" for a, b in rows)


@pytest.mark.parametrize(
    "content",
    [
        HEADER + table(ROWS),
        table(ROWS),
        "\ufeffSuspicious, Source\r\n" + table(ROWS, ", ").replace("\n", "\r\n"),
        table(ROWS, ";"),
        table(ROWS, "\t"),
        "source,suspicious\n" + table([(b, a) for a, b in ROWS]),
    ],
    ids=["header", "no header", "spreadsheet", "semicolons", "tabs", "exchanged columns"],
)
def test_a_table_becomes_a_pan_directory(write: Write, content: str) -> None:
    directory = write({**FILES, "pairs.csv": content})
    output = directory.parent / "out" / "pan"
    assert prepare_pairs(directory / "pairs.csv", output) == 3
    pairs = read_pairs(output, Notices(strict=True)).pairs
    assert [(p.suspicious.doc_id, p.source.doc_id) for p in pairs] == [
        ("suspicious-document00001", "source-document00001"),
        ("suspicious-document00002", "source-document00001"),
        ("suspicious-document00001", "source-document00002"),
    ]
    assert [read_text(p.suspicious) for p in pairs] == ["first\nessay", "second", "first\nessay"]
    assert [read_text(p.source) for p in pairs] == ["book", "book", "third"]
    assert read_names(output) == {
        "suspicious-document00001": "essay one.txt",
        "suspicious-document00002": "Kurs Ä/essay one.txt",
        "source-document00001": "books/源 (1).txt",
        "source-document00002": "books/essay one.txt",
    }
    assert sorted(p.name for p in output.parent.iterdir()) == ["pan"]


def test_the_official_check_accepts_a_prepared_directory(write: Write) -> None:
    check = pytest.importorskip("tira.check_format")
    directory = write({**FILES, "pairs.csv": table(ROWS)})
    prepare_pairs(directory / "pairs.csv", directory.parent / "out")
    assert check.check_format(directory.parent / "out", "text-alignment-corpus")[0] == check.FormatMsgType.OK


def test_names_with_commas_and_quotes(write: Write) -> None:
    directory = write({'a, "b".txt': "x", "c.txt": "y", "pairs.csv": '"a, ""b"".txt", c.txt\n'})
    prepare_pairs(directory / "pairs.csv", directory.parent / "out")
    assert read_names(directory.parent / "out")["suspicious-document00001"] == 'a, "b".txt'


def test_one_file_may_stand_on_both_sides(write: Write) -> None:
    directory = write({"a.txt": "x", "b.txt": "y", "pairs.csv": "a.txt,b.txt\nb.txt,a.txt\na.txt,a.txt\n"})
    assert prepare_pairs(directory / "pairs.csv", directory.parent / "out") == 3
    assert len(read_pairs(directory.parent / "out", Notices(strict=True)).pairs) == 3


def test_an_empty_output_directory_is_taken_and_another_is_not(write: Write) -> None:
    directory = write({**FILES, "pairs.csv": table(ROWS)})
    output = directory.parent / "out"
    output.mkdir()
    assert prepare_pairs(directory / "pairs.csv", output) == 3
    before = (output / "pairs").read_bytes()
    with pytest.raises(UserError, match="not an empty directory"):
        prepare_pairs(directory / "pairs.csv", output)
    with pytest.raises(UserError, match="not an empty directory"):
        prepare_pairs(directory / "pairs.csv", directory / "pairs.csv")
    assert (output / "pairs").read_bytes() == before


def test_an_output_below_a_file_cannot_be_written(write: Write) -> None:
    directory = write({**FILES, "pairs.csv": table(ROWS)})
    with pytest.raises(UserError, match="cannot be written"):
        prepare_pairs(directory / "pairs.csv", directory / "essay one.txt" / "out")


def test_a_third_column_becomes_truth(write: Write) -> None:
    rows = zip(ROWS, ("yes", "No", "TRUE"), strict=True)
    content = "suspicious,source,reused\n" + "".join(f"{a},{b},{said}\n" for (a, b), said in rows)
    directory = write({**FILES, "pairs.csv": content})
    output = directory.parent / "out"
    prepare_pairs(directory / "pairs.csv", output)
    pairs = read_pairs(output, Notices(strict=True)).pairs
    truth = read_truth(find_truth(output) or output, pairs)
    # "first\r\nessay" has 11 characters as the official reader counts
    assert list(truth.values()) == [(make_passage(0, 11, 0, 4, ""),), (), (make_passage(0, 11, 0, 5, ""),)]


@pytest.mark.parametrize(
    ("rows", "what"),
    [
        ("{0},{1},perhaps\n", "'perhaps' is not an answer"),
        ("{0},{1},yes\n{0},{1}\n", "expected 3 columns, found 2"),
        ("{0},{1}\n{0},{1},yes\n", "expected 2 columns, found 3"),
        ("{0},{1},yes\n./{0},{1},no\n", "contradicts an earlier line"),
        ("{0},empty.txt,no\nempty.txt,{1},yes\n", "csv:2: the answer is yes, but a file of the pair is empty"),
        ("{0},empty.txt,yes\n", "but a file of the pair is empty"),
    ],
)
def test_faulty_third_columns(write: Write, rows: str, what: str) -> None:
    directory = write({**FILES, "empty.txt": "", "pairs.csv": rows.format(*ROWS[0])})
    with pytest.raises(UserErrors, match=what):
        prepare_pairs(directory / "pairs.csv", directory.parent / "out")
    assert not (directory.parent / "out").exists()


def test_names_of_a_directory_without_a_map(tmp_path: Path) -> None:
    assert read_names(tmp_path) == {}


TEXTS = [
    ("A target,\nin two lines.", "A source; it has marks.", 1),
    ("Another target here.", "A source; it has marks.", 0),
]


@pytest.mark.parametrize("name", ["pairs.csv", "pairs.jsonl", "pairs.parquet"])
def test_a_table_may_contain_texts_and_labels(name: str, tmp_path: Path) -> None:
    names = ("id", "suspicious", "source", "label")
    write_table(tmp_path / name, [dict(zip(names, (number, *row))) for number, row in enumerate(TEXTS)])
    assert prepare_pairs(tmp_path / name, tmp_path / "out") == 2
    pairs = read_pairs(tmp_path / "out", Notices()).pairs
    assert [(read_text(p.suspicious), read_text(p.source)) for p in pairs] == [row[:2] for row in TEXTS]
    assert len({p.source.doc_id for p in pairs}) == 1
    line = 3 if name == "pairs.csv" else 1  # a cell has a line break
    assert read_names(tmp_path / "out")["suspicious-document00001"] == f"{name}:{line}"
    truth = read_truth(find_truth(tmp_path / "out") or tmp_path, pairs)
    assert [bool(truth[p.key]) for p in pairs] == [True, False]


def test_json_lines_as_they_are_exported(tmp_path: Path) -> None:
    lines = [json.dumps({"suspicious": a, "source": b, "label": float(label)}) for a, b, label in TEXTS]
    (tmp_path / "pairs.jsonl").write_text("\ufeff" + "\n \n".join(lines), encoding="utf-8")
    assert prepare_pairs(tmp_path / "pairs.jsonl", tmp_path / "out") == 2
    pairs = read_pairs(tmp_path / "out", Notices()).pairs
    truth = read_truth(tmp_path / "out" / "truth", pairs)
    assert [bool(truth[p.key]) for p in pairs] == [True, False]


def test_faults_of_cells_name_the_line(tmp_path: Path) -> None:
    (tmp_path / "pairs.jsonl").write_text(
        '{"suspicious": "A text here.", "source": 1}\n{"suspicious": "missing.txt", "source": "A text here."}\n'
        '{"suspicious": "\\ud83d is half", "source": "A text."}\n'
    )
    with pytest.raises(UserErrors) as refused:
        prepare_pairs(tmp_path / "pairs.jsonl", tmp_path / "out")
    first, second, third = str(refused.value).splitlines()
    assert "pairs.jsonl:1: has no text in source" in first
    assert "pairs.jsonl:2: the file 'missing.txt' does not exist" in second
    assert "pairs.jsonl:3: a text has half of a surrogate pair" in third
