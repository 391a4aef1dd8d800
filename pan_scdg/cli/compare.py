"""The command that holds two results side by side: compare."""

import json
import math
from pathlib import Path

import click

RESULT = click.Path(path_type=Path)


@click.command()
@click.argument("a", type=RESULT)
@click.argument("b", type=RESULT)
@click.option(
    "--score-tolerance",
    type=click.FloatRange(0),
    default=0.05,
    show_default=True,
    metavar="NATS",
    help="How near to its threshold a score is where the decision may turn, and how much scores of pairs may differ "
    "on average.",
)
@click.option(
    "--top10-changed",
    type=click.FloatRange(0, 1),
    default=0.05,
    show_default=True,
    metavar="SHARE",
    help="Share of the documents in all top 10s that may be others.",
)
@click.option("--exact", is_flag=True, help="Files that both have must have the same bytes.")
@click.option("--json", "as_json", is_flag=True, help="One JSON object instead of lines.")
@click.pass_context
def compare(
    context: click.Context, a: Path, b: Path, score_tolerance: float, top10_changed: float, exact: bool, as_json: bool
) -> None:
    """Did it reproduce? Hold the results A and B of one task side by side: outputs of run, TREC runs, or folders of
    detection XML.

    Reproduced means: the same bytes; or the same pairs or queries, within the tolerances, by jobs that differ in
    nothing but device, engine, dtype, attention or batches. On one machine one job gives the same bytes: ask for them
    with --exact. The last line is the verdict; the exit code is 0, or 1 when it did not reproduce.

    \b
    Example:
      pan-scdg compare out/first out/second
    """
    from pan_scdg.jobs.compare import Tolerances, compare_results

    if not all(map(math.isfinite, (score_tolerance, top10_changed))):
        raise click.UsageError("a tolerance must be a finite number")
    found = compare_results(a, b, Tolerances(score_tolerance, top10_changed), exact)
    # DEL is the one control character that JSON leaves as it is
    text = json.dumps(found.record()).replace("\x7f", "\\u007f") if as_json else "\n".join(found.lines())
    click.echo(text)
    if found.faults:
        context.exit(1)


COMMANDS = (compare,)
