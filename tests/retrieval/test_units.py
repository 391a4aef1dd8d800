"""Chunks; title and abstract in the layouts of the PAN corpus and in odd ones."""

import gzip
import json
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pan_scdg.retrieval.units import cut_chunks, extract_title_abstract

SPOT_CHECK = Path(__file__).parents[2].parent / "shared" / "data" / "pan26-spot-check"
LONG = "Paper text of many words that fill one long line of the corpus, as whole paragraphs do in the plain field. " * 2

CASES = {
    "plain corpus text": (f"Cold Atoms\n\nAbstract\nWe cool.\n\nIntroduction\n{LONG}", "Cold Atoms\nWe cool."),
    "any short line above a paragraph ends it": (f"Ice\n\nAbstract\nWe cool.\n\nTrap Design\n{LONG}", "Ice\nWe cool."),
    "several paragraphs": (
        f"Ice\n\nAbstract\nWe cool.\nTwice.\n\nThen warm.\n\nData\n{LONG}",
        "Ice\nWe cool. Twice. Then warm.",
    ),
    "Markdown query": ("## Abstract\n\nWe cool.\n\n---\n\n## Introduction\n\nIt is.", "We cool."),
    "Markdown with title": (
        "# Cold *Atoms*\n\nA. Author\n\n## 0. Abstract:\nWe cool.\n## 1. Intro\nIt.",
        "Cold *Atoms\nWe cool.",
    ),
    "rule ends it": ("Ice\n\nAbstract\n\nWe cool.\n\n***\n\nMore.", "Ice\nWe cool."),
    "bold heading": ("**Ice**\n\n**ABSTRACT**\n\nWe cool.\n\n**Keywords**\n\nice", "Ice\nWe cool."),
    "label": ("Ice\n\n**Abstract.** We cool.\n\nIntroduction\n\nIt is.", "Ice\nWe cool."),
    "label with dash": ("Ice\n\nAbstract—We cool.\n\n# More\nIt is.", "Ice\nWe cool."),
    "underlined": ("Ice\n===\n\nAbstract\n--------\nWe cool.\n\nMethods\n-------\nSo.", "Ice\nWe cool."),
    "structured abstract": ("# Ice\n## Abstract\n### Background\nWe cool.\n### Aim\nSo.", "Ice\nWe cool."),
    "no abstract heading": ("Cold Atoms\n\nWe cool them.\n\nMore.", "Cold Atoms\nWe cool them. More."),
    "no abstract heading, headings left out": (
        "# Ice\n\n## Introduction\n\nWe cool.\n\n## Data\n\nNone.",
        "Ice\nWe cool. None.",
    ),
    "section name is no title": ("Introduction\n\nWe cool.", "We cool."),
    "one sentence": ("The quick cat is fast.", "The quick cat is fast."),
    "title only": ("Cold Atoms in Traps", "Cold Atoms in Traps"),
    "title and empty abstract": ("Ice\n\nAbstract\n", "Ice"),
    "prose that mentions abstracts": ("Abstract art is old. It sells.", "Abstract art is old. It sells."),
    "empty": (" \n\n ", ""),
}


@pytest.mark.parametrize("case", CASES)
def test_title_and_abstract(case: str) -> None:
    text, expected = CASES[case]
    assert extract_title_abstract(text) == expected


def test_without_abstract_the_first_250_words_stand_for_it() -> None:
    words = [f"w{i}" for i in range(600)]
    found = extract_title_abstract("Ice\n\n" + " ".join(words[:100]) + ".\n\n" + " ".join(words[100:]) + ".")
    assert found.split() == ["Ice", *words[:99], "w99.", *words[100:250]]


def test_an_endless_abstract_is_cut_at_500_words() -> None:
    assert len(extract_title_abstract("## Abstract\n" + "word " * 2000).split()) == 500


def test_a_first_paragraph_is_no_title() -> None:
    assert extract_title_abstract("word " * 50 + "\n\nAbstract\nWe cool.") == "We cool."


