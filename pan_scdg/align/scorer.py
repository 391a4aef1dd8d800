"""Score pairs by their alignment: sentences that embeddings match, and passages that have their words in common."""

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

from pan_scdg.digests import hash_text
from pan_scdg.errors import UserError
from pan_scdg.models.encoder import Encoder
from pan_scdg.models.encoding import EncodingActors, Texts
from pan_scdg.align.align import CONTIGUOUS, MANY, Alignment
from pan_scdg.align.match import CORRECTION, NEARBY, NEIGHBOURS, SENTENCES, measure_match
from pan_scdg.align.quotations import RULES
from pan_scdg.align.units import EncodedText, PreparedText, prepare_text
from pan_scdg.align.wholes import EXPECTED, TOGETHER, compare_stem_sets, find_topic, measure_focus
from pan_scdg.profile import PassageSettings
from pan_scdg.records import TextPair
from pan_scdg.store import Store, make_key, pack_array, unpack_floats

REMEMBERED = 4 << 20
"""Characters of all texts whose sentences are kept in memory, which takes up to 50 bytes a character."""


FEATURES = ("match", "similarity", "common", "focus", "candidates", "words", "left_out")
"""The numbers of a pair:

- match: see `measure_match`.
- similarity: the largest of a passage that words have in common; 0 without one.
- common: see `compare_stem_sets`.
- focus: see `measure_focus`.
- candidates: the pairs of sentences that were compared, with which the match of unrelated texts rises.
- words: those of the target.
- left_out: the passages in its quotations and lists of references, which all numbers but ``words`` leave out.
"""


def name_numbers(rows: Sequence[tuple[float, ...]]) -> dict[str, npt.NDArray[np.float64]]:
    """Return the numbers of some pairs by their names, ``[pairs]`` each."""
    columns = np.array(rows, np.float64).reshape(-1, len(FEATURES)).T
    return dict(zip(FEATURES, columns, strict=True))


