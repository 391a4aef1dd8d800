"""Find the data of the studies, and check the manifests and splits that are given instead of made.

The data lies in::

    DATA/pan25/      a text-alignment corpus with truth (pairs, susp/, src/, XML), or several in subfolders
    DATA/pan26/      corpus.jsonl[.gz], queries.jsonl, qrels.txt
    DATA/multinews/  train.src.cleaned (or train.src, train.src.txt, train.txt.src; .gz)
"""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from pan_scdg.bundled import find_bundled
from pan_scdg.errors import UserError
from pan_scdg.pan.untrusted import is_file

PARTS = ("pan25", "pan26", "multinews", "retention")
GIVEN = (
    "pan25-manifest",
    "pan25-splits",
    "pan26-folds",
    "multinews-manifest",
    "multinews-split",
    "retention-instances",
)
"""The kinds of files (of splits, the folder) that ``--given`` names; each begins with its part."""


class DataFolders(NamedTuple):
    """The folders of the data; one that is not needed may be missing."""

    pan25: Path
    pan26: Path
    multinews: Path


def find_data(directory: Path) -> DataFolders:
    """Return the folders in a user's data folder.

    Raises:
        UserError: the folder does not exist.
    """
    if not directory.is_dir():
        raise UserError("the directory does not exist", "correct --data", directory)
    return DataFolders(*(directory / name for name in DataFolders._fields))


def find_examples() -> DataFolders:
    """Return the folders of the bundled examples."""
    examples = find_bundled("examples")
    return DataFolders(*(examples / name for name in ("pan25-pairs", "pan26-retrieval", "same-topic-news")))


def check_given(given: Mapping[str, Path], parts: Sequence[str]) -> None:
    """Check the files that are given, by kind.

    Raises:
        UserError: a file is of an unknown kind, is for another part than ``parts``, or does not exist.
    """
    if unknown := sorted(given.keys() - set(GIVEN)):
        raise UserError(f"unknown kind {unknown[0]!r}", f"give one of {', '.join(GIVEN)}", "--given")
    for kind, path in sorted(given.items()):
        part = kind.partition("-")[0]
        if part not in parts:
            what = f"{kind!r} is for {part}, which is not among {', '.join(parts)}"
            raise UserError(what, "leave it out", "--given")
        wanted, exists = ("folder", path.is_dir()) if kind.endswith("splits") else ("file", is_file(path))
        if not exists:
            raise UserError(f"the {wanted} does not exist", f"correct {kind}", path)
