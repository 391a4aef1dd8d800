"""Encode batches of texts in the actors of a cluster."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from pan_scdg.cluster.actor import Place
from pan_scdg.cluster.actors import Actors
from pan_scdg.models.encoder import Encoder, load_encoder
from pan_scdg.models.fingerprint import check_same, fingerprint_folder
from pan_scdg.models.memory import explain_memory
from pan_scdg.profile import EncoderDtype

Vectors = npt.NDArray[np.float32]


class Texts(NamedTuple):
    """The arguments of `Encoder.encode`; vectors depend on which texts are encoded together."""

    texts: list[str]
    max_tokens: int | None = None


EncodingActors = Actors[Sequence[Texts], list[Vectors]]
"""Their results are the vectors of each of the texts of a task, ``[n, dimension]``."""


@dataclass(frozen=True)
class EncodingOrders:
    """The preparation of an actor that encodes."""

    folder: Path
    batch: int
    fingerprint: str
    dtype: EncoderDtype | None = None

    @classmethod
    def make(cls, encoder: Encoder) -> "EncodingOrders":
        """Return the orders to load the same encoder."""
        return cls(encoder.folder, encoder.batch, encoder.fingerprint, encoder.dtype)

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
        return explain_memory(lambda work: encode_all(encoder, work))


def encode_all(encoder: Encoder, work: Sequence[Texts]) -> list[Vectors]:
    """Return the vectors of each of the texts, ``[n, dimension]``."""
    return [encoder.encode(*texts) for texts in work]
