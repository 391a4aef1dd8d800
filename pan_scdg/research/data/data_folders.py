"""Where the data of the studies lies, and which of its files hold ready manifests and splits.

    DATA/pan25/      a text-alignment corpus with truth (pairs, susp/, src/, XML), or several in folders of their own
    DATA/pan26/      corpus.jsonl[.gz], queries.jsonl, qrels.txt
    DATA/multinews/  train.src.cleaned (or train.src, train.src.txt, train.txt.src; .gz)

`GIVEN` lists the files and folders beside these that are taken instead of being made.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

from pan_scdg.bundled import find_bundled
from pan_scdg.errors import UserError
from pan_scdg.pan.untrusted import is_file

EXAMPLES = find_bundled("examples")


class DataFolders(NamedTuple):
    """The folder of each part of the data; a part that is not needed may be missing."""

    pan25: Path
    pan26: Path
    multinews: Path
    retention: Path


class Ready(NamedTuple):
    """Something that is taken from a file where there is one."""

    folder: str
    """The field of `DataFolders`."""
    names: tuple[str, ...]
    """Looked for there; the name in the paper's list of artefacts is among them where it has one."""


GIVEN = {
    "pan25-manifest": Ready("pan25", ("manifest.jsonl", "pan25val_filtered_normal_manifest_128k_6791.jsonl")),
    "pan25-splits": Ready("pan25", ("splits",)),
    "pan26-folds": Ready("pan26", ("folds.jsonl",)),
    "pan26-pairs": Ready("pan26", ("pan2026_pairs_manifest.jsonl",)),
    "multinews-manifest": Ready("multinews", ("manifest.jsonl",)),
    "multinews-split": Ready("multinews", ("split.csv", "multinews_split_manifest_seed20260714.csv")),
    "retention-instances": Ready("retention", ("instances.jsonl",)),
    "retention-contexts": Ready("retention", ("intervention_manifest.jsonl",)),
}


def folders_in(directory: Path) -> DataFolders:
    """The parts of a user's data folder.

    Raises:
        UserError: there is no such folder.
    """
    if not directory.is_dir():
        raise UserError("there is no such directory", "correct --data", directory)
    return DataFolders(*(directory / name for name in DataFolders._fields))


def shipped_examples() -> DataFolders:
    """The examples of this project in the place of the data."""
    return DataFolders(
        EXAMPLES / "pan25-pairs", EXAMPLES / "pan26-retrieval", EXAMPLES / "same-topic-news", EXAMPLES / "retention"
    )


def check_kinds(given: Mapping[str, Path]) -> None:
    """Raise UserError when the user gives a file for something that there is not."""
    if unknown := sorted(given.keys() - GIVEN.keys()):
        raise UserError(f"there is no {unknown[0]!r} to be given", f"one of {', '.join(GIVEN)}", "--given")


def ready_file(kind: str, folders: DataFolders, given: Mapping[str, Path]) -> Path | None:
    """The file (or folder, for splits) that is taken for ``kind``: the user's, else one beside the data, else None.

    Raises:
        UserError: the user's does not exist, or there are two beside the data.
    """
    wanted = "folder" if kind.endswith("splits") else "file"
    exists = Path.is_dir if wanted == "folder" else is_file
    if kind in given:
        if not exists(given[kind]):
            raise UserError(f"there is no such {wanted}", f"correct {kind}", given[kind])
        return given[kind]
    ready = GIVEN[kind]
    folder: Path = getattr(folders, ready.folder)
    found = [folder / name for name in ready.names if exists(folder / name)]
    if len(found) > 1:
        raise UserError(f"both {found[0].name} and {found[1].name} are there", "keep one of them", folder)
    return found[0] if found else None
