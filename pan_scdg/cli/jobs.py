"""The commands that do the work: run, merge, index, score."""

import json
import os
from pathlib import Path
from typing import Any, Literal

import click

from pan_scdg.cli.options import (
    FILE_OR_STANDARD,
    FOLDER,
    chosen_profile,
    device_option,
    engine_option,
    model_option,
    on_error_option,
    over_long_option,
    profile_option,
    quiet_option,
    share_option,
    state_option,
    vectors_option,
)
from pan_scdg.errors import UserError
from pan_scdg.logs import say

READ = ("model", "vectors", "index", "candidates")
"""Options of ``run`` that name what is read, besides the input and the profile."""


@click.command()
@click.option("--input", "directory", type=FOLDER, envvar=["TIRA_INPUT_DATASET", "inputDataset"], required=True)
@click.option("--output", type=FOLDER, envvar=["TIRA_OUTPUT_DIR", "outputDir"], required=True)
@profile_option
@click.option("--task", type=click.Choice(["auto", "pairs", "retrieval"]), default="auto", show_default=True)
@device_option
@engine_option
@state_option
@model_option
@over_long_option
@on_error_option
@click.option("--workers", type=click.IntRange(1), help="Processes that score side by side.  [default: one a GPU]")
@click.option("--limit", type=click.IntRange(1), help="Only the first N pairs or queries; the output says so.")
@click.option("--plan", is_flag=True, help="Check everything, print what the run will cost, write nothing.")
@click.option("--json", "as_json", is_flag=True, help="With --plan: one JSON object.")
@share_option
@click.option("--strict", is_flag=True, help="What is merely odd in the input is an error.")
@click.option("--keep-gains", is_flag=True, help="Write the gain of every token (gains.jsonl.gz).")
@click.option("--overwrite", is_flag=True, help="Redo a finished output.")
@click.option(
    "--metadata/--no-metadata",
    default=True,
    show_default=True,
    envvar="PAN_SCDG_METADATA",
    help="Write ir-metadata.yml: machine, packages, resources.",
)
@vectors_option
@click.option("--index", type=FOLDER, help="Ready indexes of the corpus, made by the command index.")
@click.option(
    "--search-memory",
    type=click.IntRange(min=64),
    help="MiB for dense search.  [default: 1024, or a quarter of the memory where that is less]",
)
@click.option("--stop-after", type=click.Choice(["first-stage"]), help="Write the candidates, score nothing.")
@click.option(
    "--candidates",
    type=click.Path(path_type=Path),
    envvar="inputRun",
    help="Rerank this TREC run (or folder with one).",
)
@quiet_option
def run(
    directory: Path,
    output: Path,
    profile: str,
    task: str,
    device: str,
    over_long: str | None,
    plan: bool,
    as_json: bool,
    **rest: Any,
) -> None:
    """Do the job that the input directory calls for: decide pairs, or rank sources.

    Without --input and --output, TIRA's variables inputDataset and outputDir are used.

    \b
    Example:
      python entrypoint.py run --input examples/pan26-retrieval --output out
    """
    from pan_scdg.jobs.detect import detect_pairs
    from pan_scdg.jobs.requests import Computing, FirstStageOptions, Request
    from pan_scdg.jobs.retrieve import retrieve_sources
    from pan_scdg.jobs.targets import check_folders, profile_file
    from pan_scdg.models.fit import choose_device, search_memory
    from pan_scdg.pan.inputs import detect_task

    if as_json and not plan:
        raise click.UsageError("--json goes with --plan")
    if rest["share"] is not None and (plan or rest["stop_after"]):
        raise click.UsageError("--shard does not go with --plan, which is of the whole run, nor with --stop-after")
    inputs = {"--input": directory, "--profile": profile_file(profile)}
    check_folders(output, rest["state"], inputs | {f"--{name}": rest[name] for name in READ})
    found = detect_task(directory, task)  # type: ignore[arg-type]
    chosen = chosen_profile(profile, over_long)
    computing = Computing(choose_device(chosen, device), rest["model"], rest["engine"], rest["workers"], rest["state"])
    names = ("limit", "overwrite", "strict", "on_error", "keep_gains", "share", "metadata")
    request = Request(directory, output, **{name: rest[name] for name in names})
    stages = FirstStageOptions(
        rest["index"], rest["candidates"], rest["stop_after"] is not None, rest["search_memory"] or search_memory()
    )
    if plan:
        show_plan(found, chosen, request, computing, stages, as_json)
    elif found == "pairs":
        say(detect_pairs(chosen, request, computing, rest["vectors"]))
    else:
        say(retrieve_sources(chosen, request, computing, stages))


