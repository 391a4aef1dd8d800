"""Check the paths of a command: no output replaces an input or lies in one."""

import json
import os
from collections.abc import Callable, Mapping
from pathlib import Path

from pan_scdg.errors import UserError
from pan_scdg.profile import find_profile, load_profile

MAX_LINE_BYTES = 1 << 16

Inputs = Mapping[str, Path | None]
"""Paths that a command reads, by their options; None if an option was not given."""


def check_folders(output: Path, inputs: Inputs, option: str = "--output") -> None:
    """Check that no output folder lies in an input or contains one; symbolic links are resolved.

    Args:
        output: the folder of results.
        inputs: files and folders that are read.
        option: the option that names ``output``.

    Raises:
        UserError: the output is, or lies in, an input, or contains one.
    """
    for name, path in inputs.items():
        if path is None:
            continue
        if _is_within(output, path):
            raise UserError(f"overlaps {name}", f"choose another {option}", output)
        if _is_within(path, output):
            raise UserError(f"contains {name}", f"choose another {option}", output)


def check_file(target: Path, option: str, inputs: Inputs, kind: str, recognise: Callable[[Path], bool]) -> None:
    """Check that ``target`` replaces nothing but an older file of the same kind.

    Args:
        target: the file of ``option``.
        option: the option that named it.
        inputs: files and folders that are read.
        kind: description of the file, for messages.
        recognise: returns True if an existing file is of this kind.

    Raises:
        UserError: its folder is missing or cannot be written; it is, or lies in, an input, or is an existing file
            of another kind.
    """
    if not os.access(target.parent, os.W_OK | os.X_OK):
        raise UserError("cannot be written", f"name a file in a writable folder with {option}", target)
    remedy = f"choose another file with {option}"
    for name, path in inputs.items():
        if path is not None and _is_within(target, path):
            raise UserError(f"overlaps {name}", remedy, target)
    if not os.path.lexists(target):
        return
    if not target.is_file() or (target.stat().st_size and not recognise(target)):
        raise UserError(f"already exists and is not {kind}", remedy, target)


def find_profile_file(name_or_file: str) -> Path | None:
    """Return the file of a profile, or None if it is not found; see `profile.find_profile`."""
    try:
        return find_profile(name_or_file)
    except UserError:
        return None


def holds_profile(path: Path) -> bool:
    """Return True if a file is a profile."""
    try:
        load_profile(str(path))
    except UserError:
        return False
    return True


def holds_tokens(path: Path) -> bool:
    """Return True if a file begins like the output of ``score --tokens``."""
    with path.open("rb") as file:
        line = file.readline(MAX_LINE_BYTES)
    try:
        record = json.loads(line)
    except (ValueError, RecursionError):
        return False
    return isinstance(record, dict) and {"position", "token_id"} <= record.keys()


def holds_report(path: Path) -> bool:
    """Return True if a file begins like a page of `report.html`."""
    from pan_scdg.report.html import BEGINNING

    with path.open("rb") as file:
        return file.read(len(BEGINNING)) == BEGINNING.encode()


def _is_within(path: Path, folder: Path) -> bool:
    """Return True if ``path`` is ``folder`` or lies in it."""
    inner, outer = (Path(os.path.realpath(p)) for p in (path, folder))
    return inner.is_relative_to(outer)
