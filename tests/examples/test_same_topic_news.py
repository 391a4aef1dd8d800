"""The same-topic news are what their README says: independent reports of one event, in the layout of Multi-News."""

import re
from collections import Counter
from itertools import chain, combinations
from pathlib import Path
from statistics import median

import pytest

NEWS = Path(__file__).parents[2] / "examples" / "same-topic-news"
Cluster = tuple[str, ...]


@pytest.fixture(scope="module")
def clusters() -> list[Cluster]:
    """The records by the letter of the layout, without the project's reader."""
    lines = (NEWS / "train.src.cleaned").read_bytes().decode("utf-8").removesuffix("\n").split("\n")
    return [tuple(re.sub(" ?NEWLINE_CHAR ?", "\n", a) for a in line.split(" ||||| ")) for line in lines]


def _pairs(clusters: list[Cluster]) -> list[tuple[str, str]]:
    return [pair for cluster in clusters for pair in combinations(cluster, 2)]


def _word_grams(text: str, n: int) -> set[tuple[str, ...]]:
    words = re.findall(r"\w+", text.lower())
    return set(zip(*(words[i:] for i in range(n))))


def test_thirty_four_events_with_two_or_three_reports_each(clusters: list[Cluster]) -> None:
    assert Counter(map(len, clusters)) == {2: 29, 3: 5}
    assert len(_pairs(clusters)) == 44


def test_every_article_is_short_clean_prose(clusters: list[Cluster]) -> None:
    for article in chain.from_iterable(clusters):
        assert 900 <= len(article) <= 1800, article[:60]  # well inside the paper's 200 to 32,000 characters
        assert "|" not in article
        assert {c for c in article if not " " <= c <= "~"} <= {"\n", "£"}, article[:60]
        assert "  " not in article
        assert all(line == line.strip() for line in article.split("\n"))


def test_no_five_words_in_a_row_are_shared_by_two_reports_of_one_event(clusters: list[Cluster]) -> None:
    for one, other in _pairs(clusters):
        assert not _word_grams(one, 5) & _word_grams(other, 5)
    assert sum(bool(_word_grams(one, 4) & _word_grams(other, 4)) for one, other in _pairs(clusters)) == 11


def test_no_article_comes_twice_not_even_in_parts(clusters: list[Cluster]) -> None:
    seen: Counter[tuple[str, ...]] = Counter()
    for article in chain.from_iterable(clusters):
        seen.update(_word_grams(article, 8))
    assert max(seen.values()) == 1


def test_the_most_similar_article_is_always_about_the_same_event(clusters: list[Cluster]) -> None:
    text = pytest.importorskip("sklearn.feature_extraction.text")
    event = [number for number, cluster in enumerate(clusters) for _ in cluster]
    vectors = text.TfidfVectorizer(stop_words="english", sublinear_tf=True).fit_transform(chain(*clusters))
    similarity = (vectors @ vectors.T).toarray()
    for number, row in enumerate(similarity):
        row[number] = -1
        assert event[row.argmax()] == event[number], clusters[event[number]][0][:60]


def test_the_readme_states_these_counts(clusters: list[Cluster]) -> None:
    lengths = [len(article) for article in chain.from_iterable(clusters)]
    readme = (NEWS / "README.md").read_text(encoding="utf-8")
    assert f"| {len(clusters)} | {len(lengths)} | two (29 clusters) or three (5 clusters) | 44 |" in readme
    assert f"| {min(lengths):,} to {max(lengths):,}, median {median(lengths):,} |" in readme
