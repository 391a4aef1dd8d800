"""The output layer beside fused kernels of libraries; a part of ``benchmarks.gpu``.

Hidden states and output weights of a shape are drawn so that logits have a standard deviation of 4. Each row computes
the log-probability of one token at every position: the present head in chunks, and each library's loss without
reduction, all positions at once. A library is exact if it is within 1e-3 nats of the present head, or of logits in
float32 from the same numbers; only one that is exact and faster would be worth its place. None is a dependency of the
package.

On a CPU, times are those of the processor, of all threads together; with ``TRITON_INTERPRET=1`` the kernels run in
Triton's interpreter, with right numbers and meaningless times.
"""

import os
import time
from collections.abc import Callable, Iterator
from functools import partial
from importlib.util import find_spec
from typing import TYPE_CHECKING, NamedTuple

from benchmarks.device_memory import Memory
from benchmarks.gpu_engines import HEAD_ROWS
from benchmarks.gpu_rows import FAILED, GIB, OUTCOME, ROUNDING, Part, Row, attempt, release
from benchmarks.scoring_models import SHAPES, SPREAD
from pan_scdg.lm.logprobs import gather_log_softmax

if TYPE_CHECKING:
    import torch

    Compute = Callable[[torch.Tensor, torch.Tensor, torch.Tensor], torch.Tensor]

POSITIONS, CPU_POSITIONS, TINY_POSITIONS = 8192, 2048, 96
LOGITS = 4.0
"""Standard deviation of the logits."""
EXACT = 1e-3
"""Nats."""
REPEATS = 3
DTYPES = ("float32", "bfloat16")
CHUNKED = "chunked"


class Inputs(NamedTuple):
    """Hidden states ``[positions, width]``, output weights ``[vocabulary, width]`` and token ids."""

    hidden: "torch.Tensor"
    weight: "torch.Tensor"
    ids: "torch.Tensor"


class Head(NamedTuple):
    """A way to compute the output layer from `Inputs`, the module that it needs, and whether a CPU can run it."""

    compute: "Compute"
    module: str
    on_cpu: bool


def compute_chunked(
    hidden: "torch.Tensor", weight: "torch.Tensor", ids: "torch.Tensor", rows: int = HEAD_ROWS
) -> "torch.Tensor":
    """Return the results of both engines, some rows at a time."""
    import torch
    from torch.nn.functional import linear

    parts = zip(torch.split(hidden, rows), torch.split(ids, rows), strict=True)
    return torch.cat([gather_log_softmax(linear(part, weight), chosen) for part, chosen in parts])


def compute_liger(hidden: "torch.Tensor", weight: "torch.Tensor", ids: "torch.Tensor") -> "torch.Tensor":
    """Return the same by Liger's fused loss."""
    from liger_kernel.transformers.functional import liger_fused_linear_cross_entropy

    losses: torch.Tensor = liger_fused_linear_cross_entropy(hidden, weight, ids, reduction="none")
    return -losses


def compute_cut(impl: str, hidden: "torch.Tensor", weight: "torch.Tensor", ids: "torch.Tensor") -> "torch.Tensor":
    """Return the same by an implementation of cut-cross-entropy."""
    from cut_cross_entropy import linear_cross_entropy

    losses: torch.Tensor = linear_cross_entropy(hidden, weight, ids, reduction="none", impl=impl)
    return -losses


HEADS = {
    CHUNKED: Head(compute_chunked, "torch", True),
    "Liger": Head(compute_liger, "liger_kernel", False),
    "cut-cross-entropy": Head(partial(compute_cut, "cce"), "cut_cross_entropy", False),
    "cut-cross-entropy, torch.compile": Head(partial(compute_cut, "torch_compile"), "cut_cross_entropy", True),
}


class Run(NamedTuple):
    """Log-probabilities, the seconds of the fastest run, and the largest memory beside inputs and weights in bytes."""

    values: "torch.Tensor"
    seconds: float
    taken: int


