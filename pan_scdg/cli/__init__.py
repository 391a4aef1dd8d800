"""The command line."""

from pan_scdg.cli.commands import cli
from pan_scdg.cli.exits import exit_code_of, main

__all__ = ["cli", "exit_code_of", "main"]
