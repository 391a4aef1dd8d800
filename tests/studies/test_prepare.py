"""``prepare``: valid PAN folders whose parts share nothing, instances by every condition, and nested contexts."""

import csv
import gzip
import json
import random
import shutil
from collections.abc import Iterable
from itertools import combinations
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tokenizers import Tokenizer

from pan_scdg.bundled import find_bundled
from pan_scdg.errors import UserError
from pan_scdg.notices import Notices
from pan_scdg.pan.text_alignment import read_pairs, read_text
from pan_scdg.pan.truth import read_truth
from studies import authors as published
from studies import prepare as preparation
from studies.__main__ import main
from studies.contexts import (
    LEVELS,
    Instance,
    cut_text,
    derive_seed,
    divide,
    draw_distractor,
    make_contexts,
    read_pool,
    select_instances,
)
from studies.corpora import TruePair, find_examples, read_clusters, read_corpora
from studies.results import ManifestPair, read_manifest
from studies.splits import (
    SEEDS,
    count_classes,
    count_shared,
    make_folds,
    make_splits,
    name_components,
    read_folds,
    read_split,
    read_splits,
)
from tests.studies.made_results import feature, read_tables, write_corpus

WORDS = [
    "the",
    "council",
    "of",
    "a",
    "small",
    "town",
    "said",
    "on",
    "Monday",
    "that",
    "its",
    "old",
    "bridge",
    "would",
    "be",
    "closed",
    "for",
    "repairs",
]
FIELDS = [
    *("pair_id", "susp_file", "src_file", "xml_file", "xml_exists", "doc_label", "num_annotations_for_pair"),
    *("annotations", "susp_tokens", "src_tokens", "total_tokens"),
]
"""Of the paper's manifest."""
PAIRS = st.lists(
    st.tuples(st.integers(0, 30), st.integers(0, 30), st.booleans()), max_size=40, unique_by=lambda p: p[:2]
)


def pair(susp: str, src: str, label: int = 1) -> ManifestPair:
    return ManifestPair(f"{susp}-{src}", f"{susp}.txt", f"{src}.txt", int(label))


