"""Make the scorer of a profile's ``[baseline]`` table."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple, Protocol, TypeVar

from pan_scdg.baselines.bm25_pairs import Bm25PairScorer, Collection
from pan_scdg.baselines.char_ngrams import CharNgramScorer
from pan_scdg.baselines.cosine import CosineScorer
from pan_scdg.baselines.prompting import PromptJudge, make_endpoint_judge
from pan_scdg.baselines.token_grams import ContainmentScorer, GramOverlapScorer
from pan_scdg.baselines.vectors import VectorScorer
from pan_scdg.models.encoder import Encoder, load_encoder
from pan_scdg.profile.baseline import (
    Bm25Pairs,
    CharNgrams,
    Containment,
    Cosine,
    GramLogistic,
    Prompted,
    Simple,
    VectorCosine,
)
from pan_scdg.records import TextPair
from pan_scdg.store import Store

Thing = TypeVar("Thing")


class PairScorer(Protocol):
    """A simple method; what it needs besides the two texts, such as an encoder, is given to its constructor."""

    features: tuple[str, ...]
    """Names of the numbers that it computes for a pair; ``score`` if there is only one."""

    def identify(self) -> dict[str, Any]:
        """Return JSON values, besides the texts, that the numbers depend on; they are part of the store's keys."""
        ...

    def score(self, pairs: Iterable[TextPair]) -> Iterator[tuple[float, ...]]:
        """Yield the numbers of each pair, in order, without keeping the pairs.

        Raises:
            UserError: a pair cannot be scored.
        """
        ...


class Given(NamedTuple):
    """The inputs of the methods besides their settings; each method uses some of them."""

    store: Store
    """Keeps vectors and answers."""
    collection: Collection | None = None
    """The sources, for the statistics of ``bm25``."""
    doc_ids: Sequence[str] = ()
    """All documents, for ``vectors``."""
    folder: Path | None = None
    """That of the encoder (``cosine``) or of the ``.npy`` files (``vectors``)."""
    fingerprint: str = ""
    """Of the encoder's folder."""
    device: str = "cpu"
    """Where the encoder runs."""
    local_judge: Callable[[Prompted, Store], PromptJudge] | None = None
    """Makes the judge of a ``prompt`` whose model is on this machine."""


def make_scorer(settings: Simple, given: Given) -> PairScorer:
    """Return the scorer of a method of the paper; nothing heavy is loaded before it scores.

    Raises:
        ValueError: an input of the method is missing.
        UserError: see the scorers.
    """
    if isinstance(settings, CharNgrams):
        return CharNgramScorer(settings.n)
    if isinstance(settings, Containment):
        return ContainmentScorer(settings.n)
    if isinstance(settings, GramLogistic):
        return GramOverlapScorer(settings.n)
    if isinstance(settings, Bm25Pairs):
        return Bm25PairScorer(settings.k1, settings.b, _require(given.collection))
    if isinstance(settings, VectorCosine):
        return VectorScorer(_require(given.folder), given.doc_ids)
    if isinstance(settings, Cosine):
        return _make_cosine(settings, given, _require(given.folder))
    if settings.served == "local":
        return _require(given.local_judge)(settings, given.store)
    return make_endpoint_judge(settings, given.store)


def _make_cosine(settings: Cosine, given: Given, folder: Path) -> CosineScorer:
    def load() -> Encoder:
        return load_encoder(folder, given.device, settings.batch)

    return CosineScorer(settings, load, given.fingerprint, given.device, given.store)


def _require(thing: Thing | None) -> Thing:
    if thing is None:
        raise ValueError("an input of this baseline is missing")
    return thing
