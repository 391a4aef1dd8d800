"""Recognise files that are not UTF-8 text: their format, or their probable encoding."""

ARCHIVES = (
    (b"mimetypeapplication/vnd.oasis.opendocument.text", "an OpenDocument text (ODT)"),
    (b"mimetypeapplication/epub+zip", "an EPUB"),
    (b"word/document.xml", "a Word document (DOCX)"),
)
BEGINNINGS = (
    (b"%PDF-", "a PDF"),
    (b"{\\rtf", "a Rich Text document (RTF)"),
    (b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1", "a Word document of before 2007 (DOC)"),
    (b"\x1f\x8b", "a gzip file"),
)
MARKS = ((b"\xff\xfe\0\0", "UTF-32"), (b"\0\0\xfe\xff", "UTF-32"), (b"\xff\xfe", "UTF-16"), (b"\xfe\xff", "UTF-16"))
"""Byte-order marks, the longer ones first."""
SAMPLE = 1 << 16


def recognise_format(data: bytes) -> str | None:
    """Return the name of the format of a file that is not plain text; None for an unknown format."""
    beginning = data[:SAMPLE].removeprefix(b"\xef\xbb\xbf").lstrip()
    for magic, name in BEGINNINGS:
        if beginning.startswith(magic):
            return name
    if not data.startswith(b"PK\x03\x04"):
        return None
    return next((name for magic, name in ARCHIVES if magic in data), "a ZIP archive")


def guess_encoding(data: bytes) -> str | None:
    """Return the probable encoding of bytes that are not UTF-8; None if it cannot be guessed."""
    for mark, name in MARKS:
        if data.startswith(mark):
            return name
    sample = data[:SAMPLE]
    if is_wide(sample):
        return "UTF-32" if sample.count(0) > 0.6 * len(sample) else "UTF-16"
    foreign = [byte for byte in data[:SAMPLE] if byte >= 0x80]
    # in Western languages few letters have accents
    if not foreign or 0 in sample or len(foreign) > 0.3 * len(sample):
        return None
    return "Windows-1252" if any(byte < 0xA0 for byte in foreign) else "Latin-1 or Windows-1252"


def is_wide(data: bytes) -> bool:
    """Return True if a quarter of the bytes or more are 0, as in encodings with two or four bytes per character."""
    sample = data[:SAMPLE]
    return len(sample) >= 16 and sample.count(0) >= 0.25 * len(sample)
