"""What several commands have in common: their options, reading a profile, and telling the user."""

from pathlib import Path
from typing import Any

import click

from pan_scdg.logs import show_logs

FOLDER = click.Path(path_type=Path, file_okay=False)
FILE = click.Path(path_type=Path, dir_okay=False)
FILE_OR_STANDARD = click.Path(path_type=Path, dir_okay=False, allow_dash=True)
profile_option = click.option("--profile", default="offline", show_default=True, help="Shipped profile, or a file.")
device_option = click.option(
    "--device", type=click.Choice(["auto", "cpu", "cuda"]), default="auto", show_default=True, help="Where models run."
)
model_option = click.option("--model", type=FOLDER, help="Folder of the language model, instead of model_cache/NAME.")
state_option = click.option(
    "--state", type=FOLDER, envvar="PAN_SCDG_STATE", help="Keep what is computed here, for later runs too."
)
engine_option = click.option(
    "--engine",
    type=click.Choice(["packed", "reference"]),
    default="packed",
    show_default=True,
    help="How passes are computed: packed, or literally one at a time as in the paper.",
)
truth_option = click.option("--truth", type=click.Path(path_type=Path), help="Truth XML folder, or qrels file.")
over_long_option = click.option(
    "--over-long",
    type=click.Choice(["error", "segments"]),
    help="What to do with pairs over the profile's limit.  [default: as the profile says]",
)
on_error_option = click.option(
    "--on-error",
    type=click.Choice(["stop", "negative"]),
    default="stop",
    show_default=True,
    help="Stop when pairs cannot be scored, or decide those negative with the reason.",
)


def _share(_context: click.Context, _parameter: click.Parameter, value: str | None) -> Any:
    """A `scoring.batches.Share` of ``I/N``."""
    if value is None:
        return None
    from pan_scdg.scoring.batches import MOST, Share

    number, _, of = value.partition("/")
    short = len(value) <= 2 * len(str(MOST)) + 1  # a number of thousands of digits is not even converted
    if not (short and number.isdecimal() and of.isdecimal() and 1 <= int(number) <= int(of) <= MOST):
        raise click.BadParameter(f"{value[:40]!r} is not I/N with 1 <= I <= N <= {MOST}")
    return Share(int(number), int(of))


def _silence(_context: click.Context, _parameter: click.Parameter, quiet: bool) -> None:
    if quiet:
        show_logs(quiet=True)


quiet_option = click.option(
    "--quiet", is_flag=True, expose_value=False, callback=_silence, help="Show errors and warnings, but no progress."
)
vectors_option = click.option(
    "--vectors", type=FOLDER, help="Document vectors as .npy files, for a profile whose vectors were made elsewhere."
)
share_option = click.option(
    "--shard", "share", metavar="I/N", callback=_share, help="Score the I-th of N shares, for the command merge."
)


def chosen_profile(name: str, over_long: str | None = None) -> Any:
    """The profile, with the user's choice for over-long pairs."""

    from pan_scdg.profile import load_profile

    profile = load_profile(name)
    if over_long is None:
        return profile
    pairs = profile.need_pairs().model_copy(update={"over_long": over_long})
    return profile.model_copy(update={"pairs": pairs})
