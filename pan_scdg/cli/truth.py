"""The commands that read truth: calibrate, evaluate."""

import tempfile
from pathlib import Path
from typing import Literal

import click

from pan_scdg.cli.options import (
    FILE,
    FOLDER,
    device_option,
    engine_option,
    load_chosen_profile,
    model_option,
    over_long_option,
    profile_option,
    quiet_option,
    state_option,
    truth_option,
    vectors_option,
)
from pan_scdg.logs import say


@click.command()
@click.option("--input", "directory", type=FOLDER, required=True, help="Pairs with truth.")
@profile_option
@click.option("--write", type=FILE, required=True, help="Profile file to write.")
@truth_option
@device_option
@engine_option
@model_option
@over_long_option
@vectors_option
@state_option
@quiet_option
def calibrate(
    directory: Path,
    profile: str,
    write: Path,
    truth: Path | None,
    device: str,
    engine: Literal["packed", "reference"],
    model: Path | None,
    over_long: str | None,
    vectors: Path | None,
    state: Path | None,
) -> None:
    """Choose q or w and the threshold on pairs with truth, and write them into a profile file.

    Of a baseline's profile its threshold is chosen, and n or weights where it has such.

    \b
    Example:
      pan-scdg calibrate --input examples/pan25-pairs/calibration --write my-profile.toml
    """
    from pan_scdg.jobs.calibrate import calibrate as choose
    from pan_scdg.jobs.calibrate import check_target, read_labelled_pairs, write_profile
    from pan_scdg.jobs.calibrate_baseline import calibrate_baseline
    from pan_scdg.jobs.requests import Computing
    from pan_scdg.jobs.targets import check_file, check_state, holds_profile, profile_file
    from pan_scdg.models.fit import choose_device
    from pan_scdg.notices import Notices

    chosen = load_chosen_profile(profile, over_long)
    check_target(profile, write)
    inputs = {"--input": directory, "--truth": truth, "--model": model, "--vectors": vectors}
    check_state(state, inputs)
    check_file(write, "--write", {**inputs, "--profile": profile_file(profile)}, "a profile", holds_profile)
    computing = Computing(choose_device(chosen, device), model, engine, state=state)
    notices = Notices()
    known = read_labelled_pairs(directory, truth, notices)
    with tempfile.TemporaryDirectory(prefix="pan_scdg-") as scratch:
        scores = state or Path(scratch)
        if chosen.baseline is None:
            found = choose(chosen, known, computing, notices, scores)
        else:
            found = calibrate_baseline(chosen, known, computing, scores, vectors)
    write_profile(profile, write, found)
    say(notices.lines())
    click.echo(f"{found.summary()}; wrote {write}")


@click.command()
@click.option("--input", "directory", type=FOLDER, required=True, help="What the results were made from.")
@click.option("--output", type=FOLDER, required=True, help="The output directory of run.")
@truth_option
def evaluate(directory: Path, output: Path, truth: Path | None) -> None:
    """Hold results against the truth, with bootstrap intervals.

    \b
    Example:
      pan-scdg evaluate --input examples/pan25-pairs/test --output out
    """
    from pan_scdg.jobs.evaluate import evaluate as hold

    click.echo(hold(directory, output, truth)[1], nl=False)


COMMANDS = (calibrate, evaluate)
