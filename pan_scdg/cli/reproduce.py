"""The command reproduce."""

from pathlib import Path
from typing import Any

import click

from pan_scdg.cli.options import (
    FOLDER,
    GroupedCommand,
    method_option,
    model_option,
    truth_option,
    vectors_option,
    workers_option,
)

HEADINGS = {
    "Input and output": ("directory", "output", "profile", "truth"),
    "Comparison": ("sample", "seed", "from_corpus", "noise"),
    "Model": ("method", "model", "device", "engine", "vectors"),
    "Devices": ("workers",),
}


@click.command(cls=GroupedCommand, headings=HEADINGS, short_help="Compute a result again, and compare.")
@click.argument("result", type=FOLDER)
@click.option("--input", "directory", type=FOLDER, required=True, help="Input folder of the result.")
@click.option("--output", type=FOLDER, required=True, help="Folder of the new result and of reproduction.json.")
@click.option("--profile", help="Profile of a result without job.json, or another one.  [default: the recorded one]")
@method_option
@truth_option
@click.option("--sample", type=click.IntRange(1), metavar="N", help="Compute N pairs or queries, drawn by --seed.")
@click.option("--seed", type=int, default=0, show_default=True, help="Seed of --sample.")
@click.option("--from-corpus", is_flag=True, help="Search the corpus again instead of taking the recorded candidates.")
@click.option(
    "--noise",
    type=click.FloatRange(0),
    metavar="SCORE",
    help="Largest difference of scores that counts as noise.  [default: that of the profile, or measured]",
)
@model_option
@click.option(
    "--device", type=click.Choice(["auto", "cpu", "cuda"]), help="Device of the models.  [default: the recorded one]"
)
@click.option(
    "--engine", type=click.Choice(["packed", "reference"]), help="Engine of the scores.  [default: the recorded one]"
)
@vectors_option
@workers_option
@click.pass_context
def reproduce(
    context: click.Context,
    /,
    result: Path,
    directory: Path,
    output: Path,
    profile: str | None,
    sample: int | None,
    seed: int,
    **rest: Any,
) -> None:
    """Compute the result of `run` in RESULT again, as its job.json says, and compare both.

    The last line is the verdict: "reproduced" (exit code 0), "reproduced within noise" (4), "not reproduced" (5) or
    "cannot be reproduced" (6). To continue after a stop, repeat the command.

    \b
    Example:
      pan-scdg reproduce out --input examples/pan25-pairs/test --output again
    """
    from pan_scdg.cli.paths import check_folders, find_profile_file
    from pan_scdg.jobs.options import Sample
    from pan_scdg.jobs.reproduce import ReproduceOptions, Reproduction

    inputs = {"--input": directory, "RESULT": result, "--model": rest["model"], "--vectors": rest["vectors"]}
    check_folders(output, inputs | {"--profile": None if profile is None else find_profile_file(profile)})
    drawn = None if sample is None else Sample(sample, seed)
    reproduction = Reproduction(ReproduceOptions(result, directory, output, profile, drawn, **rest))
    for line in reproduction.run():
        click.echo(line)
    context.exit(reproduction.verdict.exit_code)
