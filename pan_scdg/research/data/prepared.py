"""Write and read the folder of ``studies prepare``: manifests, splits, and an index of their origin."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, JsonValue

from pan_scdg.digests import hash_file, hash_text
from pan_scdg.errors import UserError
from pan_scdg.jobs.output.mark import dump, lock_output
from pan_scdg.own_files import OwnRecord, check_inner_name, find_link, read_record, write_atomically
from pan_scdg.pan.untrusted import is_file, list_directory

PREPARED = "index.json"
MADE = {"origin": "made", "note": "not the paper's"}
"""Origin of an artefact without a given file: the paper leaves an order or a choice open that its own files settle."""


@dataclass(frozen=True)
class Artefact:
    """A manifest, split or log: its files, and its counts and origin for the index."""

    name: str
    files: Mapping[str, str]
    """Text by the path below the output folder."""
    facts: Mapping[str, Any]

    @property
    def is_made(self) -> bool:
        """Return True unless it was read from a given file."""
        return self.facts.get("origin") == "made"

    @property
    def counts(self) -> str:
        """Return the numbers among the facts with their names."""
        return ", ".join(f"{key} {value}" for key, value in self.facts.items() if isinstance(value, int))

    def make_entry(self) -> dict[str, Any]:
        """Return the entry in the index."""
        return {**self.facts, "files": {name: hash_text(text) for name, text in self.files.items()}}

    def describe(self, part: str) -> str:
        """Return one line with the counts and the origin."""
        origin = "made, not the paper's" if self.is_made else f"from {self.facts.get('from')}"
        return f"{part} {self.name}: {self.counts}{'; ' if self.counts else ''}{origin}"


Parts = Mapping[str, Sequence[Artefact]]
"""Artefacts by part of the data."""


def describe_origin(path: Path | None) -> dict[str, str]:
    """Return the facts on the origin of an artefact: the file or folder it was read from, or None if it was made."""
    if path is None:
        return MADE
    files = [p for p in list_directory(path) if is_file(p)] if path.is_dir() else [path]
    listing = "".join(f"{hash_file(p)}  {p.name}\n" for p in files)
    digest = hash_text(listing) if path.is_dir() else hash_file(path)
    return {"origin": "from file", "from": path.name, "from_sha256": digest}


def list_texts(parts: Parts) -> dict[str, str]:
    """Return the texts of all files of some parts and of their index, by sorted path."""
    texts = {name: text for artefacts in parts.values() for a in artefacts for name, text in a.files.items()}
    index = {part: {artefact.name: artefact.make_entry() for artefact in of} for part, of in parts.items()}
    return dict(sorted({**texts, PREPARED: _format_index(index)}.items()))


def _format_index(parts: Mapping[str, Any]) -> str:
    return dump({"format": 1, "parts": dict(sorted(parts.items()))})


def _check_files(facts: dict[str, JsonValue]) -> dict[str, JsonValue]:
    files = facts.get("files", {})
    if not isinstance(files, dict):
        raise ValueError("files is no object")
    for name in files:
        check_inner_name(name)
    return facts


Facts = Annotated[dict[str, JsonValue], AfterValidator(_check_files)]
"""The entry of an artefact; its files lie inside of the folder."""


class _Index(OwnRecord):
    """The content of `PREPARED`: the facts of each artefact, by part and name."""

    format: Literal[1]
    parts: dict[str, dict[str, Facts]]


def read_index(output: Path) -> dict[str, dict[str, dict[str, Any]]]:
    """Return the parts of a prepared folder, by name; empty if nothing was prepared yet.

    Raises:
        UserError: the folder holds something else.
    """
    index = read_record(output / PREPARED, _Index, "it is no index of `studies prepare`: choose another --output")
    return {} if index is None else index.parts


def check_output(output: Path) -> None:
    """Raise UserError if ``output`` is neither new, empty nor a prepared folder."""
    if not output.exists():
        return
    if list_directory(output) and not is_file(output / PREPARED):
        raise UserError("is not empty and was not prepared by this command", "choose another --output", output)
    read_index(output)


def write_parts(output: Path, parts: Parts) -> None:
    """Write the artefacts of the parts and, last, the index; parts that are not among them stay as they are.

    While a part is written the index does not name it, so that an interrupted run leaves nothing that looks complete.

    Raises:
        UserError: the folder cannot be written.
    """
    with lock_output(output):
        former = read_index(output)
        index: dict[str, Any] = {part: artefacts for part, artefacts in former.items() if part not in parts}
        try:
            _refuse_links(output, {name for of in parts.values() for artefact in of for name in artefact.files})
            _refuse_links(output, {name for of in former.values() for name in _list_files(of)})
            write_atomically(output / PREPARED, _format_index(index))
            for part, artefacts in parts.items():
                files = {name: text for artefact in artefacts for name, text in artefact.files.items()}
                for name in _list_files(former.get(part, {})) - files.keys():
                    if name.startswith(f"{part}/"):  # never anything outside the part's folder
                        (output / name).unlink(missing_ok=True)
                for name, text in files.items():
                    (output / name).parent.mkdir(parents=True, exist_ok=True)
                    write_atomically(output / name, text)
                index[part] = {artefact.name: artefact.make_entry() for artefact in artefacts}
            write_atomically(output / PREPARED, _format_index(index))
        except OSError as e:
            raise UserError(f"cannot be written: {e.strerror}", "choose another --output", e.filename or output) from e


def _refuse_links(output: Path, names: Iterable[str]) -> None:
    for name in names:
        if (link := find_link(output, str(PurePosixPath(name).parent))) is not None:
            raise UserError("is a symbolic link where a folder is written", "remove it", link)


def _list_files(artefacts: Mapping[str, Mapping[str, Any]]) -> set[str]:
    """Return the files that an index names for a part."""
    return {name for facts in artefacts.values() for name in facts.get("files", ())}
