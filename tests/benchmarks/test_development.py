"""The development set: own texts are complete, kinds are built alike for both labels, nothing is reused by accident."""

import os
import subprocess
import sys
from collections import Counter, defaultdict
from pathlib import Path
from statistics import mean

import pytest
from click.testing import CliRunner

from benchmarks.development.build import build, main, write_pairs
from benchmarks.development.compose import Pair, cut_passages, deal, draw, opening
from benchmarks.development.obfuscate import shuffle_words
from benchmarks.development.retrieval import title, write_collection
from benchmarks.development.stock import stock
from benchmarks.development.texts import FIELDS, OWN_TEXTS, Block, Material, read_items, read_material
from benchmarks.simple_pair_scores import four_gram_containment, words
from pan_scdg.notices import Notices
from pan_scdg.pan.source_retrieval import read_qrels, read_queries, stream_corpus

ROOT = Path(__file__).parents[2]
DATA = ROOT.parent / "shared" / "data"
FEWEST = {"obfuscated-1": 60, "obfuscated-2": 60, "obfuscated-3": 60}
KINDS = ("same-question", "passage-inside", "summary-inside", "verbatim-inside", "altered-inside", "several-sources")


@pytest.fixture(scope="module")
def material() -> Material:
    if not (DATA / "paraphrase").is_dir():
        pytest.skip("the shared data sets are not here")
    return read_material(DATA)


@pytest.fixture(scope="module")
def pairs(material: Material) -> list[Pair]:
    return build(material)


@pytest.fixture(scope="module")
def by_kind(pairs: list[Pair]) -> dict[str, list[Pair]]:
    kinds = defaultdict(list)
    for pair in pairs:
        kinds[pair.kind].append(pair)
    return kinds


def test_own_texts_are_complete():
    items = read_items()
    assert [i.id for i in items] == [f"{field}-{n:02}" for field in FIELDS for n in range(1, 28)]
    assert {p.name for p in OWN_TEXTS.iterdir()} == {f"{field}.jsonl" for field in FIELDS}
    assert Counter((i.field, i.strength) for i in items) == {
        (field, strength): 9 for field in FIELDS for strength in ("light", "medium", "heavy")
    }
    for item in items:
        texts = (item.answer, item.paraphrase, item.second)
        assert all(95 <= len(text.split()) <= 300 for text in texts), item.id
        assert 35 <= len(item.summary.split()) <= 60, item.id
        assert len({*texts, item.summary}) == 4
        assert item.question.strip()


def test_own_texts_keep_what_their_strength_says():
    items = read_items()
    shared = {
        strength: mean(four_gram_containment([(i.paraphrase, i.answer) for i in items if i.strength == strength]))
        for strength in ("light", "medium", "heavy")
    }
    assert shared["light"] > shared["medium"] > shared["heavy"]
    assert shared["heavy"] < 0.1
    assert max(four_gram_containment([(i.second, i.answer) for i in items])) < 0.2


def test_missing_data_is_said_in_one_line(tmp_path: Path):
    result = CliRunner().invoke(main, ["--data", str(tmp_path), "--out", str(tmp_path / "pairs.jsonl")])
    assert result.exit_code != 0
    assert "no lm-text/heldout.jsonl.xz" in result.output
    assert not (tmp_path / "pairs.jsonl").exists()


def test_blocks_are_dealt_once_and_within_room():
    blocks = [Block(str(i), f"Sentence number {i} stands here. " * 12) for i in range(9)]
    dealt = deal(blocks, [900, 1300], draw("test"))
    assert not set(dealt[0]) & set(dealt[1])
    assert [600 < sum(map(len, d)) <= room for d, room in zip(dealt, (900, 1300))] == [True, True]


def test_opening_ends_with_a_sentence():
    assert opening("One is here. Two is there. Three.", 27) == "One is here. Two is there."
    assert opening("All of it", 9) == "All of it"
    assert opening("Too long to fit.", 5) == ""


def test_passages_do_not_overlap_and_have_the_length_asked_for():
    text = " ".join(f"Word{i} is one of five." for i in range(100))
    first, second = cut_passages(text, 2, (40, 60), draw("test"))
    assert not set(first.split()) & set(second.split()) - {"is", "one", "of", "five."}
    assert all(40 <= len(p.split()) <= 60 and p in text for p in (first, second))
    with pytest.raises(ValueError, match="no passage"):
        cut_passages("Too short.", 1, (40, 60), draw("test"))


