"""Terrier's terms in Python against their rules, and against Terrier itself where its jars are."""

import random
import re
import string
from collections import Counter
from collections.abc import Iterable
from typing import Any
from zipfile import ZipFile

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pan_scdg.errors import UserError
from pan_scdg.retrieval import terrier_terms
from pan_scdg.retrieval.bm25 import pick_rarest
from pan_scdg.retrieval.terrier_jars import TERRIER_JAR, find_jar_folder, start_terrier
from pan_scdg.retrieval.terrier_terms import TermPipeline, read_stopwords
from pan_scdg.text.stemming import stem_porter

ENDINGS = """
s es ies sses ed eed ing ational tional enci anci izer bli alli entli eli ousli ization ation ator alism iveness
fulness ousness aliti iviti biliti logi icate ative alize iciti ical ful ness al ance ence er ic able ible ant
ement ment ent ion sion tion ou ism ate iti ous ive ize y e ll ss zz at bl iz
"""


@pytest.fixture(scope="module")
def pyterrier() -> Any:
    try:
        return start_terrier()
    except UserError as e:
        pytest.skip(str(e))


def made_up_words(count: int, seed: int) -> list[str]:
    """Short stems of any letters and digits with one to three of the endings that the stemmer knows."""
    rng = random.Random(seed)
    letters = string.ascii_lowercase + "aeiouy" * 3 + "019"
    return [
        "".join(rng.choices(letters, k=rng.randint(0, 6))) + "".join(rng.choices(ENDINGS.split(), k=rng.randint(0, 3)))
        for _ in range(count)
    ]


def literal_tokens(text: str) -> list[str]:
    """The rules, letter by letter."""
    found, run = [], ""
    for sign in [*text, " "]:
        if sign in string.ascii_letters + string.digits:
            run += sign
            continue
        digits = sum(c in string.digits for c in run)
        if run and len(run) <= 20 and digits <= 4 and not any(4 * c in run for c in set(run)):
            found.append(run.lower())
        run = ""
    return found


def check_tokens(text: str, tokens: Iterable[str]) -> None:
    """The terms of a text are the stems of these tokens without the stopwords."""
    expected = Counter(stem_porter(token) for token in tokens if token not in read_stopwords())
    assert TermPipeline().count_terms(text) == expected, text


@given(st.text(st.sampled_from("aAbB1239 -_.éİK ſ語\x00\n"), max_size=80) | st.text(max_size=40))
def test_tokens_follow_the_rules(text: str) -> None:
    check_tokens(text, literal_tokens(text))


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("Zürich's BM25-F1", ["rich", "bm25", "f1"]),
        ("a" * 3 + " " + "b" * 4 + " aaAa", ["aaa", "aaaa"]),
        ("1234 12345 x1y2z3w4v5", ["1234"]),
        ("ab" * 10 + " " + "ab" * 10 + "c", ["ab" * 10]),
        ("x" * 100_000, []),
        ("\ud800lone\udfff \x00nul\x07", ["lone", "nul"]),
        ("", []),
    ],
)
def test_tokens_of_odd_texts(text: str, expected: list[str]) -> None:
    check_tokens(text, expected)


def test_stems_are_terriers(pyterrier: Any) -> None:
    stemmer = pyterrier.java.autoclass("org.terrier.terms.PorterStemmer")()
    words = sorted({word for word in made_up_words(20_000, 1) if word})
    assert [(w, stem_porter(w)) for w in words] == [(w, stemmer.stem(w)) for w in words]


def test_tokens_are_terriers(pyterrier: Any) -> None:
    tokeniser = pyterrier.java.autoclass("org.terrier.indexing.tokenisation.Tokeniser").getTokeniser()
    reader = pyterrier.java.autoclass("java.io.StringReader")
    rng = random.Random(2)
    for _ in range(500):
        text = "".join(rng.choices("aaAAbB112233 é-_.\x00\x1cİK ſ語\n😀aA1", k=rng.randint(0, 60)))
        stream, found = tokeniser.tokenise(reader(text)), []
        while stream.hasNext():
            found.append(stream.next())
        check_tokens(text, [token for token in found if token is not None])


def test_the_pipeline_stops_and_stems_and_counts() -> None:
    pipeline = TermPipeline()
    assert pipeline.count_terms("The models, the Model and used MODELLING!") == {"model": 3}
    # A word is stopped before it is stemmed: what only becomes a stopword stays.
    assert pipeline.count_terms("mosts most") == {"most": 1}


def test_forgetting_changes_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    text = " ".join(made_up_words(200, 3)) * 2
    expected = TermPipeline().count_terms(text)
    monkeypatch.setattr("pan_scdg.retrieval.terrier_terms.CACHE_SIZE", 7)
    assert TermPipeline().count_terms(text) == expected


def test_rarest_terms_by_frequency_then_by_name() -> None:
    frequencies = {"x": 3, "b": 1, "absent": 0, "a": 1, "y": 2}
    assert pick_rarest(frequencies, 3) == ["a", "b", "y"]
    assert pick_rarest(frequencies, 9) == ["a", "b", "y", "x"]


def test_the_stopwords_are_those_of_the_jar_below_a_notice() -> None:
    notice, words = re.split(r"\n(?!#)", terrier_terms.STOPWORD_FILE.read_text(encoding="ascii"), maxsplit=1)
    assert "Mozilla Public License Version 1.1" in notice
    assert terrier_terms.STOPWORD_FILE.with_name("MPL-1.1.txt").is_file()
    assert read_stopwords() == set(words.split())
    jar = find_jar_folder() / TERRIER_JAR
    if not jar.is_file():
        pytest.skip(f"Terrier's jar is not here: {jar}")
    with ZipFile(jar) as archive:
        assert archive.read("stopword-list.txt").decode("ascii") == words
