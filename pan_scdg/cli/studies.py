"""The group ``studies``: what the tables of the paper are made from, and the tables; prepare, pairs, same-topic."""

from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from pan_scdg.cli.options import (
    FOLDER,
    chosen_profile,
    device_option,
    model_option,
    over_long_option,
    profile_option,
    state_option,
    vectors_option,
)
from pan_scdg.logs import say

if TYPE_CHECKING:
    from pan_scdg.research.data.data_folders import DataFolders

PARTS = ("pan25", "pan26", "multinews", "retention")
data_option = click.option("--data", type=FOLDER, help="Folder with pan25/, pan26/, multinews/.")
examples_option = click.option("--examples", is_flag=True, help="The shipped examples in the place of --data.")


@click.group()
def studies() -> None:
    """The studies of the paper, on your copy of the data.

    \b
    Example:
      python entrypoint.py studies prepare --examples --output out/prepared
    """


def _given(_context: click.Context, _parameter: click.Parameter, values: tuple[str, ...]) -> dict[str, Path]:
    """Paths by kind, of ``KIND=PATH``."""
    found = {}
    for value in values:
        kind, _, path = value.partition("=")
        if not path:
            raise click.BadParameter(f"{value!r} is not KIND=PATH")
        found[kind] = Path(path)
    return found


given_option = click.option(
    "--given", multiple=True, metavar="KIND=PATH", callback=_given, help="Take this file or folder; may be repeated."
)


def folders_of(data: Path | None, examples: bool) -> "DataFolders":
    """Where the data of a study is: ``--data``, or the examples; a UsageError unless it is just one of them."""
    from pan_scdg.research.data.data_folders import folders_in, shipped_examples

    if examples == (data is not None):
        raise click.UsageError("give either --data or --examples")
    return shipped_examples() if data is None else folders_in(data)


def check_places(
    output: Path, state: Path | None, data: Path | None, folders: "DataFolders", **more: Path | None
) -> None:
    """Raise UserError if a study would write where it reads, or the other way round; ``more`` is read, too."""
    from pan_scdg.jobs.targets import check_folders

    read = {f"--data, {name}/": path for name, path in folders._asdict().items()}
    check_folders(output, state, {"--data": data, **read, **{f"--{name}": path for name, path in more.items()}})


@studies.command()
@data_option
@examples_option
@profile_option
@click.option("--output", type=FOLDER, required=True, help="Where manifests, splits and their index are written.")
@click.option("--part", "parts", multiple=True, type=click.Choice(PARTS), help="Only this; may be repeated.")
@given_option
@model_option
@state_option
def prepare(
    data: Path | None,
    examples: bool,
    profile: str,
    output: Path,
    parts: tuple[str, ...],
    given: dict[str, Path],
    model: Path | None,
    state: Path | None,
) -> None:
    """Make the manifests, splits and folds of the studies, or take those that are there: ids, labels and counts, no
    text.

    \b
    DATA holds these folders, or those of them that are needed:
      pan25/      pairs, susp/, src/, truth XML; or several such folders
      pan26/      corpus.jsonl[.gz], queries.jsonl, qrels.txt
      multinews/  train.src.cleaned (or train.src)
    and, where there are ready ones, by KIND:
      pan25-manifest       pan25/manifest.jsonl, or under the paper's name
                           pan25val_filtered_normal_manifest_128k_6791.jsonl
      pan25-splits         pan25/splits/ with CSV files: pair_id, split
      pan26-folds          pan26/folds.jsonl: query_id, fold (0 is held out)
      pan26-pairs          pan26/pan2026_pairs_manifest.jsonl
      multinews-manifest   multinews/manifest.jsonl
      multinews-split      multinews/split.csv, or under the paper's name
                           multinews_split_manifest_seed20260714.csv
      retention-instances  retention/instances.jsonl
      retention-contexts   retention/intervention_manifest.jsonl, for studies retention

    What is ready is checked and taken; the rest is made, and index.json marks it as not the paper's. The length of
    pairs is measured with the tokenizer of the profile. Distractors of the retention study come from multinews/.

    \b
    Example:
      python entrypoint.py studies prepare --examples --output out/prepared
    """
    from pan_scdg.notices import Notices
    from pan_scdg.research.data.prepare import Sources
    from pan_scdg.research.data.prepare import prepare as make
    from pan_scdg.research.data.token_counts import TokenCounts
    from pan_scdg.research.retention.checks import checks_of
    from pan_scdg.store import Store

    folders = folders_of(data, examples)
    check_places(output, state, data, folders, model=model, **{f"given {kind}": path for kind, path in given.items()})
    chosen, notices = chosen_profile(profile), Notices()
    with ExitStack() as stack:

        def counts() -> TokenCounts:
            store = None if state is None else stack.enter_context(Store(state))
            return TokenCounts(chosen.need_model(), model, store)

        lines = make(Sources(folders, given, counts, checks_of, notices), parts, output)
    say(notices.lines())
    click.echo("\n".join([*lines, f"wrote {output}"]))


