"""Options that several commands share, and the reading of a profile."""

import os
import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from pan_scdg.errors import need_packages
from pan_scdg.logs import show_logs

if TYPE_CHECKING:
    from pan_scdg.profile import Profile

FOLDER = click.Path(path_type=Path, file_okay=False)
FILE = click.Path(path_type=Path, dir_okay=False)
FILE_OR_STANDARD = click.Path(path_type=Path, dir_okay=False, allow_dash=True)
profile_option = click.option(
    "--profile", default="offline", show_default=True, help="Name of a bundled profile, or a profile file."
)
device_option = click.option(
    "--device",
    type=click.Choice(["auto", "cpu", "cuda"]),
    default="auto",
    show_default=True,
    help="Device of the models; auto uses a GPU if one is visible.",
)
model_option = click.option(
    "--model", type=FOLDER, help="Folder of the language model, instead of the one that the profile names."
)
state_option = click.option(
    "--state", type=FOLDER, envvar="PAN_SCDG_STATE", help="Folder in which scores are stored, and reused by later runs."
)
engine_option = click.option(
    "--engine",
    type=click.Choice(["packed", "reference"]),
    default="packed",
    show_default=True,
    help="Score many inputs at once (packed), or one at a time as in the paper (reference).",
)
truth_option = click.option(
    "--truth",
    type=click.Path(path_type=Path),
    help="Folder of truth XML, or qrels file.  [default: found in the input folder]",
)
over_long_option = click.option(
    "--over-long",
    type=click.Choice(["error", "segments"]),
    help="Refuse pairs over the profile's limit, or score them in segments.  [default: as set in the profile]",
)
on_error_option = click.option(
    "--on-error",
    type=click.Choice(["stop", "negative"]),
    default="stop",
    show_default=True,
    help="If a pair cannot be scored, stop, or decide it negative and record the reason.",
)
overwrite_option = click.option("--overwrite", is_flag=True, help="Replace a finished result.")
json_option = click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
vectors_option = click.option(
    "--vectors", type=FOLDER, help="Folder of document vectors (.npy), for a profile that reads precomputed vectors."
)


TASK, TASKS = "SLURM_ARRAY_TASK_ID", ("SLURM_ARRAY_TASK_MIN", "SLURM_ARRAY_TASK_MAX", "SLURM_ARRAY_TASK_COUNT")
"""Variables of a job of a Slurm array: its number, and the smallest, the largest and how many there are."""


def parse_shard(_context: click.Context, _parameter: click.Parameter, value: str | None) -> Any:
    """Return the `scoring.batches.Shard` that ``I/N``, ``auto/N`` or ``auto`` names, None for None."""
    if value is None:
        return None
    from pan_scdg.scoring.batches import MOST, Shard

    number, _, of = value.partition("/")
    if number == "auto":
        number, of = _read_array(of)
    short = len(number) + len(of) <= 2 * len(str(MOST))  # a number of thousands of digits is not even converted
    if not (short and number.isdecimal() and of.isdecimal() and 1 <= int(number) <= int(of) <= MOST):
        raise click.BadParameter(f"{value[:40]!r} is not I/N with 1 <= I <= N <= {MOST}")
    return Shard(int(number), int(of))


def _read_array(of: str) -> tuple[str, str]:
    """Return number and count of shards of this job of a Slurm array 1-N, or of a part of it with the count given."""
    number, (first, last, count) = os.environ.get(TASK, ""), (os.environ.get(name, "") for name in TASKS)
    if not number:
        raise click.BadParameter(f"auto needs {TASK}, which Slurm sets in the jobs of an array: sbatch --array=1-N")
    if of:
        return number, of
    if first != "1" or last != count:
        raise click.BadParameter(
            f"auto needs an array 1-N, and this one has {count or '?'} jobs from {first or '?'} to {last or '?'}; "
            "for a part of the shards name their number: auto/N"
        )
    return number, count


def _parse_workers(context: click.Context, _parameter: click.Parameter, value: int | None) -> None:
    context.meta["workers"] = value


