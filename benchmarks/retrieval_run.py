"""Time and peak memory of job 2 at the size of PAN 2026: ``python -m benchmarks.retrieval_run [--documents N ...]``.

A corpus is generated (`benchmarks.corpus`), indexed, and a run with ``--index`` retrieves and reranks, each step in a
process of its own whose peak memory is reported. The profile is ``offline`` with the paper's chunks and the fast BM25.
BM25 covers the whole corpus; vectors are encoded for the first documents and drawn at random for the rest, since the
encoder's speed is not the question here. With ``--work`` the corpus and the indexes are kept and taken up again.
"""

import json
import multiprocessing
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path

import click
import numpy as np
import numpy.typing as npt
import tomlkit

from benchmarks import corpus
from pan_scdg.locks import lock_folder
from pan_scdg.models.encoder import Encoder
from pan_scdg.notices import Notices
from pan_scdg.pan.source_retrieval import Corpus
from pan_scdg.profile import find_profile, load_profile
from pan_scdg.retrieval.candidates import load_retrieval_encoder
from pan_scdg.retrieval.catalogue import index_corpus
from pan_scdg.retrieval.document_groups import DOCUMENTS_A_GROUP

ENTRYPOINT = Path(__file__).parents[1] / "entrypoint.py"
PAPERS_CHUNKS = {"chunk_words": 768, "chunk_stride": 512, "chunks": 8}


class MostlyDrawn(Encoder):
    """Encodes the first groups of documents and draws the unit vectors of all others, with the fingerprint of the real.

    It counts calls: each group of documents has one for its chunks and one for its abstracts.
    """

    def __init__(self, real: Encoder, encoded: int) -> None:
        self._real, self._encoded, self._calls = real, encoded, 0
        self._rng = np.random.default_rng(0)
        self.batch, self.folder, self.device = real.batch, real.folder, real.device
        self.dtype = real.dtype
        self.max_tokens, self.dimension = real.max_tokens, real.dimension

    def encode(self, texts: Sequence[str], max_tokens: int | None = None, prompt: str = "") -> npt.NDArray[np.float32]:
        """Unit vectors of the texts, or as many random ones."""
        group = self._calls // 2
        self._calls += 1
        if group < self._encoded:
            return self._real.encode(texts, max_tokens, prompt)
        drawn = self._rng.standard_normal((len(texts), self.dimension), dtype=np.float32)
        unit: npt.NDArray[np.float32] = drawn / np.linalg.norm(drawn, axis=1, keepdims=True)
        return unit


def write_profile(path: Path, reranked: int) -> None:
    """Write ``offline`` with the paper's chunks, the fast BM25 and ``reranked`` candidates to rerank."""
    profile = tomlkit.parse(find_profile("offline").read_text(encoding="utf-8"))
    profile["name"] = "offline-at-full-size"
    retrieval = profile["retrieval"]
    retrieval["scored"] = reranked
    retrieval["bm25"]["engine"] = "impact"
    retrieval["dense"].update(PAPERS_CHUNKS)
    path.write_text(tomlkit.dumps(profile), encoding="utf-8")


def make_index(work: Path, encoded: int) -> None:
    """The indexes of the corpus in ``work``, most of the vectors drawn."""
    settings = load_profile(str(work / "profile.toml")).need_retrieval()
    real = load_retrieval_encoder(settings, "cpu")
    assert real is not None, "the profile has dense routes"
    drawn = MostlyDrawn(real, -(-encoded // DOCUMENTS_A_GROUP))
    with lock_folder(work / "index"):
        index_corpus(Corpus(work / "input", Notices()), work / "index", settings, drawn)


def measured(action: Callable[..., None], *arguments: object) -> tuple[float, float]:
    """Seconds and peak memory in GiB of a function in a process of its own."""
    # A process counts the peak of the one it was started from, so each is started by one that has stayed small.
    with multiprocessing.get_context("spawn").Pool(1) as alone:
        return alone.apply(_measure, (action, *arguments))


def _measure(action: Callable[..., None], *arguments: object) -> tuple[float, float]:
    began = time.perf_counter()
    action(*arguments)
    peaks = [resource.getrusage(who).ru_maxrss for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return time.perf_counter() - began, max(peaks) / (1 << (30 if sys.platform == "darwin" else 20))


def run(work: Path) -> None:
    """One run of the program as a user starts it."""
    options = {"--input": "input", "--output": "output", "--index": "index", "--profile": "profile.toml"}
    words = [word for option, name in options.items() for word in (option, str(work / name))]
    subprocess.run([sys.executable, str(ENTRYPOINT), "run", *words, "--device", "cpu", "--overwrite"], check=True)


@click.command(help=__doc__)
@click.option("--documents", default=corpus.DOCUMENTS, show_default=True, type=click.IntRange(1))
@click.option("--queries", "count", default=5, show_default=True, type=click.IntRange(1))
@click.option("--encoded", default=5000, show_default=True, type=click.IntRange(0), help="documents")
@click.option("--reranked", default=20, show_default=True, type=click.IntRange(1))
@click.option("--work", type=click.Path(path_type=Path, file_okay=False), help="folder to keep")
def main(documents: int, count: int, encoded: int, reranked: int, work: Path | None) -> None:
    with tempfile.TemporaryDirectory() as folder:
        work = work or Path(folder)
        if not (work / "input" / "qrels.txt").exists():
            corpus.write(work / "input", documents, count, 0)
        write_profile(work / "profile.toml", reranked)
        index_seconds, index_peak = measured(make_index, work, encoded)
        run_seconds, run_peak = measured(run, work)
        size = sum(path.stat().st_size for path in (work / "index").rglob("*") if path.is_file())
    figures = {
        "peak_memory_gib": run_peak,
        "seconds": run_seconds,
        "index_peak_memory_gib": index_peak,
        "index_seconds": index_seconds,
        "index_gib": size / (1 << 30),
    }
    for name, value in figures.items():
        click.echo(f"{name:24}{value:10.2f}")
    sizes = {"documents": documents, "queries": count, "encoded": encoded, "reranked": reranked}
    click.echo(json.dumps({name: round(value, 3) for name, value in figures.items()} | sizes))


if __name__ == "__main__":
    main()
