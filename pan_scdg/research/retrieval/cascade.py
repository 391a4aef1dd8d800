"""``studies cascade``: what a small model may leave to the large one, and what that saves."""

from collections.abc import Mapping
from contextlib import closing
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, NamedTuple

from pan_scdg.errors import UserError
from pan_scdg.jobs.plan.estimate import Plan
from pan_scdg.jobs.plan.inputs import count_candidates, group_by_source
from pan_scdg.jobs.plan.tokens import count_operations
from pan_scdg.jobs.retrieval.results import rank_queries
from pan_scdg.jobs.shards import write_shard
from pan_scdg.notices import Notices
from pan_scdg.profile import Profile
from pan_scdg.research.data.queries import make_folds
from pan_scdg.research.report.page import write_report
from pan_scdg.research.retrieval.cascade_report import Costs, Findings, make_report
from pan_scdg.research.retrieval.comparison import split_qrels
from pan_scdg.research.retrieval.data import read_data
from pan_scdg.research.retrieval.heads import Simulation, choose_head, compute_mean, make_runs, measure_ndcg
from pan_scdg.research.retrieval.job import (
    Prepared,
    Reranker,
    RetrievalStudy,
    describe_scoring,
    find_places,
    find_stages,
    open_reranker,
    plan_retrieval,
    score_rows,
    write_first_stages,
)
from pan_scdg.research.retrieval.rankings import Stages, list_documents
from pan_scdg.research.retrieval.report import write_gains, write_runs
from pan_scdg.research.retrieval.rows import Ranking, make_profile_row
from pan_scdg.research.study import StudyOptions, produce_report, warn_about_lost
from pan_scdg.store import Store

TASK = "studies cascade"


@dataclass(frozen=True)
class CascadeStudy:
    """The study as the user asked for it: the same candidates, scored with two models."""

    large: RetrievalStudy
    """With the model of the profile."""
    small: RetrievalStudy
    """With the model of its cascade."""


class _Prepared(NamedTuple):
    """The data and both models, checked, before anything is computed or written."""

    first: Prepared
    """With folds of judged queries: fold 0 is the half that is reported on."""
    large: Reranker
    small: Reranker


