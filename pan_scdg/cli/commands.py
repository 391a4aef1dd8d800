"""The command line: each command parses its options, calls one function and prints. See the README for examples."""

from functools import cache
from importlib.metadata import EntryPoint, entry_points

import click

from pan_scdg import __version__
from pan_scdg.cli.check import check
from pan_scdg.cli.jobs import index, run, score, status
from pan_scdg.cli.merge import merge
from pan_scdg.cli.models import models
from pan_scdg.cli.options import quiet_option
from pan_scdg.cli.start import demo, prepare, profiles
from pan_scdg.cli.tira import tira
from pan_scdg.cli.truth import calibrate, compare, evaluate

REGISTERED = "pan_scdg.commands"
"""Name of the entry points by which packages register commands."""
OWN = (EntryPoint("studies", "studies.commands:studies", REGISTERED),)
"""Entry points of this project: a clone that is not installed has no metadata to read them from."""


@cache
def _find_registered() -> dict[str, EntryPoint]:
    """Return the entry points of registered commands by name; those of this project go first."""
    return {entry.name: entry for entry in (*entry_points(group=REGISTERED), *OWN)}


class ExtensibleGroup(click.Group):
    """A group with registered commands besides its own; their modules are imported when they are needed."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Return the names of all commands in alphabetical order."""
        return sorted({*super().list_commands(ctx), *_find_registered()})

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Return a command by name, or None."""
        if cmd_name not in self.commands and cmd_name in _find_registered():
            self.add_command(_find_registered()[cmd_name].load(), cmd_name)
        return super().get_command(ctx, cmd_name)


@click.group(cls=ExtensibleGroup, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 110})
@click.version_option(__version__)
@quiet_option
def cli() -> None:
    """Find the sources that a suspicious document was written from.

    \b
    Example:
      pan-scdg run --input examples/pan25-pairs/test --output out
    """


for command in (
    calibrate,
    check,
    compare,
    demo,
    evaluate,
    index,
    merge,
    models,
    prepare,
    profiles,
    run,
    score,
    status,
    tira,
):
    cli.add_command(command)
