"""Encode batches of texts in this process or in the actors of a cluster; the vectors are the same."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, NamedTuple

import numpy as np
import numpy.typing as npt

from pan_scdg.cluster.actor import OutOfMemory, Place
from pan_scdg.cluster.actors import Actors
from pan_scdg.cluster.session import Cluster
from pan_scdg.models.encoder import Encoder, load_encoder
from pan_scdg.models.fingerprint import check_same, fingerprint_folder
from pan_scdg.models.memory import is_out_of_memory

Vectors = npt.NDArray[np.float32]


class Texts(NamedTuple):
    """The arguments of `Encoder.encode`; vectors depend on which texts are encoded together."""

    texts: list[str]
    max_tokens: int | None = None


Encode = Callable[[Iterable[Sequence[Texts]]], Iterator[list[Vectors]]]
"""Yields the vectors of each work, in order: ``[n, dimension]`` for each of its texts."""


@dataclass(frozen=True)
class EncodingOrders:
    """The preparation of an actor that encodes."""

    folder: Path
    batch: int
    fingerprint: str
    dtype: Literal["bfloat16"] | None = None

    def prepare(self) -> None:
        """Import the library."""
        import sentence_transformers  # noqa: F401

    def load(self, place: Place) -> Callable[[Sequence[Texts]], list[Vectors]]:
        """Return the function that encodes texts.

        Raises:
            UserError: the model is not at this path, or it is another one.
        """
        import torch

        if not place.here:
            check_same(self.folder, fingerprint_folder, self.fingerprint)
        torch.set_num_threads(place.threads)
        encoder = load_encoder(self.folder, place.device, self.batch, self.dtype)

        def encode(work: Sequence[Texts]) -> list[Vectors]:
            try:
                return _encode(encoder, work)
            except Exception as e:
                if is_out_of_memory(e):
                    raise OutOfMemory(str(e)) from None
                raise

        return encode


def _encode(encoder: Encoder, work: Sequence[Texts]) -> list[Vectors]:
    return [encoder.encode(*texts) for texts in work]


@contextmanager
def open_actors(orders: EncodingOrders, device: str, cluster: Cluster) -> Iterator[Encode]:
    """Yield a function that encodes in the actors of a cluster, which end with the context."""
    with Actors[Sequence[Texts], list[Vectors]](cluster, orders, device) as actors:
        yield actors.map


@contextmanager
def open_encoding(encoder: Encoder, cluster: Cluster | None) -> Iterator[Encode]:
    """Yield a function that encodes with a loaded encoder, or in actors if the cluster has several devices."""
    if cluster is None or not cluster.needs_ray(encoder.device):
        yield lambda works: (_encode(encoder, work) for work in works)
        return
    orders = EncodingOrders(encoder.folder, encoder.batch, encoder.fingerprint, encoder.dtype)
    with open_actors(orders, encoder.device, cluster) as encode:
        yield encode
