"""The commands that try and make submissions to TIRA."""

import shlex
import subprocess
from pathlib import Path

import click

from pan_scdg.errors import UserError
from pan_scdg.logs import say

manifest_option = click.option(
    "--manifest", type=click.Path(path_type=Path, dir_okay=False), default=Path("tira.yml"), show_default=True
)
build_option = click.option("--build-args", help='For docker build, such as "--build-arg BASE_IMAGE=NAME".')
name_argument = click.argument("name", required=False)


@click.group()
def tira() -> None:
    """Try and make the submissions that tira.yml lists.

    \b
    Example:
      pan-scdg tira dry-run pan25-offline
    """


@tira.command("dry-run")
@name_argument
@manifest_option
@build_option
def dry_run(name: str | None, manifest: Path, build_args: str | None) -> None:
    """Build the image, run it on the data set of the submission NAME and check the output; upload nothing.

    Without NAME the submissions are listed.

    \b
    Example:
      pan-scdg tira dry-run pan25-offline
    """
    _call(name, manifest, build_args, True)


@tira.command()
@name_argument
@manifest_option
@build_option
def submit(name: str | None, manifest: Path, build_args: str | None) -> None:
    """Do the same and upload the submission NAME; needs your login (tira-cli login) and a clean git work tree.

    Without NAME the submissions are listed.

    \b
    Example:
      pan-scdg tira submit pan25-offline
    """
    _call(name, manifest, build_args, False)


def _call(name: str | None, manifest: Path, build_args: str | None, dry: bool) -> None:
    """Print the call and make it; its exit code becomes ours."""
    from pan_scdg.jobs.tira import call_of, chosen, read_manifest

    submissions = read_manifest(manifest)
    if name is None:
        for key, entry in submissions.items():
            click.echo(f"{key:20} {entry.task}, profile {entry.profile}")
        return
    words = call_of(chosen(submissions, name, manifest), manifest.resolve().parent, dry, build_args)
    say([shlex.join(words)])
    code = subprocess.run(words, check=False).returncode
    if code:
        raise UserError(f"tira-cli ended with {code}", "correct what it says above")


COMMANDS = (tira,)
