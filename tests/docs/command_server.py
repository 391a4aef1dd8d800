"""Run Python commands, each in a fork of one process that has imported the heavy packages already.

    python command_server.py

Started in the folder where the commands run. A request is a line of JSON on standard input: the command's arguments,
more variables of its environment, and the files that take its standard output and standard error. The reply is a line
with the exit code.

It imports nothing of this project: what a command imports of it is found as in a fresh process.
"""

import importlib
import json
import os
import runpy
import sys
from pathlib import Path

PACKAGES = ("torch", "transformers", "sentence_transformers", "scipy.stats", "sklearn.linear_model", "pandas", "numba")


def main() -> None:
    """Answer requests until standard input ends."""
    sys.path[0] = str(Path.cwd())
    for name in PACKAGES:
        importlib.import_module(name)
    for line in sys.stdin:
        request = json.loads(line)
        if (process := os.fork()) == 0:
            os.environ.update(request["environment"])
            _redirect(request["stdout"], request["stderr"])
            _run(request["arguments"])
            return
        _, status = os.waitpid(process, 0)
        print(os.waitstatus_to_exitcode(status), flush=True)


def _redirect(stdout: str, stderr: str) -> None:
    for number, name in enumerate((os.devnull, stdout, stderr)):
        opened = os.open(name, os.O_RDWR | os.O_CREAT | os.O_TRUNC, 0o644)
        os.dup2(opened, number)
        os.close(opened)


def _run(arguments: list[str]) -> None:
    """Do what ``python ARGUMENTS`` does: run a script, or a module after ``-m``."""
    if arguments[0] == "-m":
        sys.argv = arguments[1:]
        runpy.run_module(arguments[1], run_name="__main__", alter_sys=True)
    else:
        sys.argv = arguments
        runpy.run_path(arguments[0], run_name="__main__")


if __name__ == "__main__":
    main()
