"""A profile that cannot run on a machine is refused at once; the machines here are simulated."""

import json
import math
import struct
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from pan_scdg import resources
from pan_scdg.errors import UserError
from pan_scdg.models import fit
from pan_scdg.models.catalogue import CATALOGUE
from pan_scdg.models.devices import Seen, choose_dtype
from pan_scdg.models.fit import (
    check_encoder_fits,
    check_weights_fit,
    choose_device,
    choose_search_memory,
    list_fitting_profiles,
)
from pan_scdg.models.needs import find_needs
from pan_scdg.profile import Profile, list_profiles, load_profile

torch = pytest.importorskip("torch")

GB = 10**9
RTX_3070, RTX_3090 = 8_510_000_000, 25_300_000_000
NONE = Seen(visible=False)
WITHOUT_LIBRARY = Seen(visible=False, why_not=" (there are device files)")
LAYER = {
    **{f"self_attn.{name}_proj": (4096, 4096) for name in "qo"},
    **{f"self_attn.{name}_proj": (1024, 4096) for name in "kv"},
    **{"mlp.gate_proj": (12288, 4096), "mlp.up_proj": (12288, 4096), "mlp.down_proj": (4096, 12288)},
}
CONFIG = {"hidden_size": 4096, "intermediate_size": 12288, "vocab_size": 151_936, "tie_word_embeddings": False}


def write_header(path: Path, shapes: Mapping[str, tuple[int, ...]]) -> Path:
    """Write a sparse safetensors file in bfloat16: a header, and no bytes on the disk behind it."""
    header, end = {}, 0
    for name, shape in shapes.items():
        size = 2 * math.prod(shape)
        header[name] = {"dtype": "BF16", "shape": list(shape), "data_offsets": [end, end + size]}
        end += size
    text = json.dumps(header).encode()
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("wb") as file:
        file.write(struct.pack("<Q", len(text)) + text)
        file.truncate(8 + len(text) + end)
    return path


@pytest.fixture
def qwen3_8b(tmp_path: Path) -> Path:
    """Return the part of Qwen3-8B that is read before loading: config and headers of 16.4 GB of weights."""
    shapes = {f"model.layers.{i}.{name}.weight": shape for i in range(36) for name, shape in LAYER.items()}
    shapes |= dict.fromkeys(("model.embed_tokens.weight", "lm_head.weight"), (151936, 4096))
    folder = write_header(tmp_path / "qwen" / "model.safetensors", shapes).parent
    (folder / "config.json").write_text(json.dumps({"model_type": "qwen3", **CONFIG}))
    return folder


class Properties(NamedTuple):
    total_memory: int


@pytest.fixture
def gpu(monkeypatch: pytest.MonkeyPatch) -> Callable[[str, int], None]:
    """Simulate a machine with one GPU with a given name and memory in bytes."""

    def play(name: str, memory: int) -> None:
        found: dict[str, Any] = {"init": None, "is_available": True, "device_count": 1}
        found |= {"get_device_capability": (8, 6)}
        found |= {"get_arch_list": ["sm_86"], "get_device_name": name, "get_device_properties": Properties(memory)}
        for function, value in found.items():
            monkeypatch.setattr(torch.cuda, function, lambda *_, value=value: value)

    return play


@pytest.fixture
def no_gpu(monkeypatch: pytest.MonkeyPatch) -> Callable[[Seen], None]:
    def play(seen: Seen) -> None:
        monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
        monkeypatch.setattr("pan_scdg.models.devices.look_for_gpus", lambda: seen)
        monkeypatch.setattr(fit, "look_for_gpus", lambda: seen)

    return play


def fits(profile: Profile, device: str, folder: Path) -> None:
    """Check as a run does: in the dtype in which the device computes."""
    check_weights_fit(folder, choose_dtype(profile.need_model(), device), device)


def test_an_8b_model_does_not_fit_on_a_gpu_of_8_gb(gpu: Callable[[str, int], None], qwen3_8b: Path) -> None:
    gpu("GeForce RTX 3070", RTX_3070)
    with pytest.raises(
        UserError,
        match=r"^Qwen3-8B-Base in bfloat16 takes at least 16\.4 GB, and GeForce RTX 3070 \(sm_86\) has 8\.51 GB; "
        r"choose a profile that would fit \(pan25-qwen3-1\.7b, pan26-qwen3-1\.7b, .*, pan26-bge-m3-full\), "
        r"or another device$",
    ):
        fits(load_profile("pan25-qwen3-8b"), "cuda", qwen3_8b)


@pytest.mark.parametrize("profile", ["pan25-qwen3-8b", "pan26-qwen3-8b"])
def test_an_8b_model_fits_on_a_gpu_of_24_gb(gpu: Callable[[str, int], None], qwen3_8b: Path, profile: str) -> None:
    gpu("GeForce RTX 3090", RTX_3090)
    fits(load_profile(profile), "cuda", qwen3_8b)


