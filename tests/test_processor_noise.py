"""The bundled default scores a pair alike whatever instructions the libraries use."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from pan_scdg.profile.baseline import Alignment

from pan_scdg.profile import load_profile

ROOT = Path(__file__).parents[1]
PAIR = ("susp/suspicious-document00101.txt", "src/source-document00109.txt")
OTHER = {"ATEN_CPU_CAPABILITY": "default", "MKL_CBWR": "COMPATIBLE", "ONEDNN_MAX_CPU_ISA": "SSE41"}


def score_of(texts: list[Path], profile: str, variables: dict[str, str]) -> dict[str, object]:
    options = ("--device", "cpu", "--profile", profile)
    command = [sys.executable, str(ROOT / "entrypoint.py"), "score", *map(str, texts), *options]
    done = subprocess.run(command, env={**os.environ, **variables}, capture_output=True, text=True, check=True)
    found: dict[str, object] = json.loads(done.stdout)
    return found


@pytest.mark.long
@pytest.mark.parametrize("profile", ["offline", "scdg-mini"])
def test_a_score_moves_by_less_than_the_noise(profile: str, tmp_path: Path) -> None:
    texts = [tmp_path / Path(name).name for name in PAIR]
    for text, name in zip(texts, PAIR):
        text.write_text((ROOT / "examples" / "pan25-pairs" / "test" / name).read_text("utf-8")[:2000], "utf-8")
    loaded = load_profile(profile)
    judge = loaded.baseline if isinstance(loaded.baseline, Alignment) else loaded.need_pairs().calibration
    assert judge is not None
    assert judge.noise is not None
    one, other = (score_of(texts, profile, variables) for variables in ({}, OTHER))
    assert one["score"] == pytest.approx(other["score"], abs=judge.noise)
    assert (one["decision"], one["near_threshold"]) == (other["decision"], other["near_threshold"]) == (True, False)
