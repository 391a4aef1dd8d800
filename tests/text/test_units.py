"""Words and units of texts in any script and normal form."""

import unicodedata

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pan_scdg.text.units import MAX_UNIT_WORDS, PART_WORDS, prepare_text, show_as_read

CHINESE = "今天天气很好。我们去公园散步吧！你想去吗？「好的。」他说"
HINDI = "नमस्ते दुनिया यह एक परीक्षण है"


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("Le café déjà-vu, 3.5 ko_ala", "le café déjà vu 3 5 ko ala"),
        ("soft\u00adhyphen and hy-\nphen", "softhyphen and hyphen"),
        ("wrap\u00ad\nped, bro\u2010\r\n  ken, cut- \nting", "wrapped broken cutting"),
        (HINDI, HINDI),
        ("今天 is ひらがな", "今 天 is ひ ら が な"),
        ("שָׁלוֹם", "שלום"),
        ("كِتَاب", "كتاب"),
        ("كتـــاب", "كتاب"),
        ("ti\u034fd\ufe0fe\u200e t\u115fu\U000e0061rned no\u0332o\u0336n\u0332", "tide turned noon"),
        ("**Ti**de *tu*rned <b>be</b>fore <!-- x -->no<!-- x -->on 2 < b", "tide turned before x noon 2 b"),
        ("cut\xac\nting or-\u2028der", "cutting order"),
    ],
)
def test_words_of_all_scripts(text: str, words: str) -> None:
    assert prepare_text(text).forms == tuple(words.split())
    decomposed = unicodedata.normalize("NFD", text)
    assert prepare_text(decomposed).forms == tuple(words.split())


def test_letters_that_look_alike_are_read_as_latin() -> None:
    plain = "The tide turned and nobody said a word; again sixty pages"
    swaps = {"a": "ɑа", "e": "е", "o": "οо", "g": "ɡ", "i": "ı", "s": "ѕꜱ", "d": "ԁ", "n": "ɴ"}
    for number in range(2):
        disguised = "".join(
            swaps[letter][number % len(swaps[letter])] if letter in swaps else letter for letter in plain
        )
        assert disguised != plain
        assert prepare_text(disguised).forms == prepare_text(plain).forms
    half = plain.replace("o", "о").replace("e", "е\u200b")
    assert show_as_read(half) == plain
    for base in ("Ａ", "𝐀", "Ⓐ", "𝙰"):  # with their small letters 26, or 32 as in ASCII, further on
        shift = 32 if base == "Ａ" else 26
        small = [chr(ord(base) + shift + i) for i in range(26)]
        disguised = plain.lower().translate(str.maketrans("abcdefghijklmnopqrstuvwxyz", "".join(small)))
        assert prepare_text(disguised).forms == prepare_text(plain).forms
        assert show_as_read(disguised) == plain.lower()
    assert prepare_text("ᎷᎪᎡK").forms == ("mark",)
    assert show_as_read("The **ti**de <b>tu</b>rned") == "The **tide <b>turned"
    # a Russian word with one Latin letter is a slip of the keyboard
    for own in (HINDI, CHINESE, "Прилив cменился ещё до полудня", "naïve café, Łódź"):
        assert show_as_read(own) == own


def test_chinese_sentences_end_without_white_space() -> None:
    prepared = prepare_text(CHINESE)
    units = [CHINESE[begin:end] for begin, end in prepared.spans.tolist()]
    assert units == ["今天天气很好。", "我们去公园散步吧！", "你想去吗？", "「好的。」他说"]
    assert len(prepared.forms) == sum(map(str.isalpha, CHINESE))


@given(st.lists(st.integers(1, 3 * MAX_UNIT_WORDS), min_size=1, max_size=6))
@settings(max_examples=40, deadline=None)
def test_units_are_bounded_in_words_and_cover_all(lengths: list[int]) -> None:
    text = " ".join(" ".join(f"Word{i}x{j}" for j in range(length)) + "." for i, length in enumerate(lengths))
    prepared = prepare_text(text)
    bounds, spans = prepared.units.tolist(), prepared.spans.tolist()
    assert [b for b, _ in bounds] == [0, *(e for _, e in bounds[:-1])]
    assert bounds[-1][1] == len(prepared.forms) == sum(lengths)
    assert max(end - begin for begin, end in bounds) <= MAX_UNIT_WORDS + 2
    for (first, last), (begin, end) in zip(bounds, spans, strict=True):
        assert begin <= prepared.words[first, 0]
        assert prepared.words[last - 1, 1] <= end <= prepared.words[last - 1, 1] + 1
    long = [length for length in lengths if length > MAX_UNIT_WORDS]
    assert len(bounds) >= sum(-(-length // PART_WORDS) for length in long)
