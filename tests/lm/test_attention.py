"""Packed attention against a softmax that is written out, for every backend that this machine has."""

from typing import Any

import pytest

from pan_scdg.errors import UserError
from pan_scdg.lm import attention
from pan_scdg.lm.attention import BACKENDS, Packing, Spans, find_backend
from tests.tolerances import relative_error

torch = pytest.importorskip("torch")


def devices(name: str) -> list[tuple[str, Any]]:
    """Where a backend can be tried, and in which type."""
    if name == "sdpa":
        found = [("cpu", torch.float32), ("cpu", torch.bfloat16)]
        return [*found, ("cuda", torch.float32), ("cuda", torch.bfloat16)] if torch.cuda.is_available() else found
    if not torch.cuda.is_available():
        pytest.skip(f"{name} needs a GPU")
    if name == "flash_attention_2":
        pytest.importorskip("flash_attn")
    return [("cuda", torch.bfloat16)]


def literal(q: Any, k: Any, v: Any, seen: Any, scale: float, sinks: Any = None) -> Any:
    """``softmax(q k^T) v`` over the keys that are seen and a sink, in float64; heads of queries share those of keys."""
    groups = q.shape[1] // k.shape[1]
    q, k, v = q.double(), k.double().repeat_interleave(groups, 1), v.double().repeat_interleave(groups, 1)
    scores = torch.einsum("nhd,mhd->hnm", q, k) * scale
    scores = scores.masked_fill(~seen, -torch.inf)
    if sinks is not None:
        scores = torch.cat([scores, sinks.double()[:, None, None].expand(-1, len(q), 1)], 2)
    return torch.einsum("hnm,mhd->nhd", scores.softmax(-1)[..., : len(k)], v)


@pytest.mark.parametrize("name", sorted(BACKENDS))
@pytest.mark.parametrize("kept", [False, True])
@pytest.mark.parametrize("window", [None, 1, 3, 6, 100])
@pytest.mark.parametrize("with_sinks", [False, True])
def test_each_token_sees_what_it_should(
    name: str, kept: bool, window: int | None, with_sinks: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(attention, "WINDOW_QUERIES", 4)
    for device, dtype in devices(name):
        torch.manual_seed(0)
        # Prefixes of 5 and 3 tokens, one sequence of 4 alone; two continuations of the first prefix, one of the second.
        prefixes, alone, tails = (5, 3), 4, ((2, 6), (7,))
        own = (*prefixes, alone, *(n for group in tails for n in group))
        total, width = sum(own), 16
        q = torch.randn(total, 4, width, device=device, dtype=dtype)
        k, v = (torch.randn(total, 2, width, device=device, dtype=dtype) for _ in range(2))
        number = torch.repeat_interleave(torch.arange(len(own)), torch.tensor(own))
        seen = (number[:, None] == number) & (torch.arange(total)[:, None] >= torch.arange(total))
        for sequence, prefix in ((3, 0), (4, 0), (5, 1)):
            seen |= (number[:, None] == sequence) & (number == prefix)
        if window is not None:
            starts = torch.tensor([0, 0, 0, 5, 5, 3])  # positions of the first token of each sequence
            place = torch.cat([torch.arange(n) for n in own]) + starts[number]
            seen &= place[:, None] - place < window
        sinks = torch.randn(4, device=device) if with_sinks else None
        expected = literal(q, k, v, seen.to(device), 0.3, sinks)
        packing = Packing(find_backend(name), Spans(own, device), counts=(2, 1))
        packing.prefixes, packing.continued = Spans(prefixes, device), Spans(tuple(map(sum, tails)), device)
        start = 0
        if kept:
            packing.keep = []
            packing.attend(0, q, k, v, 0.3, window)
            start = sum(prefixes) + alone
            packing = Packing(
                packing.backend, Spans(own[3:], device), packing.continued, packing.prefixes, packing.keep, None, (2, 1)
            )
        found = packing.attend(0, q[start:], k[start:], v[start:], 0.3, window, sinks)
        # Weights and mixture are rounded to the type; a score that is off by d makes a weight off by d of itself.
        score = 0.3 * (q.norm(dim=2).max() * k.norm(dim=2).max()).item()
        rounding = relative_error(str(dtype).removeprefix("torch."), 2, total)
        tolerance = v.abs().max().item() * (rounding + score * relative_error("float32", 1, width))
        torch.testing.assert_close(found.double(), expected[start:], atol=tolerance, rtol=0)


def test_an_attention_without_packed_form_is_refused() -> None:
    with pytest.raises(UserError, match="eager.*cannot score packed.*reference"):
        find_backend("eager")


@pytest.mark.parametrize(
    ("dtype", "width", "capability", "kernel"),
    [
        (torch.float16, 128, (8, 0), "flash"),
        (torch.bfloat16, 256, (9, 0), "flash"),
        (torch.float16, 128, (7, 5), "efficient"),  # Turing
        (torch.bfloat16, 264, (9, 0), "efficient"),
        (torch.bfloat16, 20, (9, 0), "efficient"),
        (torch.float32, 128, (9, 0), "efficient"),
    ],
)
def test_the_kernel_is_one_that_the_gpu_has(
    dtype: Any, width: int, capability: tuple[int, int], kernel: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(torch.cuda, "get_device_capability", lambda _: capability)
    for name in ("flash", "efficient"):
        told = f"_scaled_dot_product_{name}_attention"
        monkeypatch.setattr(torch.ops.aten, told, lambda *_, name=name, **__: (name, None), raising=False)
    q = torch.zeros(1, 1, 2, width, dtype=dtype)
    assert attention._attend_on_gpu(q, q, q, True, 1.0)[0] == kernel