def _study_options(command: Callable[..., None]) -> Callable[..., None]:
    """The options of the studies that score pairs."""
    for option in reversed(
        (
            data_option,
            examples_option,
            profile_option,
            click.option("--output", type=FOLDER, required=True, help="Where the report is written."),
            click.option("--baseline", "more", multiple=True, metavar="PROFILE", help="Another row; may be repeated."),
            click.option(
                "--default-baselines/--no-default-baselines",
                "defaults",
                default=True,
                help="With or without the rows that need no --baseline.  [default: with]",
            ),
            given_option,
            state_option,
            device_option,
            model_option,
            over_long_option,
            vectors_option,
            click.option("--overwrite", is_flag=True, help="Redo a finished output."),
        )
    ):
        command = option(command)
    return command


def _options_of(
    data: Path | None, examples: bool, profile: str, baselines: tuple[str, ...], over_long: str | None, **rest: Any
) -> Any:
    """The `StudyOptions`; a baseline that is named twice is one."""
    from pan_scdg.research.pairs.job import StudyOptions

    chosen = tuple(chosen_profile(name) for name in dict.fromkeys(baselines))
    folders = folders_of(data, examples)
    given = {f"given {kind}": path for kind, path in rest["given"].items()}
    check_places(rest["output"], rest["state"], data, folders, **given, model=rest["model"], vectors=rest["vectors"])
    return StudyOptions(chosen_profile(profile, over_long), folders, baselines=chosen, **rest)


@studies.command()
@_study_options
def pairs(examples: bool, more: tuple[str, ...], defaults: bool, **rest: Any) -> None:
    """Every method on every split of the PAN25 pairs: thresholds chosen on training, eight measures on test.

    SCDG (Average and Top-q) is held against the lexical baselines, with --examples against MiniLM too, and against
    each --baseline. Manifest and splits are taken or made as by `studies prepare`. The report has one page, index.md.
    With --state pairs are scored once for all studies of one manifest, and a study that was stopped goes on.

    \b
    Example:
      python entrypoint.py studies pairs --examples --output out/pairs --state out/state
    """
    from pan_scdg.research.pairs.split_study import DEFAULT, OFFLINE, study_pairs

    usual = (*DEFAULT, *([OFFLINE] if examples else [])) if defaults else ()
    say(study_pairs(_options_of(examples=examples, baselines=(*usual, *more), **rest)))


@studies.command("same-topic")
@_study_options
def same_topic(more: tuple[str, ...], defaults: bool, **rest: Any) -> None:
    """How often a shared topic is taken for reuse: PAN25 pairs and pairs of news articles about one event.

    Models and thresholds are fitted on the training parts of both, the share of positive news pairs is measured on the
    test part. With the --state of `studies pairs` the PAN25 pairs are not scored again.

    \b
    Example:
      python entrypoint.py studies same-topic --examples --output out/same-topic --state out/state
    """
    from pan_scdg.research.pairs.same_topic import DEFAULT, study_same_topic

    say(study_same_topic(_options_of(baselines=(*(DEFAULT if defaults else ()), *more), **rest)))


COMMANDS = (studies,)
