"""The commands run, report and index."""

import os
from pathlib import Path
from typing import Any, Literal

import click

from pan_scdg.cli.options import (
    FOLDER,
    GroupedCommand,
    Threshold,
    cluster_option,
    device_option,
    engine_option,
    load_chosen_profile,
    method_option,
    model_option,
    on_error_option,
    overwrite_option,
    profile_option,
    threshold_option,
    vectors_option,
    workers_option,
)
from pan_scdg.logs import say

METADATA = "PAN_SCDG_METADATA"
"""With 0, no ``ir-metadata.yml`` is written, in which two runs differ: it has times and the machine."""
READ = ("model", "vectors", "index", "candidates")
"""Options of ``run`` that name further inputs, besides the input folder and the profile."""
HEADINGS = {
    "Input and output": (
        "directory",
        "output",
        "limit",
        "deadline",
        "strict",
        "on_error",
        "scores_only",
        "keep_gains",
        "report",
        "overwrite",
    ),
    "Model": ("profile", "method", "model", "device", "engine", "threshold", "q", "vectors"),
    "Devices": ("workers", "cluster"),
    "Retrieval": ("index", "candidates"),
}


@click.command(
    cls=GroupedCommand, headings=HEADINGS, short_help="Decide document pairs, or rank the sources of queries."
)
@click.option(
    "--input",
    "directory",
    type=click.Path(path_type=Path),
    envvar=["TIRA_INPUT_DATASET", "inputDataset"],
    required=True,
    help="Folder of document pairs, or of a corpus and queries; or a table of pairs (.csv, .jsonl, .parquet).",
)
@click.option(
    "--output",
    type=FOLDER,
    envvar=["TIRA_OUTPUT_DIR", "outputDir"],
    required=True,
    help="Folder of the results.",
)
@profile_option
@method_option
@device_option
@engine_option
@model_option
@threshold_option
@click.option(
    "--q",
    type=click.FloatRange(0, 100, min_open=True),
    metavar="PERCENT",
    help="With --threshold: average this share of the largest gains.",
)
@on_error_option
@workers_option
@cluster_option
@click.option(
    "--limit",
    type=click.IntRange(1),
    metavar="N",
    help="Process only the first N pairs or queries, and mark the result as partial.",
)
@click.option(
    "--scores-only",
    is_flag=True,
    help="Write scores without decisions, for `calibrate --scores` and the studies.",
)
@click.option("--strict", is_flag=True, help="Treat warnings about the input as errors.")
@click.option("--keep-gains", is_flag=True, help="Also write the gain of every token (gains.jsonl.gz).")
@click.option("--report", is_flag=True, help="Also write a page to read, report.html.")
@overwrite_option
@vectors_option
@click.option("--index", type=FOLDER, help="Folder of indexes that `index` built.")
@click.option(
    "--candidates",
    type=click.Path(path_type=Path),
    envvar="inputRun",
    help="TREC run, or folder with one, that replaces the first stage.",
)
@click.option(
    "--deadline",
    type=click.FloatRange(0, min_open=True),
    metavar="HOURS",
    envvar="PAN_SCDG_DEADLINE",
    help="Write the results within this many hours. Late pairs are decided negative; late queries are searched by BM25 "
    "alone, or keep their coarse order.",
)
def run(
    directory: Path,
    output: Path,
    profile: str,
    device: str,
    threshold: Threshold | None,
    q: float | None,
    **rest: Any,
) -> None:
    """Decide document pairs, or rank the sources of queries.

    On TIRA the variables inputDataset and outputDir replace --input and --output. To continue a stopped run, repeat
    the command.

    \b
    Example:
      pan-scdg run --input examples/pan26-retrieval --output out
    """
    from pan_scdg.cli.paths import check_folders, find_profile_file
    from pan_scdg.jobs.options import RunOptions, choose_device
    from pan_scdg.pan.inputs import find_input
    from pan_scdg.pan.prepare import open_pairs

    inputs = {"--input": directory, "--profile": find_profile_file(profile)}
    check_folders(output, inputs | {f"--{name}": rest[name] for name in READ})
    with open_pairs(directory) as opened:
        task, folder = find_input(opened)
        if folder != opened:
            say([f"input: {folder}"])
        chosen = load_chosen_profile(profile, threshold, q)
        refuse_options(task, {**rest, "threshold": threshold is not None})
        metadata = os.environ.get(METADATA) != "0"
        options = RunOptions(opened, output, choose_device(chosen, device), metadata=metadata, **rest)
        if task == "pairs":
            from pan_scdg.jobs.pairs import detect_pairs

            say(detect_pairs(chosen, options))
        else:
            from pan_scdg.jobs.retrieval import retrieve_sources

            say(retrieve_sources(chosen, options))


def refuse_options(task: Literal["pairs", "retrieval"], rest: dict[str, Any]) -> None:
    """Raise UsageError if an option of the other task was given, or two contradict each other."""
    others = ("index", "candidates") if task == "pairs" else ("scores_only", "vectors", "threshold")
    for name in others:
        if rest[name]:
            what = "retrieval" if task == "pairs" else "pairs"
            raise click.UsageError(f"--{name.replace('_', '-')} is for {what}")
    for name in ("report", "threshold"):
        if rest["scores_only"] and rest[name]:
            raise click.UsageError(f"--{name} cannot be combined with --scores-only")


@click.command(short_help="Make the page of a result.")
@click.argument("output", type=FOLDER)
@click.option("--input", "directory", type=FOLDER, help="Input folder of `run`, whose texts are shown.")
def report(output: Path, directory: Path | None) -> None:
    """Make the page OUTPUT/report.html from the result of `run` or `check` in OUTPUT, without loading a model.

    \b
    Example:
      pan-scdg report out --input examples/pan25-pairs/test
    """
    from pan_scdg.report.pages import make_page

    click.echo(make_page(output, directory))


@click.command(short_help="Build the indexes of a corpus for later runs.")
@click.option("--input", "directory", type=FOLDER, required=True, help="Folder of the corpus.")
@click.option("--index", "folder", type=FOLDER, required=True, help="Folder of the indexes.")
@profile_option
@device_option
@workers_option
@cluster_option
def index(directory: Path, folder: Path, profile: str, device: str, workers: int | None, cluster: str | None) -> None:
    """Build the indexes that the first stage of a profile searches. Any number of runs can share them.

    \b
    Example:
      pan-scdg index --input examples/pan26-retrieval --index my-index
      pan-scdg run --input examples/pan26-retrieval --index my-index --output out
    """
    from pan_scdg.cli.paths import check_folders, find_profile_file
    from pan_scdg.jobs.options import choose_device
    from pan_scdg.jobs.retrieval import make_index
    from pan_scdg.models.devices import Devices

    check_folders(folder, {"--input": directory, "--profile": find_profile_file(profile)}, "--index")
    chosen = load_chosen_profile(profile)
    for line in make_index(chosen, directory, folder, Devices(choose_device(chosen, device), workers, cluster)):
        click.echo(line)
