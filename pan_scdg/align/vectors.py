"""Encode the sentences of texts, each text once as long as it is remembered."""

from collections import OrderedDict
from collections.abc import Callable, Iterable, Sequence
from functools import cached_property, partial
from itertools import chain
from typing import TYPE_CHECKING, Generic, NamedTuple, TypeVar

import numpy as np
import numpy.typing as npt

from pan_scdg.models.find import find_encoder
from pan_scdg.models.fingerprint import fingerprint_folder
from pan_scdg.settings import EncoderDtype
from pan_scdg.text.units import PreparedText, prepare_text, show_as_read

if TYPE_CHECKING:
    from pan_scdg.models.encoder import Encoder, EncoderUse

BATCH_SIZE = 32
"""Sentences that are encoded together where `models.bert` cannot; the last digits of vectors depend on it."""
MAX_PREPARED_CHARACTERS = 4 << 20
"""Characters of the texts whose words are kept, which takes up to 50 bytes a character."""
MAX_ENCODED_CHARACTERS = 32 << 20
"""Characters of the texts whose vectors are kept; encoding takes longest, and vectors take some 8 bytes a character."""

Value = TypeVar("Value")


class EncodedText(NamedTuple):
    """A text and the vectors of its sentences."""

    prepared: PreparedText
    vectors: npt.NDArray[np.float32]
    """Unit vectors of the units, rounded to half precision, ``[u, d]``; ``[0, 0]`` without units, or in a script that
    the encoder does not know."""

    @property
    def counted_vectors(self) -> npt.NDArray[np.float32]:
        """Return the vectors of the units that count in a target."""
        return self.vectors[self.prepared.counted] if self.vectors.size else self.vectors

    @property
    def is_unread(self) -> bool:
        """Return True if the encoder does not know the script of the text."""
        return len(self.prepared.units) > 0 and not self.vectors.size


class TextCache(Generic[Value]):
    """Remembers what was computed of texts, the least recently used ones only up to a number of characters.

    Args:
        compute: returns the values of texts.
        max_characters: of the texts that are remembered.
    """

    def __init__(self, compute: Callable[[Sequence[str]], Iterable[Value]], max_characters: int) -> None:
        self._compute, self._max_characters = compute, max_characters
        self._values: OrderedDict[str, Value] = OrderedDict()
        self._characters = 0

    def add(self, texts: Iterable[str]) -> None:
        """Compute the values of texts that are not remembered, all together."""
        new = [text for text in dict.fromkeys(texts) if text not in self._values]
        for text, value in zip(new, self._compute(new), strict=True):
            self._values[text] = value
            self._characters += len(text)
            while self._characters > self._max_characters and len(self._values) > 1:
                oldest, _ = self._values.popitem(last=False)
                self._characters -= len(oldest)

    def get(self, text: str) -> Value:
        """Return the value of a text."""
        if text not in self._values:
            self.add([text])
        self._values.move_to_end(text)
        return self._values[text]


class SentenceEncoder:
    """Splits texts into sentences and encodes these; the model is found now and loaded for the first text.

    Args:
        name: a name in the model folders, or a folder.
        device: "cpu" or "cuda".
        batch: number of sentences that are encoded together.
        dtype: of the weights; thresholds were calibrated with float32.
        keep_headings: headings are sentences, as for the sources of a query, whose titles name their topic.
        opened: has the same model, which is then loaded once.

    Raises:
        UserError: the model is missing or damaged.
    """

    def __init__(
        self,
        name: str,
        device: str,
        batch: int = BATCH_SIZE,
        dtype: EncoderDtype = "float32",
        *,
        keep_headings: bool = False,
        opened: "SentenceEncoder | None" = None,
    ) -> None:
        self.model = find_encoder(name)
        self.fingerprint = fingerprint_folder(self.model.folder)
        self._device, self._batch, self._dtype, self._opened = device, batch, dtype, opened
        prepare: Callable[[str], PreparedText] = partial(prepare_text, keep_headings=keep_headings)
        self._prepared = TextCache[PreparedText](partial(map, prepare), MAX_PREPARED_CHARACTERS)
        self._vectors = TextCache(self._compute_vectors, MAX_ENCODED_CHARACTERS)

    def split(self, text: str) -> PreparedText:
        """Return the words and sentences of a text."""
        return self._prepared.get(text)

    def encode(self, text: str) -> EncodedText:
        """Return the sentences of a text and their vectors."""
        return EncodedText(self.split(text), self._vectors.get(text).astype(np.float32))

    def encode_ahead(self, texts: Iterable[str]) -> None:
        """Encode the sentences of texts together, which is faster than text by text, and remember their vectors."""
        self._vectors.add(texts)

    def knows_script(self, text: str) -> bool:
        """Return False if the encoder does not know the script of a text."""
        return text.isascii() or self._encoder.knows_script(show_as_read(text))

    def _compute_vectors(self, texts: Sequence[str]) -> list[npt.NDArray[np.float16]]:
        sentences = [self._list_sentences(text) for text in texts]
        vectors = self._encoder.encode(list(chain(*sentences))).astype(np.float16) if any(sentences) else None
        ends = np.cumsum([len(own) for own in sentences]).tolist()
        return [
            np.zeros((0, 0), np.float16) if vectors is None or not own else vectors[end - len(own) : end].copy()
            for own, end in zip(sentences, ends, strict=True)
        ]

    def _list_sentences(self, text: str) -> list[str]:
        """Return the sentences of a text as the model reads them; none if it does not know the script."""
        prepared = self.split(text)
        sentences = [show_as_read(prepared.text[start:end]) for start, end in prepared.spans.tolist()]
        return sentences if sentences and self._encoder.knows_script(" ".join(sentences)) else []

    @property
    def use(self) -> "EncoderUse":
        """Return how the encoder is loaded."""
        from pan_scdg.models.encoder import EncoderUse

        return EncoderUse(self.model.folder, self._batch, self._dtype)

    @cached_property
    def _encoder(self) -> "Encoder":
        if self._opened is not None:
            return self._opened._encoder
        return self.use.load(self._device)
