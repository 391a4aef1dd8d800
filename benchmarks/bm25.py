"""BM25-Sentence1 on three engines, one worker each: ``python -m benchmarks.bm25 [--documents N --queries M]``.

The fast index (engine ``impact``), PyTerrier (``terrier``), whose ranking it has to repeat, and SQLite (``fts5``),
which has another tokeniser and formula. Corpus and queries of about 150 sentences come from ``benchmarks.corpus``.
Queries go to the engines in turn, so that all see the same machine; the first query of each is a warm-up (Java's and
numba's compilers) and not timed. ``plain_terrier_seconds_per_query`` is PyTerrier's own part alone: 1,000 results a
sentence, as its user would ask for them, without order in ties and without fusion. The fast index is built in a process
of its own, whose peak memory (with all pages of the index it had mapped) is reported; ``build_seconds`` leaves out the
time in which the texts were made up.
"""

import json
import resource
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from contextlib import ExitStack
from multiprocessing import get_context
from pathlib import Path
from typing import NamedTuple

import click

from benchmarks.corpus import generate, queries
from pan_scdg.profile import Bm25Settings
from pan_scdg.records import Document
from pan_scdg.retrieval.bm25 import fts5 as bm25_fts5
from pan_scdg.retrieval.bm25 import terrier as bm25_terrier
from pan_scdg.retrieval.bm25.impact import ImpactIndex
from pan_scdg.retrieval.bm25.impact_build import build_index as build_impact_index
from pan_scdg.retrieval.ranking import Ranking
from pan_scdg.retrieval.sentences import split_sentences

BUILDERS = {
    "impact": build_impact_index,
    "terrier": bm25_terrier.build_index,
    "fts5": bm25_fts5.build_index,
}
PLAIN_RESULTS = 1000


class Built(NamedTuple):
    """Time and memory that building an index took."""

    seconds: float
    peak_gib: float


class _Timed:
    """Documents, and the seconds it took to make them up."""

    def __init__(self, documents: int, seed: int) -> None:
        self.seconds = 0.0
        self._documents = generate(documents, seed)

    def __iter__(self) -> Iterator[Document]:
        while True:
            began = time.perf_counter()
            document = next(self._documents, None)
            self.seconds += time.perf_counter() - began
            if document is None:
                return
            yield document


def build(engine: str, documents: int, seed: int, path: Path) -> Built:
    """Build the index of a generated corpus."""
    texts = _Timed(documents, seed)
    began = time.perf_counter()
    BUILDERS[engine](texts, path)
    seconds = time.perf_counter() - began
    # Terrier reads in a thread of its own, so the time in which texts are made up is partly its time too.
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / (1 << (30 if sys.platform == "darwin" else 20))
    return Built(seconds if engine == "terrier" else seconds - texts.seconds, peak)


def plain(index: bm25_terrier.TerrierIndex, text: str) -> None:
    """PyTerrier's own part of a query."""
    units = [index._pick_rarest(sentence, Bm25Settings().terms) for sentence in split_sentences(text)]
    index._retrieve({number: terms for number, terms in enumerate(units) if terms}, PLAIN_RESULTS)


def measure(searches: dict[str, Callable[[str], object]], texts: list[str]) -> tuple[dict[str, float], bool]:
    """Seconds a query of each engine, and whether the two that have to rank the same do so for every query."""
    spent = dict.fromkeys(searches, 0.0)
    identical = True
    for number, text in enumerate([texts[0], *texts]):
        results = {}
        for engine, search in searches.items():
            began = time.perf_counter()
            results[engine] = search(text)
            spent[engine] += time.perf_counter() - began if number else 0.0
        identical = identical and _ids(results["impact"]) == _ids(results["terrier"])
    return {engine: seconds / len(texts) for engine, seconds in spent.items()}, identical


def _ids(ranking: object) -> list[str]:
    found: Ranking = ranking  # type: ignore[assignment]
    return [ranked.doc_id for ranked in found]


def table(built: dict[str, Built], spent: dict[str, float]) -> str:
    rows = [
        f"{engine:14} {f'{built[engine].seconds:.1f}' if engine in built else '':>10} {seconds:14.4f}"
        for engine, seconds in spent.items()
    ]
    return "\n".join([f"{'engine':14} {'build (s)':>10} {'s per query':>14}", *rows])


@click.command(help=__doc__)
@click.option("--documents", default=2000, show_default=True, type=click.IntRange(1))
@click.option("--queries", "count", default=5, show_default=True, type=click.IntRange(1))
@click.option("--seed", default=0, show_default=True, type=click.IntRange(0))
def main(documents: int, count: int, seed: int) -> None:
    texts = [query.text for query in queries(count, documents, seed)]
    with tempfile.TemporaryDirectory() as name, ExitStack() as opened:
        paths = {engine: Path(name) / engine for engine in BUILDERS}
        with ProcessPoolExecutor(1, get_context("spawn")) as other:
            built = {"impact": other.submit(build, "impact", documents, seed, paths["impact"]).result()}
        built |= {engine: build(engine, documents, seed, paths[engine]) for engine in ("terrier", "fts5")}
        settings = Bm25Settings()
        impact = opened.enter_context(ImpactIndex(paths["impact"], settings))
        terrier = opened.enter_context(bm25_terrier.TerrierIndex(paths["terrier"], settings))
        fts5 = opened.enter_context(bm25_fts5.Bm25Index(paths["fts5"], settings))
        searches: dict[str, Callable[[str], object]] = {
            "impact": impact.search_sentences,
            "terrier": terrier.search_sentences,
            "plain terrier": lambda text: plain(terrier, text),
            "fts5": fts5.search_sentences,
        }
        spent, identical = measure(searches, texts)
    click.echo(table(built, spent))
    figures = {
        "ratio": spent["terrier"] / spent["impact"],
        "identical": identical,
        "seconds_per_query": spent["impact"],
        "terrier_seconds_per_query": spent["terrier"],
        "plain_terrier_seconds_per_query": spent["plain terrier"],
        "fts5_seconds_per_query": spent["fts5"],
        "build_seconds": built["impact"].seconds,
        "terrier_build_seconds": built["terrier"].seconds,
        "peak_memory_gib": built["impact"].peak_gib,
        "documents": documents,
        "queries": count,
    }
    click.echo(json.dumps({key: round(v, 4) if isinstance(v, float) else v for key, v in figures.items()}))


if __name__ == "__main__":
    main()
