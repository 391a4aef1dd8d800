"""Refuse to write where something is read: nobody means to, and the input would be lost."""

import os
from collections.abc import Callable, Mapping
from pathlib import Path

from pan_scdg.bounded_json import parse_json
from pan_scdg.errors import UserError
from pan_scdg.own_files import open_own
from pan_scdg.profile import find_profile, load_profile

LONGEST_RECORD = 1 << 16

Inputs = Mapping[str, Path | None]
"""What a command reads, by the option that names it; None where it was not given."""


def check_folders(output: Path, state: Path | None, inputs: Inputs, option: str = "--output") -> None:
    """Check that no folder that is written lies in one that is read, or the other way round.

    Symbolic links are resolved. The input may lie in the state folder, which no command lists.

    Args:
        output: the folder of results, given by ``option``.
        state: the folder of ``--state``.
        inputs: files and folders that are read.
        option: the name of the option of ``output``.

    Raises:
        UserError: an output or state is, or lies in, an input; an input lies in the output; the state is, or lies
            in, the output.
    """
    for name, path in inputs.items():
        if path is None:
            continue
        if _is_within(output, path):
            raise UserError(f"lies in what {name} names", f"choose another {option}", output)
        if _is_within(path, output):
            raise UserError(f"holds what {name} names", f"choose another {option}", output)
    check_state(state, inputs)
    if state is not None and _is_within(state, output):
        raise UserError(f"lies in what {option} names", "choose another --state folder", state)


def check_state(state: Path | None, inputs: Inputs) -> None:
    """Raise UserError if the folder of ``--state`` is, or lies in, an input."""
    for name, path in inputs.items():
        if state is not None and path is not None and _is_within(state, path):
            raise UserError(f"lies in what {name} names", "choose another --state folder", state)


def check_file(target: Path, option: str, inputs: Inputs, kind: str, recognise: Callable[[Path], bool]) -> None:
    """Check that writing the file ``target`` loses nothing but an older file of the same kind.

    Args:
        target: the file of ``option``.
        option: the option that named it.
        inputs: files and folders that are read.
        kind: what is written, in words.
        recognise: tells if an existing file is of that kind.

    Raises:
        UserError: it is, or lies in, an input; or something else than such a file has its name.
    """
    remedy = f"choose another file with {option}"
    for name, path in inputs.items():
        if path is not None and _is_within(target, path):
            raise UserError(f"lies in what {name} names", remedy, target)
    if not os.path.lexists(target):
        return
    try:
        with open_own(target) as file:
            empty = not file.read(1)
    except UserError as e:
        raise UserError(f"is there and {e.what}", remedy, target) from e
    if not empty and not recognise(target):
        raise UserError(f"is there and holds something else than {kind}", remedy, target)


def profile_file(name_or_file: str) -> Path | None:
    """Return the file of a profile, None if there is none; see `profile.find_profile`."""
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
    """Return True if a file begins like one that ``score --tokens`` writes."""
    with path.open("rb") as file:
        line = file.readline(LONGEST_RECORD)
    try:
        record = parse_json(line.decode("utf-8"))
    except ValueError:
        return False
    return isinstance(record, dict) and {"position", "token_id"} <= record.keys()


def _is_within(path: Path, folder: Path) -> bool:
    """Return True if ``path`` is ``folder`` or lies in it."""
    inner, outer = (Path(os.path.realpath(p)) for p in (path, folder))
    return inner.is_relative_to(outer)
