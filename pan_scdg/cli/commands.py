"""The command line: each command parses, calls one function and prints. See the README for worked examples."""

import click

from pan_scdg import __version__
from pan_scdg.cli import compare, jobs, shelf, studies, studies_retention, studies_retrieval, tira, truth
from pan_scdg.cli.options import quiet_option


@click.group(context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 110})
@click.version_option(__version__)
@quiet_option
def cli() -> None:
    """Which sources was a suspicious document written from?

    \b
    Example:
      python entrypoint.py run --input examples/pan25-pairs/test --output out
    """


studies.studies.add_command(studies_retrieval.retrieval)
studies.studies.add_command(studies_retention.retention)
for module in (jobs, truth, compare, studies, shelf, tira):
    for command in module.COMMANDS:
        cli.add_command(command)
