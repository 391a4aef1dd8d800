"""The command line: each command parses its options, calls one function and prints. See the README for examples."""

from pan_scdg.cli.commands import cli
from pan_scdg.cli.exits import main, run_command

__all__ = ["cli", "main", "run_command"]
