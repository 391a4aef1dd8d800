"""Options that several commands share, and the reading of a profile."""

import re
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, cast

import click
from click.shell_completion import CompletionItem

from pan_scdg.errors import need_packages

if TYPE_CHECKING:
    from pan_scdg.profile import Profile

FOLDER = click.Path(path_type=Path, file_okay=False)
FILE = click.Path(path_type=Path, dir_okay=False)
FILE_OR_STANDARD = click.Path(path_type=Path, dir_okay=False, allow_dash=True)


def complete_profile(_context: click.Context, _parameter: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """Return the bundled profiles that begin with what was typed, or let the shell complete a file."""
    from pan_scdg.profile import list_profiles

    names = [name for name in list_profiles() if name.startswith(incomplete)]
    return [*map(CompletionItem, names)] or [CompletionItem(incomplete, type="file")]


profile_option = click.option(
    "--profile",
    default="offline",
    show_default=True,
    shell_complete=complete_profile,
    help="Name of a bundled profile, a profile file, or the job.json of a result.",
)


def _register_method(_context: click.Context, _parameter: click.Parameter, value: Path | None) -> None:
    if value is not None:
        from pan_scdg.methods import register_method

        register_method(value)


method_option = click.option(
    "--method",
    type=FILE,
    metavar="FILE.py",
    envvar="PAN_SCDG_METHOD",
    is_eager=True,  # before a profile with its table is read
    expose_value=False,
    callback=_register_method,
    help="File of a method of your own, which the profile names. The file is run as a program.",
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
engine_option = click.option(
    "--engine",
    type=click.Choice(["packed", "reference"]),
    help="Score many inputs at once (packed), or one at a time as in the paper (reference).  "
    "[default: packed if the model can be]",
)
truth_option = click.option(
    "--truth",
    type=click.Path(path_type=Path),
    help="Folder of truth XML, qrels file, or table suspicious,source,label of a check.  [default: found in the input]",
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
Threshold = float | Literal["decision", "strict"]


class ThresholdType(click.ParamType[Threshold]):
    """A number, or one of the thresholds of a profile."""

    name = "threshold"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Threshold:
        """Return the number or the name."""
        if value in ("decision", "strict"):
            return cast(Threshold, value)
        try:
            return float(value)
        except ValueError:
            self.fail(f"{value!r} is not a number, decision or strict", param, ctx)


threshold_option = click.option(
    "--threshold",
    type=ThresholdType(),
    metavar="decision|strict|SCORE",
    help="Decide by this threshold of the profile, or by a number.  [default: decision; check: strict]",
)
vectors_option = click.option(
    "--vectors", type=FOLDER, help="Folder of document vectors (.npy), for a profile that reads precomputed vectors."
)


def parse_address(_context: click.Context, _parameter: click.Parameter, value: str | None) -> str | None:
    """Return the address of a Ray cluster, or raise BadParameter."""
    if value is not None and value not in ("local", "auto") and not re.fullmatch(r"[\w.-]+:\d{1,5}", value):
        raise click.BadParameter(f"{value[:80]!r} is not local, auto or HOST:PORT")
    if value not in (None, "local"):
        need_packages("cluster", "ray")
    return value


def check_workers(_context: click.Context, _parameter: click.Parameter, value: int | None) -> int | None:
    """Return the number of processes; raise UserError if several need a package that is not installed."""
    if (value or 1) > 1:
        need_packages("cluster", "ray")
    return value


workers_option = click.option(
    "--workers",
    type=click.IntRange(1),
    metavar="N",
    callback=check_workers,
    help="Number of processes on each machine. Several need the extra `cluster`.  [default: one for each GPU]",
)
cluster_option = click.option(
    "--cluster",
    metavar="local|auto|HOST:PORT",
    callback=parse_address,
    help="Compute on all GPUs of this machine, of the Ray cluster that it is part of, or of the one at HOST:PORT "
    "(extra `cluster`).",
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


def load_chosen_profile(name: str, threshold: Threshold | None = None, q: float | None = None) -> "Profile":
    """Return the profile, with the user's threshold and percentage of gains."""
    from pan_scdg.profile import load_profile

    profile = load_profile(name)
    if threshold == "strict":
        if profile.need_decide().strict is None:
            raise click.UsageError(f"--threshold strict needs a profile with a strict threshold, unlike {name}")
        profile = profile.use_strict()
    elif isinstance(threshold, float):
        former = {"calibrated_with": None, "dtype": None, "calibration": None}
        decide = profile.need_decide().model_copy(update={"threshold": threshold, **former})
        profile = profile.model_copy(update={"decide": decide})
    if q is not None:
        if not isinstance(threshold, float):
            raise click.UsageError("--q needs --threshold with a number, because each threshold belongs to one q")
        if profile.gains is None or profile.method_settings.parameters != ("q",):
            raise click.UsageError(f"--q needs a profile that decides by the largest gains, unlike {name}")
        profile = profile.model_copy(update={"gains": profile.gains.model_copy(update={"q": q})})
    if threshold is not None:
        _check_decision(profile)
    return profile


def _check_decision(profile: "Profile") -> None:
    """Raise UsageError if a profile cannot decide by the threshold that it was given."""
    from pydantic import ValidationError

    try:
        type(profile).model_validate(profile.model_dump())
    except ValidationError as e:
        raise click.UsageError(f"--threshold: {e.errors()[0]['msg'].removeprefix('Value error, ')}") from e