def prepare(output: Path, *more: object) -> int:
    return main(["prepare", "--output", str(output), *map(str, more)])


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The examples, prepared; to read only."""
    output = tmp_path_factory.mktemp("prepared") / "out"
    assert prepare(output, "--examples", "--instances", 4, "--seeds", 2) == 0
    return output


def test_the_pairs_are_a_corpus_with_the_truth_of_the_data(made: Path) -> None:
    corpus = {true.pair_id: true for true in read_corpora(find_examples().corpora, Notices())}
    written = read_pairs(made / "pan25", Notices()).pairs
    truth = read_truth(made / "pan25" / "truth", written)
    manifest = read_manifest(made / "pan25" / "manifest.jsonl")
    assert count_classes(manifest) == {"Positive": 24, "Negative": 24, "Total": 48}
    for record, found in zip(manifest, written, strict=True):
        true = corpus.pop(record.pair_id)
        assert [read_text(file) for file in found[:2]] == [read_text(file) for file in true.pair[:2]]
        assert truth[found.suspicious.doc_id, found.source.doc_id] == true.passages
        assert record.names == (found.suspicious.doc_id, found.source.doc_id)
        assert record.doc_label == bool(true.passages)
    assert not corpus
    splits = read_splits(made / "pan25" / "splits", manifest)
    assert [(len(s.train), len(s.test)) for s in splits] == [(38, 10)] * 20
    assert splits == make_splits(manifest)


def test_news_and_contexts_are_corpora_of_pairs(made: Path) -> None:
    clusters = {c.cluster_id: c.articles for c in read_clusters(find_examples().multinews)}
    news = read_pairs(made / "multinews", Notices()).pairs
    assert len({p.suspicious.doc_id[:14] for p in news}) == len(news) == len(clusters)
    for found in news:
        for document in found[:2]:
            cluster, _, place = document.doc_id.rpartition("-")
            assert read_text(document) == clusters[cluster][int(place)]
    split = read_split(made / "multinews" / "split.csv", read_manifest(made / "multinews" / "manifest.jsonl"))
    assert (len(split.train), len(split.test)) == (27, 7)
    contexts = [json.loads(line) for line in (made / "retention" / "manifest.jsonl").read_text().splitlines()]
    written = read_pairs(made / "retention", Notices()).pairs
    assert [p.suspicious.reference for p in written] == [context["susp_file"] for context in contexts]
    assert [p.source.reference for p in written] == [context["src_file"] for context in contexts]
    assert len(contexts) == 4 * 2 * 5
    folds = read_folds(made / "pan26" / "folds.jsonl", {f"q{i:02}" for i in range(1, 16)})
    assert sum(fold.role == "holdout" for fold in folds.values()) == 3


def test_the_same_data_gives_the_same_bytes_and_a_former_output_is_replaced(made: Path, tmp_path: Path) -> None:
    arguments = ("--examples", "--part", "pan25", "--part", "pan26")
    assert prepare(tmp_path / "out", *arguments) == 0
    assert prepare(tmp_path / "out", *arguments) == 2
    assert prepare(tmp_path / "out", *arguments, "--overwrite") == 0
    files = [p.relative_to(tmp_path / "out") for p in (tmp_path / "out").rglob("*") if p.is_file()]
    assert sorted(p.name for p in (tmp_path / "out").iterdir()) == ["index.md", "pan25", "pan26", "tables.json"]
    for name in files:
        if name.parent.name:
            assert (made / name).read_bytes() == (tmp_path / "out" / name).read_bytes()


def test_pairs_of_too_many_tokens_are_left_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    texts = {f"{side}{i}": f"text of {side}{i}" for side in "sr" for i in range(12)} | {
        "s3": "one two three four five six seven eight"
    }
    write_corpus(
        tmp_path / "data" / "pan25", {f"s{i}-r{i}": feature(f"r{i}") if i % 2 else "" for i in range(12)}, texts
    )
    folder = find_bundled("model_cache") / "scdg-mini"
    tokenizer = Tokenizer.from_file(str(folder / "tokenizer.json"))
    tokens = {name: len(tokenizer.encode(text, add_special_tokens=False).ids) for name, text in texts.items()}
    monkeypatch.setattr(preparation, "MAX_TOKENS", most := max(tokens[f"s{i}"] + tokens[f"r{i}"] for i in (0, 11)))
    assert most < tokens["s3"] + tokens["r3"]
    assert prepare(tmp_path / "out", "--data", tmp_path / "data", "--part", "pan25", "--tokenizer", folder) == 0
    lines = (tmp_path / "out" / "pan25" / "manifest.jsonl").read_text().splitlines()
    totals = {record["susp_file"][:-4]: record["total_tokens"] for record in map(json.loads, lines)}
    expected = {f"s{i}": tokens[f"s{i}"] + tokens[f"r{i}"] for i in range(12)}
    assert totals == {name: total for name, total in expected.items() if total <= most}
    assert "s3" not in totals
    assert f"with more than {most:,} tokens: {12 - len(totals)}." in (tmp_path / "out" / "index.md").read_text()


@pytest.fixture
def authors(tmp_path: Path) -> Path:
    """A folder for the authors' files of twelve pairs and five clusters in ``data/``."""
    truth = {f"s{i}-r{i}": feature(f"r{i}.txt", (0, 5, 0, 6)) if i % 2 else "" for i in range(12)}
    write_corpus(tmp_path / "data" / "pan25", truth)
    (tmp_path / "data" / "multinews").mkdir()
    lines = (f"{' ||||| '.join(f'article {i} {j} {prose(200, i)}' for j in range(3))}\n" for i in range(5))
    (tmp_path / "data" / "multinews" / "train.src").write_text("".join(lines))
    (tmp_path / "authors" / "splits").mkdir(parents=True)
    return tmp_path / "authors"


def write_lines(path: Path, records: Iterable[dict[str, Any]]) -> None:
    path.parent.mkdir(exist_ok=True)
    path.write_text("".join(f"{json.dumps(record)}\n" for record in records))


def pair_record(i: int, **changes: object) -> dict[str, Any]:
    """A line of the paper's manifest, with its eleven fields."""
    return {
        "pair_id": f"pair{i}",
        "susp_file": f"x/s{i}.txt",
        "src_file": f"r{i}.txt",
        "xml_file": f"s{i}-r{i}.xml",
        "xml_exists": True,
        "doc_label": i % 2,
        "num_annotations_for_pair": i % 2,
        "annotations": [{"this_offset": 0}] * (i % 2),
        "susp_tokens": 5,
        "src_tokens": 6,
        "total_tokens": 11,
        **changes,
    }


