"""The command group ``models``: list and fetch the models that profiles need."""

import click

COLUMNS = ("model", "found", "size", "licence", "revision")


@click.group()
def models() -> None:
    """List and fetch the models that profiles need.

    \b
    Example:
      pan-scdg models list
    """


@models.command("list")
def list_models() -> None:
    """List the models of each profile with folder, size, licence and revision, without reading weights.

    \b
    Example:
      pan-scdg models list
    """
    from pan_scdg.profile import list_profiles, load_profile

    needs = {name: load_profile(name).list_models() for name in list_profiles()}
    states = {name: _examine(name) for name in dict.fromkeys(name for names in needs.values() for name in names)}
    _echo_table([("profile", "needs"), *((name, ", ".join(names) or "nothing") for name, names in needs.items())])
    click.echo()
    _echo_table([COLUMNS, *((name, *(state[column] for column in COLUMNS[1:])) for name, state in states.items())])
    for state in states.values():
        if "fault" in state:
            click.echo(state["fault"])


@models.command()
@click.argument("name")
@click.option("--revision", metavar="REV", help="Commit, branch or tag to download instead of the pinned commit.")
def fetch(name: str, revision: str | None) -> None:
    """Fetch a model into the model cache.

    Models come from the Hugging Face hub, at a pinned commit and without files that could contain code. If the hub
    requires an account, set HF_TOKEN to a token. Besides this command, only `tira` and profiles that ask a chat
    endpoint use the network. NAME may also be "terrier", for a profile of yours with the engine of that name.

    \b
    Example:
      pan-scdg models fetch Qwen3-0.6B-Base
    """
    if name == "terrier":
        from pan_scdg.retrieval.terrier_jars import fetch_jars

        if revision is not None:
            raise click.UsageError("Terrier has only one version: leave out --revision")
        click.echo(f"{name}: {fetch_jars()}")
        return
    from pan_scdg.models.fetch import fetch_model

    click.echo("\n".join(fetch_model(name, revision)))


def _examine(name: str) -> dict[str, str]:
    """Return the columns of a model; "fault" explains a folder that is not usable."""
    from pan_scdg.errors import UserError
    from pan_scdg.models.catalogue import BUNDLED, BUNDLED_ENCODERS, CATALOGUE, find_licence
    from pan_scdg.models.find import SHORT, ModelNotFoundError, describe_size, find_encoder, find_model

    state: dict[str, str] = {"found": "not found", "size": "-", "licence": find_licence(name), "revision": "-"}
    is_encoder = name in BUNDLED_ENCODERS or (name in CATALOGUE and CATALOGUE[name].encoder)
    try:
        model = find_encoder(name) if is_encoder else find_model(name)
    except UserError as e:
        size = f"about {describe_size(CATALOGUE[name].size)}" if name in CATALOGUE else "-"
        fault = {} if isinstance(e, ModelNotFoundError) else {"found": "not usable", "fault": str(e)}
        return state | {"size": size} | fault
    revision = "bundled" if name in BUNDLED else (model.revision or "unknown")[:SHORT]
    state |= {"found": model.where, "revision": revision}
    bytes_used = sum(path.stat().st_size for path in model.folder.rglob("*") if path.is_file())
    return state | {"size": describe_size(bytes_used), "folder": str(model.folder)}


def _echo_table(rows: list[tuple[str, ...]]) -> None:
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    for row in rows:
        click.echo("  ".join(text.ljust(width) for text, width in zip(row, widths, strict=True)).rstrip())
