"""``studies cascade``: the candidates that a small model leaves to the large one, and the saved cost."""

from collections.abc import Container, Iterator, Mapping
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

from pan_scdg.errors import UserError
from pan_scdg.jobs.lifecycle import Scored
from pan_scdg.jobs.output.directory import OutputDirectory
from pan_scdg.jobs.plan.count import count_candidates
from pan_scdg.jobs.plan.estimate import Plan
from pan_scdg.jobs.plan.gpus import count_operations
from pan_scdg.notices import Notices
from pan_scdg.profile import Profile
from studies.data.queries import make_folds
from studies.report.page import Section, write_report
from studies.report.table import Table, make_table
from studies.retrieval.comparison import make_runs
from studies.retrieval.data import Data, RetrievalStudy, Stages, list_documents, read_data, split_qrels
from studies.retrieval.heads import ENOUGH, Agreement, Simulation, choose_head, compute_mean, measure_ndcg
from studies.retrieval.job import (
    Reranker,
    describe_scoring,
    find_places,
    find_stages,
    name_stage_files,
    open_reranker,
    plan_scoring,
    score_rows,
)
from studies.retrieval.report import write_gains, write_runs
from studies.retrieval.rows import Ranking, make_profile_row
from studies.study import ReadyStudy, StudyOptions, describe_lost, note_lost
from pan_scdg.scoring.batches import Shard
from pan_scdg.scoring.reranking import rank_queries
from pan_scdg.store import Store

TASK = "studies cascade"
Cost = tuple[float, float | None]
"""Tokens, and floating-point operations if they are known."""


def make_studies(
    profile: Profile, options: StudyOptions, index: Path | None, candidates: Path | None
) -> tuple[RetrievalStudy, RetrievalStudy]:
    """Return the studies of both models of a profile's cascade, whose head is not used: the same candidates.

    ``candidates`` is a TREC run that replaces the profile's first stage.

    Raises:
        UserError: the profile has no cascade, or a manifest is given.
    """
    small, large = profile.make_small_profile(), profile.rerank_by_gains_alone()
    if small is None:
        remedy = "add it with the small model (docs/profiles.md), or choose another profile"
        raise UserError(f"profile {profile.name} has no table [retrieval.cascade]", remedy, "--profile")
    if options.given:
        raise UserError(f"{min(options.given)!r} is not used by this study", "leave it out", "--given")
    given = candidates and Ranking(profile.name, run=candidates, reranked=True)
    study = RetrievalStudy(large, [given or make_profile_row(large, large)], profile.name, options, index)
    # --model is the folder of the large model
    options = replace(options, computing=replace(options.computing, model=None))
    others = replace(study, profile=small.rerank_by_gains_alone(), options=options)
    return study, others


class _Work(NamedTuple):
    """The data and both models, checked, before anything is computed or written."""

    data: Data
    """With folds of judged queries: fold 0 is the half that is reported on."""
    large: Reranker
    """With the model of the profile."""
    small: Reranker
    """With the model of its cascade."""


def prepare_cascade(studies: tuple[RetrievalStudy, RetrievalStudy], stack: ExitStack, notices: Notices) -> ReadyStudy:
    """Read the data, find both models, and tokenise the queries with both.

    Raises:
        UserError: data or models are not usable.
    """
    study, others = studies
    options = study.options
    data = read_data(study, False, notices)
    data = data._replace(folds=make_folds(sorted(data.qrels), count=2))
    split_qrels(data.qrels, data.folds)
    large, lost = open_reranker(study, data.queries, stack, notices)
    small, more = open_reranker(others, data.queries, stack, notices, "small_model")
    if lost := {**lost, **more}:
        data = data.leave_out(lost)
    large, small = (of._replace(targets=[t for t in of.targets if t.query_id not in lost]) for of in (large, small))
    work, places = _Work(data, large, small), find_places(study, large)
    scoring = {**describe_scoring(study, data, large, places), "task": TASK}
    scoring["models"] |= {"small_model": small.model.identify()}
    scoring["small_profile"] = others.profile.model_dump(mode="json", exclude={"needs_gpu"})
    return ReadyStudy(
        scoring=scoring,
        places={**places, "small_model": small.model.found},
        models=[small.model, large.model],
        inputs=f"a cascade on {len(data.queries)} queries",
        summary=[f"studied a cascade on {len(data.queries)} queries: {options.output}"],
        notices=notices,
        notes=note_lost(len(data.lost), "queries"),
        score=lambda store, shard: _score(work, store, shard),
        write=lambda scored, store, result: _write(work, scored.values, store, result),
        plan=lambda: _plan(work),
    )


def _plan(work: _Work) -> list[Plan]:
    plans = []
    for name, reranker in (("small", work.small), ("large", work.large)):
        plans.append(plan_scoring(work.data, reranker, f"{TASK}, {name} model"))
        reranker.model.unload()
    return plans


def _score(work: _Work, store: Store, shard: Shard) -> Scored:
    """Search, and score the candidates of a shard with both models."""
    study, data = work.large.study, work.data
    (row,) = study.rows
    stages = find_stages(study, data, store)[row.name]
    small, large = (score_rows(data, of, {row.name: stages}, store, shard) for of in (work.small, work.large))
    return Scored((stages, small, large), dict.fromkeys(name_stage_files(study).values(), stages))