def news_record(i: int, **changes: object) -> dict[str, Any]:
    record = {"pair_id": f"n{i}", "susp_file": f"a{i}.txt", "src_file": f"b{i}.txt", "doc_label": 0}
    return record | {"cluster_id": i, "susp_idx": 2, "src_idx": 0, **changes}


def context_record(pair_id: str, seed: int, level: float, **changes: object) -> dict[str, Any]:
    text = f"context {seed} {level:.2f}"
    return {"pair_id": pair_id, "seed_idx": seed, "retention_ratio": level, "source_context": text, **changes}


def test_the_authors_files_are_taken(authors: Path, tmp_path: Path) -> None:
    write_lines(authors / published.PAIRS, (pair_record(i) for i in range(10)))
    (authors / "splits" / "one.csv").write_text(
        "pair_id,split\n" + "".join(f"pair{i},{'test' if i < 3 else 'train'}\n" for i in range(10))
    )
    write_lines(authors / published.NEWS, (news_record(i) for i in (3, 0, 1)))
    (authors / published.NEWS_SPLIT).write_text("pair_id,partition\nn0,train\nn1,test\nn3,training\n")
    write_lines(
        authors / published.CONTEXTS,
        (context_record(f"s{i}-r{i}", s, level) for level in LEVELS for s in (1, 0) for i in (3, 1)),
    )
    out = tmp_path / "out"
    assert prepare(out, "--data", tmp_path / "data", "--authors", authors) == 0
    assert [json.loads(line) for line in (out / "pan25" / "manifest.jsonl").read_text().splitlines()] == [
        pair_record(i) for i in range(10)
    ]
    found = read_pairs(out / "pan25", Notices()).pairs
    assert len(read_truth(out / "pan25" / "truth", found)) == 10
    index = json.loads((out / "pan25" / "splits" / "manifest_index.json").read_text())["splits"]
    assert [(one["file"], one["test"]) for one in index] == [("one.csv", {"Positive": 1, "Negative": 2, "Total": 3})]
    news = read_manifest(out / "multinews" / "manifest.jsonl")
    assert [pair.pair_id for pair in news] == ["n0", "n1", "n3"]
    assert (out / "multinews" / "susp" / "a3.txt").read_text().startswith("article 3 2 ")
    assert (out / "multinews" / "src" / "b0.txt").read_text().startswith("article 0 0 ")
    assert read_split(out / "multinews" / "split.csv", news).test == ("n1",)
    contexts = [json.loads(line) for line in (out / "retention" / "manifest.jsonl").read_text().splitlines()]
    assert [(c["pair_id"], c["seed"], c["retention"]) for c in contexts] == [
        (f"s{i}-r{i}", s, level) for i in (3, 1) for s in (0, 1) for level in LEVELS
    ]
    assert contexts[0]["selected"] == [0, 0]
    assert contexts[0]["reused"] == [[0, 5]]
    for context in contexts:
        text = (out / "retention" / "src" / context["src_file"]).read_text()
        assert text == f"context {context['seed']} {context['retention']:.2f}"


