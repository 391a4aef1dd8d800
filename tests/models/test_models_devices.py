"""The choice of a device on simulated machines: the tests need no GPU and ignore an existing one."""

from collections.abc import Callable
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import pytest

from pan_scdg.errors import UserError
from pan_scdg.models import devices
from pan_scdg.models.devices import (
    Seen,
    check_device,
    check_device_exists,
    choose_dtype,
    choose_encoder_dtype,
    is_supported,
    look_for_gpus,
    resolve_device,
)
from pan_scdg.profile import ModelSettings

torch = pytest.importorskip("torch")

Gpu = Callable[..., None]
NO_GPUS = RuntimeError("No CUDA GPUs are available")
SMALL = ModelSettings(name="tiny", dtype_without_bf16="float16")
WHEEL = ["sm_75", "sm_80", "sm_86", "sm_90", "sm_100", "sm_120"]
PRESENT, NONE = Seen(visible=True), Seen(visible=False)
HIDDEN = Seen(visible=False, why_not=" (CUDA_VISIBLE_DEVICES hides the existing ones)")


@pytest.fixture
def gpu(monkeypatch: pytest.MonkeyPatch) -> Gpu:
    """Simulate a machine with one GPU of a compute capability and a torch with code for some architectures."""

    def play(capability: tuple[int, int], built: list[str] = WHEEL, bf16: bool = True) -> None:
        found: dict[str, Any] = {"is_available": True, "device_count": 1, "get_arch_list": built}
        found |= {"init": None, "get_device_name": "GeForce", "is_bf16_supported": bf16, "device": nullcontext()}
        for name, value in (found | {"get_device_capability": capability}).items():
            monkeypatch.setattr(torch.cuda, name, lambda *_, value=value, **__: value)

    return play


