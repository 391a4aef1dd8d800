"""Change a valid text: values, pieces, nesting and bytes, or what kind of file it is."""

import gzip
import json
import os
import random
import re
import struct
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

MAX_CHARACTERS = 100_000
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
)
NUMBERS = ("-1", "0", "1e999", "-0.0", "18446744073709551616", "1_0", "\uff19", "0x1f", "9" * 5000, "nan", "inf")
COMMON = (*NAMES, *NUMBERS, "x" * 600, "\t", "\r", "\n", '"', "\\", "true", "null")
RAW = (b"\xff", b"\x00", b"\xef\xbb\xbf", b"\xed\xa0\x80", b"\r", b"\n", b"\x1f\x8b", b"\xc3", b"PK\x03\x04")
DEPTHS, REPEATS = (1, 3, 62, 70, 1100, 20_000), (2, 3, 40, 1100)
KINDS = ("missing", "empty", "folder", "pipe", "link", "dangling", "bomb", "utf-16")
GZIP_BOMB = gzip.compress(b'{"a": [' + b"{}," * (1 << 20) + b"{}]}\n", 9)


def encode_utf8(text: str) -> bytes:
    """Return the text as it is, with what no file should have."""
    return text.encode("utf-8", "surrogatepass")


class Format(NamedTuple):
    """Where the pieces of a text are that are worth changing, what replaces them, and what they are nested in."""

    pieces: tuple[re.Pattern[str], ...]
    atoms: tuple[str, ...]
    nests: tuple[tuple[str, str], ...]
    encode: Callable[[str], bytes] = encode_utf8


def _compile(*patterns: str) -> tuple[re.Pattern[str], ...]:
    return tuple(re.compile(pattern, re.MULTILINE) for pattern in patterns)


STRING = r'"(?:[^"\\\n]|\\.)*"'
JSON = Format(
    _compile(rf"{STRING}: ?[^,\n}}]+,?", STRING, r"-?\d[\d.]*", r"\btrue|false|null\b", r"[\[\]{}]", r"^.*\n?"),
    (
        *map(json.dumps, NAMES),
        *NUMBERS,
        "null",
        "true",
        "[]",
        "{}",
        '{"a": 1}',
        '""',
        "1.5",
        r'"\ud800"',
        ",",
        "]",
        "}",
    ),
    (("[", "]"), ('{"a":', "}"), ("[1,", ",2]")),
)
TOML = Format(
    _compile(r"(?<== ).+$", STRING, r"-?\d[\d.]*", r"^\w+(?= =)", r"^\[.*\]$", r"^.*\n?"),
    (
        *map(json.dumps, NAMES),
        *NUMBERS,
        "true",
        "[]",
        "{a = 1}",
        '"""',
        "[[a]]\n",
        "a.b = 1\n",
        "2026-13-45",
        '"\\x"',
        "=",
    ),
    (("[", "]"), ("{a = ", "}")),
)
XML = Format(
    _compile(r'\w+="[^"]*" ?', r'"[^"]*"', r"<[^>]+>", r"(?<=>)[^<]+", r"\w+(?==)", r"^.*\n?"),
    (
        *COMMON,
        "<!DOCTYPE d>",
        '<!DOCTYPE d [<!ENTITY a "b">]>',
        "<![CDATA[x]]>",
        "<?p i?>",
        "<",
        "&",
        "&a;",
        "&#0;",
        '<?xml version="1.0" encoding="utf-16"?>',
        '<n:a xmlns:n="u"/>',
        "<feature/>",
        "</document>",
        "this_offset",
    ),
    (("<a>", "</a>"), ('<feature name="plagiarism">', "</feature>")),
)
PDF = Format(
    _compile(r"/\w+ [^/<>\n]+", r"\([^()\n]*\)", r"-?\d[\d.]*", r"\b\d+ 0 R\b", r"\b[A-Za-z*]{1,3}$", r"^.*\n?"),
    (
        *NUMBERS,
        *("1 0 R", "4 0 R", "<< >>", "[ ]", "(x)", "<00ff>", "null", "true", "/Type /Page", "/Filter /FlateDecode"),
        *(
            "1 g",
            "q",
            "Q",
            "BT",
            "ET",
            "0 0 0 0 0 0 cm",
            "3 Tr",
            "[(a) -900 (b)] TJ",
            "/X Do",
            "BI /W 9 ID a EI",
            "endobj",
        ),
    ),
    (("[", "]"), ("<< /A ", " >>"), ("(", ")"), ("q ", " Q")),
    lambda text: text.encode("latin-1", "replace"),
)
LINES = Format(
    _compile(r"\S+", r"[ \t]+", r"^.*\n?"),
    (*COMMON, "\u2003", "\r\n", "\x1b]0;x\x07", "a/b/c", "%PDF-1.7\n", "{\\rtf1 ", "s1.txt", "-9999999999"),
    (("(", ")"), ('"', '"'), ("a/", "")),
)
CSV = Format(
    _compile(r"[^,\n]+", r",[^,\n]*", r"^.*\n?"),
    (*COMMON, '""', '"a\nb"', ",", ";", ",,", "\r\n", "yes", "no", "=1+1"),
    (('"', '"'), ("", ",")),
)
YAML = Format(
    _compile(r"(?<=: ).+$", r"[\w.-]+", r"^ *\w[^:\n]*(?=:)", r"\[.*\]", r"^.*\n?"),
    (
        *COMMON,
        "2026-13-45",
        "!!python/object/apply:os.getcwd []",
        "&a [*a]",
        "*a",
        "|",
        "- x",
        "<<: *a",
        "{a: 1}",
        ":",
        "---",
    ),
    (("[", "]"), ("{a: ", "}"), ("- ", "")),
)


