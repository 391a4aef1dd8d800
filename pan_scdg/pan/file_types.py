"""Recognise what a file really is by its first bytes, whatever its name says."""

from typing import NamedTuple

SAMPLE = 1 << 16
"""Bytes by which a format or an encoding is recognised."""
GZIP, OLE = b"\x1f\x8b", b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1"
"""First bytes of gzip files, and of those of Word before 2007, inside of which later ones encrypt files."""
XLSX = "an Excel workbook (XLSX)"
DOCX, ODT, PDF = "a Word document (DOCX)", "an OpenDocument text (ODT)", "a PDF"
LFS = "a pointer of Git LFS, not the file itself"
PAGE = "a web page"
ARCHIVES = (
    (b"mimetypeapplication/vnd.oasis.opendocument.text", ODT),
    (b"mimetypeapplication/epub+zip", "an EPUB"),
    (b"word/document.xml", DOCX),
    (b"xl/workbook.xml", XLSX),
)
UNPACK = "unpack it"
PACKED = (
    (GZIP, "a gzip file"),
    (b"\x28\xb5\x2f\xfd", "a zstd file"),
    *((b"BZh%d1AY&SY" % level, "a bzip2 file") for level in range(1, 10)),
    (b"\xfd7zXZ\0", "an xz file"),
    (b"\x04\x22\x4d\x18", "an lz4 file"),
    (b"7z\xbc\xaf\x27\x1c", "a 7z archive"),
    (b"Rar!\x1a\x07", "a RAR archive"),
)
BEGINNINGS = (
    (b"version https://git-lfs.github.com/spec/", LFS),
    (b"%PDF-", PDF),
    (b"{\\rtf", "a Rich Text document (RTF)"),
    (OLE, "a Word document of before 2007 (DOC)"),
    *PACKED,
)
ZIP = "a ZIP archive"
REMEDIES = {
    LFS: "run `git lfs pull` in its repository, or fetch the file itself",
    XLSX: "save it as CSV or as plain text, in UTF-8",
    PAGE: "fetch the file again, signed in where that is needed",
    **dict.fromkeys((ZIP, *(name for _, name in PACKED)), UNPACK),
}
PAGE_BEGINNINGS = (b"<!doctype html", b"<html")


class ForeignFile(NamedTuple):
    """The real format of a file, instead of the expected one, and the remedy."""

    name: str
    remedy: str


def recognise_format(data: bytes) -> str | None:
    """Return the name of the format of a file that is not plain text; None for an unknown format."""
    beginning = data[:SAMPLE].removeprefix(b"\xef\xbb\xbf").lstrip()
    for magic, name in BEGINNINGS:
        if beginning.startswith(magic):
            return name
    if not data.startswith(b"PK\x03\x04"):
        return None
    return next((name for magic, name in ARCHIVES if magic in data), ZIP)


def find_foreign_format(data: bytes, remedy: str = "put the right file there") -> ForeignFile | None:
    """Return what a file of data is instead, by its first bytes; None if they are not of another format.

    Args:
        data: the first bytes of the file.
        remedy: for a format that needs no step of its own, such as unpacking.
    """
    beginning = data[:SAMPLE].removeprefix(b"\xef\xbb\xbf").lstrip()[: len(PAGE_BEGINNINGS[0])].lower()
    name = PAGE if beginning.startswith(PAGE_BEGINNINGS) else recognise_format(data)
    return None if name is None else ForeignFile(name, REMEDIES.get(name, remedy))
