"""Contexts: nested, of one length, the same each time, and recorded in a manifest that holds no text."""

import json
import random
from dataclasses import replace
from hashlib import sha256
from itertools import combinations
from pathlib import Path

import pytest

from pan_scdg.digests import hash_text
from pan_scdg.errors import UserError
from pan_scdg.notices import Notices
from studies.data.corpora import read_corpora
from studies.retention.contexts import (
    LEVELS,
    Chunk,
    Context,
    cut_text,
    derive_seed,
    divide,
    format_contexts,
    make_contexts,
)
from studies.retention.instances import Instance, read_cases
from tests.studies.retention_texts import some_case, some_pool
from tests.studies.small_corpora import feature, write_corpus

CASES = (some_case("s1-r1", 1), some_case("s2-r1", 2))
POOL = some_pool()
CONTEXTS = make_contexts(CASES, POOL)


def rows() -> dict[tuple[str, int], list[Context]]:
    found: dict[tuple[str, int], list[Context]] = {}
    for context in CONTEXTS:
        found.setdefault((context.pair_id, context.seed), []).append(context)
    return found


def texts(row: list[Context]) -> list[str]:
    return [context.text for context in row]


def chunks_of(context: Context) -> set[Chunk]:
    return {slot for slot in context.slots if isinstance(slot, Chunk)}


def test_every_pair_and_seed_has_five_contexts_of_eight_slots() -> None:
    assert len(CONTEXTS) == 2 * 5 * 5
    for row in rows().values():
        assert [context.retention for context in row] == list(LEVELS)
        assert [len(chunks_of(context)) for context in row] == [0, 2, 4, 6, 8]
        assert {len(context.slots) for context in row} == {8}


def test_a_slot_holds_its_chunk_or_its_distractor_and_a_chunk_once_there_stays() -> None:
    for row in rows().values():
        for low, high in zip(row, row[1:]):
            assert chunks_of(low) < chunks_of(high)
        for slot in zip(*(context.slots for context in row)):
            assert len(set(slot)) == 2, "the very distractor stands there at every lower retention"
            assert slot == tuple(sorted(slot, key=lambda x: isinstance(x, Chunk)))


def test_texts_are_chunks_and_distractors_joined_by_blank_lines() -> None:
    for row in rows().values():
        case = next(case for case in CASES if case.pair_id == row[0].pair_id)
        spans = [(chunk.offset, chunk.offset + chunk.length) for chunk in divide(case.evidence)]
        chunks = {case.evidence[start:end] for start, end in spans}
        pieces = [set(text.split("\n\n")) for text in texts(row)]
        assert [len(found & chunks) for found in pieces] == [0, 2, 4, 6, 8]
        assert all(len(found) == 8 for found in pieces), "no distractor is there twice"
        assert pieces[-1] == chunks
        assert texts(row)[-1] != "\n\n".join(case.evidence[a:b] for a, b in spans), "slots are shuffled"


def test_lengths_are_controlled() -> None:
    for row in rows().values():
        sizes = [len(text) for text in texts(row)]
        assert max(abs(a - b) for a, b in combinations(sizes, 2)) <= 8 * 2


def test_generators_follow_from_pair_and_seed_alone() -> None:
    number = int(sha256(b"s1-r1").hexdigest(), 16)
    assert [derive_seed("s1-r1", s) for s in (0, 3)] == [42 + number % 100000, 42 + number % 100000 + 7919 * 3]
    generator = random.Random(derive_seed("s1-r1", 2))
    order = list(divide(CASES[0].evidence))
    generator.shuffle(order)
    row = rows()["s1-r1", 2]
    assert [set(order[:n]) for n in (0, 2, 4, 6, 8)] == [chunks_of(context) for context in row]
    places = list(range(8))
    generator.shuffle(places)
    assert list(row[-1].slots) == [order[place] for place in places]
    assert make_contexts(CASES[1:], POOL, [4]) == tuple(rows()["s2-r1", 4]), "other pairs and seeds do not matter"
    orders = {tuple(context.slots) for context in CONTEXTS if context.retention == 1.0}
    assert len(orders) == 10


def test_texts_are_made_again_from_the_manifest_which_holds_none() -> None:
    text = format_contexts(CONTEXTS, CASES, POOL)
    assert not any(word in text for word in ("Sample", "held", "council", "Monday"))
    places = [(s.article, s.number) for s in POOL.sentences]
    for line, context in zip(text.splitlines(), CONTEXTS, strict=True):
        record = json.loads(line)
        evidence = next(case.evidence for case in CASES if case.pair_id == record["pair_id"])
        pieces = []
        for slot in record["slots"]:
            if "offset" in slot:
                pieces.append(evidence[slot["offset"] : slot["offset"] + slot["length"]])
            else:
                first = places.index((slot["article"], slot["sentence"]))
                rest = [s.text for s in (*POOL.sentences[first:], *POOL.sentences)]
                pieces.append(cut_text(" ".join(rest), slot["wanted"]))
        again = "\n\n".join(pieces)
        assert again == context.text
        assert (record["characters"], record["sha256"]) == (len(again), hash_text(again))
        assert (record["evidence_sha256"], record["pool_sha256"]) == (hash_text(evidence), POOL.digest)
        assert (record["seed"], record["retention"]) == (context.seed, context.retention)


def test_evidence_that_cannot_be_divided_is_named() -> None:
    with pytest.raises(UserError, match="s1-r1: source span shorter than 8 chunks"):
        make_contexts([CASES[0]._replace(evidence="Short. " * 9)], POOL)


def test_cases_have_all_that_is_annotated_in_the_suspicious_document(tmp_path: Path) -> None:
    source = " ".join(f"Fact number {i} is written here." for i in range(40))
    truth = {
        "s1-r1": feature("r1.txt", (10, 300, 0, 400)) + feature("r1.txt", (320, 50, 500, 60)),
        "s1-r2": feature("r2.txt", (600, 20, 0, 20)) + feature("r2.txt", (5, 5, 0, 5), kind="altered"),
    }
    texts = {"s1": "x" * 700, "r1": source, "r2": source}
    corpus = read_corpora(write_corpus(tmp_path, [("s1", "r1"), ("s1", "r2")], texts, truth), Notices())
    instance = Instance(
        "s1-r1", "s1.txt", "r1.txt", "s1-r1.xml", "simple", 10, 300, 0, 400, 700, hash_text("x" * 700),
        hash_text(source[:400]),
    )  # fmt: skip
    (case,) = read_cases([instance], corpus)
    assert (case.target, case.evidence) == ("x" * 700, source[:400])
    assert case.selected == (10, 310)
    assert case.reused == ((10, 310), (320, 370), (600, 620))
    with pytest.raises(UserError, match="s1-r1: the texts are not those that this instance was selected from"):
        read_cases([replace(instance, evidence_sha256="0" * 64)], corpus)
