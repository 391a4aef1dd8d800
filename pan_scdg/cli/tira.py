"""The group tira: test submissions to TIRA and make them."""

import shlex
import subprocess
from pathlib import Path

import click

from pan_scdg.cli.options import quiet_option
from pan_scdg.errors import UserError
from pan_scdg.logs import say

manifest_option = click.option(
    "--manifest",
    type=click.Path(path_type=Path, dir_okay=False),
    default=Path("tira.yml"),
    show_default=True,
    help="File that lists the submissions.",
)
build_option = click.option("--build-args", help='Arguments of docker build, such as "--build-arg BASE_IMAGE=NAME".')
name_argument = click.argument("name", required=False)


@click.group(short_help="Test and make submissions to TIRA.")
def tira() -> None:
    """Test and make the submissions that tira.yml lists.

    \b
    Example:
      pan-scdg tira dry-run pan25-offline
    """


@tira.command("dry-run", short_help="Test a submission without uploading it.")
@name_argument
@manifest_option
@build_option
@quiet_option
def dry_run(name: str | None, manifest: Path, build_args: str | None) -> None:
    """Build the image, run it on the data set of the submission NAME and check the output; upload nothing.

    Without NAME this lists the submissions.

    \b
    Example:
      pan-scdg tira dry-run pan25-offline
    """
    call_client(name, manifest, build_args, True)


@tira.command(short_help="Test a submission and upload it.")
@name_argument
@manifest_option
@build_option
@quiet_option
def submit(name: str | None, manifest: Path, build_args: str | None) -> None:
    """Test the submission NAME and upload it; needs a login (tira-cli login) and a clean git work tree.

    Without NAME this lists the submissions.

    \b
    Example:
      pan-scdg tira submit pan25-offline
    """
    call_client(name, manifest, build_args, False)


def call_client(name: str | None, manifest: Path, build_args: str | None, dry: bool) -> None:
    """Print the command line of tira-cli and run it."""
    from pan_scdg.jobs.tira import choose_submission, make_call, read_manifest

    submissions = read_manifest(manifest)
    if name is None:
        for key, entry in submissions.items():
            click.echo(f"{key:20} {entry.task}, profile {entry.profile}")
        return
    words = make_call(choose_submission(submissions, name, manifest), manifest.resolve().parent, dry, build_args)
    say([shlex.join(words)])
    code = subprocess.run(words, check=False).returncode
    if code:
        raise UserError(f"tira-cli ended with {code}", "see its message above")
