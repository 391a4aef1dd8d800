"""The commands calibrate and evaluate."""

import json
from pathlib import Path

import click

from pan_scdg.cli.options import (
    FILE,
    FOLDER,
    json_option,
    method_option,
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
@method_option
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
    help="Noise of the scores to write: a decision closer to the threshold is marked near_threshold.",
)
@click.option("--overwrite", is_flag=True, help="Replace another profile.")
@json_option
def calibrate(
    directory: Path | None,
    scores: Path,
    profile: str,
    write: Path,
    truth: Path | None,
    again: Path | None,
    noise: float | None,
    overwrite: bool,
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
    choice, warnings = choose(profile, directory, scores, write, truth, noise, again, overwrite)
    say(warnings)
    click.echo(json.dumps(choice.to_json()) if as_json else f"{choice.summarise()}; wrote {write}")


@click.command(short_help="Evaluate results against the truth.")
@click.argument("named", metavar="[NAME=PATH]...", nargs=-1)
@click.option("--input", "directory", type=FOLDER, help="Input folder of `run`; not needed for the result of `check`.")
@click.option(
    "--output",
    "outputs",
    type=click.Path(path_type=Path),
    multiple=True,
    help="Result that has its path as a name. Repeatable.",
)
@truth_option
@click.option(
    "--plots",
    type=FOLDER,
    help="Folder for plots of pair detection (PNG): ROC, precision and recall, scores (extra `studies`).",
)
@click.option(
    "--csv", "tables", type=FOLDER, help="Folder for CSV files: table, differences, values of pairs or queries."
)
@json_option
@click.pass_context
def evaluate(
    context: click.Context,
    named: tuple[str, ...],
    directory: Path | None,
    outputs: tuple[Path, ...],
    truth: Path | None,
    plots: Path | None,
    tables: Path | None,
    as_json: bool,
) -> None:
    """Evaluate results against the truth, with bootstrap intervals.

    PATH is a result of `run` or `check`, a folder of detection XML of any system, or a TREC run. Several results are
    sorted and compared with each other by paired randomisation tests. A result that cannot be evaluated is a row with
    the reason, and the exit code is 2.

    \b
    Example:
      pan-scdg evaluate --input examples/pan25-pairs/test --output out
      pan-scdg evaluate --input examples/pan25-pairs/test ours=out theirs=out/theirs
    """
    from pan_scdg.jobs.compare import evaluate_all
    from pan_scdg.jobs.evaluate import plot_pairs

    if plots is not None:
        need_packages("studies", "matplotlib")
    comparison = evaluate_all(directory, name_outputs(named, outputs), truth)
    written = [] if plots is None else plot_pairs(plots, comparison.results)
    written += [] if tables is None else comparison.write_csv(tables)
    click.echo(json.dumps(comparison.to_json()) if as_json else comparison.report(), nl=as_json)
    say([*(f"wrote {path}" for path in written), *(f"error: {r}" for r in comparison.failures.values())])
    if comparison.failures:
        context.exit(2)


def name_outputs(named: tuple[str, ...], outputs: tuple[Path, ...]) -> dict[str, Path]:
    """Return the results by their names: those of ``NAME=PATH``, then the others by their paths."""
    results: dict[str, Path] = {}
    for name, path in [*(text.partition("=")[::2] for text in named), *((str(path), str(path)) for path in outputs)]:
        if not name or not path:
            raise click.UsageError(f"{name or path!r}: write NAME=PATH")
        if name in results:
            raise click.UsageError(f"two results are named {name!r}")
        results[name] = Path(path)
    if not results:
        raise click.UsageError("give a result: NAME=PATH, or --output PATH")
    return results
