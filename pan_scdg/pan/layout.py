"""Find the input below a folder, and the folders that may contain its truth, as archives are published and unpacked.

An archive of PAN 2025 unpacks to ``02_validation/02_validation/`` with ``02_validation/02_validation_truth/`` next to
it. A user may name the folder of the input, the one above, or the one above that.
"""

from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

from pan_scdg.errors import UserError
from pan_scdg.pan.untrusted import list_directory

LEVELS = 3
"""The folder that is named, those in it, and those in these."""
TRUTH = "truth"
"""Name of a folder with truth, alone or after the name of the input's folder and an underscore."""
NAMED_INPUTS = 5
"""Most inputs that a message names."""


def find_input_folder(directory: Path, is_input: Callable[[Path], bool]) -> Path | None:
    """Return ``directory`` if it is an input, else the input in it, else the one in its folders; None without any.

    Raises:
        UserError: a level has several inputs.
    """
    folders = [directory]
    for _ in range(LEVELS):
        inputs = [folder for folder in folders if is_input(folder)]
        if len(inputs) > 1:
            names = [str(folder.relative_to(directory)) for folder in inputs]
            more = f" and {len(names) - NAMED_INPUTS} more" if len(names) > NAMED_INPUTS else ""
            what = f"contains several inputs: {', '.join(names[:NAMED_INPUTS])}{more}"
            raise UserError(what, f"move the others out, or give one: --input {inputs[-1]}", directory)
        if inputs:
            return inputs[0]
        folders = [folder for parent in folders for folder in _list_folders(parent)]
    return None


def list_truth_folders(folder: Path) -> Iterator[list[Path]]:
    """Yield the existing folders that may contain the truth of the input in ``folder``, the nearest ones first.

    In turn: those in the folder, ``NAME_truth`` next to it, ``NAME_truth`` one level up, ``truth`` next to it.
    """
    folder = folder.resolve()  # of "." and "..", which have no name
    yield [path for path in _list_folders(folder) if path.name == TRUTH or path.name.endswith(f"_{TRUTH}")]
    own = f"{folder.name}_{TRUTH}"
    for path in (folder.parent / own, folder.parent.parent / own, folder.parent / TRUTH):
        yield [path] if path.is_dir() else []


def _list_folders(folder: Path) -> list[Path]:
    """Return the visible folders in a folder; none if it may not be read."""
    with suppress(UserError):
        return [path for path in list_directory(folder) if path.is_dir()]
    return []