def make_study(profile: Profile, options: StudyOptions, index: Path | None, candidates: Path | None) -> CascadeStudy:
    """Return the study of a profile's cascade, whose head is not used.

    Args:
        profile: has the table ``[retrieval.cascade]``.
        options: those of all studies.
        index: folder of indexes that the command index has built.
        candidates: a TREC run in the place of the profile's first stage.

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
    return CascadeStudy(study, others)


def _prepare(study: CascadeStudy, notices: Notices) -> _Prepared:
    """Read the data, find both models, and tokenise the queries with both.

    Raises:
        UserError: data or models are not usable.
    """
    options, settings = study.large.options, study.large.profile.need_retrieval()
    computing = options.choose_computing(study.large.profile)
    data = read_data(options, study.large.rows, settings, False, notices)
    data = data._replace(folds=make_folds(sorted(data.qrels), count=2))
    split_qrels(data.qrels, data.folds)
    large, lost = open_reranker(study.large, computing, data.queries, notices)
    alone = replace(computing, model=None)  # --model is the folder of the large model
    small, more = open_reranker(study.small, alone, data.queries, notices, "small_model")
    if lost := {**lost, **more}:
        data = data.leave_out(lost)
    large, small = (of._replace(targets=[t for t in of.targets if t.query_id not in lost]) for of in (large, small))
    return _Prepared(Prepared(data, large, computing), large, small)


def study_cascade(study: CascadeStudy) -> list[str]:
    """Carry out the study, or score one shard of it; return the lines to show the user.

    Raises:
        UserError: data, settings, models or output are not usable; the output is unchanged then.
    """
    options, notices = study.large.options, Notices()
    prepared = _prepare(study, notices)
    data, small = prepared.first.data, prepared.small.model
    places = find_places(study.large, prepared.large)
    scoring = {**describe_scoring(study.large, prepared.first, places), "task": TASK}
    scoring["models"] |= {"small_model": small.identify()}
    scoring["small_profile"] = study.small.profile.model_dump(mode="json", exclude={"needs_gpu"})
    lines = produce_report(
        options,
        options.identify(scoring, {}),
        {**places, "small_model": small.found},
        [small, prepared.large.model],
        lambda store, folder, job: _compute(study, prepared, store, folder, job),
        f"a cascade on {len(data.queries)} queries",
    )
    return [*notices.list_warnings(), *warn_about_lost(len(data.lost), "queries"), *lines]


def plan_cascade(study: CascadeStudy) -> tuple[list[Plan], list[str]]:
    """Return the costs of the small and of the large model, and the lines to show; nothing is written.

    Raises:
        UserError: the study would be refused.
    """
    small, lines = plan_retrieval(study.small)
    large, _ = plan_retrieval(study.large)
    named = [(plan, "small model") for plan in small] + [(plan, "large model") for plan in large]
    return [replace(plan, task=f"{TASK}, {which}") for plan, which in named], lines


def _compute(study: CascadeStudy, prepared: _Prepared, store: Store, folder: Path, job: Mapping[str, Any]) -> list[str]:
    """Search, score with both models, simulate heads and evaluate; return the names of the files, the page last."""
    (row,) = study.large.rows
    searched = find_stages(study.large, prepared.first, store)
    stages = {**searched, **{name: run.stages for name, run in prepared.first.data.runs.items()}}[row.name]
    scored = []
    for of, reranker in ((study.small, prepared.small), (study.large, prepared.large)):
        with closing(reranker.model):
            scored.append(score_rows(of, prepared.first.data.corpus, reranker, {row.name: stages}, store))
        reranker.model.unload()  # the other needs the memory
    small, large = scored
    if study.large.options.share is not None:
        return [*write_first_stages(study.large, searched, folder), *write_shard(folder, store)]
    order = rank_queries(stages, small, study.small.profile.need_retrieval(), store).rankings
    simulation = Simulation(stages, order, large, study.large.profile.need_retrieval(), store)
    findings = _find(study, prepared, stages, simulation)
    runs = [(name, make_runs(of)) for name, of in findings.orders.items()]
    files = [*write_runs(folder, runs), *write_gains(folder, small, "scores/small.jsonl.gz")]
    files += write_gains(folder, large, "scores/large.jsonl.gz")
    return write_report(folder, make_report(findings, files, {"study": "cascade", **job}))


def _find(study: CascadeStudy, prepared: _Prepared, stages: Stages, simulation: Simulation) -> Findings:
    """Choose the head on one half of the judged queries, and measure it on the other."""
    data = prepared.first.data
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
        study.large.profile,
        study.small.profile,
        len(data.corpus),
        {**{str(size): ndcg for size, ndcg in sizes.items()}, "all": full},
        head,
        len(chosen_on),
        len(reported),
        orders,
        {name: simulation.compare(reported, of) for name, of in orders.items()},
        _measure_costs(study, prepared, stages, simulation, head, reported.keys()),
        data.lost,
    )


def _measure_costs(
    study: CascadeStudy, prepared: _Prepared, stages: Stages, simulation: Simulation, head: int | None, queries: Any
) -> Costs:
    """Return the tokens and operations of scoring some queries in full, and with a cascade."""

    def count(of: RetrievalStudy, reranker: Reranker, candidates: Stages) -> tuple[float, float | None]:
        targets = list({t.text.digest: t for t in reranker.targets if t.query_id in queries}.values())
        wanted = group_by_source(targets, candidates, settings := of.profile.need_retrieval())
        corpus, in_all = prepared.first.data.corpus, sum(map(len, wanted.values()))
        counted = count_candidates(corpus, targets, wanted, in_all, settings, reranker.model, len(wanted)).tokens
        tokens = counted.full if prepared.first.computing.engine == "reference" else counted.packed
        return tokens, count_operations(reranker.model.config, counted)

    heads = None if head is None else simulation.cut(head).heads
    return Costs(
        count(study.large, prepared.large, stages),
        None if heads is None else count(study.large, prepared.large, heads),
        count(study.small, prepared.small, stages),
    )