class AlignmentScorer:
    """Measures the evidence of alignment; every distinct text is encoded once per store.

    Args:
        load: returns the encoder; called if the vectors of a text are missing.
        fingerprint: of the encoder's folder.
        device: the kind of device that encodes; last digits depend on it.
        batch: number of sentences that are encoded together; last digits depend on it.
        store: keeps the vectors of each text as soon as they are computed; None: nothing is kept.
        unit_words: least number of words of a sentence; see `prepare_text`.
    """

    features: tuple[str, ...] = FEATURES

    def __init__(
        self,
        load: Callable[[], Encoder],
        fingerprint: str,
        device: str,
        batch: int,
        store: Store | None,
        unit_words: int = PassageSettings().unit_words,
    ) -> None:
        self._load, self._store = load, store
        self._encoded = {"encoder": fingerprint, "device": device, "batch": batch}
        self._settings = PassageSettings(unit_words=unit_words)
        self._recent: dict[str, EncodedText] = {}
        self._last: tuple[tuple[str, str, PassageSettings], Alignment] | None = None
        self._width: int | None = None

    def identify(self) -> dict[str, Any]:
        """Return the encoder, its device and the parameters of the alignment."""
        return {
            "kind": "alignment",
            **self._encoded,
            "match": [SENTENCES, NEARBY, NEIGHBOURS, CORRECTION],
            "wholes": [EXPECTED, TOGETHER],
            "passage rules": [CONTIGUOUS, MANY],
            "passages": self._settings.model_dump(mode="json"),
            "quotations": RULES,
        }

    def has_vectors(self, fingerprint: str, unit_words: int) -> bool:
        """Return True if ``prepare`` splits and encodes texts with this encoder and these sentences."""
        return (self._encoded["encoder"], self._settings.unit_words) == (fingerprint, unit_words)

    def score(self, pairs: Iterable[TextPair]) -> Iterator[tuple[float, ...]]:
        """Yield the numbers of each pair.

        Raises:
            UserError: the encoder cannot be loaded, or stored vectors are damaged.
        """
        for pair in pairs:
            first, second = self.prepare(pair.target), self.prepare(pair.source)
            target, source = first.counted, second.vectors
            alignment = self.align(pair.target, pair.source, self._settings)
            found = list(map(alignment.measure, alignment.passages))
            similarity = max((evidence.similarity for evidence in found if evidence.counts), default=0.0)
            ours, theirs = first.prepared.list_counted_stems(), set(second.prepared.stems)
            common = compare_stem_sets(len(ours & theirs), len(ours), len(theirs))
            focus = measure_focus(target, find_topic(source)[None])[0]
            numbers = len(target) * len(source), len(first.prepared.forms), sum(not e.counts for e in found)
            yield measure_match(target, source), similarity, float(common), float(focus), *map(float, numbers)

    def prepare(self, text: str) -> EncodedText:
        """Return the sentences of a text and their vectors; recent texts are remembered."""
        found = self._recent.get(text)
        if found is None:
            prepared = self.split(text)
            found = EncodedText(prepared, self.encode_units(text, prepared))
            if sum(map(len, self._recent)) + len(text) > REMEMBERED:
                self._recent.clear()
            self._recent[text] = found
        return found

    def split(self, text: str) -> PreparedText:
        """Return the sentences of a text; those of recent texts are remembered."""
        found = self._recent.get(text)
        return prepare_text(text, self._settings.unit_words) if found is None else found.prepared

    def align(self, target: str, source: str, settings: PassageSettings) -> Alignment:
        """Return the alignment of two texts by their words; the last one is remembered.

        A pair that is scored alone is located next.
        """
        of_words = settings.model_copy(update={"encoder": None, "gains": False})
        key = (target, source, of_words)
        if self._last is None or self._last[0] != key:
            self._last = key, Alignment(self.split(target), self.split(source), of_words)
        return self._last[1]

    def store_all(self, texts: Iterable[str], store: Store, actors: EncodingActors) -> Iterator[None]:
        """Encode and store the sentences of texts; yield when one is done, or was before."""
        pending: deque[str] = deque()

        def make_works() -> Iterator[list[Texts]]:
            for text in texts:
                key, sentences = self._make_key(text), list[str]()
                if store.get(key) is None:
                    sentences = [text[start:end] for start, end in self.split(text).spans.tolist()]
                pending.append(key)
                yield [Texts(sentences)] if sentences else []

        for found in actors.map(make_works()):
            key = pending.popleft()
            store.put([(key, pack_array(vectors.astype(np.float16))) for vectors in found])
            yield

    def _make_key(self, text: str) -> str:
        parameters = {**self._encoded, "least_words": self._settings.unit_words, "text": hash_text(text)}
        return make_key("sentence vectors", parameters)

    def encode_units(self, text: str, prepared: PreparedText) -> npt.NDArray[np.float32]:
        """Return the unit vectors of a text's sentences, ``[u, d]``, in half precision."""
        key, vectors = self._make_key(text), None
        if self._store is not None:
            vectors = self._store.read(key, lambda data: _unpack(data, len(prepared.spans)))
        if vectors is None:
            vectors = self._compute_vectors([text[start:end] for start, end in prepared.spans.tolist()])
            if self._store is not None:
                self._store.put([(key, pack_array(vectors))])
        self._check_width(vectors)
        return vectors.astype(np.float32)

    def _check_width(self, vectors: npt.NDArray[np.float16]) -> None:
        """Raise UserError if vectors are not as long as those of other texts, which only damaged ones are not."""
        if not vectors.size:
            return
        if self._width is None:
            self._width = vectors.shape[1]
        if self._store is not None and vectors.shape[1] != self._width:
            what = "stored vectors of one encoder differ in length"
            raise UserError(what, "delete the state", self._store.folder)

    def _compute_vectors(self, sentences: list[str]) -> npt.NDArray[np.float16]:
        if not sentences:
            return np.zeros((0, 0), np.float16)
        return self._encoder.encode(sentences).astype(np.float16)

    @cached_property
    def _encoder(self) -> Encoder:
        return self._load()


def _unpack(data: bytes, sentences: int) -> npt.NDArray[np.float16]:
    vectors = unpack_floats(data, 2)
    if len(vectors) != sentences:
        raise ValueError(f"{len(vectors)} vectors of {sentences} sentences")
    return vectors
