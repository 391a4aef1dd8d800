"""Stem English words by Porter's program, which Terrier follows; Snowball's "porter" follows his paper."""

from collections.abc import Iterable
from functools import lru_cache

_CLASSES = str.maketrans("aeioubcdfghjklmnpqrstvwxz0123456789", "v" * 5 + "c" * 30)
_STEP_2 = (
    ("ational", "ate"),
    ("tional", "tion"),
    ("enci", "ence"),
    ("anci", "ance"),
    ("izer", "ize"),
    ("bli", "ble"),
    ("alli", "al"),
    ("entli", "ent"),
    ("eli", "e"),
    ("ousli", "ous"),
    ("ization", "ize"),
    ("ation", "ate"),
    ("ator", "ate"),
    ("alism", "al"),
    ("iveness", "ive"),
    ("fulness", "ful"),
    ("ousness", "ous"),
    ("aliti", "al"),
    ("iviti", "ive"),
    ("biliti", "ble"),
    ("logi", "log"),
)
_STEP_3 = (
    ("icate", "ic"),
    ("ative", ""),
    ("alize", "al"),
    ("iciti", "ic"),
    ("ical", "ic"),
    ("ful", ""),
    ("ness", ""),
)
# A longer ending stands before its own endings.
_STEP_4 = (
    *("al", "ance", "ence", "er", "ic", "able", "ible", "ant", "ement", "ment", "ent"),
    *("sion", "tion", "ou", "ism", "ate", "iti", "ous", "ive", "ize"),
)


@lru_cache(1 << 16)
def stem_word(form: str) -> str:
    """Return the stem of a normalised English word; words with other letters stay as they are."""
    return stem_porter(form) if form.isascii() and form.isalpha() else form


def stem_porter(word: str) -> str:
    """Return the stem of a word in lower case, as Porter's own program does.

    It departs from his paper (An algorithm for suffix stripping, 1980) in three points: words of one or two letters
    stay as they are, ``bli`` becomes ``ble`` where the paper has ``abli`` and ``able``, and ``logi`` becomes ``log``. A
    digit is a consonant.
    """
    if len(word) <= 2:
        return word
    word = _replace_y(_strip_past(_strip_plural(word)))
    for endings in (_STEP_2, _STEP_3):
        word = _replace_ending(word, endings)
    return _strip_double(_strip_e(_strip_ending(word)))


def _mark_vowels(word: str) -> str:
    """Return ``v`` for every vowel and ``c`` for every consonant; y is a vowel after a consonant."""
    classes = word.translate(_CLASSES)
    while (at := classes.find("y")) >= 0:
        classes = f"{classes[:at]}{'v' if at and classes[at - 1] == 'c' else 'c'}{classes[at + 1 :]}"
    return classes


def _count_measure(word: str) -> int:
    """Return Porter's m, the number of times that consonants follow vowels."""
    return _mark_vowels(word).count("vc")


def _is_double(word: str) -> bool:
    return len(word) > 1 and word[-1] == word[-2] and _mark_vowels(word)[-1] == "c"


def _is_short(word: str) -> bool:
    """Return True for Porter's *o: consonant, vowel, and a consonant other than w, x and y."""
    return word[-1:] not in ("w", "x", "y") and _mark_vowels(word)[-3:] == "cvc"


def _strip_plural(word: str) -> str:
    if word.endswith(("sses", "ies")):
        return word[:-2]
    return word[:-1] if word[-1] == "s" and word[-2] != "s" else word


def _strip_past(word: str) -> str:
    if word.endswith("eed"):
        return word[:-1] if _count_measure(word[:-3]) else word
    ending = "ed" if word.endswith("ed") else "ing"
    stem = word.removesuffix(ending)
    if stem == word or "v" not in _mark_vowels(stem):
        return word
    if stem.endswith(("at", "bl", "iz")):
        return stem + "e"
    if _is_double(stem):
        return stem if stem[-1] in "lsz" else stem[:-1]
    return stem + "e" if _count_measure(stem) == 1 and _is_short(stem) else stem


def _replace_y(word: str) -> str:
    return f"{word[:-1]}i" if word.endswith("y") and "v" in _mark_vowels(word[:-1]) else word


def _replace_ending(word: str, endings: Iterable[tuple[str, str]]) -> str:
    """Return the word with the first matching ending replaced, if a stem precedes it."""
    for ending, new in endings:
        if word.endswith(ending):
            stem = word[: -len(ending)]
            return stem + new if _count_measure(stem) else word
    return word


def _strip_ending(word: str) -> str:
    for ending in _STEP_4:
        if word.endswith(ending):
            # Of "sion" and "tion" only "ion" is the ending.
            stem = word[:-3] if ending in ("sion", "tion") else word[: -len(ending)]
            return stem if _count_measure(stem) > 1 else word
    return word


def _strip_e(word: str) -> str:
    if not word.endswith("e"):
        return word
    measure = _count_measure(word)
    return word[:-1] if measure > 1 or (measure == 1 and not _is_short(word[:-1])) else word


def _strip_double(word: str) -> str:
    return word[:-1] if word.endswith("ll") and _count_measure(word) > 1 else word