def pack_gzip(text: str) -> bytes:
    """Return a gzip file with this text."""
    return gzip.compress(encode_utf8(text), 1, mtime=0)


def pack_npy(text: str) -> bytes:
    """Return an array file whose header is this text, with 64 bytes of numbers."""
    header = text.encode("latin-1", "replace")[:65535]
    return b"\x93NUMPY\x01\x00" + struct.pack("<H", len(header)) + header + bytes(range(64))


def pack_safetensors(text: str) -> bytes:
    """Return a file of weights whose header is this text, with 64 bytes of numbers."""
    header = encode_utf8(text)
    return struct.pack("<Q", len(header)) + header + bytes(64)


def mutate(text: str, form: Format, rng: random.Random) -> bytes:
    """Return a changed text as the bytes of its file."""
    for _ in range(rng.choice((1, 1, 1, 2, 3))):
        text = _change(text, form, rng)[:MAX_CHARACTERS]
    data = form.encode(text)
    return _damage(data, rng) if rng.random() < 0.1 else data


def _change(text: str, form: Format, rng: random.Random) -> str:
    spans = [match.span() for match in rng.choice(form.pieces).finditer(text) if match.group()] or [(0, len(text))]
    (start, end), (first, last) = rng.choice(spans), rng.choice(spans)
    piece, before, after = text[start:end], text[:start], text[end:]
    before_nest, after_nest = rng.choice(form.nests)
    depth = rng.choice(DEPTHS)
    actions: list[Callable[[], str]] = [
        *[lambda: before + rng.choice(form.atoms) + after] * 4,
        *[lambda: before + after] * 2,
        lambda: before + rng.choice(form.atoms) + text[start:],
        lambda: before + piece * min(rng.choice(REPEATS), 1 + MAX_CHARACTERS // len(piece or "x")) + after,
        lambda: before + text[first:last] + after,
        lambda: before + before_nest * depth + piece + after_nest * depth + after,
        lambda: before,
        lambda: (
            before
            + piece[: len(piece) // 2]
            + rng.choice('0123456789abcdef-.,: "\n')
            + piece[len(piece) // 2 + 1 :]
            + after
        ),
    ]
    return rng.choice(actions)()


def _damage(data: bytes, rng: random.Random) -> bytes:
    place = rng.randrange(len(data) + 1)
    actions: list[Callable[[], bytes]] = [
        lambda: data[:place],
        lambda: data[:place] + rng.choice(RAW) + data[place:],
        lambda: (
            data[:place] + bytes(byte ^ 1 << rng.randrange(8) for byte in data[place : place + 1]) + data[place + 1 :]
        ),
    ]
    return rng.choice(actions)()


def write_kind(path: Path, kind: str, data: bytes) -> None:
    """Replace a file by something else of its name."""
    path.unlink()
    if kind == "empty":
        path.touch()
    elif kind == "folder":
        path.mkdir()
    elif kind == "pipe":
        os.mkfifo(path)
    elif kind == "link":
        path.symlink_to("/dev/zero")
    elif kind == "dangling":
        path.symlink_to("nowhere")
    elif kind == "bomb":
        path.write_bytes(data + GZIP_BOMB)
    elif kind == "utf-16":
        path.write_bytes(data.decode("utf-8", "replace").encode("utf-16"))
