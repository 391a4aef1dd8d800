"""The commands run, index and score."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import click

from pan_scdg.cli.options import (
    FILE,
    FILE_OR_STANDARD,
    FOLDER,
    GroupedCommand,
    add_cluster_options,
    device_option,
    engine_option,
    gpu_option,
    json_option,
    load_chosen_profile,
    model_option,
    on_error_option,
    over_long_option,
    overwrite_option,
    plan_json_option,
    profile_option,
    quiet_option,
    shard_option,
    state_option,
    vectors_option,
)
from pan_scdg.logs import say

if TYPE_CHECKING:
    from pan_scdg.jobs.plan.estimate import Plan

READ = ("model", "vectors", "index", "candidates")
"""Options of ``run`` that name further inputs, besides the input folder and the profile."""
HEADINGS = {
    "Input and output": (
        "directory",
        "output",
        "limit",
        "strict",
        "on_error",
        "keep_gains",
        "report",
        "overwrite",
    ),
    "Model": ("profile", "model", "device", "engine", "over_long", "vectors"),
    "Speed": ("state", "workers", "cluster", "shard", "scores_only", "plan", "gpu", "as_json"),
    "Retrieval": ("index", "search_memory", "candidates", "stop_after"),
    "TIRA": ("metadata",),
}


@click.command(
    cls=GroupedCommand, headings=HEADINGS, short_help="Decide document pairs, or rank the sources of queries."
)
@click.option(
    "--input",
    "directory",
    type=FOLDER,
    envvar=["TIRA_INPUT_DATASET", "inputDataset"],
    required=True,
    help="Folder of document pairs, or of a corpus and queries.",
)
@click.option(
    "--output",
    type=FOLDER,
    envvar=["TIRA_OUTPUT_DIR", "outputDir"],
    required=True,
    help="Folder of the results; created if it does not exist.",
)
@profile_option
@device_option
@engine_option
@state_option
@model_option
@over_long_option
@on_error_option
@add_cluster_options
@click.option(
    "--limit",
    type=click.IntRange(1),
    metavar="N",
    help="Process only the first N pairs or queries, and mark the result as partial.",
)
@click.option("--plan", is_flag=True, help="Check everything and print the cost of the run; write no result.")
@gpu_option
@plan_json_option
@shard_option
@click.option(
    "--scores-only",
    is_flag=True,
    help="Score pairs and decide nothing, without a threshold; for `calibrate --scores`.",
)
@click.option("--strict", is_flag=True, help="Treat warnings about the input as errors.")
@click.option("--keep-gains", is_flag=True, help="Also write the gain of every token (gains.jsonl.gz).")
@click.option("--report", is_flag=True, help="Also write a page to read, report.html.")
@overwrite_option
@click.option(
    "--metadata/--no-metadata",
    default=True,
    show_default=True,
    envvar="PAN_SCDG_METADATA",
    help="Write ir-metadata.yml, which describes machine, packages and resources.",
)
@vectors_option
@click.option("--index", type=FOLDER, help="Folder of indexes that the command index has built.")
@click.option(
    "--search-memory",
    type=click.IntRange(min=64),
    metavar="MIB",
    help="Memory for dense search in MiB.  [default: 1024, or a quarter of the memory if that is less]",
)
@click.option("--stop-after", type=click.Choice(["first-stage"]), help="Write the candidates without scoring them.")
@click.option(
    "--candidates",
    type=click.Path(path_type=Path),
    envvar="inputRun",
    help="TREC run, or folder with one, that replaces the first stage.",
)
@quiet_option
def run(
    directory: Path,
    output: Path,
    profile: str,
    device: str,
    over_long: str | None,
    plan: bool,
    as_json: bool,
    **rest: Any,
) -> None:
    """Decide document pairs, or rank the sources of queries.

    The variables inputDataset and outputDir, which TIRA sets, replace --input and --output.

    \b
    Example:
      pan-scdg run --input examples/pan26-retrieval --output out
    """
    from pan_scdg.cli.paths import check_folders, find_profile_file
    from pan_scdg.jobs.pairs.detect import detect_pairs
    from pan_scdg.jobs.plan.estimate import plan_pairs, plan_retrieval
    from pan_scdg.jobs.requests import Computing, FirstStageOptions, Request
    from pan_scdg.jobs.retrieval.retrieve import retrieve_sources
    from pan_scdg.models.fit import choose_search_memory
    from pan_scdg.pan.inputs import detect_task

    _check_options(plan, as_json, rest)
    inputs = {"--input": directory, "--profile": find_profile_file(profile)}
    check_folders(output, rest["state"], inputs | {f"--{name}": rest[name] for name in READ})
    task = detect_task(directory)
    chosen = load_chosen_profile(profile, over_long)
    if over_long is not None and task == "pairs" and chosen.baseline is not None:
        raise click.UsageError(f"--over-long has no effect: profile {chosen.name} decides pairs without gains")
    asked = Computing(**{name: rest[name] for name in ("model", "engine", "cluster", "state")})
    computing = asked.settle_device(chosen, device, plan, rest["gpu"])
    if rest["scores_only"] and task != "pairs":
        raise click.UsageError("--scores-only is for pairs")
    names = ("limit", "overwrite", "strict", "on_error", "keep_gains", "shard", "metadata", "scores_only", "report")
    request = Request(directory, output, **{name: rest[name] for name in names})
    memory = rest["search_memory"] or choose_search_memory()
    stages = FirstStageOptions(rest["index"], rest["candidates"], rest["stop_after"] is not None, memory)
    if plan and task == "pairs":
        limits = {name: rest[name] for name in ("limit", "strict", "on_error")}
        show_plan(*plan_pairs(chosen, directory, computing, **limits), as_json)
    elif plan:
        show_plan(*plan_retrieval(chosen, request, computing, stages), as_json)
    elif task == "pairs":
        say(detect_pairs(chosen, request, computing, rest["vectors"]))
    else:
        say(retrieve_sources(chosen, request, computing, stages))


def _check_options(plan: bool, as_json: bool, rest: Mapping[str, Any]) -> None:
    """Raise UsageError if options of ``run`` contradict each other."""
    if (as_json or rest["gpu"]) and not plan:
        raise click.UsageError(f"{'--json' if as_json else '--gpu'} needs --plan")
    if rest["report"] and (plan or rest["shard"] is not None or rest["scores_only"]):
        raise click.UsageError(
            "--report cannot be combined with --plan, --shard or --scores-only; merge takes --report"
        )
    if rest["shard"] is not None and (plan or rest["stop_after"]):
        raise click.UsageError("--shard cannot be combined with --plan or --stop-after")


def show_plan(plan: "Plan", lines: list[str], as_json: bool) -> None:
    """Print the cost of a run."""
    click.echo(json.dumps(plan.to_json()) if as_json else "\n".join(plan.to_lines()))
    say(lines)


@click.command(short_help="Build the indexes of a corpus for later runs.")
@click.option("--input", "directory", type=FOLDER, required=True, help="Folder of the corpus.")
@click.option("--index", "folder", type=FOLDER, required=True, help="Folder of the indexes.")
@click.option(
    "--add", is_flag=True, help="Add the corpus to those that the folder covers, without building them again."
)
@profile_option
@device_option
@add_cluster_options
@quiet_option
def index(directory: Path, folder: Path, add: bool, profile: str, device: str, cluster: Any) -> None:
    """Build the indexes of a corpus that the first stage of a profile needs, for any number of runs.

    \b
    Example:
      pan-scdg index --input examples/pan26-retrieval --index my-index
      pan-scdg run --input examples/pan26-retrieval --index my-index --output out
    """
    from pan_scdg.cli.paths import check_folders, find_profile_file
    from pan_scdg.jobs.index import make_index

    check_folders(folder, None, {"--input": directory, "--profile": find_profile_file(profile)}, "--index")
    for line in make_index(load_chosen_profile(profile), directory, folder, device, cluster, add):
        click.echo(line)


@click.command(short_help="Score one pair of text files.")
@click.argument("suspicious", type=FILE_OR_STANDARD)
@click.argument("source", type=FILE_OR_STANDARD)
@profile_option
@device_option
@engine_option
@model_option
@over_long_option
@click.option(
    "--tokens",
    type=FILE_OR_STANDARD,
    help="File for one JSON line per token with log-probabilities and gain in nats; - prints them after the result.",
)
@click.option("--report", type=FILE, help="HTML file for both texts side by side, with their passages and gains.")
@quiet_option
def score(
    suspicious: Path,
    source: Path,
    profile: str,
    device: str,
    engine: Literal["packed", "reference"],
    model: Path | None,
    over_long: str | None,
    tokens: Path | None,
    report: Path | None,
) -> None:
    """Score a SUSPICIOUS file with a SOURCE file and print JSON; one of them can be - for standard input.

    \b
    Example:
      pan-scdg score suspicious.txt source.txt --report report.html
    """
    from pan_scdg.cli.paths import check_file, find_profile_file, holds_report, holds_tokens
    from pan_scdg.jobs.score import STANDARD, format_report, format_tokens, score_files
    from pan_scdg.own_files import write_atomically

    if suspicious == source == STANDARD:
        raise click.UsageError("only one of the two files can be standard input")
    chosen = load_chosen_profile(profile, over_long)
    if tokens is not None and chosen.baseline is not None and chosen.pairs is None:
        raise click.UsageError(f"--tokens has no effect: profile {chosen.name} measures no gains of tokens")
    inputs = {"SUSPICIOUS": suspicious, "SOURCE": source, "--model": model, "--profile": find_profile_file(profile)}
    if tokens is not None and tokens != STANDARD:
        check_file(tokens, "--tokens", inputs, "the tokens of a pair", holds_tokens)
    if report is not None:
        check_file(report, "--report", {**inputs, "--tokens": tokens}, "the report of a pair", holds_report)
    result = score_files(chosen, suspicious, source, device=device, model=model, engine=engine)
    if report is not None:
        write_atomically(report, format_report(result, suspicious, source))
    if tokens == STANDARD:
        click.echo(json.dumps(result.record))
        click.echo("".join(format_tokens(result)), nl=False)
        return
    if tokens is not None:
        write_atomically(tokens, "".join(format_tokens(result)))
    click.echo(json.dumps(result.record, indent=1))


@click.command(short_help="Show the progress of a run in another process.")
@click.argument("output", type=FOLDER)
@json_option
@quiet_option
def status(output: Path, as_json: bool) -> None:
    """Show the progress of the run or the command index that writes OUTPUT, in another process or on another machine.

    \b
    Example:
      pan-scdg status out
    """
    from pan_scdg.jobs.output.status import read_status

    report = read_status(output)
    click.echo(json.dumps(report.to_json()) if as_json else "\n".join(report.to_lines()))
