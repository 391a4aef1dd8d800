"""`preflight`, with small random checkpoints of the paper's architectures on the CPU."""

import re
import shutil
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from pan_scdg.errors import UserError
from pan_scdg.jobs import preflight
from pan_scdg.jobs.preflight import Speed
from pan_scdg.lm.attention import BACKENDS, attend_sdpa
from pan_scdg.models.encoder import Encoder
from tests.stand_ins import FEW_TOKENS, write_checkpoint, write_profile

Cli = Callable[..., Any]
SCDG_MINI = Path(__file__).parents[2] / "model_cache" / "scdg-mini"


@pytest.fixture
def qwen(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A small model in the place of Qwen3-8B-Base in the model cache, and its profile for pairs."""
    monkeypatch.setenv("PAN_SCDG_MODEL_CACHE", str(tmp_path / "cache"))
    monkeypatch.setitem(preflight.SIZES, "cpu", preflight.SIZES["cpu"]._replace(seconds=0.1))
    shutil.copytree(SCDG_MINI, tmp_path / "cache" / "Qwen3-8B-Base")  # a model that was trained
    write_profile("pan25-qwen3-8b", tmp_path / "qwen.toml")
    return tmp_path / "qwen.toml"


@pytest.fixture
def fly(cli: Cli, tmp_path: Path) -> Callable[..., tuple[int, list[str]]]:
    """``fly(profile, ...)``: exit code and lines, which are those of the log."""

    def call(profile: object, *more: object) -> tuple[int, list[str]]:
        done = cli("preflight", "--profile", profile, "--output", tmp_path / "out", "--device", "cpu", *more)
        assert (tmp_path / "out" / "preflight.txt").read_text(encoding="utf-8") == done.out
        return done.code, done.out.splitlines()

    return call


def test_a_machine_that_is_ready(fly: Any, qwen: Path, pairs_input: Path) -> None:
    code, lines = fly(qwen, "--input", pairs_input)
    assert (code, lines[-1]) == (0, "ready"), lines
    names = ["device", "models", "memory", "language model", "attention sdpa"]
    names += ["largest input", "tokens to score", "noise", "scorer", "hours"]
    assert [line.partition(":")[0] for line in lines[:-1]] == [f"ok      {name}" for name in names]


def test_both_tasks_of_the_default_profile(fly: Any, retrieval_input: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(preflight.SIZES, "cpu", preflight.SIZES["cpu"]._replace(seconds=0.1))
    code, lines = fly("offline", "--input", retrieval_input)
    assert (code, lines[-1]) == (0, "ready"), lines
    assert lines[-2].startswith("ok      hours: score ")
    names = [line.partition(":")[0] for line in lines[-7:-1]]
    expected = ["scorer", "encoder", "tokens to encode", "padding", "encoder speed", "hours"]
    assert names == [f"ok      {name}" for name in expected]
    assert fly("pan25-containment")[1][-1] == "ready"


def test_a_missing_shard_and_another_tokenizer(fly: Any, qwen: Path, tmp_path: Path) -> None:
    folder = tmp_path / "cache" / "Qwen3-8B-Base"
    changed = qwen.read_text(encoding="utf-8") + '\n[model.probes]\n"ab" = [1, 2, 3]\n'
    wrong = tmp_path / "wrong.toml"
    wrong.write_text(changed, encoding="utf-8")
    code, lines = fly(wrong)
    assert (code, lines[-1]) == (2, "not ready: failed checks: 1")
    assert lines[-2].startswith("failed  models: ")
    assert "the tokenizer encodes 'ab' as" in lines[-2]
    (folder / "model.safetensors").unlink()
    code, lines = fly(qwen)
    assert (code, lines[-1]) == (2, "not ready: failed checks: 1")
    assert "no weights in safetensors format" in lines[-2]


def test_a_model_that_was_not_trained(fly: Any, qwen: Path, tmp_path: Path) -> None:
    folder = tmp_path / "cache" / "Qwen3-8B-Base"
    shutil.rmtree(folder)
    write_checkpoint("Qwen3-8B-Base", folder, **FEW_TOKENS)
    code, lines = fly(qwen)
    assert (code, lines[-1]) == (2, "not ready: failed checks: 1")
    assert re.fullmatch(r"failed  language model: .* by chance 6.24: the weights are damaged.*", lines[-2])


def test_an_index_that_does_not_fit_on_the_disk(
    fly: Any, retrieval_input: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(preflight.shutil, "disk_usage", lambda _: SimpleNamespace(free=1000))
    code, lines = fly("offline", "--input", retrieval_input)
    assert code == 2
    (failed,) = [line for line in lines if line.startswith("failed  tokens to encode: ")]
    assert failed.endswith("1e-06 GB are free. Free disk space, or choose an output on another disk.")


def test_an_encoder_whose_padding_counts(fly: Any, retrieval_input: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def encode(encoder: Encoder, texts: list[str], *rest: Any) -> Any:
        vectors = real(encoder, texts, *rest)
        return np.roll(vectors, 1, axis=1) if len(texts) > 1 else vectors

    real = Encoder.encode
    monkeypatch.setattr(Encoder, "encode", encode)
    code, lines = fly("offline")
    assert code == 2
    assert any(line.startswith("failed  padding: the vector of a text in a padded batch differs") for line in lines)


def test_a_search_that_finds_others(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(preflight, "SEARCHED", 3000)
    assert preflight.try_search(16, "cpu")[0].startswith("100.0000% of the nearest vectors")
    real = preflight.find_nearest
    monkeypatch.setattr(preflight, "find_nearest", lambda q, *rest: real(q if rest[-1] == "cpu" else -q, *rest))
    with pytest.raises(UserError, match="of the nearest vectors are those that the CPU finds"):
        preflight.try_search(16, "cpu:0")


@pytest.mark.parametrize("fault", ["numbers", "later tokens", "exception"])
def test_an_attention_that_computes_something_else(
    fault: str, fly: Any, qwen: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def attend(q: Any, k: Any, v: Any, spans_q: Any, spans_k: Any, causal: bool, scale: float) -> Any:
        if fault == "exception":
            raise RuntimeError("no kernel image is available\nmore")
        if len(v) < 40:  # right on the few tokens that every engine tries at its start
            return attend_sdpa(q, k, v, spans_q, spans_k, causal, scale)
        if fault == "later tokens":
            return attend_sdpa(q, k, v, spans_q, spans_k, False, scale)
        return attend_sdpa(q, k, v.flip(0), spans_q, spans_k, causal, scale)

    monkeypatch.setitem(BACKENDS, "sdpa", attend)
    code, lines = fly(qwen)
    (failed,) = [line for line in lines if line.startswith("failed  attention sdpa: ")]
    assert ("no kernel image" if fault == "exception" else "nats a token when packed") in failed
    assert code == 2


def test_hours_beyond_the_limit(fly: Any, qwen: Path, pairs_input: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(preflight, "measure_speed", lambda *_: Speed(0.001, 0.001, 0.001))
    code, lines = fly(qwen, "--input", pairs_input)
    assert code == 2
    assert lines[-2].startswith("failed  hours: score ")
    assert lines[-2].endswith("the deadline is 24 h. Use a faster device, or a smaller model.")


@pytest.mark.parametrize(
    ("speeds", "deadline", "ends"),
    [
        ([0.001, 1e9], 24, "24 h suffice for about 2% of the candidates: run with --deadline"),
        ([1e9, 0.001], 24, "with --deadline 24 the index may take 18 h, and is left out"),
        ([1e9, 0.001], 1e9, "(the deadline is 1e+09 h)"),
    ],
)
def test_a_retrieval_run_beyond_the_limit_needs_a_deadline_and_an_index_in_its_share_of_it(
    speeds: list[float], deadline: float, ends: str, fly: Any, retrieval_input: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(preflight, "measure_speed", lambda *_: Speed(*[speeds.pop(0)] * 3))
    code, lines = fly("offline", "--input", retrieval_input, "--deadline", deadline)
    assert ends in lines[-2]
    assert (lines[-2].startswith("failed  hours"), code) == (("left out" in ends), 2 * ("left out" in ends))


def test_a_device_that_gets_slower_counts_with_its_last_speed(monkeypatch: pytest.MonkeyPatch) -> None:
    now, computed = 0.0, 0

    def compute() -> None:
        nonlocal now, computed
        now += 1 if now < 50 else 2
        computed += 1000

    monkeypatch.setattr(preflight.time, "monotonic", lambda: now)
    speed = preflight.measure_speed(compute, lambda: computed, 100)
    assert (speed.first, speed.last, speed.sustained) == (1000, 500, 500)
    assert str(speed).endswith("1,000 at first and 500 in the end")
    steady = Speed(100, 101, 99)
    assert (str(steady), steady.sustained) == ("100 tokens per second", 100)
