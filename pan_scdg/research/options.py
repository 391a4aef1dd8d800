"""Options that the commands of the studies share."""

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from pan_scdg.cli.options import FOLDER, model_option, quiet_option, state_option
from pan_scdg.errors import need_packages

if TYPE_CHECKING:
    from pan_scdg.research.data.folders import DataFolders

PACKAGES = ("pandas", "statsmodels", "matplotlib")
"""Packages of the extra ``studies``."""
Command = Callable[..., None]


class StudyCommand(click.Command):
    """A command that runs only where the packages of the extra are installed."""

    def invoke(self, ctx: click.Context) -> Any:
        """Run the command.

        Raises:
            UserError: a package of the extra is missing.
        """
        need_packages("studies", *PACKAGES)
        return super().invoke(ctx)


def parse_items(names: str) -> Callable[[click.Context, click.Parameter, tuple[str, ...]], dict[str, Path]]:
    """Return the callback of an option whose values are ``NAME=PATH``."""

    def parse(_context: click.Context, _parameter: click.Parameter, values: tuple[str, ...]) -> dict[str, Path]:
        found: dict[str, Path] = {}
        for value in values:
            name, _, path = value.partition("=")
            if not path or not name.strip() or name in found:
                raise click.BadParameter(f"{value!r} is not {names} with a new name")
            found[name] = Path(path)
        return found

    return parse


given_option = click.option(
    "--given",
    multiple=True,
    metavar="KIND=PATH",
    callback=parse_items("KIND=PATH"),
    help="Read a manifest or split from this file or folder. Can be repeated.",
)
overwrite_option = click.option("--overwrite", is_flag=True, help="Replace a finished output.")


def add_options(*more: Callable[[Command], Command]) -> Callable[[Command], Command]:
    """Return a decorator that adds the options of all studies and ``more``."""
    options: tuple[Callable[[Command], Command], ...] = (
        click.option("--data", type=FOLDER, help="Folder with pan25/, pan26/ and multinews/."),
        click.option("--examples", is_flag=True, help="Read the bundled examples instead of --data."),
        click.option("--output", type=FOLDER, required=True, help="Folder for the results."),
        *more,
        given_option,
        state_option,
        model_option,
        quiet_option,
    )

    def add(command: Command) -> Command:
        for option in reversed(options):
            command = option(command)
        return command

    return add


def find_folders(data: Path | None, examples: bool, output: Path, state: Path | None, **read: Any) -> "DataFolders":
    """Return the folders of the data, once it is known that the study writes into none of them.

    Args:
        data: ``--data``.
        examples: ``--examples``.
        output: ``--output``.
        state: ``--state``.
        read: other options that name what is read: a path, or paths by name.

    Raises:
        UsageError: both ``--data`` and ``--examples`` are given, or neither.
        UserError: a folder that is written is one that is read, or one lies in the other.
    """
    from pan_scdg.cli.paths import check_folders
    from pan_scdg.research.data.folders import find_data, find_examples

    if examples == (data is not None):
        raise click.UsageError("give either --data or --examples")
    folders = find_examples() if data is None else find_data(data)
    inputs = {"--data": data, **{f"--data, {name}/": path for name, path in folders._asdict().items()}}
    for option, value in read.items():
        named = value if isinstance(value, dict) else None
        inputs |= {f"--{option}": value} if named is None else {f"--{option} {k}": path for k, path in named.items()}
    check_folders(output, state, inputs)
    return folders
