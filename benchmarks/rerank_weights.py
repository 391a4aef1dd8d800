"""Rerank by gain and sentence match with other weights: ``python -m benchmarks.rerank_weights INPUT OUTPUT``.

INPUT has ``qrels.txt``; OUTPUT is that of ``run`` on it with a profile that reranks by both, such as ``offline``.
Coarse scores, gains and matches are taken from ``scores.jsonl.gz``. Prints nDCG@10 with 95 % intervals over queries.
"""

from collections import defaultdict
from pathlib import Path

import click
import ir_measures
import numpy as np
import numpy.typing as npt

from benchmarks.pairs import format_rows
from pan_scdg.results.files import CANDIDATE_SCORES, read_lines
from pan_scdg.results.records import CandidateLine

MATCH_WEIGHTS, WEIGHTS = (0.0, 0.5, 0.8, 0.9, 1.0), (0.5, 0.75, 1.0)
MEASURE = ir_measures.nDCG(gains={1: 1, 2: 3, 3: 7}) @ 10
RESAMPLES = 1000
Floats = npt.NDArray[np.float64]


def scale(values: Floats) -> Floats:
    """Return values from 0 to 1; zeros if all are equal."""
    spread = values.max() - values.min()
    return (values - values.min()) / spread if spread else np.zeros_like(values)


def rank(lines: list[CandidateLine], gain: str, weight: float, match_weight: float) -> dict[str, float]:
    """Return the scores of the documents of a query by their places."""
    columns = zip(*((line.coarse, line.score.values[gain], line.match or 0.0) for line in lines if line.score))
    coarse, gains, matches = (scale(np.array(column)) for column in columns)
    final = (1 - weight) * coarse + weight * scale((1 - match_weight) * gains + match_weight * matches)
    order = sorted(range(len(lines)), key=lambda i: (-round(float(final[i]), 6), lines[i].document))
    return {lines[i].document: -float(place) for place, i in enumerate(order)}


@click.command(help=__doc__)
@click.argument("folder", metavar="INPUT", type=click.Path(exists=True, path_type=Path))
@click.argument("output", type=click.Path(exists=True, path_type=Path))
@click.option("--gain", default="share_40", show_default=True, help="field of the gain that reranks")
def main(folder: Path, output: Path, gain: str) -> None:
    queries: dict[str, list[CandidateLine]] = defaultdict(list)
    for line in read_lines(output / CANDIDATE_SCORES, CandidateLine.from_json):
        if line.final is not None:
            queries[line.query].append(line)
    qrels = list(ir_measures.read_trec_qrels(str(folder / "qrels.txt")))
    rows = []
    for match_weight in MATCH_WEIGHTS:
        for weight in WEIGHTS:
            run = {query: rank(lines, gain, weight, match_weight) for query, lines in queries.items()}
            values = np.array([measured.value for measured in ir_measures.iter_calc([MEASURE], qrels, run)])
            means = values[np.random.default_rng(0).integers(len(values), size=(RESAMPLES, len(values)))].mean(axis=1)
            low, high = np.quantile(means, [0.025, 0.975])
            rows.append([match_weight, weight, f"{values.mean():.4f} [{low:.4f}, {high:.4f}]"])
    click.echo(format_rows(["match weight", "weight", "nDCG@10"], rows))


if __name__ == "__main__":
    main()
