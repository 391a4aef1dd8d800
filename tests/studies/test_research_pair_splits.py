"""Splits of the pair manifest: sizes, disjointness and determinism, the paper's counts, and split files of others."""

import json
import random
from collections import Counter
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pan_scdg.errors import UserError
from studies.data.pair_manifest import PairRecord, count_classes
from studies.data.splits import (
    INDEX,
    SEEDS,
    PairSplit,
    count_shared,
    find_components,
    format_splits,
    make_splits,
    name_components,
    read_splits,
    round_fifth,
)
from tests.studies.small_corpora import record

SOME = [record(f"s{i // 2 if i < 12 else i}", f"r{i}", i % 3 > 0) for i in range(40)]
DOCUMENTS = st.lists(
    st.tuples(st.integers(0, 30), st.integers(0, 30), st.booleans()), max_size=40, unique_by=lambda p: p[:2]
)


def literal_test_part(records: list[PairRecord], seed: int) -> set[str]:
    """The rule of the paper and of the issue, step by step."""
    names = name_components([(r.susp_file, r.src_file) for r in records])
    kind = {
        c: (
            sum(r.doc_label for r, n in zip(records, names) if n == c),
            sum(1 - r.doc_label for r, n in zip(records, names) if n == c),
        )
        for c in names
    }
    generator, chosen = np.random.default_rng(seed), set()
    for stratum in sorted(set(kind.values())):
        ids = sorted(c for c in kind if kind[c] == stratum)
        generator.shuffle(ids)
        chosen |= set(ids[: int(np.floor(0.2 * len(ids) + 0.5))])
    return {r.pair_id for r, n in zip(records, names) if n in chosen}


@settings(max_examples=50, deadline=None)
@given(DOCUMENTS, st.integers(0, 2**32))
def test_splits_are_disjoint_complete_and_as_the_rule_says(pairs: list[tuple[int, int, bool]], seed: int) -> None:
    records = [record(f"s{a}", f"r{b}", label) for a, b, label in pairs]
    expected = literal_test_part(records, seed)
    if not 0 < len(expected) < len(records):
        with pytest.raises(UserError, match="too few pairs"):
            make_splits(records, [seed])
        return
    (split,) = make_splits(records, [seed])
    assert set(split.test) == expected
    assert sorted((*split.train, *split.test)) == sorted(r.pair_id for r in records)
    assert list(count_shared(records, find_components(records), split).values()) == [0, 0, 0]
    assert make_splits(records, [seed]) == (split,)


@settings(max_examples=50, deadline=None)
@given(st.integers(0, 99))
def test_the_order_of_the_manifest_does_not_move_a_pair(seed: int) -> None:
    shuffled = list(SOME)
    random.Random(seed).shuffle(shuffled)
    ours, theirs = make_splits(SOME, SEEDS[:2]), make_splits(shuffled, SEEDS[:2])
    assert [set(a.test) for a in ours] == [set(b.test) for b in theirs]


def test_a_split_stays_what_it_is_with_another_numpy() -> None:
    records = [record(f"s{i}", f"r{i:02}", i < 10) for i in range(20)]
    assert [split.test for split in make_splits(records, SEEDS[:2])] == [
        ("s1-r01", "s8-r08", "s11-r11", "s17-r17"),
        ("s2-r02", "s8-r08", "s10-r10", "s16-r16"),
    ]


def test_a_document_under_two_folders_is_one() -> None:
    records = [record(f"s{i // 2}", f"r{i}", 1) for i in range(40)]
    foldered = [replace(r, susp_file=f"{'ab'[i % 2]}/{r.susp_file}") for i, r in enumerate(records)]
    assert [split.test for split in make_splits(foldered)] == [split.test for split in make_splits(records)]
    across = PairSplit("across", tuple(r.pair_id for r in records[::2]), tuple(r.pair_id for r in records[1::2]))
    assert list(count_shared(foldered, find_components(foldered), across).values()) == [20, 0, 20]


@pytest.mark.parametrize(("count", "test"), [(1, 0), (2, 0), (3, 1), (5, 1), (7, 1), (8, 2), (12, 2), (13, 3), (40, 8)])
def test_a_fifth_is_rounded_half_up(count: int, test: int) -> None:
    assert round_fifth(count) == test == int(np.floor(count / 5 + 0.5))


def paper_like() -> list[PairRecord]:
    """6,791 pairs of 6,770 suspicious and 6,768 source files, 4,777 positive.

    Without a circle these counts mean 6,747 components. Here 44 of them have two pairs each, 21 with one suspicious
    file and 23 with one source: one with two positive pairs, 8 with two negative ones, 35 with one of each.
    """
    kinds = [(1, 1)] + [(0, 0)] * 8 + [(1, 0)] * 35
    records = []
    for i, labels in enumerate(kinds):
        names = [(f"s{i}", f"r{i}.{j}") if i < 21 else (f"s{i}.{j}", f"r{i}") for j in (0, 1)]
        records += [record(*name, label) for name, label in zip(names, labels)]
    singles = [1] * (4777 - 37) + [0] * (2014 - 51)
    return records + [record(f"s{i}", f"r{i}", label) for i, label in enumerate(singles, start=1000)]


