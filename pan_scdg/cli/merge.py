"""The command merge."""

from pathlib import Path

import click

from pan_scdg.cli.options import FOLDER, model_option, overwrite_option, quiet_option
from pan_scdg.logs import say


@click.command(short_help="Merge the results of all shards of a run.")
@click.option("--input", "directory", type=FOLDER, help="Input folder of the shards; required unless --missing.")
@click.option("--output", type=FOLDER, help="Folder of the results; required unless --missing.")
@model_option
@click.option("--report", is_flag=True, help="Also write a page to read, report.html.")
@overwrite_option
@click.option("--missing", is_flag=True, help="Print the numbers of unfinished shards; exit with 1 if there are any.")
@click.argument("shards", type=FOLDER, nargs=-1, required=True)
@quiet_option
@click.pass_context
def merge(
    context: click.Context,
    directory: Path | None,
    output: Path | None,
    model: Path | None,
    report: bool,
    overwrite: bool,
    missing: bool,
    shards: tuple[Path, ...],
) -> None:
    """Merge the output folders of all SHARDS of a run (run --shard I/N) into its results, without a GPU.

    With --missing, nothing is merged: the numbers of the shards that are not finished are printed as Slurm's option
    --array takes them.

    \b
    Example:
      pan-scdg merge --input examples/pan25-pairs/test --output out shard-1 shard-2
    """
    from pan_scdg.cli.paths import check_folders
    from pan_scdg.jobs.merge import merge_shards
    from pan_scdg.jobs.shards import find_missing

    if missing:
        numbers, of = find_missing(shards)
        say([f"{of - len(numbers)} of {of} shards are finished"])
        if numbers:
            click.echo(",".join(map(str, numbers)))
            context.exit(1)
        return
    if directory is None or output is None:
        raise click.UsageError("Missing option '--input' or '--output'.")
    given = {f"SHARDS {number}": shard for number, shard in enumerate(shards, 1)}
    check_folders(output, None, {"--input": directory, "--model": model, **given})
    say(merge_shards(directory, output, shards, model, overwrite, report))
