"""Passages as the official evaluator reads them from XML files."""

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from pan_scdg.errors import UserError
from pan_scdg.pan.untrusted import parse_xml
from pan_scdg.records import Span

FURTHEST = 10**15
"""Largest offset and length: no document is longer, and their sums fit in 64 bits."""
THIS = ("this_offset", "this_length")
SOURCE = ("source_offset", "source_length")


def read_spans(directory: str | Path, tag: str) -> list[Span]:
    """Return all passages of a directory whose feature name ends with ``tag``.

    Reads ``*.xml`` of the directory and of the folders directly below it, whatever their names. A passage belongs to
    the documents that its references name, after every ".txt" in them is deleted. Left out as in the official
    evaluator: hidden files, files whose root has no ``reference``, features without ``this_offset`` or
    ``this_length``. A feature that lacks one of the three source attributes has no source.

    Raises:
        UserError: the directory is missing, a file is not well-formed or has a DOCTYPE, an offset or length is not an
            integer, negative or above `FURTHEST`, or all lengths of a passage are 0; with the file and the line.
    """
    folder = Path(directory)
    if not folder.is_dir():
        raise UserError("the directory does not exist", "give the directory that holds the XML files", directory)
    return read_span_files(list_xml_files(folder), tag)


def read_span_files(paths: Iterable[Path], tag: str) -> list[Span]:
    """Return all passages of these XML files whose feature name ends with ``tag``; see `read_spans`."""
    return [span for path in paths for span in _read_file(path, tag)]


def list_xml_files(folder: Path) -> list[Path]:
    """Return XML files of a folder and those directly below it, sorted by name, without hidden files and folders."""
    found = [*folder.glob("*.xml"), *folder.glob("*/*.xml")]
    return sorted(p for p in found if not any(part.startswith(".") for part in p.relative_to(folder).parts))


def _read_file(path: Path, tag: str) -> Iterator[Span]:
    root: Any = parse_xml(path)
    suspicious = root.get("reference")
    if suspicious is None:
        return
    for node in root.iterchildren("*"):
        if _has_attributes(node, ("name", *THIS)) and node.get("name").endswith(tag):
            yield _parse_span(node, suspicious.replace(".txt", ""), path)


def _has_attributes(node: Any, names: tuple[str, ...]) -> bool:
    return all(node.get(name) is not None for name in names)


def _parse_span(node: Any, suspicious: str, path: Path) -> Span:
    this_offset, this_length = (_parse_integer(node, name, path) for name in THIS)
    source, source_offset, source_length = None, 0, 0
    if _has_attributes(node, ("source_reference", *SOURCE)):
        source = node.get("source_reference").replace(".txt", "")
        source_offset, source_length = (_parse_integer(node, name, path) for name in SOURCE)
    if this_length + source_length == 0:
        raise UserError("a feature whose lengths are 0", "give the length of the passage", path, node.sourceline)
    return Span(suspicious, this_offset, this_length, source, source_offset, source_length)


def _parse_integer(node: Any, name: str, path: Path) -> int:
    value = node.get(name)
    shown = value if len(value) <= 40 else f"{value[:40]}..."
    try:
        number = int(value)
    except ValueError:
        raise UserError(f"{name} {shown!r} is not an integer", "correct it", path, node.sourceline) from None
    if not 0 <= number <= FURTHEST:
        fault = "is negative" if number < 0 else f"is larger than {FURTHEST}"
        raise UserError(f"{name} {shown} {fault}", "correct it", path, node.sourceline)
    return number
