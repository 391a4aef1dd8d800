"""Read the headers of safetensors files: which tensors a checkpoint has, in which files, and how large they are."""

from pathlib import Path
from typing import NamedTuple

from pan_scdg.errors import UserError
from pan_scdg.models.files import LONGEST_NAME, read_object

WEIGHTS = "model.safetensors"
INDEX = f"{WEIGHTS}.index.json"


class Tensor(NamedTuple):
    """A tensor as the header of a safetensors file describes it."""

    dtype: str
    """As safetensors names it: "BF16"."""
    shape: tuple[int, ...]


def list_weight_files(folder: Path) -> list[Path]:
    """Return the safetensors files that are loaded from a folder, which may hold the same weights in other forms too.

    Raises:
        UserError: they are missing, or the index is damaged.
    """
    indexed = read_index(folder) if (folder / INDEX).is_file() else None
    if (folder / WEIGHTS).is_file():
        return [folder / WEIGHTS]
    if indexed is None:
        raise UserError(
            "no weights in safetensors format were found, and other formats are never read",
            f"convert the checkpoint to safetensors ({WEIGHTS}, or files with an index)",
            folder,
        )
    return sorted({folder / name for name in indexed.values()})


def read_index(folder: Path) -> dict[str, str]:
    """Return the file name of each weight from the index of a checkpoint.

    Raises:
        UserError: the index is damaged, or names a file in another folder.
    """
    index = folder / INDEX
    named = read_object(index).get("weight_map")
    if not isinstance(named, dict):
        raise UserError("has no weight_map", "replace the damaged file", index)
    for weight, name in named.items():
        if not isinstance(name, str):
            raise UserError(f"names no file for {weight}", "replace the damaged file", index)
        if Path(name).name != name or not name.endswith(".safetensors") or len(name) > LONGEST_NAME:
            what = f"names {name[:80]!r}, which is not a safetensors file in the same folder"
            raise UserError(what, "replace the damaged file", index)
    return named


def read_tensors(path: Path) -> dict[str, Tensor]:
    """Return the tensors of a safetensors file by name; reads the header and compares it with the file's size.

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


def check_weights(folder: Path) -> int:
    """Return the number of safetensors files; each is complete, and together they hold what the index names.

    Raises:
        UserError: a file is missing, cut off or damaged, or lacks a weight; the text names it.
    """
    list_weight_files(folder)
    held = {path.name: set(read_tensors(path)) for path in sorted(folder.glob("*.safetensors"))}
    for weight, name in read_index(folder).items() if (folder / INDEX).is_file() else ():
        if name not in held:
            raise UserError("the index names this file and it is missing", "complete the checkpoint", folder / name)
        if weight not in held[name]:
            raise UserError(f"lacks {weight}, which the index places here", "fetch the file again", folder / name)
    return len(held)
