"""What can be wrong with a checkpoint folder or a device, found before anything heavy is loaded."""

import importlib.util
import json
import re
from pathlib import Path
from typing import Any

from pan_scdg.errors import UserError
from pan_scdg.profile import ModelSettings

_DEVICE = re.compile(r"cpu|cuda(:\d+)?")


def read_config(folder: Path) -> dict[str, Any]:
    """The checkpoint's ``config.json``.

    Raises:
        UserError: the folder, the file or the weights are missing, it is not a JSON object, it belongs to an adapter,
            or the checkpoint asks for code of its own.
    """
    if not folder.is_dir():
        raise UserError("there is no such model folder", "put the checkpoint there or choose another profile", folder)
    if (folder / "adapter_config.json").exists():
        raise UserError("this is an adapter, not a whole model", "merge it into its base model first", folder)
    config = _read_object(folder / "config.json")
    if not any(folder.glob("*.safetensors")):
        raise UserError("there are no weights in safetensors format", "convert the checkpoint to safetensors", folder)
    for path in (folder / "config.json", folder / "tokenizer_config.json"):
        if path.exists() and "auto_map" in _read_object(path):
            raise UserError("the checkpoint asks to run code of its own", "use a model that transformers knows", path)
    return config


def _read_object(path: Path) -> dict[str, Any]:
    try:
        data = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError as e:
        raise UserError("the model folder lacks this file", "complete the checkpoint", path) from e
    except (OSError, ValueError) as e:
        raise UserError(f"cannot be read as JSON: {e}", "replace the damaged file", path) from e
    if not isinstance(data, dict):
        raise UserError("does not hold a JSON object", "replace the damaged file", path)
    return data


def best_device(wanted: str) -> str:
    """``wanted`` itself, or for "auto" a GPU where there is one and else the CPU."""
    if wanted != "auto":
        return wanted
    import torch

    return "cuda" if torch.cuda.is_available() else "cpu"


def check_device(settings: ModelSettings, device: str) -> None:
    """Raise UserError unless ``device`` exists and can do the profile's dtype and attention."""
    import torch

    if not _DEVICE.fullmatch(device):
        raise UserError(f"unknown device {device!r}", "use cpu, cuda or cuda:N")
    on_gpu = device != "cpu"
    if on_gpu and int(device.partition(":")[2] or 0) >= torch.cuda.device_count():
        raise UserError(f"there is no GPU {device}", "use --device cpu or a machine with a GPU")
    if not _can_multiply(settings.dtype, device):
        raise UserError(f"{device} cannot compute in {settings.dtype}", "choose another dtype in the profile")
    if settings.attention in ("flash_attention_2", "varlen"):
        _check_flash(settings, on_gpu)


def _can_multiply(dtype: str, device: str) -> bool:
    import torch

    if dtype == "bfloat16" and device != "cpu":
        with torch.cuda.device(device):
            return bool(torch.cuda.is_bf16_supported(including_emulation=False))
    try:
        square = torch.ones(2, 2, dtype=getattr(torch, dtype), device=device)
        return bool((square @ square).sum() == 8)
    except RuntimeError:
        return False


def _check_flash(settings: ModelSettings, on_gpu: bool) -> None:
    remedy = 'set attention = "sdpa" in the profile'
    if not on_gpu:
        raise UserError(f"{settings.attention} needs a GPU", remedy)
    if settings.dtype == "float32":
        raise UserError(f"{settings.attention} cannot compute in float32", remedy + ", or a dtype of 16 bits")
    if settings.attention == "varlen":
        return
    if importlib.util.find_spec("flash_attn") is None:
        raise UserError("flash_attention_2 needs the package flash-attn", "install requirements-cuda.txt, or " + remedy)
