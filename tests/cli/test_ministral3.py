"""A run of the profile for Ministral 3, from files to decisions, on a stand-in; needs transformers 5."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.stand_ins import read_small_config, write_checkpoint, write_profile

transformers = pytest.importorskip("transformers")

NAME = "Ministral-3-8B-Base-2512"


@pytest.mark.skipif(transformers.__version__ < "5", reason="the architecture ministral3 came with transformers 5")
def test_pairs_are_decided_by_both_engines_alike(
    cli: Callable[..., Any], pairs_input: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PAN_SCDG_MODEL_CACHE", str(tmp_path))
    write_checkpoint(NAME, tmp_path / NAME)
    assert read_small_config(NAME)["text_config"]["model_type"] == "ministral3"
    profile = write_profile("pan25-ministral-3-8b", tmp_path / "p.toml", gains={"q": 10}, decide={"threshold": 0.0})
    scores = []
    for engine in ("packed", "reference"):
        where = ("--input", pairs_input, "--output", tmp_path / engine, "--device", "cpu", "--engine", engine)
        done = cli("run", *where, "--profile", profile)
        assert done.code == 0, done.err
        lines = (tmp_path / engine / "decisions.jsonl").read_text(encoding="utf-8").splitlines()
        scores.append([json.loads(line)["score"] for line in lines])
    np.testing.assert_allclose(*scores, atol=1e-5)
    assert np.ptp(scores[0]) > 0