@pytest.mark.parametrize(
    ("name", "records", "what"),
    [
        (published.PAIRS, [pair_record(0), pair_record(1, susp_tokens="5")], "PAIRS:2: susp_tokens: Input should be"),
        (
            published.PAIRS,
            [{k: v for k, v in pair_record(0).items() if k != "xml_file"}],
            "PAIRS:1: xml_file: ",
        ),
        (published.PAIRS, [pair_record(1, num_annotations_for_pair=2)], "PAIRS:1: num_annotations_for_pair is 2, but"),
        (published.PAIRS, [pair_record(0, doc_label=1)], "the pair 'pair0' has the label 1, but 0 annotations"),
        (published.PAIRS, [pair_record(0, src_file="other.txt")], "the pair 'pair0' is not in the data"),
        (published.NEWS, [news_record(0), news_record(1, doc_label=2)], "NEWS:2: doc_label: "),
        (published.NEWS, [news_record(0, cluster_id=None)], "NEWS:1: cluster_id: "),
        (published.NEWS, [news_record(0, src_idx=3), news_record(1)], "cluster-000001 has 3 articles, 'n0' names 3"),
        (published.NEWS, [news_record(9), news_record(1)], "there is no cluster-000010, which 'n9' names"),
        (published.CONTEXTS, [context_record("s1-r1", 5, 0.0)], "CONTEXTS:1: seed_idx: "),
        (published.CONTEXTS, [context_record("s1-r1", 0, 0.3)], "CONTEXTS:1: retention: 0.3 is none of"),
        (published.CONTEXTS, [context_record("s1-r1", 0, 0.5, source_context=None)], "CONTEXTS:1: has neither"),
        (published.CONTEXTS, [context_record("s1-r1", 0, 0.5)], "the pair 's1-r1' has 1 of 5 contexts"),
        (published.CONTEXTS, [context_record("x", 0, level) for level in LEVELS], "the pair 'x' is not in the data"),
        (
            published.CONTEXTS,
            [context_record("s1-r1", 0, level, source_context="a" * int(51 * level)) for level in LEVELS],
            "contexts of 's1-r1', seed 0, differ by 51 characters, more than 50",
        ),
    ],
)
def test_a_wrong_file_of_the_authors_is_one_line(
    authors: Path,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    name: str,
    records: list[dict[str, Any]],
    what: str,
) -> None:
    write_lines(authors / name, records)
    part = {published.PAIRS: "pan25", published.NEWS: "multinews", published.CONTEXTS: "retention"}[name]
    arguments = ("--data", tmp_path / "data", "--authors", authors, "--part", part)
    assert prepare(tmp_path / "out", *arguments) == 2
    error = capsys.readouterr().err
    what = what.replace("PAIRS", published.PAIRS).replace("NEWS", published.NEWS)
    assert what.replace("CONTEXTS", published.CONTEXTS) in error
    assert error.count("\n") == 1
    assert not (tmp_path / "out").exists()


def test_the_promised_files_say_what_the_data_says(made: Path) -> None:
    """Each is read back and counted again from the data, without the functions that wrote it."""
    data = find_examples()
    folder = find_bundled("model_cache") / "scdg-mini"
    tokenizer = Tokenizer.from_file(str(folder / "tokenizer.json"))
    lines = [json.loads(line) for line in (made / "pan25" / "manifest.jsonl").read_text().splitlines()]
    for line in lines:
        half = next(half for half in data.corpora if (half / "truth" / line["xml_file"]).exists())
        root = ElementTree.parse(half / "truth" / line["xml_file"]).getroot()
        features = [e.attrib for e in root.iter("feature") if e.attrib["name"] == "plagiarism"]
        own = [f for f in features if f["source_reference"] == line["src_file"]]
        assert [{k: str(v) for k, v in one.items()} for one in line["annotations"]] == [
            {name: f[name] for name in line["annotations"][0]} for f in own
        ]
        sizes = [
            len(tokenizer.encode((half / side / line[f"{side}_file"]).read_text(), add_special_tokens=False).ids)
            for side in ("susp", "src")
        ]
        assert list(line) == FIELDS
        assert [line[name] for name in FIELDS[4:7]] == [True, int(bool(own)), len(own)]
        assert [line[name] for name in FIELDS[8:]] == [*sizes, sum(sizes)]
    index = json.loads((made / "pan25" / "splits" / "manifest_index.json").read_text())["splits"]
    assert [one["file"] for one in index] == [f"split_seed{seed}.csv" for seed in range(20260714, 20260734)]
    by_id = {line["pair_id"]: line for line in lines}
    for one in index:
        rows = rows_of(made / "pan25" / "splits" / one["file"])
        sides = [[by_id[row["pair_id"]] for row in rows if row["split"] == part] for part in ("train", "test")]
        for part, own in zip(("train", "test"), sides):
            assert one[part]["Positive"] == sum(line["doc_label"] for line in own)
            assert one[part]["Total"] == len(own)
        for field, count in (("susp_file", "suspicious_overlap_count"), ("src_file", "source_overlap_count")):
            assert one[count] == len(set.intersection(*({line[field] for line in own} for own in sides))) == 0
        assert one["component_overlap_count"] == 0
    qrels = [line.split() for line in (data.pan26 / "qrels.txt").read_text().splitlines()]
    judged = {(query, document): int(grade) for query, _, document, grade in qrels}
    auxiliary = [
        json.loads(line) for line in (made / "pan26" / "pan2026_pairs_manifest.jsonl").read_text().splitlines()
    ]
    keys = [(line["susp_file"], line["src_file"]) for line in auxiliary]
    assert len({*keys}) == len(keys) == len(judged) + 20 * 15
    assert {key: line["grade"] for key, line in zip(keys, auxiliary) if line["grade"] is not None} == judged
    assert all(line["doc_label"] == (judged.get(key, 0) > 0) for key, line in zip(keys, auxiliary))
    with gzip.open(data.pan26 / "corpus.jsonl.gz", "rt") as file:
        documents = {json.loads(line)["doc_id"] for line in file}
    assert {document for _, document in keys} <= documents
    tables = read_tables(made)
    counts = {row["Quantity"]: row["Count"] for row in tables["pan26"]}
    assert (counts["Candidate source documents"], tables["pan26-auxiliary"][0]["Rows"]) == (len(documents), len(keys))
    for name, ours, paper in (
        ("pan25-splits", {"Positive": 24, "Negative": 24, "Total": 48}, (4777, 2014, 6791)),
        ("multinews", {"Pairs": 34, "Clusters": 34}, (8000, 8000)),
    ):
        row = {"Partition": "All", **ours, **dict(zip((f"{column}, paper" for column in ours), paper))}
        assert tables[name][-1] == row
    assert tables["pan26-folds"][-1] == {"Fold": "All", "Queries": 15, "Paper": 200, "Role": None}
    page = (made / "index.md").read_text().replace("\\", "")
    assert "cluster_overlap_count=0, pair_overlap_count=0" in page
    assert "- warning: other counts than the paper's: All pairs 48, in the paper 6,791; Positive pairs 24" in page
    assert "without the authors' manifest" in page
    excluded = [json.loads(line) for line in (made / "retention" / "exclusion_log.jsonl").read_text().splitlines()]
    instances, rejected = select_instances(read_corpora(data.corpora, Notices()), read_pool(data.multinews), 4)
    assert {line["pair_id"]: line["reason"] for line in excluded} == rejected
    assert not {i.pair_id for i in instances} & rejected.keys()


