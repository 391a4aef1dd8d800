"""The numbers that a baseline gives of pairs: each from the store where it is known, the rest computed and kept.

Texts are read twice, once for the digests under which numbers are kept and once more for those that are missing, and
one pair at a time, so that any number of documents of any length fits.
"""

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import islice
from typing import NamedTuple

import numpy as np
from pydantic import TypeAdapter

from pan_scdg.baselines.bm25_pairs import Collection, collection_digest
from pan_scdg.baselines.scorer import PairScorer, TextPair
from pan_scdg.baselines.vectors import VectorScorer
from pan_scdg.digests import text_digest
from pan_scdg.errors import UserError
from pan_scdg.evaluation.logistic import LogisticFit, probabilities
from pan_scdg.own_files import EXACT, parse_as
from pan_scdg.pan.text_alignment import read_text
from pan_scdg.profile.baseline import BaselineSettings, GramLogistic
from pan_scdg.progress import Progress
from pan_scdg.records import DocumentPair, TextFile
from pan_scdg.scdg.arrays import Floats
from pan_scdg.store import Store, key_of

_NUMBERS = TypeAdapter(list[float], config=EXACT)
STEP = 32
"""Pairs whose numbers are stored together; as many are lost at most when a run is killed."""


class LazyText(NamedTuple):
    """A document that is read when it is needed. Its id stands for one text."""

    doc_id: str
    read: Callable[[], str]


class LazyPair(NamedTuple):
    """A pair of them."""

    target: LazyText
    source: LazyText

    def texts(self) -> TextPair:
        """Both texts, read now."""
        return TextPair(self.target.doc_id, self.source.doc_id, self.target.read(), self.source.read())


class TextFacts(NamedTuple):
    """What is kept in mind of a text."""

    digest: str
    length: int
    """In characters."""


def lazy_pair(pair: DocumentPair) -> LazyPair:
    """A pair of files."""
    return LazyPair(_lazy(pair.suspicious), _lazy(pair.source))


def _lazy(file: TextFile) -> LazyText:
    return LazyText(file.doc_id, lambda: read_text(file))


def read_facts(documents: Iterable[LazyText]) -> tuple[dict[str, TextFacts], dict[str, UserError]]:
    """Digest and length of every document by its id, each read once; and what is wrong with those not readable."""
    distinct = {document.doc_id: document for document in documents}
    facts: dict[str, TextFacts] = {}
    faults: dict[str, UserError] = {}
    with Progress("reading texts", len(distinct)) as progress:
        for doc_id, document in distinct.items():
            try:
                text = document.read()
                facts[doc_id] = TextFacts(text_digest(text), len(text))
            except UserError as e:
                faults[doc_id] = e
            progress.update()
    return facts, faults


def collection_of(sources: Iterable[LazyText], facts: Mapping[str, TextFacts]) -> Collection:
    """The collection of these sources, each document once; those without facts are left out."""
    known = {source.doc_id: source for source in sources if source.doc_id in facts}
    digest = collection_digest(facts[doc_id].digest for doc_id in known)
    return Collection(digest, lambda: (source.read() for source in known.values()))


def pair_key(pair: LazyPair, scorer: PairScorer, facts: Mapping[str, TextFacts]) -> str:
    """The store's key of a pair's numbers."""
    target, source = pair.target.doc_id, pair.source.doc_id
    # vectors that were made elsewhere belong to ids and not to texts
    ids = {"ids": [target, source]} if isinstance(scorer, VectorScorer) else {}
    texts = {"target": facts[target].digest, "source": facts[source].digest}
    return key_of("baseline", {"scorer": scorer.identity(), **texts, **ids})


def score_pairs(
    pairs: Sequence[LazyPair], scorer: PairScorer, store: Store, facts: Mapping[str, TextFacts]
) -> list[tuple[float, ...]]:
    """The scorer's numbers of every pair, in order; what is missing is computed and stored in steps.

    Raises:
        UserError: a pair cannot be scored; what was computed before is kept.
    """
    keys = [pair_key(pair, scorer, facts) for pair in pairs]
    stored = {key: store.read(key, lambda data: _unpacked(data, scorer)) for key in dict.fromkeys(keys)}
    missing = {key: pair for key, pair in zip(keys, pairs, strict=True) if stored[key] is None}
    known = {key: values for key, values in stored.items() if values is not None}
    if missing:
        known |= _computed(missing, scorer, store)
    return [known[key] for key in keys]


def _computed(missing: Mapping[str, LazyPair], scorer: PairScorer, store: Store) -> dict[str, tuple[float, ...]]:
    found: dict[str, tuple[float, ...]] = {}
    numbers = zip(missing, scorer.score(pair.texts() for pair in missing.values()), strict=True)
    with Progress("scoring pairs", len(missing)) as progress:
        for step in _steps(numbers, store):
            found.update(step)
            progress.update(len(step))
    return found


def _steps(
    numbers: Iterator[tuple[str, tuple[float, ...]]], store: Store
) -> Iterator[list[tuple[str, tuple[float, ...]]]]:
    """Groups of numbers as they come, each stored; what is there of a group when something fails is stored, too."""
    step: list[tuple[str, tuple[float, ...]]] = []
    while True:
        try:
            for item in islice(numbers, STEP):
                step.append(item)
        finally:
            store.put((key, _packed(values)) for key, values in step)
        if not step:
            return
        yield step
        step = []


def decision_scores(settings: BaselineSettings, rows: Sequence[tuple[float, ...]]) -> Floats:
    """The number of each pair that is held against the threshold, ``[pairs]``.

    Raises:
        ValueError: the method has weights, and they were not fitted.
    """
    if not isinstance(settings, GramLogistic):
        return np.array([row[0] for row in rows], dtype=np.float64)
    w = settings.weights
    if w is None:
        raise ValueError("the weights were not fitted")
    return probabilities(LogisticFit(w.intercept, w.coefficients, w.mean, w.scale), np.array(rows, dtype=np.float64))


def _packed(values: tuple[float, ...]) -> bytes:
    return json.dumps([float(value) for value in values]).encode()


def _unpacked(data: bytes, scorer: PairScorer) -> tuple[float, ...]:
    values = parse_as(data, _NUMBERS)
    if len(values) != len(scorer.features):
        raise ValueError(f"{len(values)} numbers of a pair, not {len(scorer.features)}")
    return tuple(values)
