"""The commands that read truth: calibrate, evaluate."""

import tempfile
from pathlib import Path
from typing import Any, Literal

import click

from pan_scdg.cli.options import (
    FILE,
    FOLDER,
    chosen_profile,
    device_option,
    engine_option,
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
      python entrypoint.py calibrate --input examples/pan25-pairs/calibration --write my-profile.toml
    """
    from pan_scdg.jobs.calibrate import check_target
    from pan_scdg.jobs.options import RunOptions
    from pan_scdg.jobs.targets import check_file, check_state, holds_profile, profile_file
    from pan_scdg.models.fit import choose_device

    chosen = chosen_profile(profile, over_long)
    check_target(profile, write)
    inputs = {"--input": directory, "--truth": truth, "--model": model, "--vectors": vectors}
    check_state(state, inputs)
    check_file(write, "--write", {**inputs, "--profile": profile_file(profile)}, "a profile", holds_profile)
    where = choose_device(chosen, device)
    options = RunOptions(directory, write.parent, where, state, model=model, engine=engine, vectors=vectors)
    with tempfile.TemporaryDirectory(prefix="pan_scdg-") as scratch:
        choose_on = _baseline if chosen.baseline is not None else _scdg
        click.echo(choose_on(chosen, options, truth, state or Path(scratch), profile, write, over_long))


def _scdg(
    chosen: Any, options: Any, truth: Path | None, state: Path, profile: str, write: Path, over_long: str | None
) -> str:
    from pan_scdg.jobs.calibrate import calibrate as choose_on
    from pan_scdg.jobs.calibrate import write_profile
    from pan_scdg.scdg.aggregation import Aggregate

    found = choose_on(chosen, options, truth, state)
    write_profile(profile, write, found, over_long)
    say(found.lines)
    choice, calibration = found.choice, found.calibration
    aggregate = Aggregate(chosen.need_pairs().aggregation, choice.parameter)
    return (
        f"{aggregate.name}, threshold {choice.threshold:.6f}: F1 {choice.f1:.4f}, accuracy "
        f"{choice.accuracy:.4f} on {calibration.pairs} pairs ({calibration.positives} positive); wrote {write}"
    )


def _baseline(chosen: Any, options: Any, truth: Path | None, state: Path, profile: str, write: Path, _: object) -> str:
    from pan_scdg.jobs.baseline_calibration import calibrate_baseline, words_of, write_baseline

    found, lines = calibrate_baseline(chosen, options, truth, state)
    write_baseline(profile, write, found)
    say(lines)
    return f"{words_of(found.settings)}: {found.figures()}; wrote {write}"


@click.command()
@click.option("--input", "directory", type=FOLDER, required=True, help="What the results were made from.")
@click.option("--output", type=FOLDER, required=True, help="The output directory of run.")
@truth_option
def evaluate(directory: Path, output: Path, truth: Path | None) -> None:
    """Hold results against the truth, with bootstrap intervals.

    \b
    Example:
      python entrypoint.py evaluate --input examples/pan25-pairs/test --output out
    """
    from pan_scdg.jobs.evaluate import evaluate as hold

    click.echo(hold(directory, output, truth)[1], nl=False)


COMMANDS = (calibrate, evaluate)