@pytest.fixture(autouse=True)
def no_gpu_is_chosen(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in devices.HIDING:
        monkeypatch.delenv(name, raising=False)


@pytest.fixture
def no_gpu(monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    """Simulate a machine on which torch finds no GPU, whatever the operating system shows."""

    def play(seen: Seen, cuda: str | None = "12.8", reason: Exception = NO_GPUS) -> None:
        def init() -> None:
            raise reason

        monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
        monkeypatch.setattr(torch.cuda, "device_count", lambda: 0)
        monkeypatch.setattr(torch.cuda, "init", init)
        monkeypatch.setattr(torch.version, "cuda", cuda)
        monkeypatch.setattr(devices, "look_for_gpus", lambda: seen)

    return play


@pytest.mark.parametrize(
    ("capability", "built", "there"),
    [
        ((6, 1), WHEEL, False),
        ((7, 0), WHEEL, False),
        ((7, 5), WHEEL, True),
        ((8, 9), WHEEL, True),
        ((12, 1), WHEEL, True),
        ((13, 0), WHEEL, False),
        ((13, 0), [*WHEEL, "compute_120"], True),
        ((6, 1), [*WHEEL, "compute_120"], False),
        ((9, 0), ["sm_90a"], True),
        ((9, 0), ["gfx90a"], True),
    ],
)
def test_a_gpu_needs_code_in_torch(gpu: Gpu, capability: tuple[int, int], built: list[str], there: bool) -> None:
    gpu(capability, built)
    assert is_supported("cuda") == there
    for wanted in ("auto", "cuda"):
        if there:
            assert resolve_device(wanted) == "cuda"
        else:
            with pytest.raises(UserError, match="no code for GeForce"):
                resolve_device(wanted)
    assert resolve_device("cpu") == "cpu"


@pytest.mark.parametrize("use", [choose_dtype, check_device])
def test_a_gpu_without_code_in_torch_is_named(gpu: Gpu, use: Callable[[ModelSettings, str], Any]) -> None:
    gpu((6, 1), WHEEL)
    with pytest.raises(UserError, match=r"no code for GeForce \(sm_61\); use the device cpu or another GPU"):
        use(SMALL, "cuda")


@pytest.mark.parametrize(
    ("capability", "features", "dtype"),
    [
        ("AVX512", {"avx512_bf16", "avx2"}, "bfloat16"),
        ("AVX512", {"amx_bf16"}, "bfloat16"),
        ("AVX512", {"avx512_f"}, "float32"),
        ("AVX2", {"avx512_bf16"}, "float32"),
        ("DEFAULT", set(), "float32"),
    ],
)
def test_encoders_compute_in_bfloat16_where_torch_uses_instructions_for_it(
    monkeypatch: pytest.MonkeyPatch, capability: str, features: set[str], dtype: str
) -> None:
    monkeypatch.setattr("torch.backends.cpu.get_cpu_capability", lambda: capability)
    monkeypatch.setattr(devices, "list_cpu_features", lambda: frozenset(features))
    assert (choose_encoder_dtype("cpu"), choose_encoder_dtype("cuda")) == (dtype, "bfloat16")


def test_the_cpu_is_taken_where_no_gpu_is_visible(no_gpu: Callable[..., None]) -> None:
    for seen in (NONE, HIDDEN):
        no_gpu(seen)
        assert resolve_device("auto") == "cpu"


@pytest.mark.parametrize("wanted", ["auto", "cuda"])
@pytest.mark.parametrize(
    ("cuda", "reason", "said"),
    [
        (
            "12.8",
            RuntimeError("The NVIDIA driver on your system is too old (found version 11040).\nmore"),
            r"for CUDA 12\.8 cannot use the NVIDIA GPU: The NVIDIA driver on your system is too old \(found version "
            r"11040\)\.; install a torch that fits the driver, update the driver, or use the device cpu$",
        ),
        ("12.8", NO_GPUS, r"No CUDA GPUs are available; install a torch that fits"),
        (
            None,
            AssertionError("Torch not compiled with CUDA enabled"),
            r"for CUDA None .* Torch not compiled with CUDA",
        ),
    ],
)
def test_a_visible_gpu_that_torch_cannot_use_is_an_error_with_its_cause(
    no_gpu: Callable[..., None], wanted: str, cuda: str | None, reason: Exception, said: str
) -> None:
    no_gpu(PRESENT, cuda, reason)
    with pytest.raises(UserError, match=said):
        resolve_device(wanted)
    assert resolve_device("cpu") == "cpu"


@pytest.mark.parametrize("wanted", ["auto", "cuda"])
def test_a_gpu_that_is_counted_and_does_not_begin(gpu: Gpu, monkeypatch: pytest.MonkeyPatch, wanted: str) -> None:
    """torch counts by the driver's management library, which works even if the driver is too old."""

    def init() -> None:
        raise RuntimeError("The NVIDIA driver on your system is too old (found version 11040).\nmore")

    gpu((8, 0))
    monkeypatch.setattr(torch.cuda, "init", init)
    monkeypatch.setattr(devices, "look_for_gpus", lambda: PRESENT)
    with pytest.raises(UserError, match=r"GPU: The .* too old \(found version 11040\)\.;"):
        resolve_device(wanted)


def test_a_variable_that_names_no_gpu_that_is_there_is_told_of(
    no_gpu: Callable[..., None], monkeypatch: pytest.MonkeyPatch
) -> None:
    """TIRA's client gives a container the number that the GPU has on the host."""
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "3")
    no_gpu(PRESENT)
    with pytest.raises(UserError, match=r"\(CUDA_VISIBLE_DEVICES is '3'\): .*; check that CUDA_VISIBLE_DEVICES names"):
        resolve_device("auto")


@pytest.mark.parametrize(
    ("seen", "why"),
    [
        (NONE, "no GPU was found; use the device cpu"),
        (HIDDEN, r"no GPU was found \(CUDA_VISIBLE_DEVICES hides"),
    ],
)
def test_a_gpu_that_was_asked_for_and_is_not_there(no_gpu: Callable[..., None], seen: Seen, why: str) -> None:
    no_gpu(seen)
    with pytest.raises(UserError, match=why):
        resolve_device("cuda")


@pytest.mark.parametrize("device", ["gpu", "cuda:x", "mps"])
def test_a_device_of_another_kind(device: str) -> None:
    with pytest.raises(UserError, match="unknown device"):
        check_device_exists(device)


def test_a_gpu_without_bf16_needs_another_dtype(gpu: Gpu, monkeypatch: pytest.MonkeyPatch) -> None:
    gpu((7, 5), bf16=False)
    with pytest.raises(UserError, match=r'GeForce \(sm_75\) cannot compute in bfloat16; set dtype = "float16"'):
        check_device(ModelSettings(name="tiny"), "cuda")
    monkeypatch.setattr(devices, "can_compute", lambda dtype, _: dtype != "bfloat16")
    check_device(choose_dtype(SMALL, "cuda"), "cuda")


@pytest.mark.parametrize(
    ("capability", "dtype", "said"),
    [
        ((7, 5), "float16", r"Ampere generation or newer, not GeForce \(sm_75\); set attention = \"sdpa\""),
        ((8, 0), "bfloat16", r"needs the package flash-attn; install the extra: .*pan_scdg\[gpu\]', or set attention"),
        ((8, 0), "float32", r"cannot compute in float32"),
    ],
)
def test_flash_attention_that_cannot_run_is_an_error_with_its_remedy(
    gpu: Gpu, monkeypatch: pytest.MonkeyPatch, capability: tuple[int, int], dtype: Any, said: str
) -> None:
    gpu(capability)
    monkeypatch.setattr(devices, "can_compute", lambda *_: True)
    monkeypatch.setattr(devices.importlib.util, "find_spec", lambda _: None)
    with pytest.raises(UserError, match=said):
        check_device(ModelSettings(name="tiny", dtype=dtype, attention="flash_attention_2"), "cuda")


def machine(root: Path, *names: str) -> Path:
    for name in names:
        (root / "dev").mkdir(exist_ok=True)
        (root / "dev" / name).touch()
    return root


def test_gpus_are_seen_without_torch(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(devices, "_has_library", lambda: True)
    assert look_for_gpus(tmp_path / "empty", {}) == NONE
    assert look_for_gpus(machine(tmp_path, "nvidiactl"), {}) == NONE
    assert look_for_gpus(machine(tmp_path, "nvidia0", "nvidiactl"), {}) == PRESENT


def test_devices_without_the_drivers_library_are_not_visible(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A privileged container that was given no GPU has the device files of its host."""
    monkeypatch.setattr(devices, "DRIVER_LIBRARY", "libnothing.so.1")
    seen = look_for_gpus(machine(tmp_path, "nvidia0"), {})
    assert not seen.visible
    assert "libnothing.so.1 is missing: a container started without --gpus?" in seen.why_not


@pytest.mark.parametrize("library", [True, False])
def test_windows_subsystem_for_linux_has_one_device_file_for_gpus_of_every_make(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, library: bool
) -> None:
    monkeypatch.setattr(devices, "_has_library", lambda: library)
    assert look_for_gpus(machine(tmp_path, "dxg"), {}) == Seen(visible=library)


@pytest.mark.parametrize(
    ("variables", "hidden"),
    [
        ({"CUDA_VISIBLE_DEVICES": ""}, True),
        ({"CUDA_VISIBLE_DEVICES": "-1"}, True),
        ({"CUDA_VISIBLE_DEVICES": "-1,0"}, True),
        ({"CUDA_VISIBLE_DEVICES": "NoDevFiles"}, True),
        ({"CUDA_VISIBLE_DEVICES": "0,1"}, False),
        ({"NVIDIA_VISIBLE_DEVICES": "void"}, True),
        ({"NVIDIA_VISIBLE_DEVICES": "none"}, True),
        ({"NVIDIA_VISIBLE_DEVICES": "all"}, False),
        ({}, False),
    ],
)
def test_variables_hide_gpus(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, variables: dict[str, str], hidden: bool
) -> None:
    monkeypatch.setattr(devices, "_has_library", lambda: True)
    seen = look_for_gpus(machine(tmp_path, "nvidia0"), variables)
    assert seen.visible != hidden
    assert (seen.why_not != "") == hidden or not hidden
