"""Texts in another Unicode form: places in the composed text, as places in the text of the file."""

import unicodedata
from itertools import groupby

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pan_scdg.normal_form import MAX_MARKS, compose, restore_spans
from pan_scdg.records import TextPair
from tests.passages import make_passage

LETTERS = st.text(st.sampled_from("ab \né ̣̂\u1112\u1161\u11abकि़Å\u212bｶﾞ🧑\u200d\r"), max_size=12)


@given(original=LETTERS)
def test_what_a_span_covers_is_the_same_text(original: str) -> None:
    text = compose(original)
    assert (text.text, text.original is None) == (unicodedata.normalize("NFC", original), text.text == original)
    spans = [(begin, end) for begin in range(len(text.text) + 1) for end in range(begin, len(text.text) + 1)]
    for (begin, end), (first, last) in zip(spans, restore_spans(text.original, spans).tolist(), strict=True):
        assert 0 <= first <= last <= len(original)
        assert (first == last) == (begin == end)
        assert text.text[begin:end] in unicodedata.normalize("NFC", original[first:last])
    assert spans[-1] == (len(text.text),) * 2
    assert restore_spans(text.original, (0, len(text.text))).tolist() == [[0, len(original) if text.text else 0]]


def test_a_passage_has_the_characters_of_both_files() -> None:
    pair = TextPair.compose("t", "s", unicodedata.normalize("NFD", "Déjà lu, déjà vu"), "déjà vu")
    assert (pair.target, pair.source, pair.original_source) == ("Déjà lu, déjà vu", "déjà vu", None)
    passage = pair.restore(make_passage(9, 7, 0, 7))
    target = pair.originals[0][slice(*passage.target)]
    assert (unicodedata.normalize("NFC", target), len(target), passage.source) == ("déjà vu", 9, (0, 7))


@pytest.mark.parametrize("length", [MAX_MARKS, MAX_MARKS + 1, 1000, 2000])
def test_marks_beyond_those_of_any_language_do_not_count(length: int, monkeypatch: pytest.MonkeyPatch) -> None:
    runs = list[int]()

    class Counted:
        """Python's own normalisation, whose steps are the squares of the numbers of marks in a row."""

        @staticmethod
        def normalize(form: str, text: str) -> str:
            starters = groupby(text, key=lambda c: unicodedata.combining(c) == 0)
            runs.extend(sum(1 for _ in run) for starts, run in starters if not starts)
            return unicodedata.normalize(form, text)  # type: ignore[arg-type]

    monkeypatch.setattr("pan_scdg.normal_form.unicodedata", Counted)
    marks = ("\u0301\u0323" * length)[:length]
    text = compose(original := f"a{marks} é {marks}b")
    assert text.text == unicodedata.normalize("NFC", f"a{marks[:MAX_MARKS]} é {marks[:MAX_MARKS]}b")
    spans = [(0, 1), (text.text.index("é"), text.text.index("é") + 1), (len(text.text) - 1, len(text.text))]
    assert restore_spans(text.original, spans).tolist() == [
        [0, len(marks) + 1],
        [len(marks) + 2, len(marks) + 3],
        [len(original) - 1, len(original)],
    ]
    assert max(runs) <= MAX_MARKS