def _write(work: _Work, values: Any, store: Store, result: OutputDirectory) -> list[str]:
    """Choose the head on one half of the judged queries, and measure it on the other; return the staged files."""
    (stages, small, large), folder = values, result.staged
    order = rank_queries(stages, small, work.small.study.profile.need_retrieval(), store).rankings
    simulation = Simulation(stages, order, large, work.large.study.profile.need_retrieval(), store)
    chosen_on, reported = split_qrels(work.data.qrels, work.data.folds)
    sizes = {head: compute_mean(measure_ndcg(chosen_on, simulation.rank(head))) for head in simulation.list_sizes()}
    full = compute_mean(measure_ndcg(chosen_on, simulation.full))
    head = choose_head(sizes, full)
    cascade = {} if head is None else {f"Cascade, head = {head}": simulation.rank(head)}
    orders = {
        "First stage": list_documents(stages),
        "Small model alone": simulation.small,
        **cascade,
        "Full run": simulation.full,
    }
    files = write_runs(folder, [(name, make_runs(of)) for name, of in orders.items()])
    files += write_gains(folder, small, "scores/small.jsonl.gz")
    files += write_gains(folder, large, "scores/large.jsonl.gz")
    rows = {name: simulation.compare(reported, of) for name, of in orders.items()}
    heads = None if head is None else _measure_cost(work, work.large, simulation.cut(head).heads, reported)
    costs = _measure_cost(work, work.large, stages, reported), heads, _measure_cost(work, work.small, stages, reported)
    others = f"on the other {len(reported)} queries"
    sections = [
        Section("Method", list(_describe_study(work, len(chosen_on), len(reported)))),
        Section("Choice of the head", [_describe_choice(head)], tables=[_make_size_table(sizes, full, len(chosen_on))]),
        Section(
            "Agreement with the full run",
            tables=[_make_row_table(rows, f"Means {others}, with 95 % bootstrap intervals over queries")],
        ),
        Section("Cost", tables=[_make_cost_table(*costs, f"Scoring {others}")]),
        Section("Limits", points=list(_list_limits(work.data.lost, len(chosen_on) + len(reported)))),
    ]
    made_from = {"study": "cascade", **result.job}
    return write_report(folder, "A small model before the large one", sections, files, made_from)


def _measure_cost(work: _Work, reranker: Reranker, candidates: Stages, queries: Container[str]) -> Cost:
    settings = reranker.study.profile.need_retrieval()
    targets = [target for target in reranker.targets if target.query_id in queries]
    counted = count_candidates(work.data.corpus, targets, candidates, 0, settings, reranker.model, sampled=None)
    tokens = counted.tokens.full if reranker.study.options.computing.engine == "reference" else counted.tokens.packed
    return tokens, count_operations(reranker.model.config, counted.tokens)


def _describe_study(work: _Work, chosen_on: int, reported: int) -> Iterator[str]:
    profile = work.large.study.profile
    small, large = work.small.study.profile.need_model().name, profile.need_model().name
    yield (
        f"{small} and {large} score the same candidates, with the settings of the profile {profile.name}. In a "
        f"cascade {large} scores the head of the ranking by {small} only, and the other candidates keep the order of "
        f"{small}. Cascades are computed from the gains of the full runs: a run of the cascade computes other batches, "
        "so that last digits differ."
    )
    yield (
        f"{len(work.data.corpus)} documents. The judged queries are halved at random with a fixed seed: the head is "
        f"chosen on {chosen_on} of them and measured on the other {reported}. nDCG has gains "
        "2^grade - 1; a judged query without candidates counts 0."
    )


def _describe_choice(head: int | None) -> str:
    if head is None:
        return f"No head keeps {ENOUGH:.0%} of the full run's nDCG@10: this small model is of no use here."
    return f"Chosen: head = {head}, the smallest that keeps {ENOUGH:.0%} of the full run's nDCG@10."


def _make_size_table(sizes: Mapping[int, float], full: float, chosen_on: int) -> Table:
    lines = [
        {"Head": head, "nDCG@10": ndcg, "Share of the full run's": ndcg / full if full else None}
        for head, ndcg in ({str(size): ndcg for size, ndcg in sizes.items()} | {"all": full}).items()
    ]
    return make_table("heads", f"Heads on the {chosen_on} queries of the choice", lines)


def _make_row_table(rows: Mapping[str, Agreement], caption: str) -> Table:
    columns = ("nDCG@10", "Difference from the full run", "Overlap of the top 10", "Kendall's tau")
    lines = [{"Row": name, **dict(zip(columns, agreement, strict=True))} for name, agreement in rows.items()]
    return make_table("agreement", caption, lines)


def _make_cost_table(full: Cost, heads: Cost | None, small: Cost, caption: str) -> Table:
    """Return the costs of the full run and of the cascade, whose large model scores the ``heads``."""
    tokens = fewer = operations = None
    if heads is not None:
        tokens, fewer = round(heads[0]), full[0] / heads[0] if heads[0] else None
        if full[1] is not None and heads[1] is not None and small[1] is not None:
            operations = (heads[1] + small[1]) / (full[1] or 1.0)
    columns = ("Row", "Tokens of the large model", "Times fewer", "Operations")
    cells = [("Full run", round(full[0]), 1.0, 1.0), ("Cascade", tokens, fewer, operations)]
    more = "operations are those of both models, as a share of the full run's, and not known of every architecture"
    return make_table("cost", f"{caption}; {more}", [dict(zip(columns, row, strict=True)) for row in cells])


def _list_limits(lost: Mapping[str, str], judged: int) -> Iterator[str]:
    if lost:
        yield describe_lost(lost, f"{judged + len(lost)} queries")
    yield "The candidates are one first stage's; another one, or more candidates of each query, may need another head."
    yield "Gains alone rerank, as in the other studies: a table [retrieval.match] of the profile is not used."
    yield "Tokens and operations are counted, and no time is measured."
