"""Multi-News: its files, the pairs drawn from it and their division by clusters."""

import gzip
import json
import random
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pan_scdg.errors import UserError
from studies.data.folders import find_examples
from studies.data.news import (
    Cluster,
    check_articles,
    count_shared_clusters,
    find_clusters,
    format_news_split,
    make_news_pairs,
    read_articles,
    read_clusters,
    read_news_pairs,
    read_news_split,
    split_clusters,
)
from studies.data.records import format_records


def clusters(*sizes: tuple[int, ...]) -> list[Cluster]:
    return [Cluster(f"cluster-{i:06d}", tuple("x" * size for size in line)) for i, line in enumerate(sizes, start=1)]


MANY = clusters(*[(300, 400, 500)] * 30)


def test_articles_are_read_from_every_form_of_the_file(tmp_path: Path) -> None:
    line = "First. NEWLINE_CHAR  NEWLINE_CHAR Second. ||||| Other one"
    text = f"{line}\n\nAlone |||||\n{line} |||||\n"
    with gzip.open(tmp_path / "train.src.gz", "wt", encoding="utf-8") as file:
        file.write(text)
    found = list(read_clusters(find_clusters(tmp_path)))
    articles = ("First. \n  \n Second.", "Other one")
    assert found == [
        Cluster("cluster-000001", articles),
        Cluster("cluster-000003", ("Alone", "")),
        Cluster("cluster-000004", (*articles, "")),
    ]
    assert read_articles(tmp_path / "train.src.gz", ["cluster-000004"]) == {"cluster-000004": (*articles, "")}
    with pytest.raises(UserError, match="1 clusters of the manifest are not in the file, cluster-000009 first"):
        read_articles(tmp_path / "train.src.gz", ["cluster-000009"])


def test_one_file_of_clusters_and_no_other(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="no file of clusters"):
        find_clusters(tmp_path)
    (tmp_path / "train.src").touch()
    (tmp_path / "train.src.cleaned").touch()
    with pytest.raises(UserError, match="several files of clusters"):
        find_clusters(tmp_path)


def test_the_limits_of_length_belong_to_the_range() -> None:
    (cluster,) = clusters((199, 200, 0, 32_000, 32_001))
    assert list(cluster.measure_eligible()) == [1, 3]


def test_pairs_are_drawn_as_the_rule_says() -> None:
    some = clusters((300, 400, 500), (300, 100), (300, 400), (250, 250, 33_000, 900), (10,))
    generator = random.Random(42)
    order = ["cluster-000001", "cluster-000003", "cluster-000004"]
    generator.shuffle(order)
    places = {"cluster-000001": [0, 1, 2], "cluster-000003": [0, 1], "cluster-000004": [0, 1, 3]}
    expected = {cluster: tuple(generator.sample(places[cluster], 2)) for cluster in order}
    pairs = make_news_pairs(some)
    assert {p.cluster_id: (p.susp_article, p.src_article) for p in pairs} == expected
    assert [p.cluster_id for p in pairs] == sorted(order)
    assert len(make_news_pairs(some, most=2)) == 2
    check_articles(pairs, some, Path("m"))


@settings(max_examples=50, deadline=None)
@given(st.lists(st.lists(st.integers(150, 400), max_size=5).map(tuple), max_size=30), st.integers(0, 99))
def test_pairs_are_of_two_eligible_articles_of_one_cluster_each(sizes: list[tuple[int, ...]], seed: int) -> None:
    data = {c.cluster_id: c for c in clusters(*sizes)}
    eligible = {name for name, c in data.items() if len(c.measure_eligible()) > 1}
    if not eligible:
        with pytest.raises(UserError, match="no cluster has two articles"):
            make_news_pairs(data.values(), seed)
        return
    pairs = make_news_pairs(data.values(), seed)
    assert {p.cluster_id for p in pairs} == eligible
    assert len(pairs) == len(eligible)
    for pair in pairs:
        assert {pair.susp_article, pair.src_article} <= set(data[pair.cluster_id].measure_eligible())
        assert pair.susp_article != pair.src_article
    assert pairs == make_news_pairs(data.values(), seed)