def show_plan(task: str, profile: Any, request: Any, computing: Any, stages: Any, as_json: bool) -> None:
    """Print what a run will take."""
    from pan_scdg.jobs.plan import plan_pairs, plan_retrieval

    if profile.baseline is not None and task == "pairs":
        raise click.UsageError("--plan is of language models, and the profile is a baseline")
    if task == "pairs":
        plan, lines = plan_pairs(profile, request, computing)
    else:
        plan, lines = plan_retrieval(profile, request, computing, stages)
    click.echo(json.dumps(plan.record()) if as_json else "\n".join(plan.lines()))
    say(lines)


@click.command()
@click.option("--input", "directory", type=FOLDER, required=True, help="Holds the corpus.")
@click.option("--index", "folder", type=FOLDER, required=True, help="Where the indexes are kept.")
@profile_option
@device_option
@quiet_option
def index(directory: Path, folder: Path, profile: str, device: str) -> None:
    """Make the indexes of a corpus that a profile's first stage needs, for any number of runs.

    \b
    Example:
      python entrypoint.py index --input examples/pan26-retrieval --index my-index
      python entrypoint.py run --input examples/pan26-retrieval --index my-index --output out
    """
    from pan_scdg.jobs.targets import check_folders, profile_file
    from pan_scdg.models.fit import choose_device
    from pan_scdg.retrieval.candidates import load_retrieval_encoder
    from pan_scdg.retrieval.index import index_corpus

    check_folders(folder, None, {"--input": directory, "--profile": profile_file(profile)}, "--index")
    chosen = chosen_profile(profile)
    settings = chosen.need_retrieval()
    for line in index_corpus(
        directory, folder, settings, load_retrieval_encoder(settings, choose_device(chosen, device))
    ):
        click.echo(line)


@click.command()
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
    help="Write one JSON line a token: log-probabilities and gain in nats. With - they follow the result, which then "
    "is one line, too.",
)
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
) -> None:
    """Score one SUSPICIOUS file against one SOURCE file; prints JSON. One of the two can be -, standard input.

    \b
    Example:
      python entrypoint.py score suspicious.txt source.txt --tokens gains.jsonl
    """
    from pan_scdg.jobs.score import STANDARD, score_files, token_lines
    from pan_scdg.jobs.targets import check_file, holds_tokens, profile_file
    from pan_scdg.own_files import write_atomically

    if suspicious == source == STANDARD:
        raise click.UsageError("only one of the two files can be standard input")
    chosen = chosen_profile(profile, over_long)
    if tokens is not None and tokens != STANDARD and not os.access(tokens.parent, os.W_OK | os.X_OK):
        raise UserError("cannot be written", "give a file in an existing, writable folder with --tokens", tokens)
    if tokens is not None and tokens != STANDARD:
        inputs = {"SUSPICIOUS": suspicious, "SOURCE": source, "--model": model, "--profile": profile_file(profile)}
        check_file(tokens, "--tokens", inputs, "the tokens of a pair", holds_tokens)
    result = score_files(chosen, suspicious, source, device=device, model=model, engine=engine)
    if tokens == STANDARD:
        click.echo(json.dumps(result.record))
        click.echo("".join(token_lines(result)), nl=False)
        return
    if tokens is not None:
        write_atomically(tokens, "".join(token_lines(result)))
    click.echo(json.dumps(result.record, indent=1))


@click.command()
@click.option("--input", "directory", type=FOLDER, required=True, help="What the shards were made from.")
@click.option("--output", type=FOLDER, required=True)
@model_option
@click.option("--overwrite", is_flag=True, help="Redo a finished output.")
@click.argument("shards", type=FOLDER, nargs=-1, required=True)
@quiet_option
def merge(directory: Path, output: Path, model: Path | None, overwrite: bool, shards: tuple[Path, ...]) -> None:
    """Write the results of a job from the output directories of all its SHARDS (run --shard I/N); no GPU is needed.

    \b
    Example:
      python entrypoint.py merge --input examples/pan25-pairs/test --output out shard-1 shard-2
    """
    from pan_scdg.jobs.merge import merge_shards
    from pan_scdg.jobs.targets import check_folders

    given = {f"SHARDS {number}": shard for number, shard in enumerate(shards, 1)}
    check_folders(output, None, {"--input": directory, "--model": model, **given})
    say(merge_shards(directory, output, shards, model, overwrite))


COMMANDS = (run, merge, index, score)
