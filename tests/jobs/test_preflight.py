"""`preflight`, with small random checkpoints of the paper's architectures on the CPU."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from pan_scdg.jobs import preflight
from pan_scdg.jobs.preflight import attend_written_out, count_tokens, make_inputs
from pan_scdg.lm.attention import BACKENDS, attend_sdpa
from pan_scdg.models.find import find_model
from pan_scdg.models.load import load_tokenizer
from pan_scdg.notices import Notices
from pan_scdg.pan.source_retrieval import Corpus
from pan_scdg.profile import load_profile
from tests.stand_ins import FEW_TOKENS, write_checkpoint, write_profile

Cli = Callable[..., Any]


@pytest.fixture
def qwen(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A stand-in for Qwen3-8B-Base in the model cache, and its profile for pairs."""
    monkeypatch.setenv("PAN_SCDG_MODEL_CACHE", str(tmp_path / "cache"))
    monkeypatch.setitem(preflight.SIZES, "cpu", preflight.SIZES["cpu"]._replace(seconds=0.1))
    write_checkpoint("Qwen3-8B-Base", tmp_path / "cache" / "Qwen3-8B-Base", **FEW_TOKENS)
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
    names = ["device", "models", "memory", "precision", "written-out attention", "attention sdpa", "scorer", "hours"]
    assert [line.partition(":")[0] for line in lines[:-1]] == [f"ok      {name}" for name in names]


def test_both_tasks_of_the_default_profile(fly: Any, retrieval_input: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(preflight.SIZES, "cpu", preflight.SIZES["cpu"]._replace(seconds=0.1))
    code, lines = fly("offline", "--input", retrieval_input)
    assert (code, lines[-1]) == (0, "ready"), lines
    assert lines[-2].startswith("ok      hours: score ")
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
    assert ("no kernel image" if fault == "exception" else "more than 0.01") in failed
    assert code == 2


def test_hours_beyond_the_limit(fly: Any, qwen: Path, pairs_input: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(preflight, "measure_speed", lambda *_: 0.001)
    code, lines = fly(qwen, "--input", pairs_input)
    assert code == 2
    assert lines[-2].startswith("failed  hours: score ")
    assert lines[-2].endswith("TIRA's limit is 24 h. Use a faster device, or a smaller model.")


@pytest.mark.parametrize(("speeds", "code"), [([0.001, 1e9], 0), ([1e9, 0.001], 2)])
def test_a_retrieval_run_beyond_the_limit_needs_a_deadline_and_an_encoder_in_time(
    speeds: list[float], code: int, fly: Any, retrieval_input: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(preflight, "measure_speed", lambda *_: speeds.pop(0))
    answer, lines = fly("offline", "--input", retrieval_input)
    assert answer == code
    assert lines[-2].startswith("failed  hours" if code else "ok      hours")
    if not code:
        assert lines[-2].endswith("not all candidates can be scored in TIRA's 24 h: run with --deadline")


def test_the_written_out_attention_is_causal_attention(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(preflight, "ROWS", 4)
    torch.manual_seed(0)
    q, k, v = torch.randn(1, 4, 10, 8), torch.randn(1, 2, 10, 8), torch.randn(1, 2, 10, 8)
    expected = torch.nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True, scale=0.3, enable_gqa=True)
    torch.testing.assert_close(attend_written_out(None, q, k, v, None, scaling=0.3)[0], expected.transpose(1, 2))


def test_tokens_of_pairs_are_those_of_both_passes(qwen: Path, tmp_path: Path, pairs_input: Path) -> None:
    """All texts are tokenised here, since there are fewer than the sample has."""
    profile = load_profile(str(qwen))
    tokenizer = load_tokenizer(tmp_path / "cache" / "Qwen3-8B-Base", profile.need_model())
    pairs = [line.split() for line in (pairs_input / "pairs").read_text().splitlines()]
    texts = {path.name: path.read_text(encoding="utf-8") for path in pairs_input.glob("s*/*.txt")}
    tokens = {name: len(tokenizer.encode(text, add_special_tokens=False)) for name, text in texts.items()}
    rate = sum(tokens.values()) / sum(map(len, texts.values()))
    both = sum(len(texts[name]) for pair in pairs for name in pair)
    alone = sum(len(texts[name]) for name in {target for target, _ in pairs})
    assert count_tokens(profile, pairs_input, tokenizer)["score"] == round(rate * (both + alone))


def test_a_source_of_several_queries_is_counted_once(tmp_path: Path, retrieval_input: Path) -> None:
    """A context of any size: no source is counted more often than the corpus has it, however many queries there are."""
    profile = load_profile("offline")
    tokenizer = load_tokenizer(find_model("scdg-mini").folder, profile.need_model())
    retrieval = profile.need_retrieval().model_copy(update={"source_tokens": None, "scored": 1000})
    whole = profile.model_copy(update={"retrieval": retrieval})
    cut = profile.model_copy(update={"retrieval": retrieval.model_copy(update={"source_tokens": 1})})
    lines = (retrieval_input / "queries.jsonl").read_text(encoding="utf-8")
    documents = len(Corpus(retrieval_input, Notices()))
    queries = len(lines.splitlines())
    counted, short = (count_tokens(one, retrieval_input, tokenizer) for one in (whole, cut))
    dense = retrieval.need_dense()
    corpus_tokens = counted["encode"] * dense.chunk_stride / dense.chunk_words
    assert counted["score"] - short["score"] == pytest.approx(corpus_tokens - documents * queries, abs=3)


def test_three_inputs_share_a_context_and_one_is_alone() -> None:
    *shared, alone = make_inputs(50, 40, 60)
    assert [item.length for item in (*shared, alone)] == [48, 48, 48, 60]
    assert all(np.array_equal(item.context_ids, shared[0].context_ids) for item in shared)
