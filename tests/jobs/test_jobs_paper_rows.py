"""Every profile of the paper's retrieval table runs on the official spot check, with tiny stand-ins for the models."""

import gzip
import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tomlkit

from pan_scdg.models.encoder import load_encoder
from pan_scdg.profile import find_profile
from pan_scdg.retrieval.bm25.terrier_jars import find_jar_folder
from tests.tolerances import check_vectors

SPOT_CHECK = Path(__file__).parents[3] / "shared" / "data" / "pan26-spot-check"
FIRST_STAGES = ("bm25-full", "bm25-sentence", "bge-m3-full", "bge-m3-sentence", "bge-m3-sentence-sum", "combsum")
ROWS = (*FIRST_STAGES, "linq-sentence", "rrf", "daac", "rrf-qwen3-8b", "qwen3-8b")
SIZE = {"vocab_size": 400, "hidden_size": 32, "intermediate_size": 48, "num_hidden_layers": 2, "num_attention_heads": 4}


def sentence_transformer(folder: Path, model: Any, tokenizer: Any, pooling: str) -> Path:
    """A sentence-transformers folder around a random checkpoint, with the modules that the real one has."""
    from sentence_transformers import SentenceTransformer
    from sentence_transformers.models import Normalize, Pooling, Transformer

    model.save_pretrained(folder / "plain")
    tokenizer.save_pretrained(folder / "plain")
    body = Transformer(str(folder / "plain"), max_seq_length=4096)
    SentenceTransformer(
        modules=[body, Pooling(SIZE["hidden_size"], pooling_mode=pooling), Normalize()], device="cpu"
    ).save(str(folder / "whole"))
    shutil.rmtree(folder / "plain")
    return folder / "whole"


@pytest.fixture(scope="module")
def cache(tmp_path_factory: pytest.TempPathFactory, tiny_tokenizer: Callable[..., Any]) -> Path:
    """A model cache with stand-ins of the right architecture and pooling under the real names."""
    import torch
    import transformers as hf

    root = tmp_path_factory.mktemp("cache")
    tokenizer = tiny_tokenizer()
    tokenizer.pad_token = tokenizer.eos_token
    torch.manual_seed(0)
    bge = hf.XLMRobertaModel(hf.XLMRobertaConfig(**SIZE, max_position_embeddings=4200, pad_token_id=1))
    linq = hf.MistralModel(hf.MistralConfig(**SIZE, num_key_value_heads=2, max_position_embeddings=4200))
    shutil.move(sentence_transformer(root / "1", bge, tokenizer, "cls"), root / "bge-m3")
    shutil.move(sentence_transformer(root / "2", linq, tokenizer, "lasttoken"), root / "Linq-Embed-Mistral")
    return root


@pytest.fixture(scope="module")
def state(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """One state for all rows, so that indexes and routes that they share are made once."""
    return tmp_path_factory.mktemp("state")


@pytest.fixture
def on_cpu(cache: Path, tiny_folder: Callable[[str], Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """``on_cpu(row)``: the row's profile, changed in nothing but the language model's arithmetic and depth."""
    jars = find_jar_folder()
    monkeypatch.setenv("PAN_SCDG_MODEL_CACHE", str(cache))
    monkeypatch.setenv("PYTERRIER_HOME", str(jars))
    if not (cache / "Qwen3-8B-Base").exists():
        shutil.copytree(tiny_folder("qwen3-no-bos"), cache / "Qwen3-8B-Base")
        config = json.loads((cache / "Qwen3-8B-Base" / "config.json").read_text())
        config["max_position_embeddings"] = 32768
        (cache / "Qwen3-8B-Base" / "config.json").write_text(json.dumps(config))

    def profile(row: str) -> Path:
        if 'engine = "impact"' in find_profile(f"pan26-{row}").read_text() and not any(
            jars.glob("terrier-assemblies*")
        ):
            pytest.skip("Terrier's jars are not here: python entrypoint.py models fetch terrier")
        document = tomlkit.parse(find_profile(f"pan26-{row}").read_text(encoding="utf-8"))
        if "model" in document:
            document["model"].update({"attention": "sdpa", "dtype": "float32", "tokenizer": "fast"})
            document["model"].pop("probes")  # the stand-in has another tokenizer
            document["retrieval"].update({"scored": 1})
        path = tmp_path / f"{row}.toml"
        path.write_text(tomlkit.dumps(document), encoding="utf-8")
        return path

    return profile


@pytest.mark.skipif(not SPOT_CHECK.is_dir(), reason="the official spot check is not here")
@pytest.mark.parametrize("row", ROWS)
def test_row_runs_on_the_spot_check(
    row: str, on_cpu: Callable[[str], Path], cli: Any, state: Path, tmp_path: Path
) -> None:
    where = ("--input", SPOT_CHECK, "--output", tmp_path / "out", "--device", "cpu", "--state", state)
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
