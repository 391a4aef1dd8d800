"""The commands calibrate, evaluate and compare."""

import json
from pathlib import Path
from typing import Any, Literal

import click

from pan_scdg.cli.options import (
    FILE,
    FOLDER,
    add_cluster_options,
    device_option,
    engine_option,
    gpu_option,
    json_option,
    list_score_folders,
    load_chosen_profile,
    model_option,
    on_error_option,
    over_long_option,
    overwrite_option,
    profile_option,
    quiet_option,
    shard_option,
    state_option,
    truth_option,
    vectors_option,
)
from pan_scdg.errors import need_packages
from pan_scdg.logs import say


@click.command(short_help="Choose a threshold on pairs with truth.")
@click.option("--input", "directory", type=FOLDER, required=True, help="Input folder of pairs with known truth.")
@profile_option
@click.option("--write", type=FILE, help="Profile file to write; required unless --plan or --shard.")
@truth_option
@device_option
@engine_option
@model_option
@over_long_option
@vectors_option
@state_option
@add_cluster_options
@click.option(
    "--scores",
    type=FOLDER,
    metavar="OUT...",
    help="Folders that `run --scores-only`, or all shards of it, wrote for this input: nothing is computed.",
)
@click.argument("more", metavar="", type=FOLDER, nargs=-1)
@click.option("--limit", type=click.IntRange(1), metavar="N", help="Choose on the first N pairs.")
@on_error_option
@click.option("--plan", is_flag=True, help="Print the cost of scoring; choose and write nothing.")
@gpu_option
@shard_option
@click.option("--output", type=FOLDER, help="With --shard: folder of its scores, for --scores.")
@overwrite_option
@json_option
@quiet_option
def calibrate(
    directory: Path,
    profile: str,
    write: Path | None,
    truth: Path | None,
    device: str,
    engine: Literal["packed", "reference"],
    model: Path | None,
    over_long: str | None,
    vectors: Path | None,
    state: Path | None,
    cluster: Any,
    scores: Path | None,
    more: tuple[Path, ...],
    as_json: bool,
    plan: bool,
    gpu: str | None,
    shard: Any,
    output: Path | None,
    **rest: Any,
) -> None:
    """Choose q, w or weights and the threshold on pairs with truth, and write a profile file with them.

    For a baseline, choose its threshold and, if it has them, n or weights. --plan and --shard are those of
    `run --scores-only`, which needs no truth: --scores takes shards that either of them has scored.

    \b
    Example:
      pan-scdg calibrate --input examples/pan25-pairs/calibration --write my-profile.toml
      pan-scdg calibrate --input examples/pan25-pairs/calibration --profile scdg-mini \\
          --write my-profile.toml --scores out/shard-1 out/shard-2
    """
    from pan_scdg.cli.jobs import show_plan
    from pan_scdg.cli.paths import check_file, check_folders, check_state, find_profile_file, holds_profile
    from pan_scdg.jobs.calibrate import calibrate as choose
    from pan_scdg.jobs.pairs.detect import detect_pairs
    from pan_scdg.jobs.plan.estimate import plan_pairs
    from pan_scdg.jobs.requests import Computing, Request
    from pan_scdg.jobs.shards import read_shards

    chosen = load_chosen_profile(profile, over_long)
    folders = list_score_folders(scores, more, plan, gpu, shard)
    _check_targets(folders, write, output, rest["limit"], plan=plan, shard=shard is not None)
    inputs = {"--input": directory, "--truth": truth, "--model": model, "--vectors": vectors}
    inputs |= {f"--scores {number}": folder for number, folder in enumerate(folders, 1)}
    check_state(state, inputs)
    inputs["--profile"] = find_profile_file(profile)
    if output is not None:
        check_folders(output, state, inputs)
    if write is not None:
        check_file(write, "--write", inputs, "a profile", holds_profile)
    asked = Computing(model=model, engine=engine, cluster=cluster, state=state, shards=read_shards(folders))
    computing = asked.settle_device(chosen, device, plan, gpu)
    if write is not None:
        request = Request(directory, write, limit=rest["limit"], on_error=rest["on_error"])
        choice, warnings = choose(chosen, profile, request, computing, truth, vectors)
        say(warnings)
        click.echo(json.dumps(choice.to_json()) if as_json else f"{choice.summarise()}; wrote {write}")
    elif output is not None:
        say(detect_pairs(chosen, Request(directory, output, shard=shard, scores_only=True, **rest), computing, vectors))
    else:
        planned = plan_pairs(chosen, directory, computing, limit=rest["limit"], on_error=rest["on_error"])
        show_plan(*planned, as_json)


def _check_targets(
    folders: tuple[Path, ...], write: Path | None, output: Path | None, limit: int | None, *, plan: bool, shard: bool
) -> None:
    """Raise UsageError if the output options of ``calibrate`` contradict each other."""
    if folders and limit is not None:
        raise click.UsageError("--limit has no effect: the scores are those of the pairs that they were made for")
    if (output is None) == shard:
        raise click.UsageError("--shard and --output need each other")
    if write is None and not (plan or shard):
        raise click.UsageError("Missing option '--write'.")
    if write is not None and (plan or shard):
        raise click.UsageError("--write has no effect with --plan or --shard")


@click.command(short_help="Evaluate results against the truth.")
@click.option("--input", "directory", type=FOLDER, required=True, help="Input folder of the results.")
@click.option(
    "--output",
    "outputs",
    type=click.Path(path_type=Path),
    required=True,
    multiple=True,
    help="Output folder of run; repeat the option to compare several results of one input.",
)
@truth_option
@click.option(
    "--plots",
    type=FOLDER,
    help="Folder for plots of pair detection (PNG): ROC, precision and recall, scores (extra `studies`).",
)
@json_option
@quiet_option
def evaluate(directory: Path, outputs: tuple[Path, ...], truth: Path | None, plots: Path | None, as_json: bool) -> None:
    """Evaluate results against the truth, with bootstrap intervals.

    If there are several results, each is compared with the first, with paired intervals of the differences.

    \b
    Example:
      pan-scdg evaluate --input examples/pan25-pairs/test --output out
    """
    from pan_scdg.jobs.evaluate import evaluate_side_by_side, plot_pairs

    if plots is not None:
        need_packages("studies", "matplotlib")
    found = evaluate_side_by_side(directory, outputs, truth)
    written = [] if plots is None else plot_pairs(plots, found.results)
    click.echo(json.dumps(found.to_json()) if as_json else found.report(), nl=as_json)
    say(f"wrote {path}" for path in written)


@click.command(short_help="Compare two results of one task.")
@click.argument("a", type=click.Path(path_type=Path))
@click.argument("b", type=click.Path(path_type=Path))
@json_option
@quiet_option
@click.pass_context
def compare(context: click.Context, a: Path, b: Path, as_json: bool) -> None:
    """Compare the results A and B of one task: outputs of run, TREC runs, or folders of detection XML.

    It prints the differences of decisions, scores and passages, or of the top 10s, and the fields of the jobs that
    differ. The exit code is 0 if all pairs, decisions and passages, or all queries and top 10s, are the same, otherwise
    1.

    \b
    Example:
      pan-scdg compare out/first out/second
    """
    from pan_scdg.jobs.compare import compare_results

    found = compare_results(a, b)
    # DEL is the one control character that JSON leaves as it is
    click.echo(json.dumps(found.facts).replace("\x7f", "\\u007f") if as_json else "\n".join(found.lines))
    if not found.same:
        context.exit(1)