@pytest.mark.parametrize(
    ("arguments", "what"),
    [
        ([], "give either --data or --examples"),
        (["--examples", "--data", "."], "give either --data or --examples"),
        (["--examples", "--part", "pan12"], "pan12"),
        (["--data", "gone"], "gone: the directory does not exist. Correct --data"),
        (["--data", "docs"], "no data for any study: looked for multinews, pan25, pan26"),
        (["--data", "docs", "--part", "pan25"], "pan25: the directory does not exist"),
        (["--examples", "--part", "pan25", "--tokenizer", "docs"], "the tokenizer cannot be read"),
    ],
)
def test_wrong_options_are_one_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], arguments: list[str], what: str
) -> None:
    assert prepare(tmp_path / "out", *arguments) == 2
    error = capsys.readouterr().err
    assert what in error
    assert error.count("\n") == 1
    assert not (tmp_path / "out").exists()


def test_corpora_and_what_is_wrong_with_them(tmp_path: Path) -> None:
    a, b = (write_corpus(tmp_path / "two" / name, {f"s{name}-r{name}": feature(f"r{name}")}) for name in "ab")
    assert [true.pair_id for true in read_corpora([a, b], Notices())] == ["sa-ra", "sb-rb"]
    with pytest.raises(UserError, match=f"several inputs: a, b. Move the others out, or give one: --input {b}"):
        read_corpora([tmp_path / "two"], Notices())
    c = shutil.copytree(a, tmp_path / "two" / "c")
    with pytest.raises(UserError, match=r"two suspicious documents are named sa\.txt"):
        read_corpora([a, c], Notices())
    (a / "truth" / "sa-ra.xml").unlink()
    with pytest.raises(UserError, match="contains no truth file of any pair"):
        read_corpora([a], Notices())
    with pytest.raises(UserError, match="no file of clusters"):
        list(read_clusters(tmp_path))


# splits and folds


def literal_test_part(pairs: list[ManifestPair], seed: int) -> set[str]:
    """The rule of the paper, step by step."""
    names = name_components([p.names for p in pairs])
    labels = {c: [p.doc_label for p, n in zip(pairs, names) if n == c] for c in names}
    kind = {c: (sum(of), len(of) - sum(of)) for c, of in labels.items()}
    generator, chosen = np.random.default_rng(seed), set()
    for stratum in sorted(set(kind.values())):
        ids = sorted(c for c in kind if kind[c] == stratum)
        generator.shuffle(ids)
        chosen |= set(ids[: int(np.floor(0.2 * len(ids) + 0.5))])
    return {p.pair_id for p, n in zip(pairs, names) if n in chosen}


