"""Read all texts of a folder and the folders in it, or one file; a text's name is its path in the folder."""

import os
from pathlib import Path
from typing import NamedTuple

from pan_scdg.errors import UserError, UserErrors
from pan_scdg.notices import Notices
from pan_scdg.pan.documents import FORMATS, ReadDocument, read_any_document
from pan_scdg.pan.untrusted import list_directory
from pan_scdg.progress import Progress

MOST_TEXTS = 100_000
MOST_LEVELS = 32
"""Folders in folders."""


class NamedText(NamedTuple):
    """A text that was read from a file."""

    name: str
    """Path below the folder that was given, with slashes."""
    path: Path
    document: ReadDocument


def read_texts(place: Path, notices: Notices) -> list[NamedText]:
    """Return the texts of a folder by name, or the one of a file.

    Hidden files are skipped; files of other formats are counted and skipped.

    Raises:
        UserError: the path does not exist, or holds no text.
        UserErrors: naming every file that cannot be read, leads outside of the folder, or has no valid name.
    """
    if place.is_dir():
        found = list_text_files(place, notices)
    elif not place.exists():
        raise UserError("the path does not exist", "correct the path", place)
    elif place.suffix.lower() not in FORMATS:
        raise UserError(f"not a format that is read: {describe_formats()}", "convert it to one of them", place)
    else:
        found = [(place.name, place)]
    texts: list[NamedText] = []
    faults: list[UserError] = []
    with Progress("reading texts", len(found)) as progress:
        for name, path in found:
            try:
                texts.append(_read(name, path, notices))
            except UserError as e:
                faults.append(e)
            progress.update()
    if faults:
        raise UserErrors(faults)
    return texts


def describe_formats() -> str:
    """Return the endings of all formats that are read."""
    return f"{', '.join(FORMATS[:-1])} or {FORMATS[-1]}"


def _read(name: str, path: Path, notices: Notices) -> NamedText:
    try:
        name.encode("utf-8")
    except UnicodeEncodeError as e:
        raise UserError("its name is not UTF-8", "rename it", path) from e
    document = read_any_document(path)
    if not document.text.strip():
        notices.add("empty text", str(path))
    return NamedText(name, path, document)


def list_text_files(folder: Path, notices: Notices) -> list[tuple[str, Path]]:
    """Return name and path of every text in a folder and the folders in it, by name.

    Raises:
        UserError: it cannot be listed, has no texts, too many, or too many levels.
        UserErrors: naming every link that leads outside, or to a folder.
    """
    root = folder.resolve()
    found: list[tuple[str, Path]] = []
    faults: list[UserError] = []
    waiting = [(folder, 0)]
    while waiting:
        inner, level = waiting.pop()
        if level > MOST_LEVELS:
            raise UserError(f"lies more than {MOST_LEVELS} folders deep", "move it up", inner)
        for path in list_directory(inner):
            if path.is_symlink() and (fault := _refuse_link(path, root)) is not None:
                faults.append(fault)
            elif path.is_dir():
                waiting.append((path, level + 1))
            elif path.suffix.lower() in FORMATS:
                found.append((path.relative_to(folder).as_posix(), path))
            else:
                notices.add("file of another format, skipped", str(path))
            if len(found) > MOST_TEXTS:
                raise UserError(f"contains more than {MOST_TEXTS} texts", "split the folder", folder)
    if faults:
        raise UserErrors(faults)
    if not found:
        raise UserError(f"contains no texts ({describe_formats()})", "add one, or correct the path", folder)
    return sorted(found, key=lambda item: os.fsencode(item[0]))


def _refuse_link(path: Path, root: Path) -> UserError | None:
    """Return the error about a symbolic link that is not followed; None for a link to a file of the same folder."""
    try:
        target = path.resolve()
        outside, is_folder = not target.is_relative_to(root), target.is_dir()
    except (OSError, RuntimeError):  # a link to itself
        outside, is_folder = True, False
    if outside:
        return UserError("leads outside the folder", "replace the link by the file", path)
    return (
        UserError("a link to a folder is not followed", "replace the link by the folder", path) if is_folder else None
    )
