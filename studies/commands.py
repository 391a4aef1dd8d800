"""The group of commands ``studies``: prepare, pairs, same-topic, retrieval, cascade, retention."""

from functools import partial
from pathlib import Path
from typing import Any

import click

from pan_scdg.cli.options import (
    FOLDER,
    load_chosen_profile,
    over_long_option,
    overwrite_option,
    profile_option,
    vectors_option,
)
from pan_scdg.logs import say
from studies.data.folders import PARTS
from studies.options import (
    StudyCommand,
    add_options,
    add_study_options,
    find_folders,
    open_study,
    parse_items,
    show_study,
)


@click.group()
def studies() -> None:
    """Make the tables of the paper from your copy of its data.

    \b
    Example:
      pan-scdg studies prepare --examples --output out/prepared
    """


studies.command_class = StudyCommand


@studies.command(short_help="Prepare the manifests, splits and folds of the studies.")
@add_options(
    profile_option,
    click.option(
        "--part", "parts", multiple=True, type=click.Choice(PARTS), help="Prepare only this part. Repeatable."
    ),
    overwrite_option,
)
def prepare(
    data: Path | None,
    examples: bool,
    output: Path,
    profile: str,
    parts: tuple[str, ...],
    given: dict[str, Path],
    state: Path | None,
    model: Path | None,
    overwrite: bool,
) -> None:
    """Prepare the manifests, splits and folds of the studies, or check given ones.

    They hold ids, labels and counts, and no text.

    \b
    DATA holds these folders, or those of them that are needed:
      pan25/      pairs, susp/, src/, truth XML; or several such folders
      pan26/      corpus.jsonl[.gz], queries.jsonl, qrels.txt
      multinews/  train.src.cleaned (or train.src)

    \b
    Ready files are named with --given, by KIND:
      pan25-manifest       pairs in JSON Lines, with the fields of the paper
      pan25-splits         folder with CSV files: pair_id, split
      pan26-folds          JSON Lines: query_id, fold (0 is held out)
      multinews-manifest   pairs in JSON Lines
      multinews-split      CSV file: pair_id, split
      retention-instances  instances in JSON Lines

    They are checked and copied. The others are made, and index.json says that they are not the paper's. As in
    the paper, the tokenizer of Qwen3-8B-Base measures the length of pairs, or
    else that of the profile. Distractors of the retention study come from multinews/.

    \b
    Example:
      pan-scdg studies prepare --examples --output out/prepared
    """
    from studies.data.prepare import Sources
    from studies.data.prepare import prepare as make
    from studies.data.token_counter import count_tokens

    folders = find_folders(data, examples, output, state, model=model, given=given)
    settings = load_chosen_profile(profile).need_model()
    sources = Sources(folders, given, partial(count_tokens, settings=settings, model=model, state=state))
    lines = make(sources, parts, output, overwrite)
    say(sources.notices.list_warnings())
    click.echo("\n".join([*lines, f"wrote {output}"]))


_add_pair_options = add_study_options(
    profile_option,
    click.option("--baseline", "more", multiple=True, metavar="PROFILE", help="Add a baseline as a row. Repeatable."),
    click.option(
        "--default-baselines/--no-default-baselines",
        "defaults",
        default=True,
        show_default=True,
        help="Include the baselines that need no model.",
    ),
    over_long_option,
    vectors_option,
)


def _show_pair_study(
    name: str,
    write_sections: Any,
    profile: str,
    baselines: tuple[str, ...],
    over_long: str | None,
    vectors: Path | None,
    positions: tuple[str, ...] = (),
    **rest: Any,
) -> None:
    """Carry out or plan a study of pairs; a baseline that is named twice is one."""
    from studies.pairs.job import PairStudy, prepare_study

    scdg, with_news = load_chosen_profile(profile, over_long), name == "same-topic"
    options = open_study(scdg, rest, vectors=vectors)
    chosen = [load_chosen_profile(baseline) for baseline in dict.fromkeys(baselines)]
    study = PairStudy(name, scdg, chosen, vectors, options, with_news, write_sections, positions)
    show_study(options, lambda stack, notices: prepare_study(study, stack, notices))


@studies.command(short_help="Evaluate every method on splits of the PAN25 pairs.")
@_add_pair_options
@click.option(
    "--positions",
    multiple=True,
    type=click.Choice(["as-published", "extended", "yarn"]),
    help="Score with this position rule of the model. Repeatable: rows for each.  [default: as set in the profile]",
)
def pairs(examples: bool, more: tuple[str, ...], defaults: bool, **rest: Any) -> None:
    """Evaluate every method on every split of the PAN25 pairs: thresholds from training, eight measures on test.

    Compares SCDG (Average and Top-q) with the lexical baselines, with --examples also with MiniLM, and with each
    --baseline. Manifest and splits are those of `studies prepare`. The report has one page, index.md. With --state
    the pairs of a manifest are scored once for all studies, and a stopped study continues.

    \b
    Example:
      pan-scdg studies pairs --examples --output out/pairs --state out/state
    """
    from studies.pairs.split_study import DEFAULT, OFFLINE, write_sections

    usual = (*DEFAULT, *([OFFLINE] if examples else [])) if defaults else ()
    _show_pair_study("pairs", write_sections, baselines=(*usual, *more), examples=examples, **rest)


@studies.command("same-topic", short_help="Measure how often a shared topic is called reuse.")
@_add_pair_options
def same_topic(more: tuple[str, ...], defaults: bool, **rest: Any) -> None:
    """Measure how often a method calls a shared topic reuse, on PAN25 pairs and news articles about one event.

    Models and thresholds are fitted on the training parts of both; the share of positive news pairs is measured on the
    test part. With the --state of `studies pairs` the PAN25 pairs are not scored again.

    \b
    Example:
      pan-scdg studies same-topic --examples --output out/same-topic --state out/state
    """
    from studies.pairs.same_topic import DEFAULT, write_sections

    usual = DEFAULT if defaults else ()
    _show_pair_study("same-topic", write_sections, baselines=(*usual, *more), **rest)


