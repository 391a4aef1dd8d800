"""SCDG in every form beside simple methods: ``python -m benchmarks.offline_quality --development FILE ...``.

Pairs: AUROC, average precision and best F1 of every form and of every simple method, by kind of pair, on the
development set, on both halves of the examples and on the PAN 2025 sample; then what the rule frozen in the profile
does there. Retrieval: nDCG@10 and R@10 of BM25, DAAC and DAAC reranked. The last line is one JSON object with all
figures. Scores lie in the state folder: the same command goes on where it was stopped, and scores nothing twice.
"""

import json
import math
import tempfile
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import click
import numpy as np
import numpy.typing as npt

from benchmarks.forms import LOGISTIC, form_scores, frozen_form, leave_one_kind_out
from benchmarks.pair_gains import ALL, BUILD, QualitySet, at_most, development_set, folder_set, pair_gains
from benchmarks.simple_pair_scores import (
    Floats,
    TextPairs,
    bm25,
    content_word_overlap,
    four_gram_containment,
    minilm_cosine,
    source_four_gram_containment,
    tfidf_cosine,
)
from pan_scdg.errors import UserError
from pan_scdg.evaluation.pairs import compute_pair_metrics, compute_weighted_metrics
from pan_scdg.evaluation.report import format_table
from pan_scdg.evaluation.retrieval import compute_per_query
from pan_scdg.jobs.demo import EXAMPLES, RETRIEVAL
from pan_scdg.jobs.requests import Computing
from pan_scdg.notices import Notices
from pan_scdg.pan.source_retrieval import Corpus
from pan_scdg.pan.source_retrieval import read_qrels, read_queries
from pan_scdg.profile import PairSettings, Profile, load_profile
from pan_scdg.records import Query
from pan_scdg.retrieval.candidates import find_candidates, load_retrieval_encoder
from pan_scdg.scdg.decision import choose_threshold
from pan_scdg.scoring.candidates import prepare_targets, score_candidates
from pan_scdg.scoring.model import ScoringModel
from pan_scdg.scoring.reranking import aggregate_query_gains, rank_candidates
from pan_scdg.store import Store

START = "untrained: "
Row = dict[str, Any]
Scores = Mapping[str, Floats]
"""Method -> one score a pair."""


def peers(texts: TextPairs, store: Store) -> dict[str, Floats]:
    """Methods without any language model of their own, to be better than."""
    return {
        "4-gram containment of the target": four_gram_containment(texts),
        "4-gram containment of the source": source_four_gram_containment(texts),
        "TF-IDF cosine": tfidf_cosine(texts),
        "BM25": bm25(texts),
        "MiniLM cosine": minilm_cosine(texts, store),
        "content-word overlap": content_word_overlap(texts),
    }


def scdg(
    sets: Sequence[QualitySet], model: ScoringModel, settings: PairSettings, store: Store
) -> list[dict[str, Floats]]:
    """For each set, every form of SCDG, and last the logistic fitted on the kinds of all sets but the one judged."""
    found = [form_scores(pair_gains(s.name, s.pairs, model, settings, store), settings) for s in sets]
    pooled = {name: np.concatenate([scores[name] for scores in found]) for name in found[0]}
    kinds = [p.kind for s in sets for p in s.pairs]
    logistic = leave_one_kind_out(pooled, np.concatenate([s.labels for s in sets]), kinds)
    ends = np.cumsum([len(s.pairs) for s in sets])[:-1]
    return [{**scores, LOGISTIC: own} for scores, own in zip(found, np.split(logistic, ends))]


def figures(labels: npt.NDArray[np.bool_], scores: Floats) -> dict[str, float]:
    """AUROC, average precision, and F1 and recall at the threshold that is best on these very pairs."""
    names = ("auroc", "average_precision", "f1", "recall")
    if not np.isfinite(scores).all() or len(set(labels.tolist())) < 2:
        return dict.fromkeys(names, math.nan)
    best = choose_threshold({100.0: scores}, labels).threshold
    # What intervals are made of, with every pair once: scikit-learn would take a minute for all methods and kinds.
    found = compute_weighted_metrics(labels, scores, scores >= best, np.ones((1, len(labels))))
    return {name: float(found[name][0]) for name in names}


def method_figures(quality: QualitySet, methods: Scores) -> dict[str, dict[str, dict[str, float]]]:
    """Method -> kind -> measure -> value."""
    labels, groups = quality.labels, quality.groups()
    return {
        name: {kind: figures(labels[mask], scores[mask]) for kind, mask in groups.items()}
        for name, scores in methods.items()
    }