def test_the_counts_of_the_paper_come_out() -> None:
    records = paper_like()
    assert count_classes(records) == {"positive": 4777, "negative": 2014, "total": 6791}
    assert (len({r.susp_file for r in records}), len({r.src_file for r in records})) == (6770, 6768)
    splits = make_splits(records)
    by_id = {r.pair_id: r for r in records}
    for split in splits:
        assert count_classes([by_id[p] for p in split.train]) == {"positive": 3822, "negative": 1610, "total": 5432}
        assert count_classes([by_id[p] for p in split.test]) == {"positive": 955, "negative": 404, "total": 1359}
    assert len({split.test for split in splits}) == 20


def test_rounding_always_down_or_always_up_cannot_give_the_counts_of_the_paper() -> None:
    """All forests of 44 two-pair components: half up reaches 955 positive and 404 negative, the others never do."""
    rules = {"down": lambda n: n // 5, "up": lambda n: -(-n // 5), "half up": round_fifth}
    reached = Counter()
    for two in range(45):
        for mixed in range(45 - two):
            none = 44 - two - mixed
            for name, rule in rules.items():
                positive = rule(4777 - 2 * two - mixed) + 2 * rule(two) + rule(mixed)
                negative = rule(2014 - 2 * none - mixed) + 2 * rule(none) + rule(mixed)
                reached[name] += (positive, negative) == (955, 404)
    assert reached["half up"] > 0
    assert reached["down"] == reached["up"] == 0


def write(folder: Path, files: dict[str, str]) -> Path:
    folder.mkdir()
    for name, text in files.items():
        (folder / name).write_text(text)
    return folder


def test_what_is_written_is_read_again_and_the_index_says_what_it_is(tmp_path: Path) -> None:
    splits = make_splits(SOME)
    files = format_splits(SOME, splits)
    assert read_splits(write(tmp_path / "splits", files), SOME) == splits
    index = json.loads(files[INDEX])
    assert [entry["file"] for entry in index["splits"]] == [f"split_seed{seed}.csv" for seed in SEEDS]
    zero = {"suspicious_overlap_count": 0, "source_overlap_count": 0, "component_overlap_count": 0}
    for entry in index["splits"]:
        assert entry.items() >= zero.items()
        assert entry["train"]["total"] + entry["test"]["total"] == len(SOME)


def test_files_of_others_are_read_by_pair_id_and_part(tmp_path: Path) -> None:
    (split,) = make_splits(SOME, SEEDS[:1])
    rows = "".join(f"7,{r.pair_id},{'Test' if r.pair_id in split.test else 'training'}\n" for r in reversed(SOME))
    folder = write(tmp_path / "theirs", {"a.csv": f"fold,pair_id,partition\n{rows}", INDEX: '{"whatever": 1}'})
    assert read_splits(folder, SOME) == (PairSplit("a", split.train, split.test),)


def rows(parts: dict[str, str]) -> str:
    return "pair_id,split\n" + "".join(f"{pair_id},{part}\n" for pair_id, part in parts.items())


ALL = {r.pair_id: ("test" if i > 30 else "train") for i, r in enumerate(SOME)}


@pytest.mark.parametrize(
    ("text", "line", "what"),
    [
        (rows({"other": "test", **ALL}), 2, "is not in the manifest"),
        (rows(dict(list(ALL.items())[1:])), None, "1 pairs of the manifest are not in this split, 's0-r0' first"),
        (rows(ALL) + "s0-r0,test\n", 42, "occurs twice"),
        (rows({**ALL, "s0-r0": "dev"}), 2, "neither train nor test"),
        (rows({**ALL, "s0-r0": "test"}), None, "suspicious_overlap_count=1, source_overlap_count=0"),
        (rows(dict.fromkeys(ALL, "train")), None, "in the same part"),
        ("pair_id,fold\ns0-r0,1\n", 1, "lacks the column"),
        ("", 1, "lacks the column"),
        ("pair_id,split\ns0-r0\n", 2, "not as many columns"),
        ("pair_id,split\ns0-r0,train,x\n", 2, "not as many columns"),
        ('pair_id,split\n"s0,train\n', 1, "not CSV"),
        ('"pair_id,split\n', 1, "not CSV"),
    ],
)
def test_a_bad_split_file_is_one_clear_line(tmp_path: Path, text: str, line: int | None, what: str) -> None:
    folder = write(tmp_path / "bad", {"x.csv": text})
    with pytest.raises(UserError) as caught:
        read_splits(folder, SOME)
    assert (caught.value.where, caught.value.line) == (folder / "x.csv", line)
    assert what in str(caught.value)
    assert "\n" not in str(caught.value)


def test_the_audit_counts_what_is_in_both_parts() -> None:
    records = [record("s0", "r0"), record("s0", "r1"), record("s1", "r1"), record("s2", "r2")]
    split = PairSplit("x", ("s0-r0", "s1-r1"), ("s0-r1", "s2-r2"))
    assert list(count_shared(records, find_components(records), split).values()) == [1, 1, 1]


def test_a_folder_without_splits_and_too_few_pairs(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="contains no split files"):
        read_splits(tmp_path, SOME)
    with pytest.raises(UserError, match="too few pairs"):
        make_splits(SOME[:2])
