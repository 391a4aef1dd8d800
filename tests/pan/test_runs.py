import gzip
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path

import pytest

from pan_scdg.pan.runs import format_run, open_gzip_text, read_run

Write = Callable[..., Path]


def test_lines_word_by_word() -> None:
    assert list(format_run("1", ["hep-ph/1", "b"], "my-tag")) == [
        "1 Q0 hep-ph/1 1 1000 my-tag\n",
        "1 Q0 b 2 999 my-tag\n",
    ]
    assert list(format_run("1", [], "t")) == []


@pytest.mark.parametrize("count", [1, 999, 1000, 1001, 2500])
def test_scores_fall_strictly_and_stay_positive(count: int) -> None:
    columns = [line.split() for line in format_run("1", [str(i) for i in range(count)], "t")]
    scores = [float(c[4]) for c in columns]
    assert [int(c[3]) for c in columns] == list(range(1, count + 1))
    assert all(a - b == 1 for a, b in pairwise(scores))
    assert scores[0] == max(1000, count)
    assert scores[-1] >= 1


@pytest.mark.parametrize(
    ("query_id", "doc_ids", "tag"),
    [
        ("1", ["a", "a"], "t"),
        ("1 2", ["a"], "t"),
        ("#1", ["a"], "t"),
        ("1", ["a b"], "t"),
        ("1", [""], "t"),
        ("1", ["a"], "t t"),
        ("1", ["a\u2028"], "t"),
    ],
)
def test_lines_that_would_break_a_run_are_refused(query_id: str, doc_ids: list[str], tag: str) -> None:
    with pytest.raises(ValueError, match=r"twice|not a line of a run"):
        list(format_run(query_id, doc_ids, tag))


def test_gzip_files_depend_on_the_text_alone(tmp_path: Path) -> None:
    for name in ("a.gz", "another-name.gz"):
        with open_gzip_text(tmp_path / name) as file:
            file.write("é\nb\n")
    data = (tmp_path / "a.gz").read_bytes()
    assert data == (tmp_path / "another-name.gz").read_bytes()
    assert gzip.decompress(data).decode() == "é\nb\n"
    # RFC 1952: flags without a file name, time 0
    assert data[3:8] == b"\0" * 5


def test_the_official_check_accepts_a_written_run(tmp_path: Path) -> None:
    check = pytest.importorskip("tira.check_format")
    with open_gzip_text(tmp_path / "run.txt.gz") as file:
        for query_id in ("1", "2", "3"):
            file.writelines(format_run(query_id, ["hep-ph/0407230", "größe"], "pan-scdg"))
    assert check.check_format(tmp_path, "run.txt")[0] == check.FormatMsgType.OK
    rows = check.lines_if_valid(tmp_path, "run.txt")
    ours = [(q, d, s) for q, documents in read_run(tmp_path / "run.txt.gz").items() for d, s in documents]
    assert ours == [(row["qid"], row["docno"], row["score"]) for row in rows]


def test_runs_keep_the_order_of_lines(write: Write) -> None:
    # trec_eval reads all this, and cuts at the white space of ASCII alone
    lines = (
        "\ufeff2 Q0 b 1 3.1 my tag\n# comment\n#also one of more than six words\n\n1 Q0 a 1 9e-05 t\n2 Q0 a 2 7 t\n"
        "2\tQ0\vd\u00a01 \f3 +1E3 t\n1 Q0 \x1c#\u2003 3 -.5 t\n"
    )
    directory = write({"run.txt": lines})
    assert read_run(directory / "run.txt") == {
        "2": [("b", 3.1), ("a", 7.0), ("d\u00a01", 1000.0)],
        "1": [("a", 9e-05), ("\x1c#\u2003", -0.5)],
    }