@settings(max_examples=50, deadline=None)
@given(st.integers(3, 200), st.integers(0, 99))
def test_the_division_is_by_clusters_and_a_fifth_is_test(count: int, seed: int) -> None:
    pairs = make_news_pairs(clusters(*[(300, 300)] * count))
    parts = split_clusters(pairs, seed)
    shuffled = sorted(p.cluster_id for p in pairs)
    np.random.default_rng(seed).shuffle(shuffled)
    test = set(shuffled[: int(np.floor(count / 5 + 0.5))])
    assert {p.cluster_id for p in pairs if parts[p.pair_id] == "test"} == test
    assert count_shared_clusters(pairs, parts) == {"cluster_overlap_count": 0, "pair_overlap_count": 0}


def test_eight_thousand_pairs_are_divided_as_in_the_paper() -> None:
    pairs = make_news_pairs(clusters(*[(200, 200)] * 8100))
    parts = list(split_clusters(pairs).values())
    assert (len(pairs), parts.count("train"), parts.count("test")) == (8000, 6400, 1600)


def test_what_is_written_is_read_again(tmp_path: Path) -> None:
    pairs = make_news_pairs(MANY)
    parts = split_clusters(pairs)
    (tmp_path / "m.jsonl").write_text(format_records(pairs))
    (tmp_path / "s.csv").write_text(format_news_split(pairs, parts))
    assert read_news_pairs(tmp_path / "m.jsonl") == pairs
    assert read_news_split(tmp_path / "s.csv", pairs) == parts


def line(**changes: Any) -> str:
    return json.dumps({**json.loads(format_records(make_news_pairs(MANY)[:1])), **changes})


@pytest.mark.parametrize(
    ("second", "what"),
    [
        (line(), "occurs twice"),
        (line(pair_id="x", doc_label=1), "doc_label"),
        (line(pair_id="x", susp_article=1, src_article=1), "paired with itself"),
        (line(pair_id="x", susp_article=-1), "susp_article"),
        (line(pair_id=""), "an empty id"),
        ("5", "a JSON object"),
    ],
)
def test_a_bad_manifest_of_news_is_one_clear_line(tmp_path: Path, second: str, what: str) -> None:
    (tmp_path / "m.jsonl").write_text(f"{line()}\n{second}\n")
    with pytest.raises(UserError, match=what) as caught:
        read_news_pairs(tmp_path / "m.jsonl")
    assert caught.value.line == 2


def test_a_manifest_of_other_articles_and_a_split_that_divides_a_cluster(tmp_path: Path) -> None:
    pairs = make_news_pairs(MANY)
    for other in (MANY[1:], clusters(*[(300, 401, 501)] * 30), clusters(*[(300,)] * 30)):
        with pytest.raises(UserError, match="are not in the data as recorded in the manifest"):
            check_articles(pairs, other, tmp_path)
    (tmp_path / "empty.jsonl").touch()
    with pytest.raises(UserError, match="contains no pair"):
        read_news_pairs(tmp_path / "empty.jsonl")
    first = pairs[0]
    twice = (first, type(first)("again", first.cluster_id, first.src_article, first.susp_article, 1, 1, 0))
    (tmp_path / "s.csv").write_text(f"pair_id,split\n{first.pair_id},train\nagain,test\n")
    with pytest.raises(UserError, match="1 clusters are in training and test"):
        read_news_split(tmp_path / "s.csv", twice)
    assert count_shared_clusters(twice, {first.pair_id: "train", "again": "test"}) == {
        "cluster_overlap_count": 1,
        "pair_overlap_count": 1,
    }


def test_the_examples_are_read_unchanged() -> None:
    found = list(read_clusters(find_clusters(find_examples().multinews)))
    pairs = make_news_pairs(found)
    assert len(found) == len(pairs) >= 30
    assert all("NEWLINE_CHAR" not in article and article for cluster in found for article in cluster.articles)
