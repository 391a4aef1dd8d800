"""The command decide."""

from pathlib import Path

import click

from pan_scdg.cli.options import (
    FOLDER,
    Threshold,
    load_chosen_profile,
    method_option,
    overwrite_option,
    threshold_option,
)
from pan_scdg.logs import say


@click.command(short_help="Decide again from the scores of a result.")
@click.argument("result", type=FOLDER)
@click.option("--input", "directory", type=FOLDER, required=True, help="Input folder of `run`.")
@click.option("--output", type=FOLDER, required=True, help="Folder of the new result.")
@threshold_option
@click.option("--profile", help="Profile to decide by, such as one that `calibrate` wrote.  [default: the result's]")
@method_option
@overwrite_option
def decide(
    result: Path, directory: Path, output: Path, threshold: Threshold | None, profile: str | None, overwrite: bool
) -> None:
    """Decide the pairs of RESULT, a result of `run`, again by another threshold or profile, without loading a model.

    Decisions, detection XML and passages are written as by `run`. Passages are those of RESULT: a pair that is
    positive now and has none gets a detection of both whole documents, with a warning.

    \b
    Example:
      pan-scdg decide out --input examples/pan25-pairs/test --threshold 1.5 --output out-1.5
    """
    from pan_scdg.cli.paths import check_folders
    from pan_scdg.jobs.decide import DecideOptions, decide_again
    from pan_scdg.results.files import JOB

    if threshold is None and profile is None:
        raise click.UsageError("give --threshold or --profile")
    check_folders(output, {"RESULT": result, "--input": directory})
    chosen = load_chosen_profile(profile or str(result / JOB), threshold=threshold)
    say(decide_again(chosen, DecideOptions(result, directory, output, overwrite)))
