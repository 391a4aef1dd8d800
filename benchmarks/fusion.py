"""Seconds for fusing three routes and writing the run: ``python -m benchmarks.fusion [--queries N --depth N]``.

Rankings are drawn from the ids of a corpus of PAN 2026's size; the clock covers DAAC (or RRF, or CombSUM) of every
query and the gzip TREC run. The last line is one JSON object.
"""

import json
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import click
import numpy as np

from benchmarks.corpus import DOCUMENTS, document_id
from pan_scdg.pan.runs import format_run, open_gzip_text
from pan_scdg.retrieval.ranking import Ranked, Ranking, fuse_by_comb_sum, fuse_by_daac, fuse_by_rrf


def drawn(generator: np.random.Generator, depth: int) -> Ranking:
    """A ranking of ``depth`` documents; half of them come from a small part of the corpus, so that routes overlap."""
    near = generator.choice(2 * depth, depth // 2, replace=False)
    far = generator.choice(np.arange(2 * depth, DOCUMENTS), depth - len(near), replace=False)
    numbers = generator.permutation(np.concatenate([near, far]))
    scores = np.sort(generator.random(depth))[::-1]
    return [Ranked(document_id(int(number)), float(score)) for number, score in zip(numbers, scores, strict=True)]


@click.command(help=__doc__)
@click.option("--queries", default=200, show_default=True)
@click.option("--depth", default=1000, show_default=True)
def main(queries: int, depth: int) -> None:
    generator = np.random.default_rng(0)
    routes = [[drawn(generator, depth) for _ in range(3)] for _ in range(queries)]
    fusions: dict[str, Callable[[list[Ranking]], Ranking]] = {
        "daac": lambda three: fuse_by_daac(three[0], three[1], three[2], depth),
        "rrf": lambda three: fuse_by_rrf(three, depth),
        "combsum": lambda three: fuse_by_comb_sum(three, depth),
    }
    seconds = {}
    for name, fuse in fusions.items():
        with tempfile.TemporaryDirectory() as folder:
            began = time.perf_counter()
            with open_gzip_text(Path(folder) / "run.txt.gz") as file:
                for number, three in enumerate(routes):
                    file.writelines(format_run(f"q{number}", [d for d, _ in fuse(three)], "benchmark"))
            seconds[name] = round(time.perf_counter() - began, 3)
        click.echo(f"{name:8} {queries} queries, 3 x {depth} documents: {seconds[name]:.2f} s")
    click.echo(json.dumps({"seconds": seconds["daac"], **{f"seconds_{k}": v for k, v in seconds.items()}}))


if __name__ == "__main__":
    main()
