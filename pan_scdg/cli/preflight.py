"""The command preflight."""

from pathlib import Path

import click

from pan_scdg.cli.options import FOLDER, device_option, profile_option

LOG = "preflight.txt"


@click.command(short_help="Try what a long run on this machine needs.")
@profile_option
@click.option("--output", type=FOLDER, envvar="outputDir", required=True, help=f"Folder of the log {LOG}.")
@click.option(
    "--input",
    "directory",
    type=FOLDER,
    envvar="inputDataset",
    help="Input folder, for an estimate of the hours that it takes.",
)
@click.option(
    "--deadline",
    type=click.FloatRange(0, min_open=True),
    metavar="HOURS",
    envvar="PAN_SCDG_DEADLINE",
    default=24,
    show_default=True,
    help="Hours that the run may take.",
)
@device_option
@click.pass_context
def preflight(
    context: click.Context, profile: str, output: Path, directory: Path | None, deadline: float, device: str
) -> None:
    """Try device, driver, memory, models, attention and speed in some minutes.

    The last line is "ready" (exit code 0) or "not ready" (exit code 2).

    \b
    Example:
      pan-scdg preflight --output out/preflight
    """
    from pan_scdg.jobs.preflight import Preflight
    from pan_scdg.profile import load_profile

    output.mkdir(parents=True, exist_ok=True)
    with open(output / LOG, "w", encoding="utf-8") as log:

        def show(line: str) -> None:
            click.echo(line)
            print(line, file=log, flush=True)

        is_ready = Preflight(load_profile(profile), device, output, directory, deadline, show=show).run()
    context.exit(0 if is_ready else 2)
