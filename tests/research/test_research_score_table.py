"""Tables of scores: written and read without loss, refused where they are no tables."""

import gzip
import math
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pan_scdg.errors import UserError
from pan_scdg.research.pairs.score_table import ScoreTable, gain_columns, read_scores, write_scores
from pan_scdg.scdg.gains import statistics

GOOD = '{"pair_id": "p1", "doc_label": 1, "scores": {"score": 0.5}}'
finite = st.floats(allow_nan=False, allow_infinity=False)


def table_of(rows: list[tuple[bool, float, float]]) -> ScoreTable:
    labels, *columns = zip(*rows)
    named = dict(zip(("mean", "score"), map(np.array, columns)))
    return ScoreTable(tuple(f"p{i}" for i in range(len(rows))), np.array(labels), named)


@settings(max_examples=50, deadline=None)
@given(rows=st.lists(st.tuples(st.booleans(), finite, finite), min_size=1, max_size=20))
def test_what_is_read_is_what_was_written(rows: list[tuple[bool, float, float]], tmp_path_factory) -> None:
    table, path = table_of(rows), tmp_path_factory.mktemp("t") / "scores.jsonl.gz"
    write_scores(path, table)
    found = read_scores(path)
    assert found.ids == table.ids
    assert found.labels.tolist() == table.labels.tolist()
    assert {name: found.columns[name].tolist() for name in found.columns} == {
        name: values.tolist() for name, values in table.columns.items()
    }
    before = path.read_bytes()
    write_scores(path, found)
    assert path.read_bytes() == before


def test_nothing_else_is_left_beside_the_file(tmp_path: Path) -> None:
    write_scores(tmp_path / "scores.jsonl.gz", table_of([(True, 1.0, 2.0)]))
    assert [p.name for p in tmp_path.iterdir()] == ["scores.jsonl.gz"]
    line = gzip.decompress((tmp_path / "scores.jsonl.gz").read_bytes()).decode()
    assert line == '{"pair_id": "p0", "doc_label": 1, "scores": {"mean": 1.0, "score": 2.0}}\n'


@pytest.mark.parametrize(
    ("lines", "place", "what"),
    [
        ([], "", "holds no pairs"),
        ([GOOD, GOOD], ":2", "'p1' is there twice"),
        ([GOOD, GOOD.replace("p1", "p2").replace('score"', 'other"')], ":2", "not the same scores"),
        ([GOOD.replace('"score": 0.5', "")], ":1", "not the same scores"),
        ([GOOD.replace("0.5", "NaN")], ":1", "not a JSON number"),
        ([GOOD.replace("0.5", "1e999")], ":1", "too large"),
        ([GOOD.replace("0.5", '"0.5"')], ":1", "scores.score"),
        ([GOOD.replace('"doc_label": 1', '"doc_label": 2')], ":1", "doc_label"),
        ([GOOD.replace('"doc_label": 1, ', "")], ":1", "doc_label"),
        (["{"], ":1", ""),
    ],
)
def test_a_bad_file_is_one_clear_line(tmp_path: Path, lines: list[str], place: str, what: str) -> None:
    path = tmp_path / "scores.jsonl"
    path.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    with pytest.raises(UserError) as e:
        read_scores(path)
    assert str(e.value).startswith(f"{path}{place}:")
    assert what in str(e.value)
    assert "\n" not in str(e.value)


def test_rows_and_columns_are_found_by_name() -> None:
    table = table_of([(True, 1.0, 2.0), (False, 3.0, 4.0), (True, 5.0, 6.0)])
    assert table.rows(["p2", "p0"], "BM25").tolist() == [2, 0]
    assert table.features(["score", "mean"])[1].tolist() == [4.0, 3.0]
    with pytest.raises(UserError, match=r"BM25: 2 pairs have no scores, 'x' first"):
        table.rows(["p0", "x", "y"], "BM25")
    with pytest.raises(UserError, match=r"no score 'median', but mean, score"):
        table.column("median")


@pytest.mark.parametrize(
    ("ids", "labels", "values"),
    [(("a", "a"), [True, False], [1.0, 2.0]), (("a",), [True, False], [1.0]), (("a",), [True], [math.nan])],
)
def test_what_is_no_table_is_an_error(ids: tuple[str, ...], labels: list[bool], values: list[float]) -> None:
    with pytest.raises(ValueError, match=r"needs different ids|finite numbers"):
        ScoreTable(ids, np.array(labels), {"score": np.array(values)})


def test_the_columns_of_scdg() -> None:
    gains = [np.array([1.0, -2.0, 4.0, 0.0]), np.array([0.5, 0.25])]
    found = gain_columns([statistics(g, (1, 50)) for g in gains], (1, 50))
    assert {name: values.tolist() for name, values in found.items()} == {
        "mean": [0.75, 0.375],
        "median": [0.5, 0.375],
        "positive_gain_rate": [0.5, 1.0],
        "top_1": [4.0, 0.5],
        "top_50": [2.5, 0.5],
    }
    with pytest.raises(KeyError):
        gain_columns([statistics(gains[0], (1,))])
