"""The command line of the studies: ``python -m studies COMMAND``."""

import signal
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import click

from pan_scdg.cli.options import method_option
from pan_scdg.errors import UserError, need_packages
from pan_scdg.logs import say, say_error, say_stopped, show_logs

PATH = click.Path(path_type=Path)
PARTS = ("pan25", "pan26", "multinews", "retention")
TABLES = ("pairs", "same-topic", "retrieval", "retention")
Decorator = Callable[[Any], Any]


def add_options(*options: Decorator) -> Decorator:
    """Return a decorator that adds ``options``, and those of all commands that write a folder."""
    folder = click.option("--output", type=PATH, required=True, help="Folder to write.")
    overwrite = click.option("--overwrite", is_flag=True, help="Replace a former output.")

    def add(command: Any) -> Any:
        for option in reversed((*options, folder, overwrite)):
            command = option(command)
        return command

    return add


prepared_option = click.option("--prepared", type=PATH, required=True, help="Folder that `prepare` wrote.")
missing_option = click.option(
    "--missing", multiple=True, metavar="NAME", help="Name a row that has no result in the tables. Repeatable."
)
results_argument = click.argument("results", nargs=-1, required=True, metavar="[NAME=]FOLDER...")


@click.group(context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 110})
@method_option
def cli() -> None:
    """Make the tables and figures of the paper from the results of `pan-scdg run`.

    \b
    Example:
      python -m studies prepare --examples --output out/prepared
    """


@cli.command()
@add_options(
    click.option("--data", type=PATH, help="Folder with pan25/, pan26/ and multinews/."),
    click.option("--examples", is_flag=True, help="Read the bundled examples instead of --data."),
    click.option("--part", "parts", multiple=True, type=click.Choice(PARTS), help="Prepare only this. Repeatable."),
    click.option("--authors", type=PATH, help="Folder of the authors' files, which replace what is drawn here."),
    click.option("--tokenizer", type=PATH, help="Folder of the tokenizer that measures the length of pairs."),
    click.option("--instances", type=click.IntRange(2), default=300, show_default=True, help="Of the retention study."),
    click.option("--seeds", type=click.IntRange(1, 5), default=5, show_default=True, help="Of each instance."),
)
def prepare(data: Path | None, examples: bool, parts: tuple[str, ...], output: Path, **options: Any) -> None:
    """Write the data of the studies as folders that `run` takes, with manifests, splits and folds.

    \b
    DATA holds these folders, or those of them that are needed:
      pan25/      the corpus of PAN 2025 with its truth, as its archive unpacks
      pan26/      corpus.jsonl[.gz], queries.jsonl, qrels.txt
      multinews/  train.src.cleaned (or train.src)

    """
    from studies.corpora import find_data, find_examples
    from studies.prepare import prepare as write

    if examples == (data is not None):
        raise click.UsageError("give either --data or --examples")
    folders = find_examples() if data is None else find_data(data)
    say(write(folders, output, parts, **options))
    click.echo(f"wrote {output / 'index.md'}")


@cli.command()
@add_options(
    prepared_option,
    missing_option,
    click.argument("results", nargs=-1, required=True, metavar="[NAME=]PATH..."),
)
def pairs(**options: Any) -> None:
    """Evaluate every method on every split of the PAN25 pairs: thresholds from training, eight measures on test.

    Each PATH is a result of `run --scores-only` on the folder pan25, one for each method, or a file of scores by
    another program: pair_id,score and, of gains, top_1,top_2 and so on, as CSV with a header or JSON Lines.
    """
    from studies.archived import read_archive
    from studies.pairs import study_pairs

    _write_study(study_pairs, read_archive, **options)


@cli.command("same-topic")
@add_options(prepared_option, missing_option, results_argument)
def same_topic(**options: Any) -> None:
    """Measure how often a method calls a shared topic reuse, on PAN25 pairs and news articles about one event.

    The FOLDERs are results of `run --scores-only` on pan25 and on multinews, two for each method, in any order.
    """
    from studies.same_topic import study_same_topic

    _write_study(study_same_topic, **options)


@cli.command()
@add_options(
    prepared_option,
    missing_option,
    click.option("--allow-incomplete", is_flag=True, help="Leave out the pairs of an incomplete run: for a look only."),
    results_argument,
)
def retention(**options: Any) -> None:
    """Measure the gains of reused and of new text as more of the source evidence is in the context.

    Each FOLDER is a result of `run --scores-only --keep-gains` on the folder retention, one for each language model.
    """
    from studies.retention import study_retention

    need_packages("studies", "statsmodels", "matplotlib")
    _write_study(study_retention, **options)


