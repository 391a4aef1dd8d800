"""The choice of a device on simulated machines: the tests need no GPU and ignore an existing one."""

from collections.abc import Callable
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import pytest

from pan_scdg.errors import UserError
from pan_scdg.jobs.options import choose_device
from pan_scdg.models import devices
from pan_scdg.models.devices import (
    check_device,
    check_device_exists,
    choose_dtype,
    choose_encoder_dtype,
    is_out_of_memory,
    look_for_gpus,
    resolve_device,
)
from pan_scdg.profile import load_profile
from pan_scdg.settings import ModelSettings
from tests.memory_errors import MEMORY_ERRORS

torch = pytest.importorskip("torch")

Simulate = Callable[..., None]
TOO_OLD = RuntimeError("The NVIDIA driver on your system is too old (found version 11040).\nmore")
NO_CODE = RuntimeError("CUDA error: no kernel image is available for execution on the device\nmore")
NOT_BUILT = AssertionError("Torch not compiled with CUDA enabled")


@pytest.fixture(autouse=True)
def no_gpu_is_chosen(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(devices.VISIBLE_DEVICES, raising=False)


@pytest.fixture
def simulate(monkeypatch: pytest.MonkeyPatch) -> Simulate:
    """Return a function that simulates what torch and the operating system tell of a GPU."""

    def play(fault: Exception | None, visible: bool = True, **more: Any) -> None:
        real = torch.ones

        def make(*size: int, device: str = "cpu", **fields: Any) -> Any:
            if device != "cpu" and fault is not None:
                raise fault
            return real(*size, **fields)

        def describe(_: str) -> None:
            if fault not in (None, NO_CODE):
                raise fault

        monkeypatch.setattr(torch, "ones", make)
        monkeypatch.setattr(torch.cuda, "get_device_properties", describe)
        monkeypatch.setattr(devices, "look_for_gpus", lambda: visible)
        values = {"is_available": fault is None, "get_device_capability": (8, 0), "get_device_name": "GeForce"}
        values |= {"is_bf16_supported": True, "device": nullcontext()} | more
        for name, value in values.items():
            monkeypatch.setattr(torch.cuda, name, lambda *_, value=value, **__: value)

    return play


def test_a_gpu_is_chosen_where_torch_can_compute_on_it(simulate: Simulate) -> None:
    simulate(None)
    check_device_exists("cuda", computes=True)
    assert [resolve_device(device) for device in ("auto", "cuda", "cpu")] == ["cuda", "cuda", "cpu"]


@pytest.mark.parametrize("device", ["auto", "cuda"])
@pytest.mark.parametrize("fault", [TOO_OLD, NO_CODE, NOT_BUILT])
def test_a_visible_gpu_that_torch_cannot_use_is_an_error_with_its_cause(
    simulate: Simulate, device: str, fault: Exception
) -> None:
    simulate(fault)
    reason = str(fault).splitlines()[0]
    with pytest.raises(UserError) as error:
        check_device_exists(resolve_device(device), computes=True)
    assert f" cannot use cuda: {reason.rstrip('.')}. Use the device cpu, or install a driver and a torch that " in str(
        error.value
    )
    assert resolve_device("cpu") == "cpu"


def test_the_cpu_is_chosen_where_no_gpu_is_visible(simulate: Simulate) -> None:
    simulate(NOT_BUILT, visible=False)
    assert resolve_device("auto") == "cpu"
    with pytest.raises(UserError, match="cannot use cuda: Torch not compiled"):
        resolve_device("cuda")


def test_the_device_of_a_profile(
    simulate: Simulate, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    simulate(None)
    assert choose_device(load_profile("offline"), "auto") == "cuda"
    assert choose_device(load_profile("pan26-bm25-full"), "auto") == "cpu", "it has no model"
    simulate(NOT_BUILT, visible=False)
    assert choose_device(load_profile("offline"), "auto") == "cpu"
    assert capsys.readouterr().err == ""
    monkeypatch.setenv(devices.VISIBLE_DEVICES, "-1")
    assert choose_device(load_profile("offline"), "auto") == "cpu"
    assert "no GPU is visible (CUDA_VISIBLE_DEVICES is '-1'); computing on the CPU" in capsys.readouterr().err
    with pytest.raises(
        UserError, match=r"needs a GPU for Qwen3-8B-Base and none is visible \(CUDA_\w+ is '-1'\)\. Run it"
    ):
        choose_device(load_profile("pan25-qwen3-8b"), "auto")
    assert choose_device(load_profile("pan25-qwen3-8b"), "cpu") == "cpu"


def test_a_variable_that_names_no_existing_gpu_is_shown(simulate: Simulate, monkeypatch: pytest.MonkeyPatch) -> None:
    """TIRA's client gives a container the number that the GPU has on the host."""
    monkeypatch.setenv(devices.VISIBLE_DEVICES, "3")
    simulate(RuntimeError("No CUDA GPUs are available"))
    with pytest.raises(UserError, match=r"cuda \(CUDA_VISIBLE_DEVICES is '3'\): No CUDA GPUs are available"):
        resolve_device("auto")


@pytest.mark.parametrize("device", ["gpu", "cuda:x", "mps"])
def test_a_device_of_another_kind(device: str) -> None:
    with pytest.raises(UserError, match="unknown device"):
        check_device_exists(device)


@pytest.mark.parametrize(
    ("names", "variable", "visible"),
    [
        ([], None, False),
        (["nvidiactl"], None, False),
        (["nvidia0", "nvidiactl"], None, True),
        (["nvidia0"], "0,1", True),
        (["nvidia0"], "", False),
        (["nvidia0"], "-1,0", False),
        (["nvidia0"], "NoDevFiles", False),
    ],
)
def test_gpus_are_seen_without_torch(
    names: list[str], variable: str | None, visible: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "dev").mkdir()
    for name in names:
        (tmp_path / "dev" / name).touch()
    if variable is not None:
        monkeypatch.setenv(devices.VISIBLE_DEVICES, variable)
    assert look_for_gpus(tmp_path) == visible


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


@pytest.mark.parametrize(
    ("settings", "device", "dtype"),
    [
        ({}, "cuda", "float16"),
        ({"attention": "varlen"}, "cuda", "bfloat16"),
        ({"attention": "flash_attention_2"}, "cuda", "bfloat16"),
        ({"dtype": "float32"}, "cuda", "float32"),
        ({}, "cpu", "bfloat16"),
    ],
)
def test_a_gpu_without_bfloat16_computes_in_float16(
    settings: dict[str, Any],
    device: str,
    dtype: str,
    simulate: Simulate,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    simulate(None, get_device_capability=(7, 5), is_bf16_supported=True)
    given = ModelSettings(name="tiny", **settings)
    assert choose_dtype(given, device) == given
    monkeypatch.setattr(devices, "can_compute", lambda dtype, _: dtype != "bfloat16")
    chosen = choose_dtype(given, device)
    assert chosen.dtype == dtype
    assert ("computing in float16" in capsys.readouterr().err) == (dtype == "float16")
    if dtype == "bfloat16":
        with pytest.raises(UserError, match="cannot compute in bfloat16. Set dtype = "):
            check_device(chosen, device)


def test_bfloat16_where_torch_attends_in_other_types_only(monkeypatch: pytest.MonkeyPatch) -> None:
    real = torch.nn.functional.scaled_dot_product_attention

    def attend(query: torch.Tensor, *args: torch.Tensor) -> torch.Tensor:
        if query.dtype == torch.bfloat16:
            raise RuntimeError("pack_vnni2 is only supported when avx512 is supported")
        return real(query, *args)

    monkeypatch.setattr(torch.nn.functional, "scaled_dot_product_attention", attend)
    with pytest.raises(UserError, match=r'cpu cannot compute in bfloat16. Set dtype = "float32".*ATEN_CPU_CAPABILITY'):
        check_device(ModelSettings(name="tiny"), "cpu")


@pytest.mark.parametrize(
    ("capability", "dtype", "said"),
    [
        ((7, 5), "float16", r"Ampere generation or newer, not GeForce \(sm_75\). Set attention = \"sdpa\""),
        ((8, 0), "bfloat16", r"needs the package flash-attn. Install the extra: .*pan_scdg\[gpu\]', or set attention"),
        ((8, 0), "float32", r"cannot compute in float32"),
    ],
)
def test_flash_attention_that_cannot_run_is_an_error_with_its_remedy(
    simulate: Simulate, monkeypatch: pytest.MonkeyPatch, capability: tuple[int, int], dtype: Any, said: str
) -> None:
    simulate(None, get_device_capability=capability)
    monkeypatch.setattr(devices, "can_compute", lambda *_: True)
    monkeypatch.setattr(devices.importlib.util, "find_spec", lambda _: None)
    with pytest.raises(UserError, match=said):
        check_device(ModelSettings(name="tiny", dtype=dtype, attention="flash_attention_2"), "cuda")
    check_device(ModelSettings(name="tiny", dtype="float32"), "cuda")
    with pytest.raises(UserError, match=r"varlen needs a GPU. Set attention = \"sdpa\""):
        check_device(ModelSettings(name="tiny", attention="varlen"), "cpu")


@pytest.mark.parametrize("error", MEMORY_ERRORS)
def test_a_lack_of_memory_is_recognised(error: Exception) -> None:
    assert is_out_of_memory(error)


@pytest.mark.parametrize("error", [RuntimeError("shapes do not fit"), OSError("can't allocate memory")])
def test_another_fault_is_not_taken_for_a_lack_of_memory(error: Exception) -> None:
    assert not is_out_of_memory(error)


def test_float32_has_its_full_precision_on_a_gpu_whatever_the_base_image_sets(simulate: Simulate) -> None:
    simulate(None)
    torch.set_float32_matmul_precision("high")  # as TORCH_ALLOW_TF32_CUBLAS_OVERRIDE does
    resolve_device("cuda")
    assert torch.get_float32_matmul_precision() == "highest"


@pytest.mark.parametrize(
    ("version", "driver"),
    [
        ("NVRM version: NVIDIA UNIX x86_64 Kernel Module  535.104.05  Sat Aug 19 01:15:15 UTC 2023", 535),
        ("NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  550.54.14  Release Build", 550),
    ],
)
def test_an_old_driver_is_named_with_the_one_that_torch_needs(
    version: str, driver: int, simulate: Simulate, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    simulate(TOO_OLD)
    (tmp_path / "version").write_text(version + "\n", encoding="utf-8")
    monkeypatch.setattr(devices, "DRIVER", tmp_path / "version")
    monkeypatch.setattr(torch.version, "cuda", "13.0")
    with pytest.raises(UserError, match=rf"with driver {driver}: The .*. Install driver 580 or .*TORCH_INDEX_URL"):
        resolve_device("cuda")
