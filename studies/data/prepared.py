"""The prepared manifests and splits of a study, and an index of their origin."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pan_scdg.digests import hash_file, hash_text
from pan_scdg.jobs.output.mark import dump
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
    index = {part: {artefact.name: artefact.make_entry() for artefact in of} for part, of in sorted(parts.items())}
    return dict(sorted({**texts, PREPARED: dump({"format": 1, "parts": index})}.items()))
