"""Small directories, written from a mapping of relative names to contents."""

from collections.abc import Callable, Mapping
from pathlib import Path

import pytest

Write = Callable[[Mapping[str, str | bytes]], Path]


@pytest.fixture
def write(tmp_path: Path) -> Write:
    """Write files below a fresh directory and return that directory."""

    def _write(files: Mapping[str, str | bytes]) -> Path:
        root = tmp_path / "input"
        root.mkdir(exist_ok=True)
        for name, content in files.items():
            path = root / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(content.encode() if isinstance(content, str) else content)
        return root

    return _write


@pytest.fixture
def shared() -> Path:
    """The folder with the shared data sets; tests that need it are skipped where it is absent."""
    path = Path(__file__).parents[2].parent / "shared" / "data"
    if not path.is_dir():
        pytest.skip("the shared data sets are not here")
    return path
