"""The group of all commands."""

import click

from pan_scdg import __version__
from pan_scdg.cli.check import check
from pan_scdg.cli.models import models
from pan_scdg.cli.preflight import preflight
from pan_scdg.cli.reproduce import reproduce
from pan_scdg.cli.run import index, report, run
from pan_scdg.cli.score import score
from pan_scdg.cli.start import demo, prepare, profiles
from pan_scdg.cli.tira import tira
from pan_scdg.cli.truth import calibrate, evaluate
from pan_scdg.logs import show_logs


@click.group(context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 110})
@click.version_option(__version__)
@click.option("--quiet", is_flag=True, help="Show only errors and warnings, no progress.")
def cli(quiet: bool) -> None:
    """Find the sources that a suspicious document was written from.

    \b
    Example:
      pan-scdg run --input examples/pan25-pairs/test --output out
    """
    if quiet:
        show_logs(quiet=True)


for command in (
    calibrate,
    check,
    demo,
    evaluate,
    index,
    models,
    preflight,
    prepare,
    profiles,
    report,
    reproduce,
    run,
    score,
    tira,
):
    cli.add_command(command)
