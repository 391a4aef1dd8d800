"""Choose the device of a profile, and refuse a model that certainly does not fit in the device's memory.

The numbers are lower bounds: what exceeds a memory by them cannot run there, and what stays below may still not fit.
Weights are counted from the headers of their files, a forward pass from the sizes in the config. On a CPU, weights in
the dtype of their files are mapped and not copied, so a model larger than the memory would load. Each pass would then
read it from the disk again, which counts as not fitting.

Nothing here decides which inputs are computed together: that depends on input and profile alone (`lm.packing`).
"""

from math import prod
from pathlib import Path

from pan_scdg import resources
from pan_scdg.errors import UserError
from pan_scdg.logs import say
from pan_scdg.models.catalogue import CATALOGUE, describe_size
from pan_scdg.models.config import ModelConfig, read_config
from pan_scdg.models.devices import describe_device, look_for_gpus, resolve_device
from pan_scdg.models.encoder_folder import list_parts
from pan_scdg.models.memory import CPU_ROWS
from pan_scdg.models.needs import find_needs
from pan_scdg.models.weights import list_weight_files, read_tensors
from pan_scdg.profile import ModelSettings, Profile, list_profiles, load_profile

SEARCH_MIB, SEARCH_SHARE = 1024, 4
"""MiB of a dense search; on a small machine one part in ``SEARCH_SHARE`` of the memory."""
LARGEST_SHARE = 0.8
"""A profile is suggested only if its weights take at most this share of a memory: forward passes need some too."""
FLOATS = ("F64", "F32", "F16", "BF16")
"""Types that are converted to the dtype in which a model is loaded."""
BYTES = {"I64": 8.0, "U64": 8.0, "I32": 4.0, "U32": 4.0, "I16": 2.0, "U16": 2.0, "I8": 1.0, "U8": 1.0, "BOOL": 1.0}
LEAST = 0.5
"""Bytes of any other type: the smallest numbers of quantised models have 4 bits."""
WIDTHS = {"float32": 4, "bfloat16": 2, "float16": 2}
HEAD, EMBEDDING = "lm_head.weight", "embed_tokens.weight"
SUGGESTED = 5
"""Number of profiles that an error suggests."""


def choose_device(profile: Profile, wanted: str) -> str:
    """Return the device of a profile's models, "cpu" or "cuda", and limit threads to the cores of this process.

    A profile without any model needs no GPU.

    Raises:
        UserError: the device is missing or unusable, or "auto" finds no GPU for a profile that needs one.
    """
    resources.limit_threads()
    if wanted == "auto" and not find_needs(profile).models:
        return "cpu"
    device = resolve_device(wanted)
    if wanted != "auto" or device != "cpu":
        return device
    seen = look_for_gpus()
    if profile.needs_gpu:
        raise UserError(
            f"profile {profile.name} needs a GPU and none is visible{seen.why_not}",
            "run it on a machine with a GPU (in a container: docker run --gpus all), choose the profile offline, or "
            "use the device cpu",
        )
    if seen.why_not:
        say([f"note: no GPU is visible{seen.why_not}; computing on the CPU"])
    return device


def choose_search_memory() -> int:
    """Return the MiB for a dense search; the result of the search does not depend on it."""
    return max(64, min(SEARCH_MIB, resources.measure_memory() // SEARCH_SHARE >> 20))


def check_weights_fit(folder: Path, settings: ModelSettings, device: str) -> None:
    """Raise UserError if a device's memory cannot hold a language model and a forward pass over one token.

    Raises:
        UserError: it cannot, with the profiles that would fit; or the config or the weights are damaged.
    """
    config = read_config(folder)
    least = count_weight_bytes(folder, settings.dtype, config) + count_pass_bytes(config, settings, device, tokens=1)
    _refuse_larger(least, f"{settings.name} in {settings.dtype}", device)


def check_encoder_fits(name: str, folder: Path, device: str) -> None:
    """Raise UserError if a device's memory cannot hold an embedding model; see `check_weights_fit`."""
    dtype = "float32" if device == "cpu" else "bfloat16"
    _refuse_larger(count_encoder_bytes(folder, dtype), f"{name} in {dtype}", device)


def explain_lack_of_memory(folder: Path, settings: ModelSettings, device: str, tokens: int) -> str | None:
    """Return the reason why a forward pass over ``tokens`` cannot fit beside the weights; None if it may fit."""
    config = read_config(folder)
    weights = count_weight_bytes(folder, settings.dtype, config)
    least = count_pass_bytes(config, settings, device, tokens)
    if weights + least <= _measure_memory(device):
        return None
    return f"{describe_size(least)} beside {describe_size(weights)} of weights, and {_describe_memory(device)}"


def count_weight_bytes(folder: Path, dtype: str, config: ModelConfig | None = None) -> int:
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


def count_encoder_bytes(folder: Path, dtype: str) -> int:
    """Return the bytes of the weights of a model that `check_encoder` permits; ``dtype`` as in `count_weight_bytes`."""
    return sum(count_weight_bytes(part, dtype) for part in list_parts(folder) if any(part.glob("*.safetensors")))


def count_pass_bytes(config: ModelConfig, settings: ModelSettings, device: str, tokens: int, targets: int = 1) -> int:
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


def list_fitting_profiles(memory: int, device: str) -> list[str]:
    """Return the bundled profiles whose models take at most ``LARGEST_SHARE`` of a memory, largest first.

    Sizes are those of `models.catalogue`; bundled models are small.
    """
    sizes = {name: _estimate_size(load_profile(name), device) for name in list_profiles()}
    fitting = [name for name in sizes if sizes[name] <= LARGEST_SHARE * memory]
    return sorted(fitting, key=lambda name: (-sizes[name], name))


def _refuse_larger(least: int, what: str, device: str) -> None:
    """Raise UserError if ``least`` bytes exceed all memory of a device."""
    if least > (memory := _measure_memory(device)):
        fitting = ", ".join(list_fitting_profiles(memory, device)[:SUGGESTED])
        remedy = f"choose a profile that would fit ({fitting}), or another device"
        raise UserError(f"{what} takes at least {describe_size(least)}, and {_describe_memory(device)}", remedy)


def _estimate_size(profile: Profile, device: str) -> int:
    """Return the bytes of the larger model: the encoder is released before the language model is loaded."""
    needs = find_needs(profile)
    sizes = {name: CATALOGUE[name].size for name in needs.models if name in CATALOGUE}
    if device == "cpu":
        sizes |= {name: 2 * sizes[name] for name in needs.encoders if name in sizes}  # in float32
    return max(sizes.values(), default=0)


def _get_size(config: ModelConfig, name: str) -> int:
    value = config.text.get(name)
    return value if isinstance(value, int) and value > 0 else 0


def _measure_memory(device: str) -> int:
    """Return the bytes of all memory of a device, including what is in use; of a CPU what this process may use."""
    if device == "cpu":
        return resources.measure_memory()
    import torch

    return int(torch.cuda.get_device_properties(device).total_memory)


def _describe_memory(device: str) -> str:
    """Return the memory of a device in words."""
    whose = "this process may use" if device == "cpu" else f"{describe_device(device)} has"
    return f"{whose} {describe_size(_measure_memory(device))}"
