"""Write an input of the examples in the layout of an archive."""

import shutil
from collections.abc import Iterable
from pathlib import Path


def write_archive(example: Path, folder: Path, paths: Iterable[str]) -> None:
    """Write the files of an example to the paths of an archive, of which ``/`` and ``*.xml`` end in folders.

    Args:
        example: with ``pairs``, ``susp/``, ``src/`` and ``truth/``, or the files of source retrieval.
        folder: where the archive is unpacked.
        paths: of the archive, such as ``02_validation/02_validation/susp/``.
    """
    for path in paths:
        name = Path(path).name
        if name == "*.xml":
            shutil.copytree(example / "truth", folder / Path(path).parent, dirs_exist_ok=True)
        elif path.endswith("/"):
            shutil.copytree(example / name, folder / path)
        else:
            (folder / path).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(example / name, folder / path)