def _write_study(
    study: Callable[..., None],
    read_file: Callable[[str], Any] | None = None,
    *,
    results: tuple[str, ...],
    output: Path,
    **options: Any,
) -> None:
    """Write a study on results, and on files if ``read_file`` reads them."""
    from studies.results import read_result, split_name

    def open_path(argument: str) -> Any:
        return (
            read_file(argument) if read_file and split_name(argument)[1].is_file() else read_result(argument, "pairs")
        )

    study(results=[open_path(argument) for argument in results], output=output, **options)
    click.echo(f"wrote {output / 'index.md'}")


@cli.command()
@add_options(
    click.option("--data", type=PATH, required=True, help="Folder with queries.jsonl and qrels.txt."),
    click.option("--folds", "folds_file", type=PATH, required=True, help="Folds of the queries, in JSON Lines."),
    click.option("--gains", "more_gains", multiple=True, metavar="FOLDER", help="Result with more gains. Repeatable."),
    click.option("--rerank", "reranked", multiple=True, metavar="NAME", help="Rerank this row as well. Repeatable."),
    missing_option,
    click.option("--search-on", metavar="NAME", help="Choose the configuration here.  [default: the first reranked]"),
    click.argument("rows", nargs=-1, required=True, metavar="[NAME=]PATH..."),
)
def retrieval(output: Path, **options: Any) -> None:
    """Evaluate first stages on PAN26, before and after SCDG, with one configuration from the development folds.

    Each PATH is a row: the result of `run` with a pan26 profile, or a TREC run. A result with gains is reranked.
    """
    from studies.retrieval import study_retrieval

    study_retrieval(output=output, **options)
    click.echo(f"wrote {output / 'index.md'}")


@cli.command()
@click.option("--scored", multiple=True, required=True, metavar="FOLDER", help="Result that has gains. Repeatable.")
@click.option("--output", type=PATH, required=True, help="TREC run to write (.txt.gz), for `run --candidates`.")
@click.argument("row", metavar="PATH")
def rest(row: str, scored: tuple[str, ...], output: Path) -> None:
    """Write the candidates of a first stage that no result has scored yet, so that none is scored twice."""
    from studies.retrieval import write_rest

    click.echo(f"wrote {output}: {write_rest(row, scored, output)} candidates")


@cli.command()
@click.option("--data", type=PATH, help="Folder with pan25/, pan26/ and multinews/.")
@click.option("--examples", is_flag=True, help="Read the bundled examples instead of --data, with small models.")
@click.option("--output", type=PATH, required=True, help="Folder of all outputs.")
@click.option("--only", type=click.Choice(TABLES), help="Make this table alone.")
@click.option("--authors", type=PATH, help="Folder of the authors' files; see `prepare`.")
@click.option("--plan", is_flag=True, help="Show what each row needs and what is missing here, and run nothing.")
@click.argument("run_options", nargs=-1, type=click.UNPROCESSED, metavar="[-- RUN OPTIONS]")
def paper(
    data: Path | None,
    examples: bool,
    output: Path,
    only: str | None,
    authors: Path | None,
    plan: bool,
    run_options: tuple[str, ...],
) -> None:
    """Make all tables: run the commands of docs/studies.md that are not complete, in their order.

    After a stop, repeat the command. Options after -- are added to `pan-scdg run` and `index`.

    \b
    Example:
      python -m studies paper --examples --output out/paper-examples
    """
    from pan_scdg.bundled import find_bundled
    from studies.paper import EXAMPLES, PAPER, study_paper

    if examples == (data is not None):
        raise click.UsageError("give either --data or --examples")
    if data is not None and not data.is_dir():
        raise UserError("the directory does not exist", "correct --data", data)
    rows = EXAMPLES if data is None else PAPER
    if authors is not None:
        rows = rows._replace(prepare=(*rows.prepare, "--authors", str(authors)))
    where = str(find_bundled("examples") if data is None else data)
    study_paper(rows, where, output, only, run_options, plan, click.echo)


def main(arguments: list[str] | None = None) -> int:
    """Run a command; return the exit code: 0 done, 2 wrong input or options, 3 stopped. A fault is a line on stderr."""
    show_logs()
    try:
        cli.main(arguments, prog_name="python -m studies", standalone_mode=False)
    except click.exceptions.NoArgsIsHelpError as e:
        click.echo(e.format_message(), err=True)
        return 2
    except click.exceptions.Abort:
        say_stopped()
        return 3
    except (click.ClickException, UserError, OSError) as e:
        if isinstance(e, click.ClickException):
            text = f"{e.format_message().rstrip('.')}; see --help"
        else:
            text = str(e) if isinstance(e, UserError) else f"{e.filename or 'disk'}: {e.strerror}; correct that"
        for line in text.split("\n"):
            say_error(line)
        return 2
    return 0


if __name__ == "__main__":
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # `paper` stops the command that it runs
    sys.exit(main())
