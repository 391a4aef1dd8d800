"""The command check."""

from pathlib import Path
from typing import Any

import click

from pan_scdg.cli.options import (
    FOLDER,
    GroupedCommand,
    Threshold,
    device_option,
    load_chosen_profile,
    overwrite_option,
    profile_option,
    threshold_option,
    workers_option,
)
from pan_scdg.logs import say

FILE_OR_FOLDER = click.Path(path_type=Path)
HEADINGS = {
    "Input and output": ("output", "among", "old", "author_folders", "template", "gains", "strict", "overwrite"),
    "Model": ("profile", "threshold", "device"),
    "Devices": ("workers",),
}


@click.command(cls=GroupedCommand, headings=HEADINGS, short_help="Compare folders of texts, and write a report.")
@click.argument("suspicious", type=FILE_OR_FOLDER)
@click.argument("sources", type=FILE_OR_FOLDER, required=False)
@click.option("--output", type=FOLDER, required=True, help="Folder of the results.")
@click.option("--among", is_flag=True, help="Also compare the SUSPICIOUS texts with each other.")
@click.option("--old", type=FILE_OR_FOLDER, help="Texts of former years to compare with, but not with each other.")
@click.option(
    "--author-folders",
    is_flag=True,
    help="Take the first folder of each text for its author, and leave out pairs of one author.",
)
@click.option(
    "--template",
    type=FILE_OR_FOLDER,
    help="Text that all authors received, such as the questions, to exclude from the comparison.",
)
@click.option(
    "--gains/--no-gains",
    default=True,
    show_default=True,
    help="Measure the gain of each passage from its source, with the language model of the profile.",
)
@profile_option
@threshold_option
@device_option
@workers_option
@click.option("--strict", is_flag=True, help="Treat warnings about the texts as errors.")
@overwrite_option
def check(
    suspicious: Path,
    sources: Path | None,
    output: Path,
    among: bool,
    old: Path | None,
    author_folders: bool,
    template: Path | None,
    profile: str,
    threshold: Threshold | None,
    device: str,
    **rest: Any,
) -> None:
    """Compare every SUSPICIOUS text with every one of SOURCES, print a ranked table, and write a report to read.

    Both are folders, zip files or texts: .txt, .md, .html, .docx and .odt; with the extra "documents" also .pdf. The
    output has report.html, report.csv, texts.csv, passages.jsonl, and texts.jsonl (all texts as they were read).

    \b
    Example:
      pan-scdg check essays/ sources/ --output out
    """
    from pan_scdg.cli.paths import check_folders, find_profile_file
    from pan_scdg.jobs.check import CheckOptions, check_texts
    from pan_scdg.jobs.check_input import CheckPaths
    from pan_scdg.jobs.options import choose_device

    if not among and sources is None and old is None:
        raise click.UsageError("give SOURCES, --among or --old")
    if author_folders and not among and old is None:
        raise click.UsageError("--author-folders needs --among or --old")
    inputs = CheckPaths(suspicious, sources, among, old, template, author_folders)
    paths = {"SUSPICIOUS": suspicious, "SOURCES": sources, "--old": old, "--template": template}
    check_folders(output, paths | {"--profile": find_profile_file(profile)})
    chosen = load_chosen_profile(profile, threshold=threshold)
    if threshold is None:
        chosen = chosen.use_strict()
    options = CheckOptions(inputs, output, device=choose_device(chosen, device), **rest)
    table, lines = check_texts(chosen, options)
    say(lines[:-1])
    click.echo(table, nl=False)
    say(lines[-1:])
