"""The commands profiles, prepare and demo."""

from pathlib import Path

import click

from pan_scdg.cli.options import FILE, FOLDER, device_option

MAIN_PROFILES = ("offline", "pan25-qwen3-0.6b", "pan25-qwen3-8b", "pan25-containment", "pan26-qwen3-8b")
"""The profiles that most users need: the default, pairs on a small and a large GPU, a simple method, and retrieval."""


@click.command(short_help="List the bundled profiles.")
@click.option("--all", "show_all", is_flag=True, help="List all profiles instead of the most important ones.")
def profiles(show_all: bool) -> None:
    """List the bundled profiles with the licences of the models that they need.

    \b
    Example:
      pan-scdg profiles --all
    """
    from pan_scdg.profile import list_profiles, load_profile

    names = list_profiles()
    shown = names if show_all else [name for name in MAIN_PROFILES if name in names]
    known = {name: load_profile(name) for name in shown}
    width = max(map(len, shown))
    for name, profile in known.items():
        under = profile.list_licences()
        click.echo(f"{name:{width}} {profile.description}{f' [{under}]' if under else ''}")
    if len(shown) < len(names):
        click.echo(f"{len(names) - len(shown)} more: pan-scdg profiles --all")


@click.command(short_help="Turn a table of pairs into an input folder.")
@click.option(
    "--table",
    type=FILE,
    required=True,
    help="CSV, JSON Lines or Parquet file with the suspicious and the source file or text of each pair.",
)
@click.option("--output", type=FOLDER, required=True, help="Input folder to create.")
def prepare(table: Path, output: Path) -> None:
    """Turn a table of pairs into an input folder with safe ids. Results show the original names.

    \b
    Example:
      pan-scdg prepare --table pairs.csv --output my-pairs
    """
    from pan_scdg.pan.prepare import prepare_pairs as make

    click.echo(f"{make(table, output)} pairs in {output}")


@click.command(short_help="Run both tasks on the bundled examples.")
@click.option(
    "--output",
    type=FOLDER,
    default=Path("demo-output"),
    show_default=True,
    help="Folder of the results.",
)
@device_option
def demo(output: Path, device: str) -> None:
    """Explain one decision, then run part of both tasks on the bundled examples, in about a minute.

    \b
    Example:
      pan-scdg demo
    """
    from pan_scdg.cli.demo import run_demo
    from pan_scdg.jobs.options import choose_device
    from pan_scdg.profile import load_profile

    for part in run_demo(output, choose_device(load_profile("offline"), device)):
        click.echo(part)
