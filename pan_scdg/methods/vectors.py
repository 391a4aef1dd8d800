"""Score pairs by the cosine of precomputed document vectors, in the layout of the official PAN 2025 baseline.

Its ``embeddings.py`` writes one file per document into one folder, ``<name as in pairs>.npy`` (such as
``suspicious-document00001.txt.npy``), with one row per paragraph: ``[paragraphs, d]``. Here a file may also be ``[d]``,
and its name may lack the ``.txt``. The document's vector is the mean of the rows as they are (paper, Embedding cosine
baselines), where the official baseline compares paragraphs with each other.
"""

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from pan_scdg.methods.cosine import compute_cosine
from pan_scdg.digests import hash_file, hash_text
from pan_scdg.errors import UserError, UserErrors
from pan_scdg.records import TextPair


class VectorScorer:
    """Cosine of the vectors of two documents, by their ids; the texts play no part.

    Args:
        folder: holds the files.
        doc_ids: all documents of the job; the bytes of their files identify the scorer.

    Raises:
        UserErrors: naming every document without a file.
    """

    features: tuple[str, ...] = ("score",)

    def __init__(self, folder: Path, doc_ids: Iterable[str]) -> None:
        errors: list[UserError] = []
        self._files: dict[str, Path] = {}
        for doc_id in sorted(set(doc_ids)):
            try:
                self._files[doc_id] = find_vector_file(folder, doc_id)
            except UserError as e:
                errors.append(e)
        if errors:
            raise UserErrors(errors)
        listing = "".join(f"{doc_id}\n{hash_file(path)}\n" for doc_id, path in self._files.items())
        self._digest = hash_text(listing)

    def identify(self) -> dict[str, Any]:
        """Return a hash of the bytes of all files."""
        return {"kind": "vectors", "files": self._digest}

    def score(self, pairs: Iterable[TextPair]) -> Iterator[tuple[float, ...]]:
        """Yield one number per pair, from -1 to 1.

        Raises:
            UserError: a file is not a vector, or two have different widths.
        """
        for pair in pairs:
            target, source = (read_vector(self._files[doc_id]) for doc_id in (pair.target_id, pair.source_id))
            if target.shape != source.shape:
                raise UserError(
                    f"has {target.size} numbers per row, but {source.size} in {self._files[pair.source_id].name}",
                    "give the vectors of one model",
                    self._files[pair.target_id],
                )
            yield (compute_cosine(target, source),)


def find_vector_file(folder: Path, doc_id: str) -> Path:
    """Return the file of a document, named by the last part of its id.

    Raises:
        UserError: the file does not exist.
    """
    name = doc_id.rpartition("/")[2].removesuffix(".txt")
    for path in (folder / f"{name}.txt.npy", folder / f"{name}.npy"):
        if path.is_file():
            return path
    raise UserError(f"the vectors of {doc_id!r} are missing ({name}.txt.npy)", "add the file", folder)


def read_vector(path: Path) -> npt.NDArray[np.float64]:
    """Return the mean of the rows of one file, ``[d]``.

    Raises:
        UserError: not an ``.npy`` file of numbers with one or two dimensions, without rows, or with one not finite.
    """
    try:
        # mapped, so that a header that promises more than the file holds is an error and not an allocation
        rows = np.load(path, mmap_mode="r", allow_pickle=False)
    except Exception as e:  # the header is parsed as Python, whose parser has many ways to refuse it
        raise UserError(f"not vectors in NumPy's format: {e}", "write it with numpy.save", path) from e
    if not isinstance(rows, np.ndarray) or rows.ndim not in (1, 2) or rows.dtype.kind != "f" or not rows.size:
        what = f"{rows.dtype} {list(rows.shape)}" if isinstance(rows, np.ndarray) else "several arrays"
        raise UserError(f"contains {what}, not floats [d] or [rows, d]", "write one row per paragraph or chunk", path)
    vector = np.atleast_2d(rows).mean(axis=0, dtype=np.float64)
    if not np.isfinite(vector).all():
        raise UserError("contains a number that is not finite", "compute these vectors again", path)
    return np.asarray(vector)
