"""Seconds that the statistics of the studies take at the paper's size: ``python -m benchmarks.studies``.

Scores are drawn, not computed. Four parts: the threshold search (Top-q with seven q and Average, on 5,432 training
pairs of each of 20 splits), the pair study around it with all measures on the test parts, the grid of 108
list_configurations over 160 queries with 1,000 candidates, and ten rows of rankings of 200 queries with their tests and
intervals. The last line is one JSON object.
"""

import json
import time
from collections.abc import Callable
from typing import Any

import click
import numpy as np

from pan_scdg.profile import PAPER_GRID
from studies.data.splits import SEEDS, PairSplit
from studies.pairs.scores import AVERAGE, LABEL, make_score_table, name_top
from studies.pairs.split_study import NO_PARAMETER, Method, evaluate_splits
from studies.retrieval.comparison import compare_rows, make_run
from studies.retrieval.grid import FEATURES, Candidates, search_grid
from pan_scdg.scdg.decision import choose_threshold

POSITIVE, NEGATIVE, TEST = 4777, 2014, 1359
SWAPS = 40
"""Documents of a drawn ranking that trade places with others."""


def drawn_table(generator: np.random.Generator, positive: int, negative: int) -> Any:
    """Return scores that separate most pairs, all distinct, in eight columns."""
    labels = np.arange(positive + negative) < positive
    columns = {name: generator.normal(size=len(labels)) + 2 * labels for name in (AVERAGE, *map(name_top, PAPER_GRID))}
    return make_score_table([f"pair{i}" for i in range(len(labels))], labels, columns)


def drawn_splits(table: Any, test: int) -> list[PairSplit]:
    """Twenty divisions of the pairs, not by components."""
    orders = (np.random.default_rng(seed).permutation(list(table.index)).tolist() for seed in SEEDS)
    return [PairSplit(f"seed{seed}", tuple(o[test:]), tuple(o[:test])) for seed, o in zip(SEEDS, orders, strict=True)]


def drawn_candidates(generator: np.random.Generator, depth: int) -> tuple[Candidates, dict[str, int]]:
    """Candidates of one query, and three judged documents among the first half of them."""
    docs = tuple(f"doc{number}" for number in generator.choice(86_822, depth, replace=False))
    coarse = np.sort(generator.random(depth))[::-1]
    places = generator.choice(depth // 2, 3, replace=False)
    gains = generator.normal(size=(depth, len(FEATURES)))
    gains[places] += 2
    return Candidates(docs, coarse, gains), {docs[place]: grade for grade, place in enumerate(places, 1)}


def swapped(generator: np.random.Generator, docs: tuple[str, ...]) -> list[tuple[str, float]]:
    """A run in which some documents stand elsewhere."""
    order = np.arange(len(docs))
    places = generator.choice(len(docs), SWAPS, replace=False)
    order[places] = generator.permutation(order[places])
    return make_run([docs[i] for i in order])


def seconds(what: Callable[[], Any]) -> float:
    began = time.perf_counter()
    what()
    return time.perf_counter() - began


@click.command(help=__doc__)
@click.option("--pairs", default=POSITIVE + NEGATIVE, show_default=True)
@click.option("--queries", default=160, show_default=True, help="Of the grid; the rows have a quarter more.")
@click.option("--depth", default=1000, show_default=True)
def main(pairs: int, queries: int, depth: int) -> None:
    generator = np.random.default_rng(0)
    positive = pairs * POSITIVE // (POSITIVE + NEGATIVE)
    table = drawn_table(generator, positive, pairs - positive)
    splits = drawn_splits(table, pairs * TEST // (POSITIVE + NEGATIVE))
    grid = {float(q): name_top(q) for q in PAPER_GRID}
    methods = [Method("Average", "", table, {NO_PARAMETER: AVERAGE}), Method("Top-q", "", table, grid)]
    drawn = {f"q{number}": drawn_candidates(generator, depth) for number in range(queries + queries // 4)}
    qrels = {query: judged for query, (_, judged) in drawn.items()}
    candidates = {query: found for query, (found, _) in drawn.items()}
    development = dict(list(qrels.items())[:queries])
    runs = [(f"row {i}", {q: swapped(generator, c.doc_ids) for q, c in candidates.items()}) for i in range(10)]

    def search() -> None:
        for split in splits:
            rows = table.loc[list(split.train)]
            labels = rows[LABEL].to_numpy()
            choose_threshold({q: rows[column].to_numpy() for q, column in grid.items()}, labels)
            choose_threshold({100.0: rows[AVERAGE].to_numpy()}, labels)

    evaluate_splits(methods, splits[:1])  # imports are no part of the figures
    compare_rows({q: qrels[q] for q in ("q0", "q1")}, runs[:2])
    took = {
        "threshold_search": seconds(search),
        "pair_study": seconds(lambda: evaluate_splits(methods, splits)),
        "grid": seconds(lambda: search_grid(development, candidates)),
        "retrieval_rows": seconds(lambda: compare_rows(qrels, runs)),
    }
    for name, value in took.items():
        click.echo(f"{name.replace('_', ' '):18} {value:7.2f} s")
    sizes = {"training_pairs": len(splits[0].train), "splits": len(splits), "queries": queries, "depth": depth}
    click.echo(json.dumps({**sizes, **{f"seconds_{name}": round(value, 3) for name, value in took.items()}}))


if __name__ == "__main__":
    main()
