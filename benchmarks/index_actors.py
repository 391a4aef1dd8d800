"""Measure the time that actors save the builder of BM25: ``python -m benchmarks.index_actors [--documents N]``.

An index of engine ``impact`` is built of generated documents (``benchmarks.corpus``), first in this process alone and
then with two actors, which count the terms. Processor times hardly depend on other jobs of the machine. Reading and
checking the corpus, which this process does alone, has a line of its own; the start of Ray is not counted. Needs
Terrier's stopwords: ``pan-scdg models fetch terrier``.
"""

import tempfile
import time
from pathlib import Path

import click

from benchmarks import corpus
from pan_scdg.cluster.session import Cluster
from pan_scdg.locks import lock_folder
from pan_scdg.notices import Notices
from pan_scdg.pan.source_retrieval import Corpus
from pan_scdg.profile import load_profile
from pan_scdg.retrieval.catalogue import index_corpus

PROFILE = "pan26-bm25-full"


def measure(texts: Corpus, folder: Path, cluster: Cluster | None) -> tuple[float, float]:
    """Build an index; return the seconds that it took, and the processor seconds of this process."""
    settings = load_profile(PROFILE).need_retrieval()
    settings = settings.model_copy(update={"bm25": settings.bm25.model_copy(update={"engine": "impact"})})
    began, used = time.perf_counter(), time.process_time()
    with lock_folder(folder):
        index_corpus(texts, folder, settings, None, cluster)
    return time.perf_counter() - began, time.process_time() - used


@click.command(help=__doc__)
@click.option("--documents", default=4000, show_default=True, type=click.IntRange(1))
@click.option("--seed", default=0, show_default=True, type=click.IntRange(0))
def main(documents: int, seed: int) -> None:
    with tempfile.TemporaryDirectory(prefix="index-actors-") as name:
        corpus.write(Path(name), documents, 1, seed)
        used = time.process_time()
        texts, cluster = Corpus(Path(name), Notices()), Cluster("local", 2)
        click.echo(f"reading the corpus: {(time.process_time() - used) / documents * 1e3:.2f} ms a document")
        cluster.connect()
        try:
            for number, given in enumerate((None, cluster)):
                seconds, used = measure(texts, Path(name, str(number)), given)
                who = "this process alone" if given is None else "with two actors"
                each, own = seconds / documents * 1e3, used / documents * 1e3
                click.echo(f"{who}: {each:.2f} ms a document, {own:.2f} ms of the processor in this process")
        finally:
            cluster.close()
        same = all(
            path.read_bytes() == Path(name, "1", path.relative_to(Path(name, "0"))).read_bytes()
            for path in Path(name, "0").glob("bm25-*/*")
        )
    click.echo(f"the same bytes: {same}")


if __name__ == "__main__":
    main()
