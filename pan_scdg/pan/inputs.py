"""Detect the task of an input directory, and hash its content."""

import hashlib
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Literal

from pan_scdg.digests import hash_stream
from pan_scdg.errors import UserError
from pan_scdg.notices import Notices
from pan_scdg.pan.layout import find_input_folder
from pan_scdg.pan.source_retrieval import CORPUS_NAMES, QUERIES_NAME, find_corpus, is_retrieval_folder
from pan_scdg.pan.text_alignment import PairCorpus, find_text_folder, is_pair_folder, list_pairs_files, read_pairs
from pan_scdg.pan.untrusted import is_file, open_regular

InputKind = Literal["pairs", "retrieval"]
_NEEDED_FILES = {
    "pairs": "a file whose name ends in 'pairs'",
    "retrieval": f"{QUERIES_NAME} and one of {', '.join(CORPUS_NAMES)}",
}


def detect_task(directory: Path) -> InputKind:
    """Return the task whose files ``directory`` has; see `find_input`."""
    return find_input(directory)[0]


def find_input(directory: Path) -> tuple[InputKind, Path]:
    """Return the task of the input in ``directory`` or up to two levels below, and its folder.

    Raises:
        UserError: the directory is missing, or has the files of neither task, of both, or of several inputs.
    """

    def list_tasks(folder: Path) -> list[InputKind]:
        has_pairs = bool(list_pairs_files(folder)) if folder == directory else is_pair_folder(folder)
        tasks: dict[InputKind, bool] = {"pairs": has_pairs, "retrieval": is_retrieval_folder(folder)}
        return [task for task, has_input in tasks.items() if has_input]

    folder = find_input_folder(directory, lambda folder: bool(list_tasks(folder)))
    if folder is None:
        what = f"no input: expected {' or '.join(_NEEDED_FILES.values())}"
        raise UserError(what, "correct --input, or compare folders of essays with pan-scdg check", directory)
    tasks = list_tasks(folder)
    if len(tasks) > 1:
        raise UserError("contains the input of both tasks", "give a folder with one of them", folder)
    return tasks[0], folder


def hash_input(directory: Path, task: InputKind, corpus: str | None = None, pairs: PairCorpus | None = None) -> str:
    """Return the SHA-256 (hex) over the relative names and the bytes of the files that ``task`` reads.

    A ``corpus`` file whose SHA-256 is given, and the list of ``pairs`` that are given, are not read again.

    Raises:
        UserError: a file other than a text is missing, or one cannot be read, see `read_pairs`.
    """
    digest = hashlib.sha256()
    for name, path in sorted(_list_files(directory, task, pairs)):
        if corpus is not None and path.name in CORPUS_NAMES:
            content = corpus
        elif task == "pairs" and not is_file(path):
            content = hashlib.sha256().hexdigest()  # a pair may lack a text, which then counts as empty
        else:
            content = _hash_regular(path)
        # digests have a fixed size, so that names and contents cannot run into each other
        digest.update(hashlib.sha256(name.encode("utf-8", "surrogateescape")).digest() + bytes.fromhex(content))
    return digest.hexdigest()


def _hash_regular(path: Path) -> str:
    with open_regular(path) as file:
        return hash_stream(file)


def _list_files(directory: Path, task: InputKind, pairs: PairCorpus | None) -> Iterator[tuple[str, Path]]:
    if task == "pairs":
        listed = pairs or read_pairs(directory, Notices(), may_lack_files=True)
        paths = {listed.pairs_file, *(f.path for p in listed.pairs for f in (p.suspicious, p.source))}
        folder = find_text_folder(listed.pairs_file)
    else:
        corpus = find_corpus(directory)
        if corpus is None:
            raise UserError(f"no input for retrieval: expected {_NEEDED_FILES[task]}", "correct --input", directory)
        folder, paths = corpus.parent, {corpus, corpus.parent / QUERIES_NAME}
    # not Path.relative_to: the list of pairs may be a path of the working directory, the texts one level up
    return ((Path(os.path.relpath(p, folder)).as_posix(), p) for p in paths)