index_option = click.option("--index", type=FOLDER, help="Folder of indexes that the command index has built.")


@studies.command(short_help="Evaluate first stages on PAN26, before and after SCDG.")
@add_study_options(
    profile_option,
    click.option("--row", "rows", multiple=True, metavar="PROFILE", help="Add a first stage as a row. Repeatable."),
    click.option(
        "--default-rows/--no-default-rows",
        "defaults",
        default=True,
        show_default=True,
        help="Include the rows of the profile's family.",
    ),
    click.option(
        "--run",
        "runs",
        multiple=True,
        metavar="NAME=PATH",
        callback=parse_items,
        help="Add a TREC run as a row. Repeatable.",
    ),
    click.option("--rerank", multiple=True, metavar="ROW", help="Rerank this row as well. Repeatable."),
    click.option("--search-on", metavar="ROW", help="Choose the configuration on this row.  [default: RRF]"),
    index_option,
)
def retrieval(
    profile: str,
    rows: tuple[str, ...],
    defaults: bool,
    runs: dict[str, Path],
    rerank: tuple[str, ...],
    search_on: str | None,
    index: Path | None,
    **rest: Any,
) -> None:
    """Evaluate first stages on the PAN26 data, before and after SCDG, with one configuration from development folds.

    A profile with the paper's encoder (pan26-qwen3-8b) has the paper's rows, another one the same rows with its own
    engines and encoder. Gains come from the profile's model, once for all rows. The grid of 108 configurations is
    searched on one row; its best configuration is evaluated on the hold-out and applied to every reranked row. The
    report has one page, index.md. With --state nothing is computed twice, and a stopped study continues.

    \b
    Example:
      pan-scdg studies retrieval --examples --output out/retrieval-study --state out/state
      pan-scdg studies retrieval --data my-data --profile pan26-qwen3-8b \\
          --run theirs=their-run.txt.gz --rerank theirs --output out --state state
    """
    from studies.retrieval.data import RetrievalStudy
    from studies.retrieval.job import prepare_retrieval
    from studies.retrieval.rows import choose_rows, list_defaults, make_profile_row

    chosen = load_chosen_profile(profile).rerank_by_gains_alone()
    options = open_study(chosen, rest, index=index, run=runs)
    firsts = list_defaults(chosen) if defaults else []
    firsts += [make_profile_row(load_chosen_profile(row), chosen) for row in rows]
    rankings, where = choose_rows(firsts, runs, rerank, search_on)
    study = RetrievalStudy(chosen, rankings, where, options, index)
    show_study(options, lambda stack, notices: prepare_retrieval(study, stack, notices))


@studies.command(short_help="Measure quality and cost of a small model before the large one.")
@add_study_options(
    profile_option,
    click.option("--candidates", type=click.Path(path_type=Path), help="TREC run that replaces the first stage."),
    index_option,
)
def cascade(profile: str, candidates: Path | None, index: Path | None, **rest: Any) -> None:
    """Measure the agreement of a cascade of two models with the large model alone, and the saved cost.

    The profile has a table [retrieval.cascade] with the small model. Both models score all candidates once. On one half
    of the judged queries the smallest head is chosen that keeps 99 % of the full run's nDCG@10; nDCG@10, agreement and
    tokens of the large model are reported on the other half. The report has one page, index.md. With --state nothing is
    scored twice, and a stopped study continues.

    \b
    Example:
      pan-scdg studies cascade --examples --profile examples/cascade.toml --output out/cascade-study --state out/state
    """
    from studies.retrieval.cascade import make_studies, prepare_cascade

    chosen = load_chosen_profile(profile)
    options = open_study(chosen, rest, index=index, candidates=candidates)
    both = make_studies(chosen, options, index, candidates)
    show_study(options, lambda stack, notices: prepare_cascade(both, stack, notices))


@studies.command(short_help="Measure gains as more of the evidence is in the context.")
@add_study_options(
    click.option(
        "--profile",
        "profiles",
        multiple=True,
        metavar="PROFILE",
        help="Profile of a model. Repeatable.  [default: offline]",
    ),
    click.option("--instances", type=click.IntRange(2), help="Use the first N instances.  [default: all, at most 300]"),
    click.option(
        "--seeds", type=click.IntRange(1, 5), default=5, show_default=True, help="Number of orders of chunks per pair."
    ),
)
def retention(profiles: tuple[str, ...], instances: int | None, seeds: int, **rest: Any) -> None:
    """Measure the gains of reused and of new text as more of the source evidence is in the context.

    Instances are those of `studies prepare --part retention`. Each is scored with contexts that keep 0, 25, 50, 75
    and 100 percent of its evidence, in five orders. Tables, the figure and the manifest of all contexts are in the
    report, whose page is index.md. With --state nothing is scored twice.

    \b
    Example:
      pan-scdg studies retention --examples --output out/retention --instances 4 --seeds 1
    """
    from studies.retention.job import RetentionStudy, prepare_retention

    chosen = [load_chosen_profile(name) for name in profiles or ("offline",)]
    options = open_study(chosen[0], rest)
    if options.computing.model is not None and len(chosen) > 1:
        raise click.UsageError("--model is the folder of one model, and several profiles were named")
    study = RetentionStudy(chosen, options, instances, seeds)
    show_study(options, lambda stack, notices: prepare_retention(study, stack, notices))
