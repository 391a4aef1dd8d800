"""Record the commit in wheels and source distributions; see `pan_scdg.commit`."""

import sys
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface


class CommitHook(BuildHookInterface):  # type: ignore[type-arg]
    """Adds the file that names the commit; a source distribution contains it already."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Write the file into a temporary folder, and add it to the package."""
        sys.path.insert(0, self.root)
        from pan_scdg.commit import RECORDED, UNKNOWN, find_commit

        if version == "editable" or (Path(self.root) / "pan_scdg" / RECORDED).is_file():
            return
        if find_commit() == UNKNOWN:
            print("warning: git names no commit, so results of this package cannot name one", file=sys.stderr)
            return
        self._folder = TemporaryDirectory()
        file = Path(self._folder.name) / RECORDED
        file.write_text(f"{find_commit()}\n", encoding="ascii")
        build_data["force_include"][str(file)] = f"pan_scdg/{RECORDED}"
