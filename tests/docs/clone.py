"""A folder that looks like a clone, in which the documented commands run."""

import json
import os
import shlex
import shutil
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

from tests.docs.pages import ROOT
from tests.docs.trimmed import write_trimmed_examples


class Done(NamedTuple):
    """Exit code and output of a command."""

    returncode: int
    stdout: str
    stderr: str


class Clone:
    """A folder that looks like a clone, with trimmed examples, in which commands run and write."""

    def __init__(self, folder: Path, queries: int = 2, **variables: str) -> None:
        """Write the clone, with so many queries, into a folder; the environment of its commands has ``variables``."""
        self.folder = folder
        for name in ("benchmarks", "model_cache", "tools"):
            (folder / name).symlink_to(ROOT / name)
        # Copies: Python and the package resolve links, and would find the full examples beside the originals.
        shutil.copy(ROOT / "entrypoint.py", folder)
        shutil.copytree(ROOT / "pan_scdg", folder / "pan_scdg")
        write_trimmed_examples(ROOT / "examples", folder / "examples", pairs=2, queries=queries, documents=6 * queries)
        environment = {**os.environ, "PAN_SCDG_STATE": str(folder / "state"), "HF_HUB_OFFLINE": "1", **variables}
        self._server = subprocess.Popen(
            [sys.executable, str(Path(__file__).with_name("command_server.py"))],
            cwd=folder,
            env=environment,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def run(self, command: str) -> Done:
        """Run a Python command, the script ``pan-scdg``, or the text of a Python block."""
        return self.call(self._find_arguments(command))

    def call(self, arguments: list[str], variables: Mapping[str, str] | None = None) -> Done:
        """Run Python with these arguments, and with more variables in its environment."""
        assert self._server.stdin is not None
        assert self._server.stdout is not None
        files = {name: str(self.folder / name) for name in ("stdout", "stderr")}
        request = {"arguments": arguments, "environment": dict(variables or {}), **files}
        print(json.dumps(request), file=self._server.stdin, flush=True)
        code = int(self._server.stdout.readline())
        return Done(code, *(Path(path).read_text(encoding="utf-8") for path in files.values()))

    def _find_arguments(self, command: str) -> list[str]:
        if "\n" in command:
            (self.folder / "block.py").write_text(command, encoding="utf-8")
            return ["block.py"]
        program, *arguments = shlex.split(command)
        return {"python": [], "pan-scdg": ["-m", "pan_scdg"]}[program] + arguments

    def close(self) -> None:
        """End the process that runs commands."""
        self._server.communicate(timeout=60)