@settings(max_examples=50, deadline=None)
@given(
    st.lists(st.sampled_from(["# ", "Abstract", ":", "\n", "\n\n", "word ", "---\n", "**", ".", "Ice"]), max_size=30)
)
def test_only_words_of_the_text_come_out(parts: list[str]) -> None:
    text = "".join(parts)
    found = extract_title_abstract(text)
    assert all(word in text for word in found.split())
    assert found.count("\n") <= 1
    assert found == found.strip()


@pytest.mark.skipif(not SPOT_CHECK.is_dir(), reason="the official spot-check data set is not there")
def test_official_spot_check() -> None:
    with gzip.open(SPOT_CHECK / "corpus.jsonl.gz", "rt", encoding="utf-8") as file:
        documents = {d["doc_id"]: d["default_text"] for d in map(json.loads, file)}
    with (SPOT_CHECK / "queries.jsonl").open(encoding="utf-8") as file:
        query = json.loads(file.readline())["query"]
    paper = extract_title_abstract(documents["hep-ph/0407230"])
    assert paper.startswith("Enhanced Reheating via Bose Condensates\nIn supersymmetric extensions")
    assert paper.endswith("we address some cosmological consequences.")
    assert extract_title_abstract(documents["1803.04393"]).endswith("the latest phenomenological analysis.")
    assert extract_title_abstract(documents["doc-5"]) == "The quick cat is fast."
    abstract = extract_title_abstract(query)
    assert abstract.startswith("Understanding the strong interaction")
    assert abstract.endswith("guiding future measurements.")


def numbers(count: int) -> str:
    return " ".join(map(str, range(count)))


def test_chunks_by_hand() -> None:
    assert cut_chunks(numbers(10), words=4, stride=3, limit=8) == ["0 1 2 3", "3 4 5 6", "6 7 8 9"]
    # The last chunk is anchored at the end.
    assert cut_chunks(numbers(9), words=4, stride=3, limit=8) == ["0 1 2 3", "3 4 5 6", "5 6 7 8"]
    assert cut_chunks(" a\n b ", words=4, stride=3, limit=8) == ["a b"]
    assert cut_chunks("a b c d", words=4, stride=3, limit=8) == ["a b c d"]
    assert cut_chunks(" \n", words=4, stride=3, limit=8) == []


def test_of_many_chunks_evenly_spread_ones_stay() -> None:
    # 20 chunks of one word; linspace(0, 19, 4) = 0, 6.33, 12.67, 19.
    assert cut_chunks(numbers(20), words=1, stride=1, limit=4) == ["0", "6", "13", "19"]
    assert cut_chunks(numbers(20), words=1, stride=1, limit=1) == ["0"]


def test_the_papers_chunks() -> None:
    # 768 + 7 * 512 = 4352 words give exactly eight chunks, one word more gives nine.
    assert len(cut_chunks(numbers(4352), 768, 512, 100)) == 8
    nine = cut_chunks(numbers(4353), 768, 512, 100)
    assert [c.split()[0] for c in nine] == ["0", "512", "1024", "1536", "2048", "2560", "3072", "3584", "3585"]
    assert cut_chunks(numbers(4353), 768, 512, 8) == [nine[i] for i in (0, 1, 2, 3, 5, 6, 7, 8)]


@settings(max_examples=50, deadline=None)
@given(st.integers(1, 60), st.integers(1, 12), st.integers(1, 12), st.integers(2, 9))
def test_chunks_cover_both_ends_and_are_whole(count: int, words: int, stride: int, limit: int) -> None:
    found = cut_chunks(numbers(count), words, stride, limit)
    assert 1 <= len(found) <= limit
    assert len(set(found)) == len(found)
    assert found[0].split()[0] == "0"
    assert found[-1].split()[-1] == str(count - 1)
    assert {len(c.split()) for c in found} == {min(words, count)}


@pytest.mark.parametrize("wrong", [(0, 1, 1), (1, 0, 1), (1, 1, 0)])
def test_chunk_settings_below_one_are_refused(wrong: tuple[int, int, int]) -> None:
    with pytest.raises(ValueError, match="at least 1"):
        cut_chunks("a b", *wrong)