def find_obstacle(head: Head, device: str) -> str | None:
    """Return why a head cannot be tried here, or None."""
    if find_spec(head.module) is None:
        return f"{head.module} is not installed"
    if device == "cpu" and not head.on_cpu and os.environ.get("TRITON_INTERPRET") != "1":
        return "needs a GPU"
    return None


def draw(shape: str, dtype: str, device: str) -> Inputs:
    """Return the inputs of a head."""
    import torch

    torch.manual_seed(0)
    width, vocabulary = SHAPES[shape]["hidden_size"], SHAPES[shape]["vocab_size"]
    large = CPU_POSITIONS if device == "cpu" else POSITIONS
    positions = TINY_POSITIONS if shape == "tiny" else large
    as_drawn = {"device": device, "dtype": getattr(torch, dtype)}
    hidden = torch.randn(positions, width, **as_drawn) * (LOGITS / (SPREAD * width**0.5))
    weight = torch.randn(vocabulary, width, **as_drawn) * SPREAD
    return Inputs(hidden, weight, torch.randint(vocabulary, (positions,), device=device))


def measure_rows(shape: str, device: str) -> Iterator[Row]:
    """Yield a row for each type and head."""
    import torch

    for dtype in DTYPES:
        with torch.inference_mode():
            inputs = draw(shape, dtype, device)
            truth = compute_chunked(inputs.hidden.float(), inputs.weight.float(), inputs.ids)
        known: list[Run] = []
        for name, head in HEADS.items():
            cells = {"shape": shape, "type": dtype, "head": name, "positions": f"{len(truth):,}"}
            if obstacle := find_obstacle(head, device):
                yield {**cells, OUTCOME: f"not tried: {obstacle}"}
                continue
            yield attempt(cells, partial(_measure, head, inputs, truth, known, device))
            release(device)


def _measure(head: Head, inputs: Inputs, truth: "torch.Tensor", known: list[Run], device: str) -> Row:
    """Return the cells of a head; the present one is put into ``known``, and the others are compared with it."""
    run = time_head(head, inputs, device)
    error = _find_largest(run.values, truth)
    cells = {"ms": f"{1000 * run.seconds:.3g}", "GiB beside": f"{run.taken / GIB:.3g}", "from float32": f"{error:.2g}"}
    if head is HEADS[CHUNKED]:
        known.append(run)
        # logits are rounded to the type, the sum is not
        limit = max(EXACT, 8 * LOGITS * 2 * ROUNDING[str(inputs.hidden.dtype).removeprefix("torch.")])
        return {**cells, OUTCOME: "ok" if error <= limit else f"{FAILED}: more than {limit:.2g} nats from float32"}
    if not known:
        return {**cells, OUTCOME: "not compared: the present head failed"}
    apart = _find_largest(run.values, known[0].values)
    cells |= {"from chunked": f"{apart:.2g}", "speed": f"{known[0].seconds / run.seconds:.3g}"}
    exact = "exact" if min(error, apart) <= EXACT else "not exact"
    return {**cells, OUTCOME: f"ok: {exact}, {'faster' if run.seconds < known[0].seconds else 'not faster'}"}


def time_head(head: Head, inputs: Inputs, device: str) -> Run:
    """Compute a head once, which compiles it, then against the clock, and once more for its memory."""
    import torch

    with torch.inference_mode():

        def compute() -> torch.Tensor:
            return head.compute(*inputs).cpu()  # waits until all is done

        clock = time.process_time if device == "cpu" else time.perf_counter
        values, seconds = compute(), []
        for _ in range(REPEATS):
            began = clock()
            compute()
            seconds.append(clock() - began)
        taken = Memory(device).taken_by(compute)
    return Run(values, min(seconds), taken)


def _find_largest(found: "torch.Tensor", expected: "torch.Tensor") -> float:
    """Return the largest difference in nats; NaN where one is not finite."""
    return float((found.double().cpu() - expected.double().cpu()).abs().max())


PART = Part(
    ("shape", "type", "head", "positions", "ms", "speed", "GiB beside", "from float32", "from chunked"), measure_rows
)
