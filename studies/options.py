"""Options that the commands of the studies share."""

import json
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from pan_scdg.cli.options import (
    FOLDER,
    add_cluster_options,
    device_option,
    engine_option,
    gpu_option,
    list_score_folders,
    model_option,
    overwrite_option,
    plan_json_option,
    quiet_option,
    shard_option,
    state_option,
)
from pan_scdg.errors import need_packages
from pan_scdg.logs import say
from pan_scdg.notices import Notices

if TYPE_CHECKING:
    from pan_scdg.profile import Profile
    from studies.data.folders import DataFolders
    from studies.study import ReadyStudy, StudyOptions

PACKAGES = ("pandas", "statsmodels", "matplotlib")
"""Packages of the extra ``studies``."""
Command = Callable[..., None]


class StudyCommand(click.Command):
    """A command that runs only where the packages of the extra are installed."""

    def invoke(self, ctx: click.Context) -> Any:
        """Run the command.

        Raises:
            UserError: a package of the extra is missing.
        """
        need_packages("studies", *PACKAGES)
        return super().invoke(ctx)


def parse_items(_context: click.Context, parameter: click.Parameter, values: tuple[str, ...]) -> dict[str, Path]:
    """Return the values ``NAME=PATH`` of an option, by name."""
    found: dict[str, Path] = {}
    for value in values:
        name, _, path = value.partition("=")
        if not path or not name.strip() or name in found:
            raise click.BadParameter(f"{value!r} is not {parameter.metavar} with a new name")
        found[name] = Path(path)
    return found


SCORING_OPTIONS = (
    device_option,
    engine_option,
    add_cluster_options,
    click.option(
        "--on-error",
        type=click.Choice(["stop", "leave-out"]),
        default="stop",
        show_default=True,
        help="If something cannot be scored, stop, or leave it out of every row and say so in the report.",
    ),
    click.option("--plan", is_flag=True, help="Print the cost of scoring with the model; write no report."),
    gpu_option,
    plan_json_option,
    shard_option,
    click.option(
        "--scores",
        type=FOLDER,
        metavar="OUT...",
        help="Output folders of all shards of this study: nothing is scored with the model.",
    ),
    click.argument("more_scores", metavar="", type=FOLDER, nargs=-1),
    overwrite_option,
)
"""Options of the commands that score with a language model."""


def add_study_options(*more: Callable[[Command], Command]) -> Callable[[Command], Command]:
    """Return a decorator that adds ``more``, and the options of all commands that score."""
    return add_options(*more, *SCORING_OPTIONS)


def add_options(*more: Callable[[Command], Command]) -> Callable[[Command], Command]:
    """Return a decorator that adds the options of all commands and ``more``."""
    options: tuple[Callable[[Command], Command], ...] = (
        click.option("--data", type=FOLDER, help="Folder with pan25/, pan26/ and multinews/."),
        click.option("--examples", is_flag=True, help="Read the bundled examples instead of --data."),
        click.option("--output", type=FOLDER, required=True, help="Folder for the results."),
        *more,
        click.option(
            "--given",
            multiple=True,
            metavar="KIND=PATH",
            callback=parse_items,
            help="Read a manifest or split from this file or folder. Can be repeated.",
        ),
        state_option,
        model_option,
        quiet_option,
    )

    def add(command: Command) -> Command:
        for option in reversed(options):
            command = option(command)
        return command

    return add


def find_folders(data: Path | None, examples: bool, output: Path, state: Path | None, **read: Any) -> "DataFolders":
    """Return the folders of the data, after checking that the study writes into none of them.

    ``read`` are other options that name what is read: a path, or paths by name.

    Raises:
        UsageError: both ``--data`` and ``--examples`` are given, or neither.
        UserError: a folder that is written is one that is read, or one lies in the other.
    """
    from pan_scdg.cli.paths import check_folders
    from studies.data.folders import find_data, find_examples

    if examples == (data is not None):
        raise click.UsageError("give either --data or --examples")
    folders = find_examples() if data is None else find_data(data)
    inputs = {"--data": data, **{f"--data, {name}/": path for name, path in folders._asdict().items()}}
    for option, value in read.items():
        named = value if isinstance(value, dict) else None
        inputs |= {f"--{option}": value} if named is None else {f"--{option} {k}": path for k, path in named.items()}
    check_folders(output, state, inputs)
    return folders


def open_study(profile: "Profile", options: Mapping[str, Any], **read: Any) -> "StudyOptions":
    """Return the options of a study, after checking that they are compatible.

    Args:
        profile: that of the language model, which decides on the device.
        options: those of `add_study_options`, by name.
        read: options of this study alone, see `find_folders`.

    Raises:
        UsageError: options are not compatible.
        UserError: see `find_folders`; or the scores are no shards of one study, or not all of them.
    """
    from pan_scdg.jobs.requests import Computing
    from pan_scdg.jobs.shards import read_shards
    from studies.study import StudyOptions

    output, state, model, given = (options[name] for name in ("output", "state", "model", "given"))
    plan, gpu, shard, as_json = (options[name] for name in ("plan", "gpu", "shard", "as_json"))
    scores = list_score_folders(options["scores"], options["more_scores"], plan, gpu, shard)
    if as_json and not plan:
        raise click.UsageError("--json needs --plan")
    numbered = {str(number): folder for number, folder in enumerate(scores, 1)}
    read |= {"model": model, "given": given, "scores": numbered}
    folders = find_folders(options["data"], options["examples"], output, state, **read)
    if plan and state is not None and not state.is_dir():
        state = None  # a plan creates nothing
    shards = read_shards(scores, study=True)
    asked = Computing("cpu", model, options["engine"], options["cluster"], state, shards=shards)
    return StudyOptions(
        folders=folders,
        output=output,
        given=given,
        computing=asked.settle_device(profile, options["device"], plan, gpu),
        device=options["device"],
        overwrite=options["overwrite"],
        on_error=options["on_error"],
        shard=shard,
        plan=plan,
        as_json=as_json,
    )


def show_study(options: "StudyOptions", prepare: Callable[[ExitStack, Notices], "ReadyStudy"]) -> None:
    """Carry out a study, or print its plan, which writes nothing.

    Args:
        options: those of the study.
        prepare: reads and checks the data and finds the models, which the stack frees in the end.
    """
    from pan_scdg.jobs.lifecycle import carry_out

    notices = Notices()
    with ExitStack() as stack:
        study = prepare(stack, notices)
        if not options.plan:
            computing = options.computing
            lines = carry_out(
                study, options.output, options.overwrite, options.shard, computing.shards, computing.state
            )
            say([*(f"warning: {note}" for note in study.notes), *lines])
            return
        plans = study.plan()
    as_json = json.dumps({"plans": [plan.to_json() for plan in plans]})
    click.echo(as_json if options.as_json else "\n\n".join("\n".join(plan.to_lines()) for plan in plans))
    say(notices.list_warnings())
