"""The scorer that a profile's ``[baseline]`` table asks for."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NamedTuple, TypeVar

from pan_scdg.baselines.bm25_pairs import Bm25PairScorer, Collection
from pan_scdg.baselines.char_ngrams import CharNgramScorer
from pan_scdg.baselines.cosine import CosineScorer
from pan_scdg.baselines.judge import PromptJudge, endpoint_judge
from pan_scdg.baselines.scorer import PairScorer
from pan_scdg.baselines.token_grams import ContainmentScorer, GramOverlapScorer
from pan_scdg.baselines.vectors import VectorScorer
from pan_scdg.models.encoder import Encoder, load_encoder
from pan_scdg.profile.baseline import (
    BaselineSettings,
    Bm25Pairs,
    CharNgrams,
    Containment,
    Cosine,
    GramLogistic,
    Prompted,
    VectorCosine,
)
from pan_scdg.store import Store

Thing = TypeVar("Thing")


class Given(NamedTuple):
    """What the methods need beside their settings; each takes its own, and what it takes must be there."""

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
    """Loads the model of a ``prompt`` that is served by this machine."""


def scorer_of(settings: BaselineSettings, given: Given) -> PairScorer:
    """The scorer of a profile; nothing heavy is loaded before it scores.

    Raises:
        ValueError: what the method needs was not given.
        UserError: see the scorers.
    """
    if isinstance(settings, CharNgrams):
        return CharNgramScorer(settings.n)
    if isinstance(settings, Containment):
        return ContainmentScorer(settings.n)
    if isinstance(settings, GramLogistic):
        return GramOverlapScorer(settings.n)
    if isinstance(settings, Bm25Pairs):
        return Bm25PairScorer(settings.k1, settings.b, _there(given.collection))
    if isinstance(settings, VectorCosine):
        return VectorScorer(_there(given.folder), given.doc_ids)
    if isinstance(settings, Cosine):
        return _cosine(settings, given, _there(given.folder))
    if settings.served == "local":
        return _there(given.local_judge)(settings, given.store)
    return endpoint_judge(settings, given.store)


def _cosine(settings: Cosine, given: Given, folder: Path) -> CosineScorer:
    def load() -> Encoder:
        return load_encoder(folder, given.device, settings.batch)

    return CosineScorer(settings, load, given.fingerprint, given.device, given.store)


def _there(thing: Thing | None) -> Thing:
    if thing is None:
        raise ValueError("this baseline was not given what it needs")
    return thing
