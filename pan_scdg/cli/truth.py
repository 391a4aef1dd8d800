"""The commands calibrate and evaluate."""

import json
from pathlib import Path

import click

from pan_scdg.cli.options import (
    FILE,
    FOLDER,
    json_option,
    profile_option,
    truth_option,
)
from pan_scdg.errors import need_packages
from pan_scdg.logs import say


@click.command(short_help="Choose a threshold on pairs with truth.")
@click.option("--input", "directory", type=FOLDER, help="Input folder of `run`; not needed for the result of `check`.")
@click.option(
    "--scores",
    type=FOLDER,
    required=True,
    help="Result of `run --scores-only` with this profile, or of `check`.",
)
@profile_option
@click.option("--write", type=FILE, required=True, help="Profile file to write.")
@truth_option
@click.option(
    "--again",
    type=FOLDER,
    help="Second result of `run --scores-only`, on some of the pairs, by another engine, dtype, device or machine. "
    "Ten times the largest difference of scores is written as their noise.",
)
@click.option(
    "--noise",
    type=click.FloatRange(0),
    metavar="SCORE",
    help="Noise of the scores to write: a decision nearer to the threshold is marked near_threshold.",
)
@json_option
def calibrate(
    directory: Path | None,
    scores: Path,
    profile: str,
    write: Path,
    truth: Path | None,
    again: Path | None,
    noise: float | None,
    as_json: bool,
) -> None:
    """Choose q, w, n or weights and the threshold on pairs with truth, and write a profile file with them.

    \b
    Example:
      pan-scdg run --input examples/pan25-pairs/calibration --scores-only --output out/scores
      pan-scdg calibrate --input examples/pan25-pairs/calibration --scores out/scores --write my-profile.toml
    """
    from pan_scdg.cli.paths import check_file, find_profile_file, holds_profile
    from pan_scdg.jobs.calibrate import calibrate as choose

    inputs = {"--input": directory, "--truth": truth, "--scores": scores, "--profile": find_profile_file(profile)}
    inputs["--again"] = again
    if again is not None and noise is not None:
        raise click.UsageError("--again measures the noise: leave out --noise")
    check_file(write, "--write", inputs, "a profile", holds_profile)
    choice, warnings = choose(profile, directory, scores, write, truth, noise, again)
    say(warnings)
    click.echo(json.dumps(choice.to_json()) if as_json else f"{choice.summarise()}; wrote {write}")


@click.command(short_help="Evaluate results against the truth.")
@click.option("--input", "directory", type=FOLDER, help="Input folder of `run`; not needed for the result of `check`.")
@click.option(
    "--output",
    "outputs",
    type=click.Path(path_type=Path),
    required=True,
    multiple=True,
    help="Output folder of `run` or `check`. Repeat the option to compare several results of one input.",
)
@truth_option
@click.option(
    "--plots",
    type=FOLDER,
    help="Folder for plots of pair detection (PNG): ROC, precision and recall, scores (extra `studies`).",
)
@json_option
def evaluate(
    directory: Path | None, outputs: tuple[Path, ...], truth: Path | None, plots: Path | None, as_json: bool
) -> None:
    """Evaluate results against the truth, with bootstrap intervals.

    Several results are compared with the first one, with paired intervals of the differences.

    \b
    Example:
      pan-scdg evaluate --input examples/pan25-pairs/test --output out
    """
    from pan_scdg.jobs.evaluate import evaluate_side_by_side, plot_pairs

    if plots is not None:
        need_packages("studies", "matplotlib")
    results = evaluate_side_by_side(directory, outputs, truth)
    written = [] if plots is None else plot_pairs(plots, results.results)
    click.echo(json.dumps(results.to_json()) if as_json else results.report(), nl=as_json)
    say(f"wrote {path}" for path in written)
