"""The commands that show and prepare: profiles, models, prepare, demo."""

from pathlib import Path

import click

from pan_scdg.cli.options import FILE, FOLDER, chosen_profile, device_option, model_option, profile_option, state_option


@click.command()
def profiles() -> None:
    """List the shipped profiles.

    \b
    Example:
      python entrypoint.py profiles
    """
    from pan_scdg.profile import load_profile, shipped_profiles

    for name in shipped_profiles():
        click.echo(f"{name:22} {load_profile(name).description}")


@click.group()
def models() -> None:
    """What profiles need beside this package.

    \b
    Example:
      python entrypoint.py models fetch terrier
    """


@models.command()
@click.argument("name", type=click.Choice(["terrier"]))
def fetch(name: str) -> None:
    """Fetch the jars of Terrier into the model cache; a run itself never fetches anything.

    \b
    Example:
      python entrypoint.py models fetch terrier
    """
    from pan_scdg.retrieval.terrier_jars import fetch_jars

    click.echo(f"{name}: {fetch_jars()}")


@models.command()
@profile_option
@model_option
@click.option("--json", "as_json", is_flag=True, help="One JSON object instead of lines.")
def verify(profile: str, model: Path | None, as_json: bool) -> None:
    """Compare the checkpoint of a profile with what the profile says of it, and print its SHA-256 fingerprints.

    \b
    Example:
      python entrypoint.py models verify --profile offline
    """
    import json

    from pan_scdg.errors import UserErrors
    from pan_scdg.tasks.model_check import check_model, lines

    check = check_model(chosen_profile(profile), model)
    faults = [str(fault) for fault in check.faults]
    click.echo(json.dumps({**check.facts, "faults": faults}, indent=2) if as_json else "\n".join(lines(check)))
    if check.faults:
        raise UserErrors(check.faults)


@click.command()
@click.option("--table", type=FILE, required=True, help="CSV: suspicious and source file of each pair.")
@click.option("--output", type=FOLDER, required=True, help="PAN directory to make.")
def prepare(table: Path, output: Path) -> None:
    """Turn a CSV of file pairs into a PAN directory with safe ids; results then show the original names.

    \b
    Example:
      python entrypoint.py prepare --table pairs.csv --output my-pairs
    """
    from pan_scdg.pan.prepare import prepare as make

    click.echo(f"{make(table, output)} pairs in {output}")


@click.command()
@click.option("--output", type=FOLDER, default=Path("demo-output"), show_default=True)
@device_option
@state_option
def demo(output: Path, device: str, state: Path | None) -> None:
    """Both jobs on the shipped examples with the profile offline.

    \b
    Example:
      python entrypoint.py demo
    """
    from pan_scdg.lm.checkpoint import best_device
    from pan_scdg.tasks.demo import demo as show_both

    click.echo(show_both(output, best_device(device), state))


COMMANDS = (profiles, models, prepare, demo)