def parse_cluster(context: click.Context, _parameter: click.Parameter, value: str | None) -> Any:
    """Return the `Cluster` of ``--cluster`` and ``--workers``, which ends with the command."""
    from pan_scdg.cluster.session import Cluster

    if value is not None and value not in ("local", "auto") and not re.fullmatch(r"[\w.-]+:\d{1,5}", value):
        raise click.BadParameter(f"{value[:80]!r} is not local, auto or HOST:PORT")
    workers = context.meta["workers"]
    if value not in (None, "local") or (workers or 1) > 1:
        need_packages("cluster", "ray")
    cluster = Cluster(value, workers)
    context.call_on_close(cluster.close)
    return cluster


def add_cluster_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add --workers and --cluster, whose one argument is ``cluster``."""
    command = click.option(
        "--cluster",
        metavar="local|auto|HOST:PORT",
        callback=parse_cluster,
        help="Compute on all GPUs of this machine, of the Ray cluster that it is part of, or of the one at HOST:PORT "
        "(extra `cluster`).",
    )(command)
    return click.option(
        "--workers",
        type=click.IntRange(1),
        metavar="N",
        is_eager=True,
        expose_value=False,
        callback=_parse_workers,
        help="Number of processes on each machine. Several need the extra `cluster`.  [default: one for each GPU]",
    )(command)


gpu_option = click.option(
    "--gpu",
    metavar="NAME",
    help="With --plan: count tokens, and estimate the hours on this GPU (A100, L40S, H100, H200), which can be absent.",
)
plan_json_option = click.option("--json", "as_json", is_flag=True, help="With --plan: print one JSON object.")
shard_option = click.option(
    "--shard",
    metavar="I/N",
    callback=parse_shard,
    help="Score only shard I of N, for --scores, or for merge after `run`. In a Slurm array: auto, in a part of one: "
    "auto/N.",
)


def list_score_folders(
    scores: Path | None, more: tuple[Path, ...], plan: bool, gpu: str | None, shard: Any
) -> tuple[Path, ...]:
    """Return the folders of ``--scores``, after checking that the options are compatible.

    Raises:
        UsageError: they are not.
    """
    if more and scores is None:
        raise click.UsageError(f"unexpected argument {str(more[0])[:100]!r}; list score folders after --scores")
    if gpu is not None and not plan:
        raise click.UsageError("--gpu needs --plan")
    if sum((plan, shard is not None, scores is not None)) > 1:
        raise click.UsageError("--plan, --shard and --scores cannot be combined")
    return () if scores is None else (scores, *more)


def _silence(_context: click.Context, _parameter: click.Parameter, quiet: bool) -> None:
    if quiet:
        show_logs(quiet=True)


quiet_option = click.option(
    "--quiet", is_flag=True, expose_value=False, callback=_silence, help="Show only errors and warnings."
)


class GroupedCommand(click.Command):
    """A command whose help lists its options under headings; its arguments are explained in its text.

    Args:
        headings: names of the options under each heading; the rest follows under "Other".
    """

    def __init__(self, *args: Any, headings: Mapping[str, tuple[str, ...]], **options: Any) -> None:
        super().__init__(*args, **options)
        self._headings = {name: heading for heading, names in headings.items() for name in names}
        self._order = [*headings, "Other"]

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the options of each heading."""
        records: dict[str, list[tuple[str, str]]] = {heading: [] for heading in self._order}
        for parameter in self.get_params(ctx):
            if isinstance(parameter, click.Option) and (record := parameter.get_help_record(ctx)) is not None:
                records[self._headings.get(parameter.name or "", "Other")].append(record)
        for heading, rows in records.items():
            if rows:
                with formatter.section(heading):
                    formatter.write_dl(rows)


def load_chosen_profile(name: str, over_long: str | None = None) -> "Profile":
    """Return the profile, with the user's choice for over-long pairs."""
    from pan_scdg.profile import load_profile

    profile = load_profile(name)
    if over_long is None:
        return profile
    pairs = profile.need_pairs().model_copy(update={"over_long": over_long})
    return profile.model_copy(update={"pairs": pairs})
