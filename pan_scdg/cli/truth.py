"""The commands calibrate and evaluate."""

import json
import tempfile
from pathlib import Path
from typing import Any

import click

from pan_scdg.cli.options import (
    FILE,
    FOLDER,
    device_option,
    json_option,
    load_chosen_profile,
    over_long_option,
    profile_option,
    truth_option,
)
from pan_scdg.errors import UserError, need_packages
from pan_scdg.logs import say


@click.command(short_help="Choose a threshold on pairs with truth.")
@click.option("--input", "directory", type=FOLDER, required=True, help="Input folder of pairs with truth.")
@profile_option
@click.option("--write", type=FILE, required=True, help="Profile file to write.")
@truth_option
@click.option(
    "--scores",
    type=FOLDER,
    help="Result folder of `run --scores-only` on this input and profile.  [default: score the pairs first]",
)
@device_option
@over_long_option
@json_option
def calibrate(
    directory: Path,
    profile: str,
    write: Path,
    truth: Path | None,
    scores: Path | None,
    device: str,
    over_long: str | None,
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
    from pan_scdg.jobs.calibrate import copy_profile

    inputs = {"--input": directory, "--truth": truth, "--scores": scores, "--profile": find_profile_file(profile)}
    check_file(write, "--write", inputs, "a profile", holds_profile)
    copy_profile(profile, write)  # a wrong name is refused before anything is scored
    with tempfile.TemporaryDirectory(prefix="pan_scdg-") as temporary:
        if scores is None:
            scores = Path(temporary) / "scores"
            _score(load_chosen_profile(profile, over_long), directory, scores, device)
        elif over_long is not None:
            raise click.UsageError("--over-long cannot be combined with --scores")
        choice, warnings = choose(profile, directory, scores, write, truth)
    say(warnings)
    click.echo(json.dumps(choice.to_json()) if as_json else f"{choice.summarise()}; wrote {write}")


def _score(profile: Any, directory: Path, output: Path, device: str) -> None:
    """Score the pairs of a folder for all settings that are chosen from."""
    from pan_scdg.jobs.options import RunOptions, choose_device
    from pan_scdg.jobs.pairs import detect_pairs

    if profile.need_decide().method == "prompt":
        what = "answers of the model would be lost if this command stopped"
        raise UserError(what, "run `run --scores-only` first, and give its output with --scores")
    detect_pairs(profile, RunOptions(directory, output, choose_device(profile, device), scores_only=True))


@click.command(short_help="Evaluate results against the truth.")
@click.option("--input", "directory", type=FOLDER, required=True, help="Input folder of the results.")
@click.option(
    "--output",
    "outputs",
    type=click.Path(path_type=Path),
    required=True,
    multiple=True,
    help="Output folder of `run`. Repeat the option to compare several results of one input.",
)
@truth_option
@click.option(
    "--plots",
    type=FOLDER,
    help="Folder for plots of pair detection (PNG): ROC, precision and recall, scores (extra `studies`).",
)
@json_option
def evaluate(directory: Path, outputs: tuple[Path, ...], truth: Path | None, plots: Path | None, as_json: bool) -> None:
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
