"""Distractors: their lengths, that none is used twice, and where pools come from."""

import random
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pan_scdg.errors import UserError
from studies.retention.contexts import cut_text, read_pool
from tests.studies.retention_texts import some_pool


@settings(max_examples=60, deadline=None)
@given(st.integers(40, 900), st.integers(0, 99))
def test_a_distractor_is_consecutive_news_of_the_wanted_length(wanted: int, seed: int) -> None:
    pool = some_pool()
    found, text = pool.draw(wanted, random.Random(seed), set())
    assert abs(len(text) - wanted) <= 2
    assert text == text.strip()
    round_and_round = " ".join(s.text for s in pool.sentences * 3)
    place = [(s.article, s.number) for s in pool.sentences].index((found.article, found.sentence))
    assert round_and_round[sum(len(s.text) + 1 for s in pool.sentences[:place]) :].startswith(text)
    assert (found, text) == pool.draw(wanted, random.Random(seed), set()), "a seed gives one distractor"


def test_the_nearest_space_within_two_characters_is_the_cut() -> None:
    assert cut_text("one two three four", 7) == "one two"
    assert cut_text("one two three four", 8) == "one two"
    assert cut_text("one two three four", 9) == "one two"
    assert cut_text("one two three four", 10) == "one two th", "no word ends near"
    assert cut_text("one two three four", 11) == "one two three"
    assert cut_text("ab cd efg", 4) == "ab cd", "a later space is nearer than none"
    assert cut_text("a bcd e fgh", 6) == "a bcd", "the shorter text of two"


def test_no_text_is_given_twice_until_all_are_used() -> None:
    pool, used, generator = some_pool(1, 9), set[str](), random.Random(1)
    texts = [pool.draw(60, generator, used)[1] for _ in range(9)]
    assert len(set(texts)) == 9
    with pytest.raises(UserError, match="no unused distractor left; give more news articles"):
        pool.draw(60, generator, used)


def test_too_small_a_pool_says_so() -> None:
    evidence = "A sentence that has enough of characters in it. " * 8
    assert some_pool().explain_lack(evidence) is None
    assert some_pool(1, 5).explain_lack(evidence) == "the distractor pool is too small"
    assert some_pool().explain_lack(evidence * 50) == "the distractor pool is too small", (
        "a distractor would repeat itself"
    )
    assert some_pool().explain_lack("Too short.") == "source span shorter than 8 chunks of 40 characters"


def test_text_files_are_articles_by_name(tmp_path: Path) -> None:
    for name in ("b.txt", "a.txt", "c.txt", ".hidden.txt", "a.md"):
        (tmp_path / name).write_text(f"First of\n{name}.  Second of {name}.")
    pool = read_pool(tmp_path, articles=2)
    assert [(s.article, s.number, s.text) for s in pool.sentences[:2]] == [
        ("a.txt", 0, "First of a.txt."),
        ("a.txt", 1, "Second of a.txt."),
    ]
    assert {s.article for s in pool.sentences} == {"a.txt", "b.txt"}


def test_articles_of_clusters_stand_in_for_text_files(tmp_path: Path) -> None:
    (tmp_path / "train.src.txt").write_text(
        "One report. It ends. ||||| Another NEWLINE_CHAR NEWLINE_CHAR one.\n\nThird.\n"
    )
    pool = read_pool(tmp_path)
    assert [s.article for s in pool.sentences] == [
        *["cluster-000001-0"] * 2,
        *["cluster-000001-1"] * 2,
        "cluster-000003-0",
    ]
    assert pool.digest != read_pool(tmp_path, articles=2).digest == read_pool(tmp_path, articles=2).digest


def test_what_is_not_there_is_a_clear_error(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="no file of clusters"):
        read_pool(tmp_path)
    (tmp_path / "empty.txt").write_text(" \n")
    with pytest.raises(UserError, match="contains no sentence for distractors; give news articles"):
        read_pool(tmp_path)
