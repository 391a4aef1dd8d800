"""Character n-grams against a literal restatement on small alphabets, where much of two texts is alike."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pan_scdg.methods import MethodOptions, char_ngrams
from pan_scdg.methods.char_ngrams import (
    CharNgramMethod,
    CharNgramSettings,
    compute_covered_share,
    extract_letters,
    find_passages,
)
from tests.methods.conftest import make_pair
from tests.passages import make_passage

TEXTS = st.text(alphabet="aAbB1 .é", max_size=60)
NS = st.integers(1, 6)


def plain_letters(text: str) -> str:
    return "".join(c.lower() for c in text if c.isalnum())


def plain_covered(target: str, source: str, n: int) -> set[int]:
    """Positions among the letters of the target that lie in an n-gram of the source, by trying all of them."""
    p, s = plain_letters(target), plain_letters(source)
    return {j for i in range(len(p) - n + 1) if p[i : i + n] in s for j in range(i, i + n)}


@given(TEXTS, TEXTS, NS)
@settings(max_examples=200, deadline=None)
def test_the_share_is_that_of_all_ngrams_tried_one_by_one(target: str, source: str, n: int) -> None:
    letters = plain_letters(target)
    expected = len(plain_covered(target, source, n)) / len(letters) if letters else 0.0
    assert compute_covered_share(target, source, n) == pytest.approx(expected, abs=1e-15)


@given(TEXTS, TEXTS, NS)
@settings(max_examples=200, deadline=None)
def test_passages_are_matches_that_cover_the_same_and_go_on_while_both_sides_agree(t: str, s: str, n: int) -> None:
    offsets = [i for i, c in enumerate(t) if c.isalnum()]
    there = [i for i, c in enumerate(s) if c.isalnum()]
    covered: set[int] = set()
    passages = find_passages(t, s, n)
    for p in passages:
        this = plain_letters(t[p.target.begin : p.target.end])
        assert this == plain_letters(s[p.source.begin : p.source.end])
        assert len(this) >= n
        at, source_at = offsets.index(p.target.begin), there.index(p.source.begin)
        assert offsets[at + len(this) - 1] == p.target.end - 1, "it ends with a letter"
        rest, other = plain_letters(t)[at + len(this) :], plain_letters(s)[source_at + len(this) :]
        assert not rest or not other or rest[0] != other[0]
        assert source_at == plain_letters(s).index(this[:n]), "the first place in the source"
        covered |= set(range(at, at + len(this)))
    assert covered == plain_covered(t, s, n)
    assert [p.target.begin for p in passages] == sorted({p.target.begin for p in passages})


def test_offsets_are_those_of_the_text_with_everything_in_it() -> None:
    target, source = "So: “It rained, all DAY!” he wrote.", "Then it RAINED all day; we stayed."
    (passage,) = find_passages(target, source, 12)
    assert target[passage.target.begin : passage.target.end] == "It rained, all DAY"
    assert source[passage.source.begin : passage.source.end] == "it RAINED all day"
    assert passage.obfuscation == ""
    assert compute_covered_share(target, source, 12) == 14 / len("SoItrainedallDAYhewrote")


def test_two_copies_in_another_order_are_two_passages() -> None:
    one, two = "the quick brown fox jumps", "over a very lazy old dog"
    found = find_passages(f"{one}. New words here. {two}", f"{two} ---- {one}", 18)
    assert found == (make_passage(0, 25, 30, 25, ""), make_passage(43, 24, 0, 24, ""))


def test_every_script_counts_and_lower_case_is_one_character_for_one() -> None:
    letters = extract_letters("İstanbul: ΣΑΣ, 東京 1²_x")
    assert "".join(map(chr, letters.codes)) == "istanbulσασ東京1²x"
    assert letters.offsets.tolist() == [0, 1, 2, 3, 4, 5, 6, 7, 10, 11, 12, 15, 16, 18, 19, 21]
    assert compute_covered_share("ΣΑΣ", "σασ", 3) == 1.0


def test_lone_surrogates_are_no_letters() -> None:
    assert extract_letters("a\ud800b").codes.tolist() == [ord("a"), ord("b")]


@pytest.mark.parametrize(("target", "source"), [("", "abc"), ("abc", ""), ("", ""), ("ab", "ab"), ("...", "...")])
def test_texts_without_an_ngram_score_nothing(target: str, source: str) -> None:
    assert compute_covered_share(target, source, 3) == 0.0
    assert find_passages(target, source, 3) == ()


def test_texts_of_one_letter_are_no_trap() -> None:
    """Every n-gram of one is every n-gram of the other: 10^10 pairs of places, none of which is looked at twice."""
    assert compute_covered_share("a" * 100_000, "a" * 100_000, 50) == 1.0
    assert find_passages("a" * 100_000, "b" + "a" * 1_000, 50)[0] == make_passage(0, 1_000, 1, 1_000, "")
    periodic = find_passages("ab" * 50_000, "ab" * 30 + "c", 50)
    assert len(periodic) <= 2 * 100_000 / 50
    assert sum(p.target.length for p in periodic) >= 100_000


def test_all_settings_are_the_grid_and_the_own_n(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(char_ngrams, "GRID", (3, 8))
    settings, pair = CharNgramSettings(n=4), make_pair("abcdefgh", "xxabcdxx")
    own, every = (CharNgramMethod(settings, MethodOptions(all_settings=every)) for every in (False, True))
    (score,) = own.score([pair])
    assert (score.values, settings.compute_score(score.values)) == ({"n_4": 0.5}, 0.5)
    (score,) = every.score([pair])
    assert score.values == {"n_3": 0.5, "n_4": 0.5, "n_8": 0.0}
    assert [variant.compute_score(score.values) for variant in settings.vary().values()] == [0.5, 0.0]
    assert own.detect(pair) == (make_passage(0, 4, 2, 4),)
