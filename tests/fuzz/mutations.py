"""Sixteen bytes say how a valid document is changed; zeros say that it is not.

Hypothesis makes the bytes, repeats them for a seed and makes them smaller when something is found. As with the data
providers of other fuzzers they are read as choices: a file, up to three changes of its text at the borders of its
pieces, then up to one change of its bytes and, rarely, of what kind of file it is.
"""

import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import NamedTuple

from formats import GZIP_BOMB, Format, Span, spans

STEP = 16
"""Bytes of one input."""
LONGEST = 100_000
"""Characters of a changed text."""
DEPTHS = (1, 3, 62, 70, 1100, 20_000)
REPEATS = (2, 3, 40, 1100)
RAW = (
    b"\xff",
    b"\x00",
    b"\xef\xbb\xbf",
    b"\xed\xa0\x80",
    b"\xe2\x80\xa8",
    b"\r",
    b"\n",
    b"\x1f\x8b",
    b"\xc3",
    b"PK\x03\x04",
)

Change = Callable[[str, Span, Span, Format, int], str]


def _replace(text: str, at: Span, other: Span, form: Format, number: int) -> str:
    return text[: at[0]] + form.atoms[number % len(form.atoms)] + text[at[1] :]


def _insert(text: str, at: Span, other: Span, form: Format, number: int) -> str:
    return text[: at[0]] + form.atoms[number % len(form.atoms)] + text[at[0] :]


def _delete(text: str, at: Span, other: Span, form: Format, number: int) -> str:
    return text[: at[0]] + text[at[1] :]


def _repeat(text: str, at: Span, other: Span, form: Format, number: int) -> str:
    times = REPEATS[number % len(REPEATS)]
    return text[: at[0]] + text[at[0] : at[1]] * min(times, 1 + LONGEST // max(1, at[1] - at[0])) + text[at[1] :]


def _copy(text: str, at: Span, other: Span, form: Format, number: int) -> str:
    return text[: at[0]] + text[other[0] : other[1]] + text[at[1] :]


def _swap(text: str, at: Span, other: Span, form: Format, number: int) -> str:
    (a, b), (c, d) = sorted((at, other))
    return text if c < b else text[:a] + text[c:d] + text[b:c] + text[a:b] + text[d:]


def _nest(text: str, at: Span, other: Span, form: Format, number: int) -> str:
    before, behind = form.nests[number % len(form.nests)]
    depth = DEPTHS[number // len(form.nests) % len(DEPTHS)]
    return text[: at[0]] + before * depth + text[at[0] : at[1]] + behind * depth + text[at[1] :]


def _cut(text: str, at: Span, other: Span, form: Format, number: int) -> str:
    return text[: at[0] if number % 2 else at[1]]


def _digit(text: str, at: Span, other: Span, form: Format, number: int) -> str:
    """Change one character of the piece, mostly to one that is as good."""
    if at[0] == at[1]:
        return text
    place = at[0] + number % (at[1] - at[0])
    return text[:place] + '0123456789abcdef-.,: "\n'[number % 23] + text[place + 1 :]


CHANGES: tuple[Change | None, ...] = (
    *(
        None,
        _replace,
        _delete,
        _replace,
        _digit,
        _repeat,
        _replace,
        _copy,
        _insert,
        _swap,
        _digit,
        _replace,
        _nest,
        _copy,
    ),
    *(_replace, _cut),
)
ACTIVE = (220, 80, 30)
"""Below it (of 256) the first, second and third byte say that there is a change."""
KINDS = ("missing", "empty", "folder", "pipe", "link", "dangling", "bomb", "utf-16")


class Case(NamedTuple):
    """A file to be written in the place of the valid one; ``kind`` is one of `KINDS` in the place of ``data``."""

    name: str
    data: bytes
    kind: str = ""


def mutate(files: Mapping[str, bytes], texts: Mapping[str, str], forms: Mapping[str, Format], choice: bytes) -> Case:
    """The case that ``choice`` stands for.

    Args:
        files: the valid files.
        texts: those of them that are changed, before they are encoded.
        forms: their formats.
        choice: `STEP` bytes.
    """
    name = list(forms)[choice[0] % len(forms)]
    form, text = forms[name], texts[name]
    if form.pieces:
        text = _changed(text, form, choice)
    data = form.encode(text) if text != texts[name] else files[name]
    data = _damaged(data, choice[13:16], form)
    # a file of another kind in one of 256 cases, none where all bytes are zero
    return Case(name, data, KINDS[choice[13] % len(KINDS)] if choice[14] == 255 else "")


def _changed(text: str, form: Format, choice: bytes) -> str:
    """Change up to three pieces, from the last to the first, so that each is where it was; never one twice."""
    found = spans(text, form)
    changes = []
    for active, start in zip(ACTIVE, (1, 5, 9)):
        kind, high, low, number = choice[start : start + 4]
        change = CHANGES[kind % len(CHANGES)] if kind < active else None
        if change is not None:
            place = high * 256 + low
            changes.append((found[place % len(found)], found[place * 7 // 3 % len(found)], change, number))
    if changes and changes[0][2] is _swap:  # its other piece must not have moved
        del changes[1:]
    free = len(text)
    for at, other, change, number in sorted(changes, key=lambda c: c[0], reverse=True):
        if at[1] <= free and len(text) < LONGEST:
            text, free = change(text, at, other, form, number), at[0]
    return text


def _damaged(data: bytes, choice: bytes, form: Format) -> bytes:
    """Bytes changed behind all formats: in three of 32 cases, and nearly always where there is nothing else."""
    kind, high, low = choice
    if kind % (2 if not form.pieces else 32) not in (1, 2, 3) or not data:
        return data
    place = (high * 256 + low) % len(data)
    what = kind >> 2
    if what % 4 == 0:
        return data[:place]
    if what % 4 == 1:
        return data[:place] + RAW[what % len(RAW)] + data[place:]
    if what % 4 == 2:
        return data[:place] + bytes([data[place] ^ (1 << what % 8)]) + data[place + 1 :]
    return data[:place] + data[place + 1 + what :]


def write(case: Case, folder: Path) -> None:
    """Put the case into a folder that holds the valid files."""
    if not case.kind:
        with open(f"{folder}/{case.name}", "wb", buffering=0) as file:  # what nearly all of the time is spent with
            file.write(case.data)
        return
    path = folder / case.name
    path.unlink()
    if case.kind == "empty":
        path.touch()
    elif case.kind == "folder":
        path.mkdir()
    elif case.kind == "pipe":
        os.mkfifo(path)
    elif case.kind == "link":
        path.symlink_to("/dev/zero")
    elif case.kind == "dangling":
        path.symlink_to("nowhere")
    elif case.kind == "bomb":
        path.write_bytes(case.data + GZIP_BOMB)
    elif case.kind == "utf-16":
        path.write_bytes(case.data.decode("utf-8", "replace").encode("utf-16"))