def test_a_cpu_with_a_limit_of_2_gb(monkeypatch: pytest.MonkeyPatch, qwen3_8b: Path) -> None:
    monkeypatch.setattr(resources, "measure_memory", lambda: 2 * GB)
    with pytest.raises(UserError, match=r"16\.4 GB, and this process may use 2 GB; choose .* \(pan25-qwen3-0\.6b, off"):
        fits(load_profile("pan25-qwen3-8b"), "cpu", qwen3_8b)
    monkeypatch.setattr(resources, "measure_memory", lambda: 64 * GB)
    fits(load_profile("pan25-qwen3-8b"), "cpu", qwen3_8b)


def test_float32_takes_twice_as_much(gpu: Callable[[str, int], None], qwen3_8b: Path) -> None:
    gpu("GeForce RTX 3090", RTX_3090)
    profile = load_profile("pan25-qwen3-8b")
    wide = profile.need_model().model_copy(update={"dtype": "float32"})
    with pytest.raises(UserError, match=r"in float32 takes at least 32\.8 GB"):
        check_weights_fit(qwen3_8b, wide, "cuda")


def test_a_large_encoder_is_refused_too(gpu: Callable[[str, int], None], tmp_path: Path) -> None:
    """7.1 billion parameters, as those of Linq-Embed-Mistral, with the modules of sentence-transformers."""
    kinds = {"": "Transformer", "1_Pooling": "Pooling"}
    modules = [
        {"idx": i, "name": str(i), "path": path, "type": f"sentence_transformers.models.{kind}"}
        for i, (path, kind) in enumerate(kinds.items())
    ]
    (tmp_path / "modules.json").write_text(json.dumps(modules))
    write_header(tmp_path / "model.safetensors", {"a": (7_100_000, 1000)})
    gpu("GeForce RTX 3070", RTX_3070)
    with pytest.raises(UserError, match=r"Linq in bfloat16 takes at least 14\.2 GB.*fit \(pan25-qwen3-1\.7b, "):
        check_encoder_fits("Linq", tmp_path, "cuda")
    gpu("GeForce RTX 3090", RTX_3090)
    check_encoder_fits("Linq", tmp_path, "cuda")


def test_the_profiles_that_are_named_leave_memory_for_more_than_weights() -> None:
    assert set(list_fitting_profiles(100 * GB, "cuda")) == set(list_profiles())
    for memory in (GB, 4 * GB, 8 * GB, 16 * GB):
        for name in list_fitting_profiles(memory, "cuda"):
            models = [model for model in find_needs(load_profile(name)).models if model in CATALOGUE]
            assert all(CATALOGUE[model].size <= fit.LARGEST_SHARE * memory for model in models)
    assert "pan26-bge-m3-full" in list_fitting_profiles(2 * GB, "cuda")
    assert "pan26-bge-m3-full" not in list_fitting_profiles(2 * GB, "cpu")


NEEDS = [name for name in list_profiles() if load_profile(name).needs_gpu]


def test_profiles_that_need_a_gpu_say_so() -> None:
    assert [name for name in list_profiles() if "GPU" in load_profile(name).description] == NEEDS
    others = [name for name in set(list_profiles()) - set(NEEDS) if load_profile(name).baseline is None]
    assert sorted(others) == ["pan26-bm25-full", "pan26-bm25-sentence", "scdg-mini"]


@pytest.mark.parametrize(
    ("seen", "why"),
    [
        (NONE, "visible; run it on"),
        (WITHOUT_LIBRARY, r"visible \(there are device files\); run it on"),
    ],
)
def test_a_large_profile_never_starts_on_a_cpu_unasked(no_gpu: Callable[[Seen], None], seen: Seen, why: str) -> None:
    no_gpu(seen)
    with pytest.raises(UserError, match=f"profile pan25-qwen3-8b needs a GPU and none is {why}.*offline.*device cpu"):
        choose_device(load_profile("pan25-qwen3-8b"), "auto")
    assert choose_device(load_profile("pan25-qwen3-8b"), "cpu") == "cpu"
    assert choose_device(load_profile("offline"), "auto") == "cpu"


def test_the_cpu_of_a_container_without_its_gpu_is_told_of(
    no_gpu: Callable[[Seen], None], capsys: pytest.CaptureFixture[str]
) -> None:
    no_gpu(WITHOUT_LIBRARY)
    assert choose_device(load_profile("offline"), "auto") == "cpu"
    assert "note: no GPU is visible (there are device files" in capsys.readouterr().err
    no_gpu(NONE)
    choose_device(load_profile("offline"), "auto")
    assert capsys.readouterr().err == ""


def test_a_gpu_is_taken_where_there_is_one_and_a_model(gpu: Callable[[str, int], None]) -> None:
    gpu("GeForce RTX 3090", RTX_3090)
    assert {choose_device(load_profile(name), "auto") for name in (*NEEDS, "offline")} == {"cuda"}
    assert choose_device(load_profile("pan26-bm25-full"), "auto") == "cpu"


@pytest.mark.parametrize(("memory", "expected"), [(64 * GB, 1024), (2 << 30, 512), (100 << 20, 64)])
def test_a_dense_search_takes_a_part_of_a_small_memory(
    monkeypatch: pytest.MonkeyPatch, memory: int, expected: int
) -> None:
    monkeypatch.setattr(resources, "measure_memory", lambda: memory)
    assert choose_search_memory() == expected
