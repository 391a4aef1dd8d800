"""The group ``models``: what profiles need beside this package; list, fetch, verify."""

import json
from pathlib import Path

import click

from pan_scdg.cli.options import load_chosen_profile, model_option, profile_option


@click.group()
def models() -> None:
    """What profiles need beside this package.

    \b
    Example:
      pan-scdg models fetch terrier
    """


@models.command("list")
@click.option("--json", "as_json", is_flag=True, help="One JSON object instead of tables.")
def list_models(as_json: bool) -> None:
    """Show what each profile needs, under which licence, and where it was found; reads no weights.

    \b
    Example:
      pan-scdg models list
    """
    from pan_scdg.models.listing import lines, model_list, record

    found = model_list()
    click.echo(json.dumps(record(*found), indent=2) if as_json else "\n".join(lines(*found)))


@models.command()
@click.argument("name")
@click.option("--revision", metavar="REV", help="Commit, branch or tag of the model's repository; terrier needs none.")
def fetch(name: str, revision: str | None) -> None:
    """Fetch a model, or the jars of Terrier, into the model cache; a run itself never fetches anything.

    A model comes from the Hugging Face hub at the revision that you name, without files that could hold code, and is
    locked with the SHA-256 of every file. Where the hub asks for an account, give a token in HF_TOKEN.

    \b
    Example:
      pan-scdg models fetch terrier
      pan-scdg models fetch Qwen3-0.6B-Base --revision main
    """
    if name == "terrier":
        from pan_scdg.retrieval.bm25.terrier_jars import fetch_jars

        if revision is not None:
            raise click.UsageError("terrier has one version only: leave out --revision")
        click.echo(f"{name}: {fetch_jars()}")
        return
    from pan_scdg.models.fetch import fetch_model

    if not revision:
        raise click.UsageError("a model needs --revision: a commit, branch or tag of its repository")
    click.echo("\n".join(fetch_model(name, revision)))


@models.command()
@profile_option
@model_option
@click.option("--json", "as_json", is_flag=True, help="One JSON object instead of lines.")
def verify(profile: str, model: Path | None, as_json: bool) -> None:
    """Compare the models of a profile with what profile and lock say of them, and print their SHA-256 fingerprints.

    \b
    Example:
      pan-scdg models verify --profile offline
    """
    from pan_scdg.errors import UserErrors
    from pan_scdg.models.verify import check_model, lines

    check = check_model(load_chosen_profile(profile), model)
    faults = [str(fault) for fault in check.faults]
    click.echo(json.dumps({**check.facts, "faults": faults}, indent=2) if as_json else "\n".join(lines(check)))
    if check.faults:
        raise UserErrors(check.faults)
