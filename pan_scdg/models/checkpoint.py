"""What can be wrong with a checkpoint folder or a device, found before anything heavy is loaded."""

import importlib.util
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from pan_scdg.digests import file_digest
from pan_scdg.errors import UserError, UserErrors
from pan_scdg.models.devices import check_exists, in_words
from pan_scdg.models.files import NAME, check_config, read_object

if TYPE_CHECKING:
    from pan_scdg.profile import ModelSettings

INDEX = "model.safetensors.index.json"
NEWER = {"ministral3": "5.23.0"}
"""Text architectures that the pinned transformers lacks, with a release that the tests of ``lm/`` pass with."""
FLASH_CAPABILITY = (8, 0)
"""The compute capability (that of Ampere) that FlashAttention-2 needs."""


def read_config(folder: Path) -> dict[str, Any]:
    """The checkpoint's ``config.json``.

    Raises:
        UserError: the folder, the file or the weights are missing, it is not a JSON object, it belongs to an adapter,
            or the checkpoint asks for code of its own or for weights that lie elsewhere.
    """
    if not folder.is_dir():
        raise UserError("there is no such model folder", "put the checkpoint there or choose another profile", folder)
    if (folder / "adapter_config.json").exists():
        raise UserError("this is an adapter, not a whole model", "merge it into its base model first", folder)
    config = read_object(folder / "config.json")
    if not any(folder.glob("*.safetensors")):
        raise UserError("there are no weights in safetensors format", "convert the checkpoint to safetensors", folder)
    check_config(config, folder / "config.json")
    if (tokenizer := folder / "tokenizer_config.json").exists():
        check_config(read_object(tokenizer), tokenizer)
    if (folder / INDEX).is_file():
        indexed_files(folder)
    return config


def text_config(config: dict[str, Any]) -> dict[str, Any]:
    """The part of a ``config.json`` that speaks about the language model."""
    inner = config.get("text_config")
    return inner if isinstance(inner, dict) else config


def check_library(config: dict[str, Any], folder: Path) -> None:
    """Raise UserError when the installed transformers lacks the architecture or would misread the config.

    transformers 4 does not know ``rope_parameters``, which 5 writes, and would compute with its default rotary
    frequencies without a word.
    """
    import transformers
    from transformers.models.auto.configuration_auto import CONFIG_MAPPING_NAMES

    installed, text = transformers.__version__, text_config(config)
    kind = text.get("model_type")
    if kind is not None and not isinstance(kind, str):
        raise UserError("model_type is not a name", "replace the damaged file", folder / "config.json")
    if kind in NEWER and kind not in CONFIG_MAPPING_NAMES:
        raise UserError(
            f"transformers {installed} has no text architecture {kind!r}",
            f"install transformers {NEWER[kind]}, see tools/test_transformers5.sh",
            folder / "config.json",
        )
    if int(installed.partition(".")[0]) < 5 and "rope_parameters" in text:
        raise UserError(
            f"rope_parameters is a field of transformers 5, which the installed {installed} would pass over",
            "take the checkpoint as it was published, or write rope_theta and rope_scaling instead",
            folder / "config.json",
        )


def check_weights(folder: Path) -> int:
    """Number of weight files; each is whole, and together they hold what the index names.

    Raises:
        UserError: a file is missing, cut off or damaged, or lacks a weight; the text names it.
    """
    held = {path.name: set(tensors_of(path)) for path in sorted(folder.glob("*.safetensors"))}
    if not held:
        raise UserError("there are no weights in safetensors format", "convert the checkpoint to safetensors", folder)
    if (folder / INDEX).is_file():
        _check_index(folder, held)
    return len(held)


class Tensor(NamedTuple):
    """A tensor as the header of a safetensors file describes it."""

    dtype: str
    """As safetensors names it: "BF16"."""
    shape: tuple[int, ...]


def tensors_of(path: Path) -> dict[str, Tensor]:
    """The tensors of a safetensors file, by name; only its header is read, and compared with the file's size.

    Raises:
        UserError: the file is cut off, damaged or of another kind.
    """
    from safetensors import SafetensorError, safe_open

    try:
        with safe_open(path, framework="numpy") as file:
            parts = {name: file.get_slice(name) for name in file.keys()}  # noqa: SIM118 - the file is no mapping
            return {name: Tensor(part.get_dtype(), tuple(part.get_shape())) for name, part in parts.items()}
    except (SafetensorError, OSError) as e:
        raise UserError(f"cannot be read as safetensors: {e}", "fetch the file again", path) from e