def frozen_rows(quality: QualitySet, scores: Floats, threshold: float | None) -> list[dict[str, Any]]:
    """Return the measures of the profile's rule on each kind.

    ``holds``: at most 5 % of the negatives are called positive, and recall is at most .05 below that at the threshold
    that is best for F1 on the same pairs.
    """
    if threshold is None:
        return []
    rows = []
    for kind, mask in quality.groups().items():
        labels, own = quality.labels[mask], scores[mask]
        now, best = compute_pair_metrics(labels, own, own >= threshold), figures(labels, own)
        row = {
            "set": quality.name,
            "kind": kind,
            "pairs": len(labels),
            "negatives called positive": now["fpr"],
            "recall": now["recall"],
            "recall at best F1": best["recall"],
            "F1": now["f1"],
            "best F1": best["f1"],
            "holds": bool(now["fpr"] <= 0.05 and now["recall"] >= best["recall"] - 0.05),
        }
        rows.append(row)
    return rows


def peer_rows(quality: QualitySet, found: Mapping[str, Any], names: Sequence[str], frozen: str) -> list[dict[str, Any]]:
    """For each kind the simple method with the highest AUROC, the frozen form, and the difference."""
    rows = []
    for kind in quality.groups():
        best = max(names, key=lambda name: np.nan_to_num(found[name][kind]["auroc"], nan=-1.0))
        peer, own = found[best][kind]["auroc"], found[frozen][kind]["auroc"]
        row = {"set": quality.name, "kind": kind, "best simple method": best, "its AUROC": peer}
        rows.append({**row, f"SCDG {frozen}": own, "difference": own - peer})
    return rows


def query_groups(queries: Iterable[str]) -> dict[str, list[str]]:
    """Name of a group -> its query ids: all, and those that share a part of ids like ``science-n3-heavy``."""
    groups: dict[str, list[str]] = {ALL: []}
    for query in queries:
        for part in [ALL, *(query.split("-") if "-" in query else [])]:
            groups.setdefault(part, []).append(query)
    return groups


def retrieval_rows(folder: Path, profile: Profile, options: Computing, store: Store, most: int | None) -> list[Row]:
    """nDCG@10 and R@10 of the lexical route, of the fused first stage and of its reranking, by group of queries."""
    settings = profile.rerank_by_gains_alone().need_retrieval()
    model = options.open_model(profile.need_model())
    queries = _first_of_each(read_queries(folder, Notices()), most)
    targets = prepare_targets(queries, model, settings, folder, Notices())
    encoder = load_retrieval_encoder(settings, options.device)
    corpus = Corpus(folder, Notices())
    found = find_candidates(corpus, queries, settings, encoder, store)
    features = score_candidates(corpus, targets, found, model, settings, store, False)
    fused = settings.fusion.upper()
    runs: dict[str, dict[str, list[tuple[str, float]]]] = {"BM25": {}, fused: {}, f"{fused} + SCDG": {}}
    for query, stage in found.items():
        gain = aggregate_query_gains(query, stage, features, settings, store)
        runs["BM25"][query] = _run(r.doc_id for r in stage.routes["bm25-sentence"])
        runs[fused][query] = _run(r.doc_id for r in stage.candidates)
        runs[f"{fused} + SCDG"][query] = _run(doc_id for doc_id, _ in rank_candidates(stage, gain, settings))
    qrels = {query: docs for query, docs in read_qrels(folder / "qrels.txt").items() if query in found}
    values = {method: compute_per_query(qrels, run) for method, run in runs.items()}
    return [
        {"collection": folder.name, "queries": group, "number": len(members), "method": method}
        | {measure: float(np.mean([values[method][measure][q] for q in members])) for measure in ("nDCG@10", "R@10")}
        for group, members in query_groups(qrels).items()
        for method in runs
    ]


def _run(ranking: Iterable[str]) -> list[tuple[str, float]]:
    return [(doc_id, -float(rank)) for rank, doc_id in enumerate(ranking)]


def _first_of_each(queries: Sequence[Query], most: int | None) -> list[Query]:
    """The first ``most`` queries of each kind, which is the part of an id after its last hyphen, if it has one."""
    taken: dict[str, int] = defaultdict(int)
    kept = []
    for query in sorted(queries, key=lambda q: q.query_id):
        kind = query.query_id.rpartition("-")[2] if "-" in query.query_id else ""
        taken[kind] += 1
        if most is None or taken[kind] <= most:
            kept.append(query)
    return kept


