"""The mark of a finished output: its job and the hash of each file."""

import json
from pathlib import Path
from typing import Annotated, Literal

from pydantic import Field, JsonValue, PositiveInt, StringConstraints

from pan_scdg.digests import hash_file
from pan_scdg.own_files import MARK, InnerName, OwnRecord, find_link, open_own, read_record

Digest = Annotated[str, StringConstraints(pattern="^[0-9a-f]{64}$")]


class Partial(OwnRecord):
    """The part of the input that a result covers, which --limit selected."""

    done: PositiveInt
    of: PositiveInt
    what: Literal["pairs", "queries"]

    def format_warning(self) -> str:
        """Return the warning about a partial result."""
        return f"warning: partial: the first {self.done} of {self.of} {self.what}, the rest was left out by --limit"


class Mark(OwnRecord):
    """The content of the mark, and of the manifest in the hidden folder."""

    job: dict[str, JsonValue]
    files: dict[InnerName, Digest] = Field(min_length=1)
    incidents: list[str] = Field(default_factory=list)
    partial: Partial | None = None
    origins: dict[str, dict[str, str]] = Field(default_factory=dict)

    def to_text(self) -> str:
        """Return the given fields as JSON text, in the order of the class."""
        return dump(self.model_dump(mode="json", exclude_unset=True))


def dump(value: object) -> str:
    """Return a JSON value as the text of a file."""
    return json.dumps(value, indent=1, sort_keys=False, ensure_ascii=True) + "\n"


def read_mark(directory: Path) -> Mark | None:
    """Return the mark of an output directory, None if it is not finished.

    Raises:
        UserError: the mark was not written by this program.
    """
    return read_record(directory / MARK, Mark, "remove it, or choose another folder")


def is_unchanged(folder: Path, name: str, digest: str) -> bool:
    """Return True if ``folder`` has a regular file of this name and hash that no symbolic link leads to."""
    if find_link(folder, name) is not None:
        return False
    try:
        open_own(folder / name).close()
    except FileNotFoundError:
        return False
    return hash_file(folder / name) == digest
