"""The commands that show and prepare: profiles, models, prepare, demo."""

from pathlib import Path

import click

from pan_scdg.cli.models import models
from pan_scdg.cli.options import FILE, FOLDER, device_option, quiet_option, state_option


@click.command()
def profiles() -> None:
    """List the shipped profiles, with the licences of the models that they need.

    \b
    Example:
      pan-scdg profiles
    """
    from pan_scdg.models.listing import licences
    from pan_scdg.profile import load_profile, shipped_profiles

    names = shipped_profiles()
    width = max(map(len, names))
    for name in names:
        profile = load_profile(name)
        under = licences(profile)
        click.echo(f"{name:{width}} {profile.description}{f' [{under}]' if under else ''}")


@click.command()
@click.option("--table", type=FILE, required=True, help="CSV: suspicious and source file of each pair.")
@click.option("--output", type=FOLDER, required=True, help="PAN directory to make.")
def prepare(table: Path, output: Path) -> None:
    """Turn a CSV of file pairs into a PAN directory with safe ids; results then show the original names.

    \b
    Example:
      pan-scdg prepare --table pairs.csv --output my-pairs
    """
    from pan_scdg.pan.prepare import prepare as make

    click.echo(f"{make(table, output)} pairs in {output}")


@click.command()
@click.option("--output", type=FOLDER, default=Path("demo-output"), show_default=True)
@device_option
@state_option
@quiet_option
def demo(output: Path, device: str, state: Path | None) -> None:
    """Both jobs on the shipped examples with the profile offline.

    \b
    Example:
      pan-scdg demo
    """
    from pan_scdg.jobs.demo import demo as show_both
    from pan_scdg.models.fit import choose_device
    from pan_scdg.profile import load_profile

    click.echo(show_both(output, choose_device(load_profile("offline"), device), state))


COMMANDS = (profiles, models, prepare, demo)
