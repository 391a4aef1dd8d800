"""The formats of files: where the pieces of a text lie that are worth changing, and what is put in their place."""

import gzip
import json
import re
import sqlite3
import struct
import tempfile
from collections.abc import Callable
from functools import lru_cache
from pathlib import Path
from typing import NamedTuple

from pan_scdg.store import ARITHMETIC

Span = tuple[int, int]
LONG = "x" * 600
DIGITS = "9" * 5000
NAMES = (
    "",
    ".",
    "..",
    "../precious.txt",
    "/etc/hostname",
    ".hidden",
    "a b",
    "é😀",
    "a\u202eb",
    "\u2028",
    "\ufeff",
    "\x00",
    LONG,
)
NUMBERS = ("-1", "0", "1e999", "-0.0", "1e-400", "18446744073709551616", "1_0", "\uff19", "0x1f", DIGITS, "nan", "inf")


def utf8(text: str) -> bytes:
    """The text as it is, with what no file should hold."""
    return text.encode("utf-8", "surrogatepass")


class Format(NamedTuple):
    """A text format and how bytes are made of such a text."""

    pieces: tuple[re.Pattern[str], ...]
    atoms: tuple[str, ...]
    nests: tuple[tuple[str, str], ...]
    encode: Callable[[str], bytes] = utf8
    brackets: bool = False

    def packed_by(self, encode: Callable[[str], bytes]) -> "Format":
        """The same text in another wrapping."""
        return self._replace(encode=encode)


def _patterns(*texts: str) -> tuple[re.Pattern[str], ...]:
    return tuple(re.compile(text, re.MULTILINE) for text in (*texts, r"^.*\n?"))


_STRING = r'"(?:[^"\\\n]|\\.)*"'
_SCALAR = rf"(?:{_STRING}|-?\d[\d.eE+-]*|true|false|null)"
JSON = Format(
    _patterns(_STRING, r"(?<![\w\"])-?\d[\d.]*|\b(?:true|false|null)\b", rf"{_STRING}: ?{_SCALAR}(?:,[ \n]*)?"),
    (
        *(json.dumps(name) for name in NAMES),
        *(
            "null",
            "true",
            "false",
            "[]",
            "{}",
            "[[]]",
            "[1, 2]",
            '{"a": 1}',
            '""',
            "NaN",
            "-Infinity",
            "1.5",
            "7",
            "-3",
        ),
        *(number for number in NUMBERS if number not in ("nan", "inf")),
        *(r'"\ud800"', r'"\u0000"', r'"\n"', '"a": 1, ', '"', ",", "]", "}", "\\"),
    ),
    (("[", "]"), ('{"a":', "}"), ("[1,", ",2]")),
    brackets=True,
)
TOML = Format(
    _patterns(_STRING, r"(?<== ).+$", r"(?<![\w\"])-?\d[\d.]*", r"^\w+(?= =)", r"^\[.*\]$"),
    (
        *(json.dumps(name) for name in NAMES),
        *NUMBERS,
        *(
            "true",
            "[]",
            "{}",
            "{a = 1}",
            '"""',
            "'''",
            "[[a]]\n",
            "[a.b]\n",
            "a.b = 1\n",
            "2026-13-45",
            "07:32:00",
            '"\\x"',
        ),
        *("+nan", "-inf", "1979-05-27T07:32:00Z", '"unknown" = 1\n', "=", "#", "\\"),
    ),
    (("[", "]"), ("{a = ", "}"), ("[1, ", "]")),
    brackets=True,
)
XML = Format(
    _patterns(r'"[^"]*"', r'\w+="[^"]*" ?', r"<[^>]+>", r"(?<=>)[^<]+", r"\w+(?==)"),
    (
        *(f'"{name}"' for name in (*NAMES, *NUMBERS, "&lt;", "&a;", "&#0;", "&#x10ffff;", "s1.txt.txt")),
        *("<!DOCTYPE d>", '<!DOCTYPE d [<!ENTITY a "b">]>', "<![CDATA[x]]>", "<!-- -->", "<?p i?>", "<", "&", ">", '"'),
        *('<?xml version="1.0" encoding="utf-16"?>', '<n:a xmlns:n="u"/>', "<feature/>", "</document>", "text"),
        *("this_offset", "name", "xmlns", "reference"),
    ),
    (("<a>", "</a>"), ('<feature name="plagiarism">', "</feature>")),
)
LINES = Format(
    _patterns(r"\S+", r"[ \t]+", r"\w+"),
    (
        *NAMES,
        *NUMBERS,
        "\t",
        "\u2003",
        "\r",
        "\r\n",
        "\n",
        "\x1b]0;x\x07",
        "a/b/c",
        "%PDF-1.7\n",
        "{\\rtf1 ",
        "s1.txt",
        "s1",
        '"',
        "-9999999999",
        "+1",
    ),
    (("(", ")"), ('"', '"'), ("a/", "")),
)
CSV = Format(
    _patterns(r"[^,\n]+", r",[^,\n]*", r"\w+"),
    (*NAMES, *NUMBERS, '"', '""', '"a\nb"', ",", ";", ",,", "\r", "\r\n", "\n", "yes", "no", "test", "\x1b[0m", "=1+1"),
    (('"', '"'), ("", ","), ("'", "'")),
)
YAML = Format(
    _patterns(r"(?<=: ).+$", r"[\w.-]+", r"^ *\w[^:\n]*(?=:)", r"\[.*\]"),
    (
        *NAMES,
        *NUMBERS,
        *(
            "2026-13-45",
            "07:99:99",
            "!!python/object/apply:os.getcwd []",
            "&a [*a]",
            "*a",
            "&b",
            "|",
            ">",
            "- x",
            "? x",
            "<<: *a",
        ),
        *(
            "true",
            "~",
            "[]",
            "{}",
            "{a: 1}",
            "0o9",
            "1:2:3",
            "!!binary x",
            "!!timestamp x",
            "!!int x",
            ":",
            "\t",
            "%YAML 9.9",
            "---",
        ),
    ),
    (("[", "]"), ("{a: ", "}"), ("- ", "")),
    brackets=True,
)
BYTES = Format((), (), (), encode=lambda text: text.encode("latin-1"))
"""No text: only bytes of it are changed."""

