"""What a model certainly takes of a device's memory, known before anything is loaded.

These are lower bounds: what exceeds a memory by them cannot run there, and what stays below may still not fit. Weights
are counted from the headers of their files, and a pass from the sizes in the config.

On a CPU weights in the dtype of their files are mapped and not copied, so a model larger than the memory would load;
each pass then reads it from the disk anew, which counts as not fitting.
"""

from collections.abc import Iterator
from math import prod
from pathlib import Path
from typing import Any

from pan_scdg.errors import UserError
from pan_scdg.models.checkpoint import INDEX, indexed_files, tensors_of, text_config
from pan_scdg.models.files import read_json
from pan_scdg.profile import ModelSettings

CPU_ROWS = 128
"""Fewest targets whose logits a CPU computes at one time."""
FLOATS = {"F64": 8.0, "F32": 4.0, "F16": 2.0, "BF16": 2.0}
"""Bytes of the floats, which are converted to the dtype that a model is loaded in."""
OTHERS = {"I64": 8.0, "U64": 8.0, "I32": 4.0, "U32": 4.0, "I16": 2.0, "U16": 2.0, "I8": 1.0, "U8": 1.0, "BOOL": 1.0}
LEAST = 0.5
"""Bytes of what is neither: the smallest numbers of quantised models have 4 bits."""
WIDTHS = {"float32": 4, "bfloat16": 2, "float16": 2}
HEAD, EMBEDDING = "lm_head.weight", "embed_tokens.weight"


def weight_bytes(folder: Path, dtype: str, config: dict[str, Any] | None = None) -> int:
    """Bytes of the weights of a checkpoint when its floats are in ``dtype``, e.g. "bfloat16".

    An output head that is, or may be, the embedding once more is not counted.

    Args:
        folder: The checkpoint.
        dtype: What it is loaded in.
        config: Its ``config.json``; None: of an embedding model, which has no head.

    Raises:
        UserError: a file cannot be read.
    """
    tensors = {name: tensor for path in weight_files(folder) for name, tensor in tensors_of(path).items()}
    names = set(tensors)
    if config is None or _may_be_tied(config):
        shapes = {tensor.shape for name, tensor in tensors.items() if name.endswith(EMBEDDING)}
        names -= {name for name in names if name.endswith(HEAD) and (config is None or tensors[name].shape in shapes)}
    sizes = (prod(tensors[name].shape) * _width(tensors[name].dtype, dtype) for name in names)
    return int(sum(sizes))


def weight_files(folder: Path) -> list[Path]:
    """The safetensors files that are loaded from a folder; it may hold the same weights in other forms, too."""
    if (folder / "model.safetensors").is_file():
        return [folder / "model.safetensors"]
    if (folder / INDEX).is_file():
        return sorted({folder / name for name in indexed_files(folder).values() if (folder / name).is_file()})
    return sorted(folder.glob("*.safetensors"))


def pass_bytes(config: dict[str, Any], settings: ModelSettings, device: str, tokens: int, targets: int = 1) -> int:
    """Bytes that a pass over one input takes beside the weights, at the wider of two points.

    In a layer, before the last product of its MLP ``down(act(gate(x)) * up(x))``: the residual and ``x``, ``[tokens,
    hidden]``, and three of ``[tokens, intermediate]``; of a mixture of experts only the first two. At the output head:
    the logits of at most ``head_rows`` targets and their copy in float32. Not counted, for they are not always there:
    attention, keys and values of a prefix that is kept for other inputs, and what allocator and libraries add.

    Args:
        config: The checkpoint's ``config.json``; fields that are missing count nothing.
        settings: The profile's, with the dtype that is loaded.
        device: On a CPU fewer rows of logits exist at a time.
        tokens: Of the input.
        targets: Of these, the targets.
    """
    text, width = text_config(config), WIDTHS[settings.dtype]
    hidden, inner = _size(text, "hidden_size"), _size(text, "intermediate_size")
    if any("expert" in name for name in text):
        inner = 0
    layer = tokens * (2 * hidden + 3 * inner) * width
    rows = min(targets, settings.head_rows, CPU_ROWS if device == "cpu" else settings.head_rows)
    return max(layer, rows * _size(text, "vocab_size") * (width if width == 4 else width + 4))


def encoder_bytes(folder: Path, dtype: str) -> int:
    """Bytes of the weights of a sentence-transformers model; those of other kinds than safetensors are not counted.

    Raises:
        UserError: a file cannot be read.
    """
    return sum(weight_bytes(part, dtype) for part in {folder, *_modules(folder)})


def _modules(folder: Path) -> Iterator[Path]:
    """The folders of a model's modules; one that is not listed as it should be is found out when it is loaded."""
    try:
        found = read_json(folder / "modules.json")
    except UserError:
        return
    for module in found if isinstance(found, list) else []:
        path = module.get("path") if isinstance(module, dict) else None
        if isinstance(path, str) and ".." not in Path(path).parts and not Path(path).is_absolute():
            yield folder / path


def _may_be_tied(config: dict[str, Any]) -> bool:
    said = [part["tie_word_embeddings"] for part in (config, text_config(config)) if "tie_word_embeddings" in part]
    return any(said) or not said


def _width(stored: str, dtype: str) -> float:
    return WIDTHS[dtype] if stored in FLOATS else OTHERS.get(stored, LEAST)


def _size(text: dict[str, Any], name: str) -> int:
    value = text.get(name)
    return value if isinstance(value, int) and value > 0 else 0