def indexed_files(folder: Path) -> dict[str, str]:
    """Return the file of each weight, as the index of a checkpoint has it.

    Raises:
        UserError: the index is damaged, or names a file that is not beside it.
    """
    named = read_object(folder / INDEX).get("weight_map")
    if not isinstance(named, dict):
        raise UserError("has no weight_map", "replace the damaged file", folder / INDEX)
    for weight, name in named.items():
        if not isinstance(name, str):
            raise UserError(f"names no file for {weight}", "replace the damaged file", folder / INDEX)
        if Path(name).name != name or not name.endswith(".safetensors") or len(name) > NAME:
            raise UserError(
                f"names {name[:80]!r}, no safetensors beside it", "replace the damaged file", folder / INDEX
            )
    return named


def _check_index(folder: Path, held: dict[str, set[str]]) -> None:
    for weight, name in indexed_files(folder).items():
        if name not in held:
            raise UserError("the index names this file and it is missing", "complete the checkpoint", folder / name)
        if weight not in held[name]:
            raise UserError(f"lacks {weight}, which the index places here", "fetch the file again", folder / name)


def check_recorded(folder: Path, settings: "ModelSettings", weights: bool = False) -> None:
    """Raise UserErrors, one for each file, unless files have the SHA-256 that the profile records.

    Args:
        folder: The checkpoint.
        settings: Its ``fingerprint`` says which files and what.
        weights: Read the recorded safetensors too, which may be gigabytes.
    """
    names = [n for n in settings.fingerprint if weights or not n.endswith(".safetensors")]
    faults = [_recorded_fault(folder / name, settings.fingerprint[name]) for name in names]
    if found := [fault for fault in faults if fault is not None]:
        raise UserErrors(found)


def _recorded_fault(path: Path, expected: str) -> UserError | None:
    if not path.is_file():
        return UserError("the profile records this file and it is missing", "complete the checkpoint", path)
    if (found := file_digest(path)) == expected:
        return None
    return UserError(
        f"SHA-256 is {found} and the profile records {expected}",
        "use the checkpoint that the profile was made for",
        path,
    )


def settled(settings: "ModelSettings", device: str) -> "ModelSettings":
    """``settings`` with the dtype that ``device`` really computes in.

    Only a profile with ``dtype_without_bf16`` ever changes, and only on a device without bfloat16. What is loaded,
    stored and reported must be that of the result.

    Raises:
        UserError: there is no such device, or torch has no code for it.
    """
    check_exists(device)
    if settings.dtype_without_bf16 is None or can_multiply("bfloat16", device):
        return settings
    return settings.model_copy(update={"dtype": settings.dtype_without_bf16, "dtype_without_bf16": None})


def check_device(settings: "ModelSettings", device: str) -> None:
    """Raise UserError unless ``device`` exists, torch has code for it and it does the profile's dtype and attention."""
    check_exists(device)
    if not can_multiply(settings.dtype, device):
        raise UserError(f"{in_words(device)} cannot compute in {settings.dtype}", _other_dtype(settings))
    if settings.attention in ("flash_attention_2", "varlen"):
        _check_flash(settings, device)


def _other_dtype(settings: "ModelSettings") -> str:
    if settings.dtype != "bfloat16":
        return "choose another dtype in the profile"
    return 'set dtype = "float16" or "float32" in the profile, or use a GPU of the Ampere generation or newer'


def can_multiply(dtype: str, device: str) -> bool:
    """Whether ``device`` has arithmetic of its own in ``dtype``; an emulated bfloat16 of a GPU does not count."""
    import torch

    if dtype == "bfloat16" and device != "cpu":
        with torch.cuda.device(device):
            return bool(torch.cuda.is_bf16_supported(including_emulation=False))
    try:
        square = torch.ones(2, 2, dtype=getattr(torch, dtype), device=device)
        return bool((square @ square).sum() == 8)
    except RuntimeError:
        return False


def _check_flash(settings: "ModelSettings", device: str) -> None:
    import torch

    remedy = 'set attention = "sdpa" in the profile'
    if device == "cpu":
        raise UserError(f"{settings.attention} needs a GPU", remedy)
    if settings.dtype == "float32":
        raise UserError(f"{settings.attention} cannot compute in float32", remedy + ", or a dtype of 16 bits")
    if torch.cuda.get_device_capability(device) < FLASH_CAPABILITY:
        what = f"{settings.attention} needs a GPU of the Ampere generation or newer, and this is {in_words(device)}"
        raise UserError(what, remedy)
    if settings.attention == "varlen":
        return
    if importlib.util.find_spec("flash_attn") is None:
        raise UserError(
            "flash_attention_2 needs the package flash-attn",
            f"install the extra: pip install 'pan_scdg[gpu]', or {remedy}",
        )
