"""Keep a checked corpus in a temporary file, so that the input is read once however often its texts are needed."""

import hashlib
from collections.abc import Collection, Iterator, KeysView, Sequence
from itertools import islice
from pathlib import Path

from pan_scdg.notices import Notices
from pan_scdg.pan.kept_texts import CompressedFile
from pan_scdg.pan.source_retrieval import stream_corpus
from pan_scdg.records import Document


class Corpus:
    """The documents of a corpus file, each of them checked, in the order of the file.

    Ids and the places of the texts are in memory; the texts are in a temporary file, which ends with the process.

    Raises:
        UserError: see `stream_corpus`.
    """

    def __init__(self, directory: Path, notices: Notices) -> None:
        digest = hashlib.sha256()
        self._numbers: dict[str, int] = {}
        self._texts = CompressedFile("corpus")
        for document in stream_corpus(directory, notices, digest.update):
            self._numbers[document.doc_id] = self._texts.append(document.text.encode())
        self.digest = digest.hexdigest()
        """SHA-256 (hex) of the corpus file."""

    @property
    def ids(self) -> KeysView[str]:
        """Return the ids of all documents, a set."""
        return self._numbers.keys()

    def __len__(self) -> int:
        return len(self._numbers)

    def __iter__(self) -> Iterator[Document]:
        for number, doc_id in enumerate(self._numbers):
            yield self._read(number, doc_id)

    def hash_parts(self, counts: Sequence[int]) -> list[str]:
        """Return the SHA-256 (hex) over ids and texts of the first documents, of those after them, and so on."""
        documents, found = iter(self), []
        for count in counts:
            digest = hashlib.sha256()
            for field in (field.encode() for document in islice(documents, count) for field in document):
                digest.update(len(field).to_bytes(8, "big") + field)
            found.append(digest.hexdigest())
        return found

    def select(self, wanted: Collection[str]) -> Iterator[Document]:
        """Yield the documents that ``wanted`` names and the corpus has, in the order of the corpus."""
        for number, doc_id in sorted((self._numbers[doc_id], doc_id) for doc_id in wanted if doc_id in self._numbers):
            yield self._read(number, doc_id)

    def _read(self, number: int, doc_id: str) -> Document:
        return Document(doc_id, self._texts.read(number).decode())
