"""Selection of the retention instances: every condition, the order of candidates and the draw among passages."""

import json
import random
from pathlib import Path
from typing import Any

import pytest

from pan_scdg.errors import UserError
from pan_scdg.notices import Notices
from studies.data.corpora import PairDocuments, TruePair, read_corpora
from studies.data.records import format_records
from studies.retention.instances import (
    Instance,
    check_instances,
    read_instance,
    read_instances,
    select_instances,
)
from tests.studies.small_corpora import feature, write_corpus

GOOD = (100, 300, 50, 2000)


def fine(_text: str) -> None:
    return None


def letters(count: int, seed: int) -> str:
    generator = random.Random(seed)
    return "".join(generator.choice("abcdefgh ") for _ in range(count))


def corpus_of(folder: Path, truth: dict[str, str], susp: int = 5_000, src: int = 9_000) -> list[TruePair]:
    pairs = [(name.partition("-")[0], name.partition("-")[2]) for name in truth]
    texts = {s: letters(susp, i) for i, (s, _) in enumerate(pairs)}
    texts |= {r: letters(src, 1000 + i) for i, (_, r) in enumerate(pairs)}
    return read_corpora(write_corpus(folder, pairs, texts, truth), Notices())


def place_of(instance: Instance) -> tuple[int, int, int, int]:
    return instance.this_offset, instance.this_length, instance.source_offset, instance.source_length


@pytest.fixture
def many(tmp_path: Path) -> list[TruePair]:
    return corpus_of(tmp_path / "many", {f"s{i:02}-r{i:02}": feature(f"r{i:02}.txt", GOOD) for i in range(12)})


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
        ("", (5_000, 9_000), "no annotation of this source"),
    ],
)
def test_each_condition(tmp_path: Path, features: str, sizes: tuple[int, int], reason: str | None) -> None:
    corpus = corpus_of(tmp_path / "one", {"s-r": features}, *sizes)
    instances, rejected = select_instances(corpus, fine)
    if reason is None:
        assert [i.pair_id for i in instances] == ["s-r"]
        assert rejected == ()
    else:
        assert instances == ()
        assert [(r.xml_file, r.pair_id) for r in rejected] == [("s-r.xml", "s-r")]
        assert rejected[0].reason.startswith(reason)


def test_candidates_come_in_the_shuffled_order_of_their_names_until_there_are_enough(many: list[TruePair]) -> None:
    names = [f"s{i:02}-r{i:02}.xml" for i in range(12)]
    random.Random(42).shuffle(names)
    refused = {many[int(name[1:3])].pair.source.path.read_text()[50:2050] for name in names[1:3]}

    def cannot_divide(text: str) -> str | None:
        return "cannot be divided" if text in refused else None

    selection = select_instances(many, cannot_divide, most=4)
    instances, rejected = selection
    assert [i.xml_file for i in instances] == [names[0], *names[3:6]]
    assert [(r.xml_file, r.reason) for r in rejected] == [(n, "cannot be divided") for n in names[1:3]]
    assert select_instances(many[::-1], cannot_divide, most=4) == selection


def test_a_pair_without_truth_file_is_no_candidate(tmp_path: Path) -> None:
    corpus = corpus_of(tmp_path / "x", {"s-r": feature("r.txt", GOOD)})
    lost = corpus[0]._replace(xml=None, passages=())
    assert select_instances([lost], fine) == ((), ())


def test_simple_goes_before_medium_before_hard_before_others(tmp_path: Path) -> None:
    kinds = ["hard", "other", "medium", "", "simple"]
    spans = {kind: (100 * i, 300, 10 * i, 2_000) for i, kind in enumerate(kinds)}
    short = (0, 300, 0, 100)
    for left in range(len(kinds), 0, -1):
        corpus = corpus_of(
            tmp_path / str(left),
            {"s-r": "".join(feature("r", spans[k] if i < left else short, obfuscation=k) for i, k in enumerate(kinds))},
        )
        ((instance,), _) = select_instances(corpus, fine)
        best = next(k for k in ("simple", "medium", "hard") if k in kinds[:left])
        assert instance.obfuscation == best
        assert place_of(instance) == spans[best]


def test_among_passages_of_one_class_the_same_generator_draws(tmp_path: Path) -> None:
    spans = [(100 * i, 300, 10 * i, 2_000) for i in range(4)]
    truth = {f"s{k}-r{k}": "".join(feature(f"r{k}", span) for span in spans) for k in range(5)}
    instances, _ = select_instances(corpus_of(tmp_path / "x", truth), fine)
    generator, names = random.Random(42), sorted(f"{name}.xml" for name in truth)
    generator.shuffle(names)
    assert [(i.xml_file, place_of(i)) for i in instances] == [(n, generator.choice(spans)) for n in names]


def test_instances_hold_no_text_and_are_read_and_checked_again(many: list[TruePair], tmp_path: Path) -> None:
    found, _ = select_instances(many, fine)
    path = tmp_path / "instances.jsonl"
    path.write_text(format_records(found))
    assert read_instances(path) == found
    assert max(len(str(v)) for line in path.read_text().splitlines() for v in json.loads(line).values()) == 64
    documents = PairDocuments(many)
    check_instances(found, documents, path)
    susp, evidence = read_instance(found[0], documents)
    source = next(t.pair.source for t in many if t.pair_id == found[0].pair_id)
    assert evidence == source.path.read_text()[50:2050]
    assert len(susp) == found[0].susp_characters == 5_000
    source.path.write_text(letters(9_000, 77))
    with pytest.raises(UserError, match="not those that this instance was selected from"):
        check_instances(found, documents, path)
    with pytest.raises(UserError, match="documents of the manifest are not in the data"):
        check_instances(found, PairDocuments(many[:3]), path)


def line(**changes: Any) -> str:
    digest = "0" * 64
    fields: dict[str, Any] = {"pair_id": "p", "susp_file": "s", "src_file": "r", "xml_file": "x", "obfuscation": ""}
    fields |= dict.fromkeys(("this_offset", "this_length", "source_offset", "source_length", "susp_characters"), 1)
    return json.dumps(fields | {"susp_sha256": digest, "evidence_sha256": digest} | changes)


@pytest.mark.parametrize(
    ("second", "what"),
    [
        (line(), "occurs twice"),
        (line(this_offset=-1), "this_offset"),
        (line(susp_sha256="0" * 63), "susp_sha256"),
        (line(pair_id="a\nb"), "white space"),
        ("{}", "Field required"),
    ],
)
def test_a_bad_file_of_instances_is_one_clear_line(tmp_path: Path, second: str, what: str) -> None:
    path = tmp_path / "i.jsonl"
    path.write_text(f"{line()}\n{second}\n")
    with pytest.raises(UserError, match=what) as caught:
        read_instances(path)
    assert (caught.value.where, caught.value.line) == (path, 2)
    path.write_text("")
    with pytest.raises(UserError, match="contains no instance"):
        read_instances(path)