@settings(max_examples=50, deadline=None)
@given(PAIRS, st.integers(0, 2**32))
def test_splits_are_disjoint_complete_and_as_the_rule_says(drawn: list[tuple[int, int, bool]], seed: int) -> None:
    pairs = [pair(f"s{a}", f"r{b}", label) for a, b, label in drawn]
    expected = literal_test_part(pairs, seed)
    if not 0 < len(expected) < len(pairs):
        with pytest.raises(UserError, match="too few pairs"):
            make_splits(pairs, [seed])
        return
    (split,) = make_splits(pairs, [seed])
    assert set(split.test) == expected
    assert sorted((*split.train, *split.test)) == sorted(p.pair_id for p in pairs)
    assert list(count_shared(pairs, split).values()) == [0, 0, 0]


def test_a_split_stays_what_it_is_with_another_numpy() -> None:
    pairs = [pair(f"s{i}", f"r{i:02}", i < 10) for i in range(20)]
    assert [split.test for split in make_splits(pairs, SEEDS[:2])] == [
        ("s1-r01", "s8-r08", "s11-r11", "s17-r17"),
        ("s2-r02", "s8-r08", "s10-r10", "s16-r16"),
    ]


def test_the_counts_of_the_paper_come_out() -> None:
    """6,791 pairs of 6,770 suspicious and 6,768 source files, 4,777 positive: 44 components have two pairs."""
    pairs = []
    for i, labels in enumerate([(1, 1)] + [(0, 0)] * 8 + [(1, 0)] * 35):
        names = [(f"s{i}", f"r{i}.{j}") if i < 21 else (f"s{i}.{j}", f"r{i}") for j in (0, 1)]
        pairs += [pair(*name, label) for name, label in zip(names, labels)]
    pairs += [pair(f"s{i}", f"r{i}", i < 5740) for i in range(1000, 7703)]
    assert count_classes(pairs) == {"Positive": 4777, "Negative": 2014, "Total": 6791}
    by_id = {p.pair_id: p for p in pairs}
    for split in make_splits(pairs, SEEDS[:3]):
        assert count_classes([by_id[i] for i in split.test]) == {"Positive": 955, "Negative": 404, "Total": 1359}


@pytest.mark.parametrize(
    ("lines", "what"),
    [
        ("pair_id,part\n", "lacks the column pair_id or split"),
        ("pair_id,split\na-x,train\n", "has other pairs than the manifest, for example 'b-y'"),
        ("pair_id,split\na-x,train\nb-y,test\nc-x,test\n", "have documents in common"),
        ("pair_id,split\na-x,train\na-x,test\n", "occurs twice"),
        ("pair_id,split\na-x,train\nb-y,dev\nc-x,test\n", "neither train nor test"),
        ("pair_id,split\na-x,train\nb-y\n", "differ in their number of columns"),
        ("pair_id,split\na-x,test\nb-y,test\nc-x,test\n", "too few pairs for a training and a test part"),
        ('pair_id,split\n"a', "not CSV"),
    ],
)
def test_a_bad_split_is_one_clear_line(tmp_path: Path, lines: str, what: str) -> None:
    (tmp_path / "s.csv").write_text(lines)
    with pytest.raises(UserError, match=what):
        read_splits(tmp_path, [pair("a", "x"), pair("b", "y"), pair("c", "x")])


def test_splits_of_others_may_name_their_columns_and_parts_otherwise(tmp_path: Path) -> None:
    (tmp_path / "s.csv").write_text("\ufeffn,pair_id,Subset,subset\n1,a-x,?,Training\n2,b-y,?,TEST\n")
    (split,) = read_splits(tmp_path, [pair("a", "x"), pair("b", "y")])
    assert (split.name, split.train, split.test) == ("s", ("a-x",), ("b-y",))


def test_folds_are_even_and_read_from_other_files(tmp_path: Path) -> None:
    folds = make_folds([f"q{i}" for i in range(200)])
    assert [sum(fold.fold == n for fold in folds) for n in range(5)] == [40] * 5
    (tmp_path / "f.jsonl").write_text('{"qid": 7, "fold": 0, "x": 1}\n{"qid": "8", "fold": 4}\n')
    found = read_folds(tmp_path / "f.jsonl", {"7", "8"})
    assert [found[q].role for q in ("7", "8")] == ["holdout", "development"]
    for lines, what in (('{"qid": 7, "fold": 5}', "fold: "), ('{"qid": 7, "fold": 1}', "for example '8'")):
        (tmp_path / "f.jsonl").write_text(lines)
        with pytest.raises(UserError, match=what):
            read_folds(tmp_path / "f.jsonl", {"7", "8"})


