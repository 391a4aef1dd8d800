"""Benchmarks on tiny inputs: what they draw and write, and that they run to the end."""

import json
import random
import re
import subprocess
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner

from benchmarks import (
    choose_score,
    corpus,
    gpu,
    long_texts,
    passages,
    rehearsal,
    rerank_weights,
    shared_parts,
    speed,
    verdicts,
)
from benchmarks.development.compose import Pair, cut_passages, opening
from benchmarks.development.obfuscate import obfuscate
from benchmarks.layout import PACKAGE, list_constants
from benchmarks.pairs import ROOT, decide, write_folder
from benchmarks.simple_pair_scores import content_word_overlap, four_gram_containment, tfidf_cosine
from pan_scdg.results.records import CandidateLine, MeasuredCandidate

SAME, OTHER = "The tide turned before noon at the old quay.", "Nobody measured the salt in seventeen samples."


def test_a_smaller_corpus_is_the_beginning_of_a_larger_one(tmp_path: Path) -> None:
    for name, documents in (("small", 3), ("large", 5)):
        corpus.write_corpus(tmp_path / name, documents, 2)
    assert corpus.make_document(2) == corpus.make_document(2) != corpus.make_document(1)
    assert 200 < np.mean([len(corpus.make_document(i).split()) for i in range(20)]) < 20_000
    assert len(set(map(corpus.make_document_id, range(1000)))) == 1000
    judged = [line.split() for line in (tmp_path / "large" / "qrels.txt").read_text().splitlines()]
    assert {line[0] for line in judged} == {"q00000", "q00001"}
    first = json.loads((tmp_path / "large" / "queries.jsonl").read_text(encoding="utf-8").splitlines()[0])["query"]
    grams = set(zip(*(corpus.make_document(i).split()[k:] for k in range(4) for i in corpus.draw_sources(0, 5)[:1])))
    assert grams & set(zip(*(first.split()[k:] for k in range(4)))), "a part of its sources"


def test_the_spans_of_made_up_pairs_are_reused() -> None:
    pairs = [rehearsal.make_pair(number, 1500) for number in range(6)]
    assert {bool(spans) for _, _, spans in pairs} == {True, False}
    for target, source, spans in pairs:
        assert 1200 < len(target.split()) < 1800
        for this, length, origin, size in spans:
            words, others = target[this : this + length].split(" "), source[origin : origin + size].split(" ")
            assert 0.5 < np.mean([word == other for word, other in zip(words, others, strict=True)]) < 0.95


def test_simple_scores() -> None:
    pairs = [(SAME, SAME), (SAME, OTHER)]
    for score in (four_gram_containment, tfidf_cosine, content_word_overlap):
        assert score(pairs) == pytest.approx([1, 0], abs=0.15)
    assert four_gram_containment([("one two three four five", "two three four five")]) == pytest.approx([0.8])


def test_pairs_are_written_once_and_decided_in_order(tmp_path: Path) -> None:
    pairs = [(SAME, SAME), (SAME, OTHER), (OTHER, SAME), (SAME, SAME)]
    ids = write_folder(pairs, tmp_path / "input")
    assert ids[0] == ids[3] != ids[1]
    assert [len(list((tmp_path / "input" / side).iterdir())) for side in ("susp", "src")] == [2, 2]
    decisions = decide(pairs, tmp_path, "pan25-containment")
    assert [line.decision for line in decisions] == [True, False, False, True]


def test_verdicts_choose_the_threshold_by_the_rule() -> None:
    labels = [1] * 10 + [0] * 90
    items = verdicts.Items([Pair(str(i), "kind", label, "s", "t") for i, label in enumerate(labels)])
    scores = np.array([0.9] * 9 + [0.1] + [0.8] * 2 + [0.2] * 88)
    among = items.select(verdicts.ALL)
    threshold = verdicts.choose(scores, items, among)
    assert 0.2 < threshold <= 0.9
    assert verdicts.count_positives(scores, items, 0.85, among) == ["0.900 (9 of 10)", "0.000 (0 of 90)"]
    assert verdicts.compute_auroc(scores, items.labels) == pytest.approx(0.9, abs=0.01)
    assert verdicts.find_wilson_interval(1000, 1142) == "0.876 [0.855, 0.894]", "as in benchmarks/results/log.md"


def test_a_threshold_keeps_the_rule_and_is_the_least_that_does() -> None:
    scores = np.random.default_rng(0).permutation(60) / 10
    negatives = {"few": np.arange(10), "many": np.arange(10, 60)}

    def keeps(threshold: float, rule: choose_score.Rule) -> bool:
        rates = [(scores[places] >= threshold).mean() for places in negatives.values()]
        return bool(np.mean(rates) <= rule.mean and max(rates) <= rule.largest)

    for rule in [choose_score.Rule(mean, largest) for mean in (0.02, 0.05, 0.1, 0.3) for largest in (0.1, 1)]:
        chosen = choose_score.choose_threshold(scores, negatives, rule)
        assert keeps(chosen, rule)
        assert not keeps(max(score for score in scores if score < chosen), rule)
    rates = choose_score.hold_out(scores, negatives, choose_score.Rule(0.9, 0.1))
    assert rates["few"] == (scores[:10] >= np.sort(scores[10:])[-5]).mean()


