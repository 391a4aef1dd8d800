"""Passages from the XML files of a truth or detection directory, found as the official evaluator finds them."""

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from pan_scdg.errors import UserError
from pan_scdg.pan.untrusted import parse_xml
from pan_scdg.records import Span

THIS = ("this_offset", "this_length")
SOURCE = ("source_offset", "source_length")


def read_spans(directory: str | Path, tag: str) -> list[Span]:
    """All passages of a directory whose feature name ends with ``tag``.

    Reads ``*.xml`` of the directory and of the folders directly below it, whatever their names. A passage belongs to
    the documents that its references name, after every ".txt" in them is deleted. Left out as in the official
    evaluator: hidden files, files whose root has no ``reference``, features without ``this_offset`` or
    ``this_length``. A feature that lacks one of the three source attributes has no source.

    Raises:
        UserError: the directory is missing, a file is not well-formed or has a DOCTYPE, an offset or length is not an
            integer or is negative, or all lengths of a passage are 0; with the file and the line.
    """
    folder = Path(directory)
    if not folder.is_dir():
        raise UserError("no such directory", "give the directory that holds the XML files", directory)
    return read_files(_xml_files(folder), tag)


def read_files(paths: Iterable[Path], tag: str) -> list[Span]:
    """All passages of these XML files whose feature name ends with ``tag``; see `read_spans`."""
    return [span for path in paths for span in _spans_of(path, tag)]


def _xml_files(folder: Path) -> list[Path]:
    """Sorted by name. Hidden files and folders are left out, as shell patterns do."""
    found = [*folder.glob("*.xml"), *folder.glob("*/*.xml")]
    return sorted(p for p in found if not any(part.startswith(".") for part in p.relative_to(folder).parts))


def _spans_of(path: Path, tag: str) -> Iterator[Span]:
    root: Any = parse_xml(path)
    suspicious = root.get("reference")
    if suspicious is None:
        return
    for node in root.iterchildren("*"):
        if _has(node, ("name", *THIS)) and node.get("name").endswith(tag):
            yield _span(node, suspicious.replace(".txt", ""), path)


def _has(node: Any, names: tuple[str, ...]) -> bool:
    return all(node.get(name) is not None for name in names)


def _span(node: Any, suspicious: str, path: Path) -> Span:
    this_offset, this_length = (_integer(node, name, path) for name in THIS)
    source, source_offset, source_length = None, 0, 0
    if _has(node, ("source_reference", *SOURCE)):
        source = node.get("source_reference").replace(".txt", "")
        source_offset, source_length = (_integer(node, name, path) for name in SOURCE)
    if this_length + source_length == 0:
        raise UserError("a feature whose lengths are 0", "give the length of the passage", path, node.sourceline)
    return Span(suspicious, this_offset, this_length, source, source_offset, source_length)


def _integer(node: Any, name: str, path: Path) -> int:
    value = node.get(name)
    try:
        number = int(value)
    except ValueError:
        shown = value if len(value) <= 40 else f"{value[:40]}..."
        raise UserError(f"{name} {shown!r} is not an integer", "correct it", path, node.sourceline) from None
    if number < 0:
        raise UserError(f"{name} {number} is negative", "correct it", path, node.sourceline)
    return number
