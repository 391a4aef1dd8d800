"""Every profile of the paper's retrieval table runs on the official spot check, with tiny stand-ins for the models."""

import gzip
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from pan_scdg.models.encoder import load_encoder
from tests.stand_ins import FEW_TOKENS, write_checkpoint, write_profile
from tests.tolerances import check_vectors

SPOT_CHECK = Path(__file__).parents[3] / "shared" / "data" / "pan26-spot-check"
FIRST_STAGES = ("bm25-full", "bm25-sentence", "bge-m3-full", "bge-m3-sentence", "bge-m3-sentence-sum", "combsum")
RERANKED = ("rrf-qwen3-8b", "qwen3-8b")
ROWS = (
    *(*FIRST_STAGES, "linq-sentence", "rrf", "daac"),
    *(pytest.param(name, marks=pytest.mark.long) for name in RERANKED),
)
MODELS = ("bge-m3", "Linq-Embed-Mistral", "Qwen3-8B-Base")


@pytest.fixture(scope="module")
def cache(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A model cache with the stand-ins under the real names."""
    root = tmp_path_factory.mktemp("cache")
    for name in MODELS:
        write_checkpoint(name, root / name, **FEW_TOKENS)
    return root


@pytest.fixture
def on_cpu(cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[str], Path]:
    """``on_cpu(row)``: the row's profile, changed in nothing but arithmetic, tokenizer and depth."""
    monkeypatch.setenv("PAN_SCDG_MODEL_CACHE", str(cache))

    def profile(row: str) -> Path:
        name = f"pan26-{row}"
        scored = {"scored": 1} if "qwen3" in row else {}
        return write_profile(name, tmp_path / f"{row}.toml", retrieval=scored)

    return profile


@pytest.mark.skipif(not SPOT_CHECK.is_dir(), reason="the official spot check is not here")
@pytest.mark.parametrize("row", ROWS)
def test_row_runs_on_the_spot_check(row: str, on_cpu: Callable[[str], Path], cli: Any, tmp_path: Path) -> None:
    where = ("--input", SPOT_CHECK, "--output", tmp_path / "out", "--device", "cpu")
    result = cli("run", *where, "--profile", on_cpu(row))
    assert result.code == 0, result.err
    rows = gzip.decompress((tmp_path / "out" / "run.txt.gz").read_bytes()).decode().splitlines()
    asked = [json.loads(line)["qid"] for line in (SPOT_CHECK / "queries.jsonl").read_text("utf-8").splitlines()]
    with gzip.open(SPOT_CHECK / "corpus.jsonl.gz", "rt", encoding="utf-8") as lines:
        known = {json.loads(line)["doc_id"] for line in lines}
    assert {line.split(" ")[0] for line in rows} == set(asked)
    assert {line.split(" ")[2] for line in rows} <= known


@pytest.mark.parametrize(("name", "position"), [("bge-m3", 0), ("Linq-Embed-Mistral", -1)])
def test_pooling_is_the_model_s_own_and_normalised_in_float32(name: str, position: int, cache: Path) -> None:
    import torch
    from transformers import AutoModel, AutoTokenizer

    encoder = load_encoder(cache / name, "cpu", batch=2)
    tokenizer = AutoTokenizer.from_pretrained(cache / name)
    model = AutoModel.from_pretrained(cache / name, dtype=torch.float32).eval()
    for text in ("The tide turned before noon.", "Nobody on the quay said a word about it."):
        with torch.inference_mode():
            hidden = model(**tokenizer(text, return_tensors="pt")).last_hidden_state[0, position].numpy()
        check_vectors(cache / name, encoder.encode([text])[0], hidden / np.linalg.norm(hidden))
