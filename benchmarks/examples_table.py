"""SCDG beside simple methods on the shipped examples: ``python -m benchmarks.examples_table [--model FOLDER]``.

All forms of SCDG are of the profile's gains: with its control, whole or in segments.

Pairs: AUROC on the test half with a 95 % bootstrap interval over pairs. Retrieval: nDCG@10 over the queries, with the
first stage alone and reranked. Nothing is fitted here but what the profile froze on the calibration half.
"""

import json
import tempfile
from pathlib import Path
from typing import Any

import click
import numpy as np

from benchmarks.simple_pair_scores import content_word_overlap, four_gram_containment, minilm_cosine, tfidf_cosine
from pan_scdg.evaluation.pairs import bootstrap_pairs, compute_pair_metrics
from pan_scdg.evaluation.report import Estimate, format_table
from pan_scdg.evaluation.retrieval import bootstrap_queries, compute_per_query
from pan_scdg.jobs.demo import EXAMPLES, RETRIEVAL
from pan_scdg.jobs.requests import Computing
from pan_scdg.notices import Notices
from pan_scdg.pan.source_retrieval import Corpus
from pan_scdg.pan.source_retrieval import read_qrels, read_queries
from pan_scdg.pan.text_alignment import read_pairs, read_text
from pan_scdg.pan.truth import read_truth
from pan_scdg.profile import load_profile
from pan_scdg.retrieval.candidates import find_candidates, load_retrieval_encoder
from pan_scdg.retrieval.ranking import Ranking
from pan_scdg.scdg.aggregation import Aggregate
from pan_scdg.scoring.candidates import prepare_targets, score_candidates
from pan_scdg.scoring.gain_method import score_pairs
from pan_scdg.scoring.pair_plan import check_pairs
from pan_scdg.scoring.reranking import aggregate_query_gains, rank_candidates
from pan_scdg.store import Store


def pair_rows(half: Path, options: Computing, store: Store, profile_name: str) -> list[dict[str, Any]]:
    """One row a method: AUROC with its interval, and F1 at the frozen threshold where there is one."""
    profile = load_profile(profile_name)
    settings, corpus = profile.need_pairs(), read_pairs(half, Notices())
    truth = read_truth(half / "truth", corpus.pairs)
    labels = [bool(truth[p.suspicious.doc_id, p.source.doc_id]) for p in corpus.pairs]
    texts = [(read_text(p.suspicious), read_text(p.source)) for p in corpus.pairs]
    model = options.open_model(profile.need_model())
    planned, _none_failed = check_pairs(corpus.pairs, model, settings, Notices())
    scored = score_pairs(planned, model, settings, store, keep_gains=False)
    aggregates = [Aggregate("top", float(q)) for q in settings.q_grid]
    aggregates += [Aggregate("window", w) for w in (64, 96, 128, 192, 256)]
    methods: dict[str, Any] = {f"SCDG {a.name}": [s.features.scores[a] for s in scored] for a in aggregates}
    methods["SCDG positive-gain rate"] = [s.features.positive_rate for s in scored]
    methods["4-gram containment"] = four_gram_containment(texts)
    methods["TF-IDF cosine"] = tfidf_cosine(texts)
    methods["content-word overlap"] = content_word_overlap(texts)
    methods["MiniLM cosine"] = minilm_cosine(texts)
    return [{"method": name, "AUROC": _auroc(labels, scores)} for name, scores in methods.items()]


def _auroc(labels: list[bool], scores: Any) -> Estimate:
    decisions = np.zeros(len(labels), dtype=bool)
    value = compute_pair_metrics(labels, scores, decisions)["auroc"]
    return Estimate(value, *bootstrap_pairs(labels, scores, decisions)["auroc"])


def retrieval_rows(options: Computing, store: Store, profile_name: str) -> list[dict[str, Any]]:
    """nDCG@10 of the lexical route, of DAAC, and of DAAC reranked with every weight that the paper tried."""
    profile = load_profile(profile_name).rerank_by_gains_alone()
    settings = profile.need_retrieval()
    queries, model = read_queries(RETRIEVAL, Notices()), options.open_model(profile.need_model())
    targets = prepare_targets(queries, model, settings, RETRIEVAL, Notices())
    encoder = load_retrieval_encoder(settings, options.device)
    corpus = Corpus(RETRIEVAL, Notices())
    found = find_candidates(corpus, queries, settings, encoder, store)
    features = score_candidates(corpus, targets, found, model, settings, store, False)
    runs: dict[str, dict[str, Any]] = {
        "BM25-Sentence1 (FTS5)": {q: _run(s.routes["bm25-sentence"]) for q, s in found.items()},
        "MiniLM sentence-to-chunk": {q: _run(s.routes["dense-sentence"]) for q, s in found.items()},
        "DAAC": {q: _run(s.candidates) for q, s in found.items()},
    }
    frozen = {
        query: _order(rank_candidates(stage, aggregate_query_gains(query, stage, features, settings, store), settings))
        for query, stage in found.items()
    }
    runs[f"DAAC + SCDG as in the profile {profile.name}"] = frozen
    for q_percent in (2.0, 10.0, 100.0):
        for weight in (0.25, 0.5, 0.75, 1.0):
            changed = settings.model_copy(update={"weight": weight})
            runs[f"DAAC + SCDG {Aggregate('top', q_percent).name}, weight {weight}"] = {
                query: _order(
                    rank_candidates(
                        stage,
                        {
                            c.doc_id: features[query, c.doc_id][0].scores[Aggregate("top", q_percent)]
                            for c in stage.candidates[: settings.scored]
                        },
                        changed,
                    )
                )
                for query, stage in found.items()
            }
    qrels = read_qrels(RETRIEVAL / "qrels.txt")
    return [{"method": name, "nDCG@10": _ndcg(qrels, run)} for name, run in runs.items()]


def _run(ranking: Ranking) -> list[tuple[str, float]]:
    return _order([(r.doc_id, None) for r in ranking])


def _order(ranking: list[tuple[str, float | None]]) -> list[tuple[str, float]]:
    return [(doc_id, -float(rank)) for rank, (doc_id, _) in enumerate(ranking)]


def _ndcg(qrels: Any, run: Any) -> Estimate:
    values = compute_per_query(qrels, run)
    return Estimate(float(np.mean(list(values["nDCG@10"].values()))), *bootstrap_queries(values)["nDCG@10"])


@click.command(help=__doc__)
@click.option("--profile", default="offline", show_default=True)
@click.option("--model", type=click.Path(path_type=Path))
@click.option("--half", type=click.Choice(["calibration", "test"]), default="test", show_default=True)
@click.option("--state", type=click.Path(path_type=Path), envvar="PAN_SCDG_STATE", help="Keep scores here.")
@click.option("--json", "target", type=click.Path(path_type=Path), help="Write the figures here too.")
def main(profile: str, model: Path | None, half: str, state: Path | None, target: Path | None) -> None:
    pairs = EXAMPLES / "pan25-pairs" / half
    with tempfile.TemporaryDirectory() as scratch, Store(state or Path(scratch)) as store:
        rows = pair_rows(pairs, Computing("cpu", model=model), store, profile)
        click.echo(format_table(rows, ["method", "AUROC"]))
        ranked = retrieval_rows(Computing("cpu", model=model), store, profile)
        click.echo(format_table(ranked, ["method", "nDCG@10"]))
    if target is not None:
        target.write_text(json.dumps({"pairs": rows, "retrieval": ranked}, indent=1) + "\n")


if __name__ == "__main__":
    main()