def pair_report(
    sets: Sequence[QualitySet], profile: Profile, options: Computing, start: Path | None, store: Store
) -> dict[str, Any]:
    """Everything about pairs: figures by method, the frozen rule, and the best simple method beside it."""
    settings, model = profile.need_pairs(), options.open_model(profile.need_model())
    form = frozen_form(settings)
    report: dict[str, Any] = {"model": model.fingerprint, "form": form, "threshold": settings.threshold}
    own = scdg(sets, model, settings, store)
    untrained: Sequence[Scores] = [{} for _ in sets]
    if start is not None:
        model = replace(options, model=start).open_model(profile.need_model())
        report["start"] = model.fingerprint
        untrained = scdg(sets, model, settings, store)
    report |= {"pairs": {s.name: s.counts() for s in sets}, "figures": {}, "frozen": [], "peers": []}
    for quality, forms, before in zip(sets, own, untrained):
        simple = peers(quality.texts, store)
        methods = {**forms, **{START + name: scores for name, scores in before.items()}, **simple}
        found = method_figures(quality, methods)
        report["figures"][quality.name] = found
        report["frozen"] += frozen_rows(quality, forms[form], settings.threshold)
        report["peers"] += peer_rows(quality, found, list(simple), form)
    return report


def show_pairs(report: Mapping[str, Any]) -> None:
    for name, found in report["figures"].items():
        rows = [{"method": m, **{k: v["auroc"] for k, v in by_kind.items()}} for m, by_kind in found.items()]
        click.echo(f"\nAUROC, {name}\n\n{format_table(rows, list(rows[0]))}")
    if report["frozen"]:
        title = f"The frozen rule: {report['form']} at least {report['threshold']:.4f}"
        click.echo(f"{title}\n\n{format_table(report['frozen'], list(report['frozen'][0]))}")
    click.echo(f"AUROC beside the best simple method\n\n{format_table(report['peers'], list(report['peers'][0]))}")


def show_retrieval(rows: Sequence[Row]) -> None:
    click.echo(f"Retrieval\n\n{format_table(rows, list(rows[0]))}")


def plain(value: Any) -> Any:
    """The figures as JSON takes them: rounded, and null for what is undefined."""
    if isinstance(value, dict):
        return {key: plain(item) for key, item in value.items()}
    if isinstance(value, list):
        return [plain(item) for item in value]
    if isinstance(value, float):
        return round(value, 6) if math.isfinite(value) else None
    return value


@click.command(help=__doc__)
@click.option("--development", type=click.Path(path_type=Path), help="Pairs written by benchmarks.development.build.")
@click.option("--samples", type=click.Path(path_type=Path), help="The PAN 2025 sample: a folder with input and truth.")
@click.option(
    "--retrieval", multiple=True, type=click.Path(path_type=Path), default=[RETRIEVAL], help="May be given again."
)
@click.option("--start", type=click.Path(path_type=Path), help="The untrained start, as a second model.")
@click.option("--profile", "name", default="scdg-mini", show_default=True)
@click.option("--model", type=click.Path(path_type=Path), help="Instead of the profile's model.")
@click.option("--state", type=click.Path(path_type=Path), envvar="PAN_SCDG_STATE", help="Keep scores here.")
@click.option("--most", type=click.IntRange(min=1), help="Most pairs of each kind and label, for a quick look.")
@click.option("--json", "target", type=click.Path(path_type=Path), help="Write the figures here too.")
def main(
    development: Path | None,
    samples: Path | None,
    retrieval: tuple[Path, ...],
    start: Path | None,
    name: str,
    model: Path | None,
    state: Path | None,
    most: int | None,
    target: Path | None,
) -> None:
    halves = {half: EXAMPLES / "pan25-pairs" / half for half in ("calibration", "test")}
    try:
        profile = load_profile(name)
        sets = [folder_set("examples", halves)]
        if development is None:
            click.echo(f"left out: the development set; build it and give --development: {BUILD}", err=True)
        else:
            sets.insert(0, development_set(development))
        if samples is not None:
            sets.append(folder_set("pan25-sample", {"pan25-sample": samples / "input"}))
        with tempfile.TemporaryDirectory() as scratch, Store(state or Path(scratch)) as store:
            options = Computing("cpu", model, state=state)
            pairs = pair_report([at_most(s, most) for s in sets], profile, options, start, store)
            show_pairs(pairs)
            ranked = [row for folder in retrieval for row in retrieval_rows(folder, profile, options, store, most)]
            show_retrieval(ranked)
    except UserError as error:
        raise click.ClickException(str(error)) from error
    record = plain({"profile": profile.name, "most": most, "pairs": pairs, "retrieval": ranked})
    if target is not None:
        target.write_text(json.dumps(record, indent=1) + "\n", encoding="utf-8")
    click.echo(json.dumps(record, allow_nan=False))


if __name__ == "__main__":
    main()
