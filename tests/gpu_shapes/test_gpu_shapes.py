"""Calls of the engine and the encoder at the exact shapes of the paper's models, with tensors that have no numbers."""

import weakref
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

from benchmarks import gpu_count
from pan_scdg.lm import mlp
from pan_scdg.lm.engine import PackedEngine
from pan_scdg.models.load import LanguageModel
from pan_scdg.scdg.sequences import ScoringInput

torch = pytest.importorskip("torch")
from torch.utils._python_dispatch import TorchDispatchMode  # noqa: E402
from torch.utils._pytree import tree_leaves  # noqa: E402

from tests.gpu_shapes.fake_gpu import LAYERS, make_fake_model, on_fake_gpu  # noqa: E402

GIB = 1 << 30
PEAKS = {12_700: 1.3, 32_000: 2.2, 40_000: 2.5, 65_868: 4.1, 131_072: 8.1}
"""GiB that a plain row of so many tokens takes beside the weights of Qwen3-8B."""
WHOLE_MLP = {65_868: 6.6, 131_072: 13.1}
"""The same with the MLP of all tokens at once."""
PREFIX = 27_000
KEPT_PEAK = 5.9 - (36 - LAYERS) * PREFIX * 4096 / GIB
"""GiB with a kept prefix and three queries: 5.9 with all layers, each of which keeps 4,096 bytes a token."""
WIDER = 14_336 / 12_288
"""Width of the inner layer of Llama and Ministral beside that of Qwen3-8B, in which most of the memory is."""


class Peak(TorchDispatchMode):
    """Counts the bytes of the tensors on the device that are made inside of it and alive at the same time."""

    def __init__(self) -> None:
        super().__init__()
        self.alive: dict[int, int] = {}
        self.bytes = 0

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        inputs = {t.untyped_storage()._cdata for t in tree_leaves((args, kwargs)) if isinstance(t, torch.Tensor)}
        out = func(*args, **(kwargs or {}))
        for tensor in tree_leaves(out):
            if isinstance(tensor, torch.Tensor) and tensor.device.type == "cuda":
                storage = tensor.untyped_storage()
                if storage._cdata not in inputs and storage._cdata not in self.alive:
                    self.alive[storage._cdata] = storage.nbytes()
                    weakref.finalize(storage, self.alive.pop, storage._cdata)
        self.bytes = max(self.bytes, sum(self.alive.values()))
        return out


def attend_without_mask(
    q: Any, k: Any, v: Any, attn_mask: Any = None, *_: Any, is_causal: bool = False, **more: Any
) -> Any:
    """scaled_dot_product_attention by the kernel that a GPU chooses, which takes no mask."""
    assert attn_mask is None, f"a mask of shape {tuple(attn_mask.shape)}"
    assert is_causal
    return torch.ops.aten._scaled_dot_product_flash_attention(q, k, v, 0.0, True, False, scale=more["scale"])[0]


@pytest.fixture(autouse=True)
def fake_gpu(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Without a mask in the attention of the language model, as it has its own kernel."""
    with on_fake_gpu(monkeypatch):
        monkeypatch.setattr(torch.nn.functional, "scaled_dot_product_attention", attend_without_mask)
        yield


def make_engine(name: str, attention: str) -> PackedEngine:
    lm = LanguageModel(None, make_fake_model(name), "cuda", name, "")  # type: ignore[arg-type]
    return PackedEngine(lm, attention, 16384)


def make_item(context: int, target: int) -> ScoringInput:
    return ScoringInput(np.zeros(context, np.int64), np.zeros(target, np.int64))


def measure_peak(packed: PackedEngine, items: list[ScoringInput]) -> float:
    """Return the GiB beside the weights that scoring takes."""
    with Peak() as peak:
        assert [len(values) for values in packed.compute_log_probs(items)] == [len(item.target_ids) for item in items]
    return peak.bytes / GIB


def test_qwen3_8b_takes_the_memory_that_was_planned_for() -> None:
    packed = make_engine("Qwen3-8B-Base", "varlen")
    for tokens, expected in PEAKS.items():
        assert 0.9 * expected < measure_peak(packed, [make_item(tokens // 2, tokens - tokens // 2)]) < 1.1 * expected
    assert measure_peak(packed, [make_item(PREFIX, 5_000)] * 3) == pytest.approx(KEPT_PEAK, rel=0.1)


def test_without_slices_of_the_mlp_more_memory_is_taken(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(mlp, "SLICE_TOKENS", 1 << 20)
    packed = make_engine("Qwen3-8B-Base", "varlen")
    for tokens, expected in WHOLE_MLP.items():
        assert measure_peak(packed, [make_item(1, tokens - 1)]) == pytest.approx(expected, rel=0.05)


@pytest.mark.parametrize(
    ("name", "attention"),
    [
        ("Qwen3-8B-Base", "sdpa"),
        ("Qwen3-8B-Base", "varlen"),
        ("Llama-3.1-8B", "varlen"),
        ("Ministral-3-8B-Base-2512", "varlen"),
    ],
)
def test_every_kind_of_row_runs_on_one_device(name: str, attention: str) -> None:
    """Plain rows, packed rows, prefixes in a row and kept ones; no layer has a mask of its own."""
    packed = make_engine(name, attention)
    assert measure_peak(packed, [make_item(20_000, 20_000)]) < 1.1 * WIDER * PEAKS[40_000]
    short = [make_item(tokens, 200) for tokens in (700, 800, 900)]
    assert measure_peak(packed, [*short, *[make_item(2_000, 300)] * 3]) < PEAKS[12_700]
    assert measure_peak(packed, [make_item(PREFIX, 5_000)] * 3) < 1.1 * WIDER * KEPT_PEAK


def test_a_batch_of_the_encoder_runs_on_one_device() -> None:
    """Linq-Embed-Mistral with 32 documents of 1,600 tokens."""
    model = make_fake_model("Linq-Embed-Mistral").get_decoder()
    ids = torch.zeros(32, 1_600, dtype=torch.int64, device="cuda")
    with Peak() as peak, torch.inference_mode():
        hidden = model(input_ids=ids, attention_mask=torch.ones_like(ids), use_cache=False).last_hidden_state
    assert hidden.shape == (32, 1_600, 4_096)
    assert peak.bytes < 8 * GIB


def test_the_counted_work_is_that_of_the_weights_and_the_norm_is_one_kernel() -> None:
    tokens, work = gpu_count.score_task((1, 4_700, 1), fused=True, layers=1)
    layer = 4096 * (4096 + 2 * 1024) + 4096 * 4096 + 3 * 4096 * 12288
    assert work["products"] == 2 * (layer * 4864 + 151_936 * 4096 * 4_700), "4,700 tokens padded to a multiple of 256"
    assert tokens == 4_700
    assert work["attention"] == 2 * 32 * 128 * 4864**2
    vectors = 3 * 4096 + 32 * 128 + 8 * 128
    assert work["norm"] == pytest.approx(2 * 2 * vectors * 4864, rel=0.001), "each is read and written once"
    slow = gpu_count.score_task((1, 4_700, 1), fused=False, layers=1)[1]
    assert slow["norm"] > 8 * work["norm"]
    assert slow["products"] == work["products"]
