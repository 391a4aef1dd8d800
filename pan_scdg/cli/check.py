"""The command check."""

from pathlib import Path
from typing import Any

import click

from pan_scdg.cli.options import (
    FOLDER,
    GroupedCommand,
    add_cluster_options,
    device_option,
    load_chosen_profile,
    model_option,
    overwrite_option,
    profile_option,
    quiet_option,
    state_option,
)
from pan_scdg.logs import say

PLACE = click.Path(path_type=Path)
HEADINGS = {
    "Input and output": ("output", "among", "template", "gains", "strict", "overwrite"),
    "Model": ("profile", "model", "device"),
    "Speed": ("state", "workers", "cluster"),
}


@click.command(cls=GroupedCommand, headings=HEADINGS, short_help="Compare folders of texts, and write a report.")
@click.argument("suspicious", type=PLACE)
@click.argument("sources", type=PLACE, required=False)
@click.option("--output", type=FOLDER, required=True, help="Folder of the results; created if it does not exist.")
@click.option("--among", is_flag=True, help="Compare the SUSPICIOUS texts with each other; there are no SOURCES.")
@click.option("--template", type=PLACE, help="Text that all authors received, such as the questions; it is excluded.")
@click.option(
    "--gains/--no-gains",
    default=True,
    show_default=True,
    help="Measure the gain of each passage from its source, with the language model of the profile.",
)
@profile_option
@model_option
@device_option
@add_cluster_options
@state_option
@click.option("--strict", is_flag=True, help="Treat warnings about the texts as errors.")
@overwrite_option
@quiet_option
def check(
    suspicious: Path,
    sources: Path | None,
    output: Path,
    among: bool,
    template: Path | None,
    profile: str,
    device: str,
    **rest: Any,
) -> None:
    """Compare every SUSPICIOUS text with every one of SOURCES, print a ranked table, and write a report to read.

    Both are folders or files: .txt, .md and .html; with the extra "documents" also .docx, .odt and .pdf. The output has
    report.html, report.csv, passages.jsonl, and in texts/ what was taken out of other formats.

    \b
    Example:
      pan-scdg check essays/ sources/ --output out
    """
    from pan_scdg.cli.paths import check_folders, find_profile_file
    from pan_scdg.jobs.check.job import CheckRequest, check_texts
    from pan_scdg.jobs.requests import Computing
    from pan_scdg.models.fit import choose_device

    if among == (sources is not None):
        raise click.UsageError("give SOURCES, or --among" if sources is None else "--among takes no SOURCES")
    inputs = {"SUSPICIOUS": suspicious, "SOURCES": sources, "--template": template, "--model": rest["model"]}
    check_folders(output, rest["state"], inputs | {"--profile": find_profile_file(profile)})
    chosen = load_chosen_profile(profile)
    computing = Computing(choose_device(chosen, device), rest["model"], cluster=rest["cluster"], state=rest["state"])
    request = CheckRequest(suspicious, sources, output, template, rest["gains"], rest["overwrite"], rest["strict"])
    table, lines = check_texts(chosen, request, computing)
    say(lines[:-1])
    click.echo(table, nl=False)
    say(lines[-1:])
