"""``studies cascade``: the candidates that a small model leaves to the large one, and the saved cost."""

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
from pan_scdg.jobs.requests import Computing
from pan_scdg.notices import Notices
from pan_scdg.profile import Profile
from pan_scdg.research.data.queries import make_folds
from pan_scdg.research.report.page import write_report
from pan_scdg.research.retrieval.cascade_report import Costs, Findings, make_report
from pan_scdg.research.retrieval.comparison import make_runs, split_qrels
from pan_scdg.research.retrieval.data import Data, RetrievalStudy, Stages, list_documents, read_data
from pan_scdg.research.retrieval.heads import Simulation, choose_head, compute_mean, measure_ndcg
from pan_scdg.research.retrieval.job import (
    Reranker,
    describe_scoring,
    find_places,
    find_stages,
    name_stages,
    open_reranker,
    plan_scoring,
    score_rows,
)
from pan_scdg.research.retrieval.report import write_gains, write_runs
from pan_scdg.research.retrieval.rows import Ranking, make_profile_row
from pan_scdg.research.study import ReadyStudy, StudyOptions, note_lost
from pan_scdg.scoring.batches import Shard
from pan_scdg.scoring.reranking import rank_queries
from pan_scdg.store import Store

TASK = "studies cascade"


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
    others = replace(study, profile=small.rerank_by_gains_alone(), options=replace(options, model=None))
    return study, others


class _Work(NamedTuple):
    """The data and both models, checked, before anything is computed or written."""

    data: Data
    """With folds of judged queries: fold 0 is the half that is reported on."""
    large: Reranker
    """With the model of the profile."""
    small: Reranker
    """With the model of its cascade."""
    computing: Computing


def prepare_cascade(studies: tuple[RetrievalStudy, RetrievalStudy], stack: ExitStack, notices: Notices) -> ReadyStudy:
    """Read the data, find both models, and tokenise the queries with both.

    Raises:
        UserError: data or models are not usable.
    """
    study, others = studies
    options = study.options
    computing = options.choose_computing(study.profile)
    data = read_data(study, False, notices)
    data = data._replace(folds=make_folds(sorted(data.qrels), count=2))
    split_qrels(data.qrels, data.folds)
    large, lost = open_reranker(study, computing, data.queries, stack, notices)
    alone = replace(computing, model=None)  # --model is the folder of the large model
    small, more = open_reranker(others, alone, data.queries, stack, notices, "small_model")
    if lost := {**lost, **more}:
        data = data.leave_out(lost)
    large, small = (of._replace(targets=[t for t in of.targets if t.query_id not in lost]) for of in (large, small))
    work, places = _Work(data, large, small, computing), find_places(study, large)
    scoring = {**describe_scoring(study, data, large, computing, places), "task": TASK}
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
    """Return the costs of the small and of the large model."""
    plans = []
    for name, reranker in (("small", work.small), ("large", work.large)):
        plans.append(plan_scoring(work.data, reranker, work.computing, f"{TASK}, {name} model"))
        reranker.model.unload()
    return plans


def _score(work: _Work, store: Store, shard: Shard) -> Scored:
    """Search, and score the candidates of a shard with both models."""
    study, data = work.large.study, work.data
    (row,) = study.rows
    searched = find_stages(study, data, work.computing, store)
    stages = {**searched, **{name: run.stages for name, run in data.runs.items()}}[row.name]
    small, large = (score_rows(data, of, {row.name: stages}, store, shard) for of in (work.small, work.large))
    return Scored((stages, small, large), name_stages(study, searched))


def _write(work: _Work, values: Any, store: Store, result: OutputDirectory) -> list[str]:
    """Simulate heads and evaluate; return the names of the staged files, the page last."""
    (stages, small, large), folder = values, result.staged
    order = rank_queries(stages, small, work.small.study.profile.need_retrieval(), store).rankings
    simulation = Simulation(stages, order, large, work.large.study.profile.need_retrieval(), store)
    findings = _find(work, stages, simulation)
    runs = [(name, make_runs(of)) for name, of in findings.orders.items()]
    files = [*write_runs(folder, runs), *write_gains(folder, small, "scores/small.jsonl.gz")]
    files += write_gains(folder, large, "scores/large.jsonl.gz")
    return write_report(folder, make_report(findings, files, {"study": "cascade", **result.job}))


def _find(work: _Work, stages: Stages, simulation: Simulation) -> Findings:
    """Choose the head on one half of the judged queries, and measure it on the other."""
    data = work.data
    chosen_on, reported = split_qrels(data.qrels, data.folds)
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
    return Findings(
        work.large.study.profile,
        work.small.study.profile,
        len(data.corpus),
        {**{str(size): ndcg for size, ndcg in sizes.items()}, "all": full},
        head,
        len(chosen_on),
        len(reported),
        orders,
        {name: simulation.compare(reported, of) for name, of in orders.items()},
        _measure_costs(work, stages, simulation, head, reported.keys()),
        data.lost,
    )


def _measure_costs(work: _Work, stages: Stages, simulation: Simulation, head: int | None, queries: Any) -> Costs:
    """Return the tokens and operations of scoring some queries in full, and with a cascade."""

    def count(reranker: Reranker, candidates: Stages) -> tuple[float, float | None]:
        settings = reranker.study.profile.need_retrieval()
        targets = [target for target in reranker.targets if target.query_id in queries]
        counted = count_candidates(work.data.corpus, targets, candidates, 0, settings, reranker.model, sampled=None)
        tokens = counted.tokens.full if work.computing.engine == "reference" else counted.tokens.packed
        return tokens, count_operations(reranker.model.config, counted.tokens)

    heads = None if head is None else simulation.cut(head).heads
    return Costs(
        count(work.large, stages), None if heads is None else count(work.large, heads), count(work.small, stages)
    )
