"""FlashAttention-3, for which a function stands in: used where it gives the numbers of FlashAttention-2."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from pan_scdg.lm import attention
from pan_scdg.lm.engine import PackedEngine, ReferenceEngine
from pan_scdg.models import devices
from pan_scdg.models.load import load_model
from pan_scdg.scdg.sequences import ScoringInput
from pan_scdg.settings import ModelSettings
from tests.jobs.device_faults import ECC_ERROR

torch = pytest.importorskip("torch")
Change = Callable[[Any], Any]


class Torch:
    """What torch has for flash attention, computed on a CPU; with FlashAttention-3 ``change`` alters it."""

    def __init__(self, change: Change) -> None:
        self.change, self.active, self.calls = change, list[str](), 0

    def activate(self, name: str) -> None:
        self.active.append(name)

    def find_active(self) -> str | None:
        return self.active[-1] if self.active else None

    def attend(self, q: Any, k: Any, v: Any, bounds_q: Any, bounds_k: Any, *_: Any, **options: Any) -> Any:
        before, after = options["window_size"]
        queries, keys = (attention.Spans(tuple(bounds.diff().tolist()), "cpu") for bounds in (bounds_q, bounds_k))
        window = None if before < 0 else before + 1
        out, lse = attention.attend_sdpa(q, k, v, queries, keys, after == 0, options["scale"], window)
        self.calls += self.find_active() == "FA3"
        return (self.change(out), lse.T) if self.active else (out, lse.T)


@pytest.fixture
def install(monkeypatch: pytest.MonkeyPatch) -> Callable[[Change], Torch]:
    """Put FlashAttention-3 on a Hopper GPU of this machine."""

    def call(change: Change) -> Torch:
        stand_in = Torch(change)
        monkeypatch.setattr(attention, "find_spec", lambda name: name == "flash_attn_interface")
        monkeypatch.setattr(torch.cuda, "get_device_capability", lambda _: (9, 0))
        monkeypatch.setattr("torch.nn.attention.varlen.varlen_attn", stand_in.attend)
        monkeypatch.setattr("torch.nn.attention.activate_flash_attention_impl", stand_in.activate)
        monkeypatch.setattr("torch.nn.attention.current_flash_attention_impl", stand_in.find_active)
        monkeypatch.setattr("torch.nn.attention.restore_flash_attention_impl", stand_in.active.clear)
        return stand_in

    return call


def raise_error(error: Exception) -> Change:
    def change(_: Any) -> Any:
        raise error

    return change


def test_it_computes_packed_rows_where_it_gives_the_same_numbers(
    install: Callable[[Change], Torch], tiny_folder: Callable[[str], Path]
) -> None:
    stand_in = install(lambda out: out + 1e-6)
    lm = load_model(tiny_folder("qwen3"), ModelSettings(name="tiny", dtype="float32"), "cpu")
    engine, other = PackedEngine(lm, "varlen", 100), PackedEngine(lm, "varlen", 100)
    assert [one.attention for one in (engine, other)] == ["flash_attention_3"] * 2
    assert (stand_in.active, PackedEngine(lm, "sdpa", 100).attention) == (["FA3"], "sdpa")
    draw, before = np.random.default_rng(0).integers, stand_in.calls
    items = [ScoringInput(draw(60, size=9), draw(60, size=9)) for _ in range(3)]
    scores, expected = (one.compute_log_probs(items) for one in (engine, ReferenceEngine(lm)))
    np.testing.assert_allclose(np.concatenate(scores), np.concatenate(expected), atol=1e-3)
    assert stand_in.calls == before + 2, "a call in each layer"


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        (lambda out: out.flip(0), "it gives other numbers than FlashAttention-2"),
        (lambda out: out * torch.nan, "it gives other numbers than FlashAttention-2"),
        (raise_error(ImportError("undefined symbol\nmore")), "undefined symbol"),
    ],
)
def test_it_is_left_out_where_it_fails(
    change: Change, reason: str, install: Callable[[Change], Torch], capsys: pytest.CaptureFixture[str]
) -> None:
    stand_in = install(change)
    assert not attention.use_flash_3(torch.float32, "cpu")
    assert stand_in.active == []
    assert capsys.readouterr().err == f"note: FlashAttention-3 is installed and not used: {reason}\n"


def test_a_device_that_fails_with_it_is_tried_again_without(
    install: Callable[[Change], Torch], monkeypatch: pytest.MonkeyPatch
) -> None:
    stand_in = install(raise_error(RuntimeError(ECC_ERROR)))
    with pytest.raises(RuntimeError, match="ECC"):
        attention.use_flash_3(torch.float32, "cpu")
    stand_in.active.clear()
    monkeypatch.setattr(devices, "_halved", True)
    assert not attention.use_flash_3(torch.float32, "cpu")


def test_other_gpus_and_machines_without_it_do_not_try(
    install: Callable[[Change], Torch], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    stand_in = install(lambda out: out)
    monkeypatch.setattr(torch.cuda, "get_device_capability", lambda _: (8, 0))
    assert not attention.use_flash_3(torch.float32, "cpu")
    monkeypatch.undo()
    assert not attention.use_flash_3(torch.float32, "cpu")
    assert (stand_in.active, capsys.readouterr().err) == ([], "")
