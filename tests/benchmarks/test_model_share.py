"""The benchmark with a clock in place of the model, small: it goes through a whole run and counts its tokens."""

import json
import time

import numpy as np
import pytest
from click.testing import CliRunner

from benchmarks import model_share
from pan_scdg.scdg.sequences import ScoringInput

transformers = pytest.importorskip("transformers")
OLD = transformers.__version__.startswith("4.")


def test_the_clock_takes_its_time_and_counts_shared_contexts_once() -> None:
    clock = model_share.ClockEngine(rate=1e4, budget=1000)
    items = [ScoringInput(np.arange(50), np.arange(10)), ScoringInput(np.arange(50), np.arange(20))]
    began = time.perf_counter()
    assert [len(values) for values in clock.compute_log_probs(items)] == [10, 20]
    assert clock.tokens == 49 + 10 + 20
    assert time.perf_counter() - began >= clock.tokens / 1e4


@pytest.mark.skipif(
    not transformers.__version__.startswith("4."), reason="transformers 5 has no slow tokenizer of Qwen"
)
def test_retrieval(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(model_share, "VOCABULARY", 3000)
    monkeypatch.setattr(model_share, "SAMPLE", 1)
    options = ["--task", "retrieval", "--queries", "1", "--candidates", "2", "--lists", "1", "--rate", "1e6"]
    found = CliRunner().invoke(model_share.main, options)
    assert found.exit_code == 0, found.output
    figures = json.loads(found.output.splitlines()[-1])
    assert figures["items"] == 2
    assert figures["model_seconds"] == pytest.approx(figures["tokens"] / 1e6, abs=0.01)
    assert 0 < figures["share"] <= figures["scoring_share"] <= 1
