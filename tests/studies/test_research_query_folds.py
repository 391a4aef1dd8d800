"""Folds of the queries of PAN26."""

from collections import Counter
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pan_scdg.errors import UserError
from studies.data.queries import QueryFold, format_folds, make_folds, read_folds

IDS = st.lists(st.integers(0, 999).map(str), min_size=5, max_size=60, unique=True)


@settings(max_examples=50, deadline=None)
@given(IDS, st.randoms(use_true_random=False))
def test_every_query_has_one_fold_and_the_order_of_the_queries_does_not_matter(ids: list[str], random: object) -> None:
    folds = make_folds(ids)
    assert [fold.query_id for fold in folds] == ids
    sizes = Counter(fold.fold for fold in folds)
    assert sorted(sizes) == [0, 1, 2, 3, 4]
    assert max(sizes.values()) - min(sizes.values()) <= 1
    assert all((fold.role == "holdout") == (fold.fold == 0) for fold in folds)
    other = sorted(ids)
    assert {f.query_id: f.fold for f in make_folds(other)} == {f.query_id: f.fold for f in folds}


def test_two_hundred_queries_make_forty_each_and_stay_where_they_are() -> None:
    folds = make_folds([str(i) for i in range(1, 201)])
    assert Counter(fold.fold for fold in folds) == dict.fromkeys(range(5), 40)
    assert [fold.query_id for fold in folds if fold.fold == 0][:5] == ["3", "5", "7", "8", "11"]


def test_folds_are_read_as_written_and_from_files_of_others(tmp_path: Path) -> None:
    path = tmp_path / "folds.jsonl"
    folds = make_folds(["a", "b", "c", "d", "e"])
    path.write_text(format_folds(folds))
    assert read_folds(path, set("abcde")) == folds
    path.write_text('{"qid": 1, "fold": 0, "n": 2}\n\n{"qid": "2", "fold": 4}\n')
    assert read_folds(path, {"1", "2"}) == (QueryFold("1", 0), QueryFold("2", 4))


@pytest.mark.parametrize(
    ("text", "line", "what"),
    [
        ('{"query_id": "1", "fold": 5}', 1, "fold: Input should be less than 5"),
        ('{"query_id": "1", "fold": true}', 1, "fold: Input should be a valid integer"),
        ('{"query_id": "1"}', 1, "fold: Field required"),
        ('{"fold": 1}', 1, "query_id: Field required"),
        ('{"query_id": "1", "fold": 0}\n{"query_id": "1", "fold": 1}', 2, "occurs twice, first in line 1"),
        ('{"query_id": "9", "fold": 0}', 1, "the query '9' is not in the data"),
        ('{"query_id": "1", "fold": 0}', None, "1 queries have no fold, '2' first"),
        ('{"query_id": "1", "fold": 1}\n{"query_id": "2", "fold": 2}', None, "fold 0 or all others are empty"),
        ("1", 1, "expected a JSON object"),
    ],
)
def test_bad_folds_are_one_clear_line(tmp_path: Path, text: str, line: int | None, what: str) -> None:
    path = tmp_path / "folds.jsonl"
    path.write_text(text)
    with pytest.raises(UserError, match=what) as caught:
        read_folds(path, {"1", "2"})
    assert (caught.value.where, caught.value.line) == (path, line)


def test_too_few_queries_for_folds() -> None:
    with pytest.raises(UserError, match="4 queries cannot be put into 5 folds"):
        make_folds(["1", "2", "3", "4"])