def test_pairs_are_taken_evenly() -> None:
    pairs = [Pair(str(number), kind, 0, "", "") for kind in "ab" for number in range(9)]
    assert [pair.id for pair in choose_score.take_evenly(pairs, 3)] == ["0", "3", "6"] * 2
    assert choose_score.take_evenly(pairs, 99) == pairs


def test_joined_and_shared_texts() -> None:
    pairs = [Pair(str(i), "kind", 0, f"Source {i} alone.", f"Target {i} alone.") for i in range(4)]
    assert [len(long_texts.join(pairs, count, one_topic=True)) for count in (1, 2, 4)] == [4, 2, 1]
    assert long_texts.count_verbatim(SAME, SAME) > 30
    assert long_texts.count_verbatim(SAME, OTHER) == 0
    assert shared_parts.add_part("One.\n\nTwo.", shared_parts.QUOTATION).split("\n\n")[1] == shared_parts.QUOTATION
    assert shared_parts.add_part("One.", shared_parts.NOTICE).endswith(shared_parts.NOTICE + "\n")


def test_passages_are_measured_as_plagdet() -> None:
    truth = {"a": [(0, 100, 0, 100)], "b": []}
    assert passages.measure(truth, truth)[0] == pytest.approx(1)
    assert passages.measure(truth, {"a": [(0, 50, 0, 50)], "b": []})[1] == pytest.approx(0.5)
    assert passages.group_pairs([("a", "x"), ("b", "x"), ("c", "y")])[:2] == [0, 0]


def test_rerank_weights_scale_and_break_ties_by_id() -> None:
    scores = [MeasuredCandidate("q", name, 9, "", -1.0, {"mean": 0.0}) for name in ("b", "a")]
    lines = [CandidateLine("q", one.document, 1, 0.5, 1, 1.0, {}, one, 0.0) for one in scores]
    assert list(rerank_weights.rank(lines, "mean", 0.5, 0.5)) == ["a", "b"]


def test_material_of_the_development_set() -> None:
    text = " ".join(f"Sentence number {i} has some words in it." for i in range(40))
    rng = random.Random(1)
    assert all(20 <= len(passage.split()) <= 30 for passage in cut_passages(text, 3, (20, 30), rng))
    assert opening(text, 60) == "Sentence number 0 has some words in it."
    assert obfuscate(text, 1, ["foreign"], {}, random.Random(2)) != text


@pytest.mark.long
def test_commands_are_timed() -> None:
    done = CliRunner().invoke(
        speed.main, ["--part", "bm25", "--documents", "3", "--queries", "1", "--engine", "fts5", "--repeats", "1"]
    )
    assert done.exit_code == 0, done.output
    assert "bm25, fts5: one query" in done.output


@pytest.mark.parametrize(
    "part",
    [
        pytest.param(name, marks=[pytest.mark.long] * (name not in ("packed", "encode", "dense")))
        for name in gpu.PARTS
        if name not in ("preflight", "runs")
    ],
)
def test_every_row_of_the_gpu_benchmark_is_right_on_a_cpu(part: str) -> None:
    rows = gpu.measure_part(part, ["tiny"], "cpu", None)
    assert all(row[gpu.OUTCOME].startswith(("ok", "not tried: needs a GPU")) for row in rows), rows
    assert any(row[gpu.OUTCOME].startswith("ok") for row in rows)


def test_a_wrong_or_failing_row_says_so() -> None:
    assert gpu.judge(float("nan"), 1)[gpu.OUTCOME].startswith(gpu.FAILED)
    assert gpu.attempt({"a": "b"}, lambda: 1 / 0) == {
        "a": "b",
        "outcome": "FAILED: ZeroDivisionError: division by zero",
    }  # type: ignore[arg-type, return-value]


def test_every_check_of_preflight_is_a_row(monkeypatch: pytest.MonkeyPatch) -> None:
    log = "ok      device: CPU, a|b\nfailed  models: absent: copy it\nnot ready: failed checks: 1\n"
    monkeypatch.setattr(gpu, "run_command", lambda *_: subprocess.CompletedProcess([], 2, log, ""))
    rows = [list(row.values()) for row in gpu.measure_part("preflight", ["tiny"], "cpu", None)]
    assert rows == [
        ["device", "CPU, a/b", "ok"],
        ["models", "absent: copy it", gpu.FAILED],
        ["all", "not ready: failed checks: 1", gpu.FAILED],
    ]


def test_a_copy_without_git_has_an_unknown_commit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "")
    assert gpu.read_commit() == "unknown"


def test_every_constant_that_decides_is_in_the_table() -> None:
    page = (ROOT / "benchmarks" / "results" / "constants.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| (`.*?) \| `(\w+/\w+\.py)` \|", page, re.MULTILINE)
    listed = [(file, name) for names, file in rows for name in re.findall(r"`(\w+)`", names)]
    constants = [(path.relative_to(PACKAGE).as_posix(), name) for path, name, _ in list_constants()]
    assert sorted(listed) == sorted(constants)