# instances and contexts

GOOD = (100, 300, 50, 2000)


def some_pool(sentences: int = 48) -> list[str]:
    generator = random.Random(5)
    texts = (" ".join(generator.choices(WORDS, k=generator.randint(4, 14))) for _ in range(sentences))
    return [f"{text.capitalize()}." for text in texts]


def prose(characters: int, seed: int) -> str:
    generator = random.Random(seed)
    text = " ".join(f"Sample {i} held {generator.random():.6f} grams of salt." for i in range(characters // 30))
    return text[:characters].ljust(characters, ".")


def test_truth_of_names_in_another_unicode_form_is_found(tmp_path: Path) -> None:
    decomposed = "se\u0301-re\u0301"
    (true,) = corpus_of(tmp_path / "x", {decomposed: feature("re\u0301.txt", (0, 5, 0, 6))}, 50, 50)
    assert (true.xml is not None, len(true.passages)) == (True, 1)


def corpus_of(folder: Path, truth: dict[str, str], susp: int = 5_000, src: int = 9_000) -> list[TruePair]:
    texts: dict[str, str] = {}
    for number, name in enumerate(truth):
        texts |= {name.split("-")[0]: prose(susp, number), name.split("-")[1]: prose(src, 1000 + number)}
    return read_corpora([write_corpus(folder, truth, texts)], Notices())


@pytest.mark.parametrize(
    ("features", "sizes", "reason"),
    [
        (feature("r.txt", GOOD), (1_000, 2_050), None),
        (feature("r.txt", GOOD), (50_000, 9_000), None),
        (feature("r.txt", GOOD), (999, 9_000), "suspicious document not of"),
        (feature("r.txt", GOOD), (50_001, 9_000), "suspicious document not of"),
        (feature("r.txt", GOOD), (5_000, 2_049), "no source span"),
        (feature("r.txt", (0, 300, 0, 1_999)), (5_000, 9_000), "no source span"),
        (feature("r.txt", (0, 300, 0, 8_000)), (5_000, 9_000), None),
        (feature("r.txt", (0, 300, 0, 8_001)), (5_000, 9_000), "no source span"),
        (feature("r.txt", (0, 199, 0, 2_000)), (5_000, 9_000), "no suspicious span"),
        (feature("r.txt", (4_800, 200, 0, 2_000)), (5_000, 9_000), None),
        (feature("r.txt", (4_801, 200, 0, 2_000)), (5_000, 9_000), "no suspicious span"),
        (feature("r.txt", GOOD) + feature("other.txt", GOOD), (5_000, 9_000), "annotations of several sources"),
        (feature("r.txt", GOOD) + feature("other.txt", GOOD, kind="altered"), (5_000, 9_000), None),
        (feature("other.txt", GOOD), (5_000, 9_000), "no annotation of this source"),
    ],
)
def test_each_condition(tmp_path: Path, features: str, sizes: tuple[int, int], reason: str | None) -> None:
    instances, rejected = select_instances(corpus_of(tmp_path / "one", {"s-r": features}, *sizes), some_pool(400))
    if reason is None:
        assert ([i.pair_id for i in instances], rejected) == (["s-r"], {})
    else:
        assert instances == []
        assert rejected["s-r"].startswith(reason)


def test_candidates_come_in_the_shuffled_order_of_their_names_until_there_are_enough(tmp_path: Path) -> None:
    spans = [(100 * i, 300, 10 * i, 2_000) for i in range(3)]
    names = [f"s{i:02}-r{i:02}" for i in range(10)]
    truth = {n: "".join(feature(f"{n.split('-')[1]}.txt", span) for span in spans) for n in names}
    truth["s03-r03"] = feature("r03.txt", (0, 100, 0, 2_000))
    instances, rejected = select_instances(corpus_of(tmp_path / "x", truth), some_pool(200), count=8)
    generator, order = random.Random(42), [f"{name}.xml" for name in names]
    generator.shuffle(order)
    expected = []
    for name in order:
        if name != "s03-r03.xml" and len(expected) < 8:
            start, length, _, _ = generator.choice(spans)
            expected.append((name.removesuffix(".xml"), (start, start + length)))
    assert [(i.pair_id, i.selected) for i in instances] == expected
    assert set(rejected) <= {"s03-r03"}
    assert instances[0].reused == ((0, 300), (100, 400), (200, 500))


def test_simple_goes_before_medium_before_hard_before_others(tmp_path: Path) -> None:
    kinds = ["hard", "other", "medium", "", "simple"]
    for left in range(len(kinds), 0, -1):
        spans = [(100 * i, 300, 10 * i, 2_000 if i < left else 100) for i in range(len(kinds))]
        features = "".join(feature("r", span, obfuscation=kind) for span, kind in zip(spans, kinds))
        ((instance,), _) = select_instances(corpus_of(tmp_path / str(left), {"s-r": features}), some_pool(200))
        best = next(kind for kind in ("simple", "medium", "hard") if kind in kinds[:left])
        assert instance.selected[0] == 100 * kinds.index(best)


def some_instance(pair_id: str = "s1-r1") -> Instance:
    return Instance(pair_id, "s1.txt", "target", prose(900, 7), (0, 5), ((0, 5),))


def test_contexts_are_nested_of_one_length_and_follow_from_pair_and_seed_alone() -> None:
    instance, pool = some_instance(), some_pool()
    contexts = list(make_contexts(instance, pool))
    assert [(c.seed, c.retention) for c in contexts] == [(s, level) for s in range(5) for level in LEVELS]
    chunks = set(divide(instance.evidence))
    for seed in range(5):
        slots = [c.text.split("\n\n") for c in contexts if c.seed == seed]
        assert [len(chunks & set(of)) for of in slots] == [0, 2, 4, 6, 8]
        assert all(len(of) == len(set(of)) == 8 for of in slots), "no distractor is there twice"
        for low, high in zip(slots, slots[1:]):
            assert all(a == b or (a not in chunks and b in chunks) for a, b in zip(low, high))
        sizes = [len("\n\n".join(of)) for of in slots]
        assert max(abs(a - b) for a, b in combinations(sizes, 2)) <= 8 * 2
    assert list(make_contexts(instance, pool, [3])) == [c for c in contexts if c.seed == 3]
    generator, order = random.Random(derive_seed("s1-r1", 2)), divide(instance.evidence)
    generator.shuffle(order)
    places = list(range(8))
    generator.shuffle(places)
    assert contexts[2 * 5 + 4].text == "\n\n".join(order[place] for place in places)
    assert contexts[0] != next(make_contexts(some_instance("s2-r1"), pool))
    record = contexts[1].make_record(instance)
    assert record["src_file"] == "s1-r1-s0-r025.txt"
    assert "target" not in json.dumps(record)


def test_evidence_is_divided_at_the_sentence_ends_nearest_to_eighths() -> None:
    evidence = " ".join(f"{'a' * n}." for n in (50, 10, 60, 60, 60, 60, 60, 30, 30, 60))
    chunks = divide(evidence)
    assert len(chunks) == 8
    assert " ".join(chunks) == evidence
    for text in ("Short. " * 9, "a" * 900):
        with pytest.raises(UserError, match="shorter than 8 sentences or chunks"):
            divide(text)


def test_distractors_have_the_length_and_are_drawn_once() -> None:
    pool = some_pool(12)
    used: set[str] = set()
    texts = [draw_distractor(pool, 100, random.Random(1), used) for _ in range(12)]
    assert len(used) == len(set(texts)) == 12
    assert all(98 <= len(text) <= 102 for text in texts)
    joined = " ".join(pool * 2)
    assert all(text in joined for text in texts)
    for characters in (100, 10_000):
        with pytest.raises(UserError, match="the distractor pool is too small"):
            draw_distractor(pool, characters, random.Random(1), used)


@pytest.mark.parametrize(
    ("text", "expected"),
    [("one two three", "one two"), ("one tw three", "one tw"), ("one twooo three", "one twooo"), ("x" * 20, "x" * 7)],
)
def test_a_text_is_cut_at_a_word_within_two_characters(text: str, expected: str) -> None:
    assert cut_text(text, 7) == expected


def rows_of(path: Path) -> Iterable[dict[str, Any]]:
    with path.open(newline="") as file:
        return list(csv.DictReader(file))


def test_split_files_have_every_pair_once(made: Path) -> None:
    rows = rows_of(made / "pan25" / "splits" / "split_seed20260714.csv")
    assert len({row["pair_id"] for row in rows}) == 48
    assert {row["split"] for row in rows} == {"train", "test"}
