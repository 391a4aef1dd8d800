"""A folder that is whole or absent."""

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from pan_scdg.errors import UserError


@contextmanager
def staged_folder(folder: Path) -> Iterator[Path]:
    """An empty folder beside ``folder`` to write an index into; it gets its name when the block ends without an error.

    Raises:
        UserError: it cannot be written.
    """
    part = folder.with_name(folder.name + ".part")
    try:
        shutil.rmtree(part, ignore_errors=True)
        part.mkdir(parents=True)
        yield part
        if folder.exists():
            shutil.rmtree(folder)
        part.rename(folder)
    except OSError as e:
        raise UserError(
            f"the search index cannot be written: {e}", "check that its folder is writable and has free space", folder
        ) from e
    finally:
        shutil.rmtree(part, ignore_errors=True)
