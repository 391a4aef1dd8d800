"""Several processes in the image: no network, a read-only root, and 64 MB of shared memory, as an engine gives."""

from collections.abc import Callable
from pathlib import Path

import pytest

from tests.container.conftest import Docker, in_container, visible

pytestmark = [pytest.mark.container, pytest.mark.long]


def test_two_processes_in_the_image_give_the_bytes_of_one(
    docker: Docker, image: str, pairs: Path, open_folder: Callable[[str], Path]
) -> None:
    gains, found = ("--profile", "scdg-mini", "--device", "cpu"), []
    for name, more in (("one", ()), ("two", ("--cluster", "local", "--workers", "2"))):
        output = open_folder(name)
        done = in_container(docker, image, pairs, output, *gains, *more)
        assert done.returncode == 0, done.stderr
        found.append(visible(output))
    assert found[0] == found[1]
    assert "decisions.jsonl" in found[0]
