"""The command compare."""

import json
import math
from pathlib import Path

import click

RESULT = click.Path(path_type=Path)


@click.command(short_help="Compare two results of one task.")
@click.argument("a", type=RESULT)
@click.argument("b", type=RESULT)
@click.option(
    "--score-tolerance",
    type=click.FloatRange(0),
    default=0.05,
    show_default=True,
    metavar="NATS",
    help="Largest distance of a score from the threshold if decisions differ, and largest mean difference of scores.",
)
@click.option(
    "--top10-changed",
    type=click.FloatRange(0, 1),
    default=0.05,
    show_default=True,
    metavar="SHARE",
    help="Largest share of documents that differ in all top 10s.",
)
@click.option("--exact", is_flag=True, help="Require identical bytes in all files that both results have.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
@click.pass_context
def compare(
    context: click.Context, a: Path, b: Path, score_tolerance: float, top10_changed: float, exact: bool, as_json: bool
) -> None:
    """Compare the results A and B of one task: outputs of run, TREC runs, or folders of detection XML.

    A result is reproduced if the bytes are the same, or if the jobs differ only in device, engine, dtype, attention or
    batches and the results differ within the tolerances. On one machine a job always gives the same bytes, which
    --exact requires. The last line is the verdict; the exit code is 0 if it is "reproduced", otherwise 1.

    \b
    Example:
      pan-scdg compare out/first out/second
    """
    from pan_scdg.jobs.compare import Tolerances, compare_results

    if not all(map(math.isfinite, (score_tolerance, top10_changed))):
        raise click.UsageError("a tolerance must be a finite number")
    found = compare_results(a, b, Tolerances(score_tolerance, top10_changed), exact)
    # DEL is the one control character that JSON leaves as it is
    text = json.dumps(found.to_json()).replace("\x7f", "\\u007f") if as_json else "\n".join(found.to_lines())
    click.echo(text)
    if found.faults:
        context.exit(1)


COMMANDS = (compare,)
