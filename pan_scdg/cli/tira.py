"""The group tira: test submissions to TIRA and make them."""

import shlex
from collections.abc import Callable
from pathlib import Path
from typing import Any

import click

from pan_scdg.logs import say

MANIFEST = Path("tira.yml")
"""Lists the submissions of a repository, which is the current folder."""


@click.group(short_help="Test and make submissions to TIRA.")
def tira() -> None:
    """Test and make the submissions that tira.yml lists.

    \b
    Example:
      pan-scdg tira dry-run pan25-offline
    """


def add_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add the arguments and options of both commands."""
    path = click.Path(path_type=Path, dir_okay=False)
    command = click.option(
        "--profile", type=path, help="Calibrated profile to put into the image instead of the submission's."
    )(command)
    command = click.option("--method", type=path, help="File of its method, to put into the image, too.")(command)
    command = click.option("--build-args", help='Arguments of docker build: "--build-arg BASE_IMAGE=NAME".')(command)
    return click.argument("name", required=False)(command)


@tira.command("dry-run", short_help="Test a submission without uploading it.")
@add_options
def dry_run(**options: Any) -> None:
    """Build the image, run it on the data set of the submission NAME, and check the output without uploading it.

    Without NAME this lists the submissions.

    \b
    Example:
      pan-scdg tira dry-run pan25-offline
    """
    call_client(**options, dry_run=True)


@tira.command(short_help="Test a submission and upload it.")
@add_options
def submit(**options: Any) -> None:
    """Test the submission NAME and upload it. Log in first (tira-cli login), and commit all changes.

    Without NAME this lists the submissions.

    \b
    Example:
      pan-scdg tira submit pan25-offline
    """
    call_client(**options, dry_run=False)


def call_client(
    name: str | None, profile: Path | None, method: Path | None, build_args: str | None, *, dry_run: bool
) -> None:
    """Print the command line of tira-cli and run it; without a name, list the submissions."""
    from pan_scdg.jobs.tira import choose_submission, list_images, make_call, put_files, read_manifest, run_client
    from pan_scdg.methods import register_method

    submissions = read_manifest(MANIFEST)
    if name is None:
        for key, entry in submissions.items():
            click.echo(f"{key:20} {entry.task}, profile {entry.profile}")
        return
    repository = Path.cwd()
    if method is not None:
        if profile is None:
            raise click.UsageError("--method needs --profile, the calibrated profile of the method")
        register_method(method)
    entry = choose_submission(submissions, name, MANIFEST, profile, method)
    words = make_call(entry, repository, dry_run, build_args)
    with put_files([file for file in (profile, method) if file is not None], repository):
        say([shlex.join(words)])
        former = list_images()
        try:
            run_client(words)
        finally:
            for image in sorted(list_images() - former):
                say([f"note: the client left the image {image}; `docker rmi {image}` removes it"])
