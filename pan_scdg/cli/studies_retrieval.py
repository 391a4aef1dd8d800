"""The command ``studies retrieval``."""

from pathlib import Path

import click

from pan_scdg.cli.options import (
    FOLDER,
    chosen_profile,
    device_option,
    model_option,
    profile_option,
    state_option,
)
from pan_scdg.cli.studies import check_places, data_option, examples_option, folders_of, given_option
from pan_scdg.logs import say


def _runs(_context: click.Context, _parameter: click.Parameter, values: tuple[str, ...]) -> dict[str, Path]:
    """Runs by the names of their rows, of ``NAME=PATH``."""
    found: dict[str, Path] = {}
    for value in values:
        name, _, path = value.partition("=")
        if not path or not name.strip() or name in found:
            raise click.BadParameter(f"{value!r} is not NAME=PATH with a name of its own")
        found[name] = Path(path)
    return found


@click.command()
@data_option
@examples_option
@profile_option
@click.option("--output", type=FOLDER, required=True, help="Where the report is written.")
@click.option("--row", "rows", multiple=True, metavar="PROFILE", help="Another first stage; may be repeated.")
@click.option("--default-rows/--no-default-rows", "defaults", default=True, show_default=True)
@click.option(
    "--run", "runs", multiple=True, metavar="NAME=PATH", callback=_runs, help="A TREC run as a row; may be repeated."
)
@click.option("--rerank", multiple=True, metavar="ROW", help="Rerank this row, too; may be repeated.")
@click.option("--search-on", metavar="ROW", help="Where the configuration is chosen.  [default: RRF]")
@given_option
@click.option("--index", type=FOLDER, help="Ready indexes, made with the command index.")
@state_option
@device_option
@model_option
@click.option("--overwrite", is_flag=True, help="Redo a finished output.")
def retrieval(
    data: Path | None,
    examples: bool,
    profile: str,
    output: Path,
    rows: tuple[str, ...],
    defaults: bool,
    runs: dict[str, Path],
    rerank: tuple[str, ...],
    search_on: str | None,
    given: dict[str, Path],
    index: Path | None,
    state: Path | None,
    device: str,
    model: Path | None,
    overwrite: bool,
) -> None:
    """First stages on the PAN26 data, before and after SCDG, with one configuration chosen on the development folds.

    A profile with the paper's encoder (pan26-qwen3-8b) has the paper's rows, another one the same rows with its own
    engines and encoder. The gains are those of its model, and are scored once for all rows. The grid of 108
    configurations is searched on one row, its best configuration is held against the hold-out and applied to every
    row that is reranked. The report has one page, index.md. With --state nothing that was computed before is computed
    again, and a study that was stopped goes on.

    \b
    Example:
      python entrypoint.py studies retrieval --examples --output out/retrieval-study --state out/state
      python entrypoint.py studies retrieval --data my-data --profile pan26-qwen3-8b \\
          --run theirs=their-run.txt.gz --rerank theirs --output out --state state
    """
    from pan_scdg.jobs.options import RunOptions
    from pan_scdg.models.fit import choose_device, search_memory
    from pan_scdg.research.retrieval.entries import all_entries, default_entries, row_entry
    from pan_scdg.research.retrieval.job import Request, study_retrieval

    folders = folders_of(data, examples)
    more = {f"given {kind}": path for kind, path in given.items()} | {f"run {row}": run for row, run in runs.items()}
    check_places(output, state, data, folders, model=model, index=index, **more)
    chosen = chosen_profile(profile)
    firsts = [*(default_entries(chosen) if defaults else []), *(row_entry(chosen_profile(r), chosen) for r in rows)]
    entries, where = all_entries(firsts, runs, rerank, search_on)
    options = RunOptions(
        folders.pan26,
        output,
        choose_device(chosen, device),
        state=state,
        model=model,
        index=index,
        overwrite=overwrite,
        search_memory=search_memory(),
    )
    say(study_retrieval(Request(chosen, entries, where, folders, given, options)))
