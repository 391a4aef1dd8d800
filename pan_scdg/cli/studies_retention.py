"""The command ``studies retention``."""

from pathlib import Path

import click

from pan_scdg.cli.options import FOLDER, chosen_profile, device_option, model_option, state_option
from pan_scdg.cli.studies import check_places, data_option, examples_option, folders_of, given_option
from pan_scdg.logs import say


@click.command()
@data_option
@examples_option
@click.option(
    "--profile", "profiles", multiple=True, metavar="PROFILE", help="One a model; may be repeated.  [default: offline]"
)
@click.option("--output", type=FOLDER, required=True, help="Where the report is written.")
@click.option("--instances", type=click.IntRange(2), help="The first N of the instances.  [default: all, at most 300]")
@click.option("--seeds", type=click.IntRange(1, 5), default=5, show_default=True, help="Orders of chunks a pair.")
@given_option
@state_option
@device_option
@model_option
@click.option("--overwrite", is_flag=True, help="Redo a finished output.")
def retention(
    data: Path | None,
    examples: bool,
    profiles: tuple[str, ...],
    output: Path,
    instances: int | None,
    seeds: int,
    given: dict[str, Path],
    state: Path | None,
    device: str,
    model: Path | None,
    overwrite: bool,
) -> None:
    """Whether the gain of what was reused grows with the source evidence in the context, and that of new text not.

    Instances are taken or selected as by `studies prepare --part retention`. Each is scored behind contexts that keep
    0, 25, 50, 75 and 100 percent of its evidence, in five orders. Tables, the figure and the manifest of all contexts
    are in the report, whose page is index.md. With --state what was scored before is not scored again.

    \b
    Example:
      python entrypoint.py studies retention --examples --output out/retention --instances 4 --seeds 1
    """
    from pan_scdg.jobs.options import RunOptions
    from pan_scdg.models.fit import choose_device
    from pan_scdg.research.retention.job import Request, study_retention

    folders = folders_of(data, examples)
    check_places(output, state, data, folders, model=model, **{f"given {kind}": path for kind, path in given.items()})
    chosen = [chosen_profile(name) for name in profiles or ("offline",)]
    if model is not None and len(chosen) > 1:
        raise click.UsageError("--model is the folder of one model, and several profiles were named")
    devices = [choose_device(profile, device) for profile in chosen]
    options = RunOptions(folders.pan25, output, devices[0], state=state, model=model, overwrite=overwrite)
    say(study_retention(Request(chosen, folders, options, given, instances, seeds)))