def test_shuffled_words_are_the_same_words():
    text = "The tide turned before noon, and the nets came up empty again. Nobody said a word."
    shuffled = shuffle_words(text, 60, draw("test"))
    assert shuffled != text
    assert Counter(words(shuffled)) == Counter(words(text))


def test_title_is_the_topic_of_the_question():
    assert title("Write the abstract of a paper on saving energy.") == "Saving energy"
    assert title("Does rent control help tenants? Discuss.") == "Does rent control help tenants?"


@pytest.mark.long
def test_same_bytes_in_another_process(pairs: list[Pair], tmp_path: Path):
    write_pairs(pairs, tmp_path / "here.jsonl")
    command = [sys.executable, "-m", "benchmarks.development.build", "--data", DATA, "--out", tmp_path / "there.jsonl"]
    subprocess.run(command, cwd=ROOT, check=True, env={**os.environ, "PYTHONHASHSEED": "7"}, capture_output=True)
    assert (tmp_path / "here.jsonl").read_bytes() == (tmp_path / "there.jsonl").read_bytes()


def test_every_kind_has_enough_of_both_labels(by_kind: dict[str, list[Pair]], pairs: list[Pair]):
    assert set(by_kind) == {*KINDS, *FEWEST}
    for kind, members in by_kind.items():
        counts = Counter(p.label for p in members)
        assert counts[1] == counts[0] >= FEWEST.get(kind, 100), kind
        assert counts[1] <= 160
    assert len({p.id for p in pairs}) == len(pairs)
    assert len({(p.source, p.target) for p in pairs}) == len(pairs)


@pytest.mark.parametrize("side", ["source", "target"])
def test_length_tells_nothing(by_kind: dict[str, list[Pair]], side: str):
    for kind, members in by_kind.items():
        lengths = [mean(len(getattr(p, side)) for p in members if p.label == label) for label in (0, 1)]
        assert max(lengths) < 1.1 * min(lengths), kind


def test_lengths_of_the_kinds(by_kind: dict[str, list[Pair]]):
    for kind, target, source in (
        ("passage-inside", (3000, 6500), (2000, 6500)),
        ("summary-inside", (1500, 4000), (400, 6500)),
        ("verbatim-inside", (8000, 15_000), (8000, 15_000)),
        ("altered-inside", (12_500, 15_000), (12_500, 15_000)),
    ):
        assert all(target[0] <= len(p.target) <= target[1] for p in by_kind[kind]), kind
        assert all(source[0] <= len(p.source) <= source[1] for p in by_kind[kind]), kind


def test_nothing_but_the_positives_shares_a_passage(pairs: list[Pair]):
    def runs(text: str) -> set[tuple[str, ...]]:
        parts = words(text)
        return set(zip(*(parts[i:] for i in range(12))))

    for pair in pairs:
        if not pair.label:
            assert not runs(pair.source) & runs(pair.target), pair.id


def test_copied_passages_are_exact(by_kind: dict[str, list[Pair]]):
    for pair in by_kind["verbatim-inside"]:
        source, target = (" ".join(text.split()) for text in (pair.source, pair.target))
        parts = target.split()
        copied = any(" ".join(parts[i : i + 50]) in source for i in range(0, len(parts) - 50, 5))
        assert copied == bool(pair.label), pair.id


def test_long_documents_share_no_paragraph(material: Material):
    paragraphs = [p for document in stock(material) for p in document.paragraphs]
    assert len(set(paragraphs)) == len(paragraphs)


@pytest.mark.long
def test_retrieval_folder_is_read(material: Material, tmp_path: Path):
    write_collection(material, tmp_path / "one")
    write_collection(read_material(DATA), tmp_path / "two")
    for path in (tmp_path / "one").iterdir():
        assert path.read_bytes() == (tmp_path / "two" / path.name).read_bytes()
    notices = Notices()
    corpus = {d.doc_id: d.text for d in stream_corpus(tmp_path / "one", notices)}
    queries = read_queries(tmp_path / "one", notices)
    qrels = read_qrels(tmp_path / "one" / "qrels.txt")
    assert len(corpus) == 500
    assert len(queries) == 60
    assert {q.query_id for q in queries} == set(qrels)
    for query in queries:
        relevant = qrels[query.query_id]
        assert len(relevant) == int(query.query_id.split("-")[1].removeprefix("n"))
        assert set(relevant) <= set(corpus)
        paragraphs = {p for p in query.text.split("\n\n") if len(p) > 60}
        assert not any(paragraphs & set(text.split("\n\n")) for text in corpus.values())
