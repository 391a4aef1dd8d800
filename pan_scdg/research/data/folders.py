"""Find the data of the studies, and the manifests and splits that are given instead of made.

    DATA/pan25/      a text-alignment corpus with truth (pairs, susp/, src/, XML), or several in subfolders
    DATA/pan26/      corpus.jsonl[.gz], queries.jsonl, qrels.txt
    DATA/multinews/  train.src.cleaned (or train.src, train.src.txt, train.txt.src; .gz)

`GIVEN` lists the files and folders that a user can add to them or name with ``--given``.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

from pan_scdg.bundled import find_bundled
from pan_scdg.errors import UserError
from pan_scdg.pan.untrusted import is_file

PARTS = ("pan25", "pan26", "multinews", "retention")
GIVEN = {
    "pan25-manifest": ("manifest.jsonl", "pan25val_filtered_normal_manifest_128k_6791.jsonl"),
    "pan25-splits": ("splits",),
    "pan26-folds": ("folds.jsonl",),
    "pan26-pairs": ("pan2026_pairs_manifest.jsonl",),
    "multinews-manifest": ("manifest.jsonl",),
    "multinews-split": ("split.csv", "multinews_split_manifest_seed20260714.csv"),
    "retention-instances": ("instances.jsonl",),
    "retention-contexts": ("intervention_manifest.jsonl",),
}
"""Names below the folder of the part, by kind; a name in the paper's list of artefacts is among them."""


class DataFolders(NamedTuple):
    """The folder of each part of the data; a part that is not needed may be missing."""

    pan25: Path
    pan26: Path
    multinews: Path
    retention: Path


def find_data(directory: Path) -> DataFolders:
    """Return the folders of the parts in a user's data folder.

    Raises:
        UserError: the folder does not exist.
    """
    if not directory.is_dir():
        raise UserError("the directory does not exist", "correct --data", directory)
    return DataFolders(*(directory / name for name in PARTS))


def find_examples() -> DataFolders:
    """Return the folders of the bundled examples."""
    examples = find_bundled("examples")
    names = ("pan25-pairs", "pan26-retrieval", "same-topic-news", "retention")
    return DataFolders(*(examples / name for name in names))


def find_ready(kind: str, folders: DataFolders, given: Mapping[str, Path]) -> Path | None:
    """Return the file (for splits the folder) of a kind: the user's, else one beside the data, else None.

    Raises:
        UserError: the user's does not exist, or two lie beside the data.
    """
    wanted = "folder" if kind.endswith("splits") else "file"
    exists = Path.is_dir if wanted == "folder" else is_file
    if kind in given:
        if not exists(given[kind]):
            raise UserError(f"the {wanted} does not exist", f"correct {kind}", given[kind])
        return given[kind]
    folder: Path = getattr(folders, kind.partition("-")[0])
    found = [folder / name for name in GIVEN[kind] if exists(folder / name)]
    if len(found) > 1:
        raise UserError(f"holds both {found[0].name} and {found[1].name}", "keep one of them", folder)
    return found[0] if found else None
