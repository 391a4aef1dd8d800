"""Stems of English words; `tests/retrieval/test_terrier_terms.py` compares them with Terrier's."""

import pytest

from pan_scdg.text.stemming import stem_porter, stem_word

STEMS = """
caresses:caress ponies:poni ties:ti caress:caress cats:cat feed:feed agreed:agre plastered:plaster bled:bled
motoring:motor sing:sing conflated:conflat troubled:troubl sized:size hopping:hop falling:fall hissing:hiss
fizzed:fizz failing:fail filing:file happy:happi sky:sky relational:relat rational:ration digitizer:digit
triplicate:triplic hopefulness:hope adoption:adopt opinion:opinion probate:probat rate:rate controll:control
roll:roll is:is 4s:4s possibly:possibl etiology:etiolog awwed:aw
"""


@pytest.mark.parametrize("pair", STEMS.split())
def test_stems(pair: str) -> None:
    word, stem = pair.split(":")
    assert stem_porter(word) == stem


def test_words_with_other_letters_are_their_own_stems() -> None:
    assert [stem_word(form) for form in ("hopping", "naïveness", "4s")] == ["hop", "naïveness", "4s"]
