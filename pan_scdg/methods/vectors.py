"""Score pairs by the cosine of precomputed document vectors, in the layout of the official PAN 2025 baseline.

Its ``embeddings.py`` writes one file per document into one folder, ``<name as in pairs>.npy`` (such as
``suspicious-document00001.txt.npy``), with one row per paragraph: ``[paragraphs, d]``. Here a file may also be ``[d]``,
and its name may lack the ``.txt``. The document's vector is the mean of the rows as they are (paper, Embedding cosine
baselines), where the official baseline compares paragraphs with each other.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from pan_scdg.digests import hash_file, hash_text
from pan_scdg.errors import UserError
from pan_scdg.methods import Measurements, Method, MethodOptions, MethodSettings
from pan_scdg.methods.cosine import choose_officially, compute_cosine
from pan_scdg.methods.simple import SimpleMethod
from pan_scdg.normal_form import list_forms
from pan_scdg.records import Identities, TextPair
from pan_scdg.scdg.aggregation import Floats
from pan_scdg.scdg.thresholds import Choice
from pan_scdg.settings import ProfileTables


class VectorSettings(MethodSettings):
    """The same on precomputed vectors: ``.npy`` files as the official PAN 2025 baseline writes them."""

    options = frozenset({"vectors"})
    needs_input = True
    model: str
    """The model that made them, for the record."""

    def open(self, profile: ProfileTables, options: MethodOptions, statistics: Any = None) -> Method:
        """Return the method."""
        return VectorMethod(self, options)

    def choose(self, scores_by: Mapping[float, Floats], labels: npt.NDArray[Any], max_false_positives: float) -> Choice:
        """Return the threshold that the official embedding baseline of PAN 2025 chooses."""
        return choose_officially(scores_by, labels)


class VectorMethod(SimpleMethod):
    """Scores pairs by the cosine of the vectors of two documents; the texts play no part. See `methods.Method`.

    Raises:
        UserError: the option ``vectors`` is missing, or no folder.
    """

    def __init__(self, settings: VectorSettings, options: MethodOptions) -> None:
        if options.vectors is None:
            what = f"the profile needs precomputed document vectors of {settings.model}"
            raise UserError(what, "give the folder of their .npy files with --vectors")
        if not options.vectors.is_dir():
            raise UserError("the folder of vectors does not exist", "correct --vectors", options.vectors)
        self._folder = options.vectors

    def identify(self) -> Identities:
        """Return a hash of the names and bytes of all files in the folder."""
        files = sorted(path for path in self._folder.glob("*.npy") if path.is_file())
        return {"vectors": {"weights": hash_text("".join(f"{path.name}\n{hash_file(path)}\n" for path in files))}}

    def check(self, pair: TextPair) -> None:
        """Raise UserError if a document has no vectors."""
        for doc_id in (pair.target_id, pair.source_id):
            find_vector_file(self._folder, doc_id)

    def score(self, pairs: Sequence[TextPair]) -> list[Measurements]:
        """Return ``score`` of each pair, from -1 to 1.

        Raises:
            UserError: a file is missing or not a vector, or two have different widths.
        """
        return [Measurements({"score": self._compute_score(pair)}) for pair in pairs]

    def _compute_score(self, pair: TextPair) -> float:
        files = [find_vector_file(self._folder, doc_id) for doc_id in (pair.target_id, pair.source_id)]
        target, source = map(read_vector, files)
        if target.shape != source.shape:
            what = f"has {target.size} numbers per row, but {source.size} in {files[1].name}"
            raise UserError(what, "give the vectors of one model", files[0])
        return compute_cosine(target, source)


def find_vector_file(folder: Path, doc_id: str) -> Path:
    """Return the file of a document, named by the last part of its id.

    Raises:
        UserError: the file does not exist.
    """
    name = doc_id.rpartition("/")[2].removesuffix(".txt")
    for path in (folder / f"{form}{ending}" for form in list_forms(name) for ending in (".txt.npy", ".npy")):
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