GZIP_BOMB = gzip.compress(b'{"a": [' + b"{}," * (1 << 20) + b"{}]}\n", 9)


def gzipped(text: str) -> bytes:
    """A gzip file with this text."""
    return gzip.compress(text.encode("utf-8", "surrogatepass"), 1, mtime=0)


def npy(text: str) -> bytes:
    """An array file whose header is this text, with 64 bytes of numbers."""
    header = text.encode("latin-1", "replace")[:65535]
    return b"\x93NUMPY\x01\x00" + struct.pack("<H", len(header)) + header + bytes(range(0, 64, 1))


def safetensors(text: str) -> bytes:
    """A file of weights whose header is this text, with 64 bytes of numbers."""
    header = text.encode("utf-8", "surrogatepass")
    return struct.pack("<Q", len(header)) + header + bytes(64)


def sqlite(text: str) -> bytes:
    """A store (see `pan_scdg.store`) with a row for each line ``key kind value``: values of the kinds of SQLite."""
    rows = [line.split(" ", 2) for line in text.split("\n") if line.count(" ") >= 2]
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "s.sqlite"
        db = sqlite3.connect(path, isolation_level=None)
        db.execute("PRAGMA journal_mode=OFF")
        db.execute("CREATE TABLE entries (key TEXT PRIMARY KEY, value BLOB NOT NULL) WITHOUT ROWID")
        db.execute(f"PRAGMA user_version={ARITHMETIC}")
        db.execute("BEGIN")
        db.executemany("INSERT OR REPLACE INTO entries VALUES (?, ?)", map(_row, rows))
        db.execute("COMMIT")
        db.close()
        return path.read_bytes()


def _row(columns: list[str]) -> tuple[str, object]:
    key, kind, value = (column.encode("utf-8", "replace").decode() for column in columns)
    try:
        if kind == "array":
            return key, _array(value)
        return key, {"int": int, "real": float, "text": str}.get(kind, str.encode)(value)  # type: ignore[operator]
    except (ValueError, OverflowError, struct.error):
        return key, value.encode()


def _array(text: str) -> bytes:
    """A stored array from ``header#numbers``."""
    header, _, numbers = text.partition("#")
    kind, of = ("q", int) if "<i8" in header else ("d", float)
    values = b"".join(struct.pack(f"<{kind}", of(number)) for number in numbers.split())
    packed = header.ljust(117).encode() + b"\n"
    return b"\x93NUMPY\x01\x00" + struct.pack("<H", len(packed) % 65536) + packed + values


@lru_cache(maxsize=512)
def spans(text: str, form: Format) -> tuple[Span, ...]:
    """Where the pieces of a text lie: those that the format's patterns match, and whatever brackets enclose."""
    found = [match.span() for pattern in form.pieces for match in pattern.finditer(text) if match.group()]
    if form.brackets:
        opened: list[int] = []
        for bracket in re.finditer(rf"{_STRING}|[\[\]{{}}]", text):
            if bracket.group() in "[{":
                opened.append(bracket.start())
            elif bracket.group() in "]}" and opened:
                found.append((opened.pop(), bracket.end()))
    return tuple(found) or ((0, len(text)),)
