"""Read documents of any accepted format as text, one or a folder of them; a name is the path in the folder.

The formats are plain text, Markdown, HTML, and by an extra DOCX, ODT and PDF.
"""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import NamedTuple

from pan_scdg.errors import UserError, UserErrors, need_packages
from pan_scdg.notices import Notices
from pan_scdg.pan.html_text import extract_html
from pan_scdg.pan.untrusted import DOCUMENT_BYTES, list_directory, open_regular, read_document, read_utf8
from pan_scdg.progress import Progress

PLAIN = (".txt", ".md")
HTML = (".html", ".htm")
CONVERTERS = {".docx": "mammoth", ".odt": "odfdo", ".pdf": "pypdf"}
"""The package that reads a format; all belong to one extra."""
EXTRA = "documents"
FORMATS = (*PLAIN, *HTML, *CONVERTERS)
MOST_TEXTS = 100_000
MOST_LEVELS = 32
"""Folders in folders."""
CONVERTED_BYTES = 64 << 20
"""Largest file of a word processor; most of it may be pictures."""
SECONDS = 180
"""Longest conversion; the process itself ends after a minute of computing."""
_CHILD = "import sys; sys.path[:] = sys.argv[2:]; from pan_scdg.pan.convert import main; main(sys.argv[1])"


class ReadDocument(NamedTuple):
    """The text of a file; all offsets refer to it."""

    path: Path
    text: str
    extracted: bool
    """The text is not the file itself but was taken out of another format."""
    warnings: tuple[str, ...] = ()


def read_any_document(path: Path) -> ReadDocument:
    """Return the text of a file, read as its name's ending says.

    Raises:
        UserError: not readable, damaged, too large, protected, without text, or its converter is not installed.
    """
    kind = path.suffix.lower()
    if kind in CONVERTERS:
        return _convert(path, kind)
    if kind not in HTML:
        return ReadDocument(path, read_document(path), False)
    try:
        return ReadDocument(path, extract_html(read_utf8(path, DOCUMENT_BYTES)), True)
    except ValueError as e:
        raise UserError(f"not readable as HTML: {e}", "save the file again, or as plain text", path) from e


def read_texts(place: Path, notices: Notices) -> dict[str, ReadDocument]:
    """Return the texts of a folder in the order of their names, or the one of a file, by name.

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
    texts: dict[str, ReadDocument] = {}
    faults: list[UserError] = []
    with Progress("reading texts", len(found)) as progress:
        for name, path in found:
            try:
                texts[name] = _read_named(name, path, notices)
            except UserError as e:
                faults.append(e)
            progress.update()
    if faults:
        raise UserErrors(faults)
    return texts


def describe_formats() -> str:
    """Return the endings of all formats that are read."""
    return f"{', '.join(FORMATS[:-1])} or {FORMATS[-1]}"


def _read_named(name: str, path: Path, notices: Notices) -> ReadDocument:
    try:
        name.encode("utf-8")
    except UnicodeEncodeError as e:
        raise UserError("its name is not UTF-8", "rename it", path) from e
    document = read_any_document(path)
    if not document.text.strip():
        notices.add("empty text", str(path))
    return document


def list_text_files(folder: Path, notices: Notices) -> list[tuple[str, Path]]:
    """Return name and path of every text in a folder and the folders in it, by name.

    Raises:
        UserError: it cannot be listed, has no texts, too many, or too many levels.
        UserErrors: naming every link that is not followed.
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
            if path.is_symlink() and not _is_followed(path, root):
                faults.append(
                    UserError("this link is not followed: it leads outside, or to a folder", "copy its target", path)
                )
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


def _is_followed(link: Path, root: Path) -> bool:
    """Return True for a symbolic link to a file of the same folder."""
    try:
        target = link.resolve()
        return target.is_relative_to(root) and not target.is_dir()
    except (OSError, RuntimeError):  # a link to itself
        return False


def _convert(path: Path, kind: str) -> ReadDocument:
    need_packages(EXTRA, CONVERTERS[kind])
    with open_regular(path) as file:
        if file.seek(0, 2) > CONVERTED_BYTES:
            raise UserError(f"larger than {CONVERTED_BYTES >> 20} MB", "remove its pictures, or split it", path)
    # -I: neither the folder of the user nor variables choose what is imported
    command = [sys.executable, "-I", "-c", _CHILD, str(path.resolve()), *filter(None, sys.path)]
    try:
        done = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, timeout=SECONDS, check=False)
    except subprocess.TimeoutExpired as e:
        raise _explain_end(path) from e
    if done.returncode:
        raise _explain_end(path)
    answer = json.loads(done.stdout)
    if "error" in answer:
        what, remedy = answer["error"]
        raise UserError(what, remedy, path)
    return ReadDocument(path, answer["text"], True, tuple(answer["warnings"]))


def _explain_end(path: Path) -> UserError:
    return UserError("takes too long to convert", "save it as plain text", path)
