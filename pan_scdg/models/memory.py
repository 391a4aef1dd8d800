"""Compute the least memory that a model needs, and recognise a shortage of memory.

The numbers are lower bounds: what exceeds a memory by them cannot run there, and what stays below may still not fit.
Weights are counted from the headers of their files, a forward pass from the sizes in the config.

On a CPU, weights in the dtype of their files are mapped and not copied, so a model larger than the memory would load.
Each pass would then read it from the disk again, which counts as not fitting.
"""

from collections.abc import Callable
from math import prod
from pathlib import Path
from typing import TYPE_CHECKING

from pan_scdg import resources
from pan_scdg.cluster.actor import Item, OutOfMemory, Result
from pan_scdg.errors import UserError
from pan_scdg.models.catalogue import describe_size
from pan_scdg.models.devices import describe_device
from pan_scdg.models.weights import list_weight_files, read_tensors

if TYPE_CHECKING:  # both load pydantic, which scoring itself does without
    from pan_scdg.models.config import ModelConfig
    from pan_scdg.profile import ModelSettings

CPU_ROWS = 128
"""Fewest targets whose logits a CPU computes at a time."""
FLOATS = ("F64", "F32", "F16", "BF16")
"""Types that are converted to the dtype in which a model is loaded."""
BYTES = {"I64": 8.0, "U64": 8.0, "I32": 4.0, "U32": 4.0, "I16": 2.0, "U16": 2.0, "I8": 1.0, "U8": 1.0, "BOOL": 1.0}
LEAST = 0.5
"""Bytes of any other type: the smallest numbers of quantised models have 4 bits."""
WIDTHS = {"float32": 4, "bfloat16": 2, "float16": 2}
HEAD, EMBEDDING = "lm_head.weight", "embed_tokens.weight"
SHORTAGE = ("can't allocate memory", "CUDA error: out of memory", "CUBLAS_STATUS_ALLOC_FAILED")
"""Texts of a RuntimeError that is not an OutOfMemoryError: from torch on a CPU, from the driver if another process
holds the GPU's memory, and from cuBLAS, which allocates by itself."""


def count_weight_bytes(folder: Path, dtype: str, config: "ModelConfig | None" = None) -> int:
    """Return the bytes of a checkpoint's weights when its floats are in ``dtype``, e.g. "bfloat16".

    An output head that is, or may be, the embedding matrix itself is not counted.
    An embedding model, which has no head, has no ``config`` here.

    Raises:
        UserError: a file cannot be read.
    """
    tensors = {name: tensor for path in list_weight_files(folder) for name, tensor in read_tensors(path).items()}
    names = set(tensors)
    if config is None or config.may_be_tied:
        shapes = {tensor.shape for name, tensor in tensors.items() if name.endswith(EMBEDDING)}
        names -= {name for name in names if name.endswith(HEAD) and (config is None or tensors[name].shape in shapes)}
    widths = {**BYTES, **dict.fromkeys(FLOATS, float(WIDTHS[dtype]))}
    return int(sum(prod(tensors[name].shape) * widths.get(tensors[name].dtype, LEAST) for name in names))


def count_pass_bytes(
    config: "ModelConfig", settings: "ModelSettings", device: str, tokens: int, targets: int = 1
) -> int:
    """Return the bytes that a forward pass over one input needs beside the weights, at the wider of two points.

    In a layer, before the last product of its MLP ``down(act(gate(x)) * up(x))``: the residual and ``x``, ``[tokens,
    hidden]``, and three of ``[tokens, intermediate]``; of a mixture of experts only the first two. At the output head:
    the logits of at most ``head_rows`` targets and their copy in float32. Not counted, because they are not always
    there: attention, keys and values of a prefix that is kept for other inputs, and the overhead of allocator and
    libraries.
    Missing fields of the config count nothing. On a CPU fewer rows of logits exist at a time.
    """
    width, hidden, inner = WIDTHS[settings.dtype], _get_size(config, "hidden_size"), 0
    if not any("expert" in name for name in config.text):
        inner = _get_size(config, "intermediate_size")
    layer = tokens * (2 * hidden + 3 * inner) * width
    rows = min(targets, settings.head_rows, CPU_ROWS if device == "cpu" else settings.head_rows)
    return max(layer, rows * _get_size(config, "vocab_size") * (width if width == 4 else width + 4))


def _get_size(config: "ModelConfig", name: str) -> int:
    value = config.text.get(name)
    return value if isinstance(value, int) and value > 0 else 0


def measure_memory(device: str) -> int:
    """Return the bytes of all memory of a device, including what is in use; of a CPU what this process may use."""
    if device == "cpu":
        return resources.measure_memory()
    import torch

    return int(torch.cuda.get_device_properties(device).total_memory)


def describe_memory(device: str) -> str:
    """Return the memory of a device in words."""
    whose = "this process may use" if device == "cpu" else f"{describe_device(device)} has"
    return f"{whose} {describe_size(measure_memory(device))}"


def is_out_of_memory(error: BaseException) -> bool:
    """Return True for an exception that reports a shortage of memory."""
    import torch

    if isinstance(error, torch.OutOfMemoryError | MemoryError):
        return True
    return isinstance(error, RuntimeError) and any(text in str(error) for text in SHORTAGE)


def explain_memory(compute: Callable[[Item], Result]) -> Callable[[Item], Result]:
    """Return the function that raises `OutOfMemory` for every lack of memory."""

    def compute_explained(work: Item) -> Result:
        try:
            return compute(work)
        except Exception as e:
            if is_out_of_memory(e):
                raise OutOfMemory(str(e)) from None
            raise

    return compute_explained


def explain_too_large(length: int, device: str) -> UserError:
    """Return the error for a single input that exceeds the memory."""
    return UserError(
        f"an input of {length} tokens does not fit in the memory of {device}",
        'use over_long = "segments", a smaller context, limit or head_rows in the profile, or a larger GPU',
    )
