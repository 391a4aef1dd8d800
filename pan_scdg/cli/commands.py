"""The group of all commands."""

import click

from pan_scdg.cli.check import check
from pan_scdg.cli.decide import decide
from pan_scdg.cli.models import models
from pan_scdg.cli.preflight import preflight
from pan_scdg.cli.reproduce import reproduce
from pan_scdg.cli.run import index, report, run
from pan_scdg.cli.score import score
from pan_scdg.cli.start import demo, prepare, profiles
from pan_scdg.cli.tira import tira
from pan_scdg.cli.truth import calibrate, evaluate
from pan_scdg.logs import show_logs
from pan_scdg.version import __version__


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


PAGES = {
    calibrate: "docs/data.md",
    check: "docs/check.md",
    decide: "docs/data.md",
    demo: "README.md",
    evaluate: "docs/data.md",
    index: "docs/data.md",
    models: "docs/large-models.md",
    preflight: "docs/large-models.md",
    prepare: "docs/data.md",
    profiles: "docs/profiles.md",
    report: "docs/check.md",
    reproduce: "docs/tira.md",
    run: "docs/data.md",
    score: "docs/data.md",
    tira: "docs/tira.md",
}
"""The page about each command, which its help names."""

for command, page in PAGES.items():
    cli.add_command(command)
    for one in (command, *(command.commands.values() if isinstance(command, click.Group) else ())):
        one.epilog = f"Documentation: {page}"
