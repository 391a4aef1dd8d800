"""Targets that are at fault, each in its own way: the harness has to find all of them."""

import os
import time
from pathlib import Path

from formats import LINES
from target import Target

from pan_scdg.errors import UserError


def _text(folder: Path) -> str:
    path = folder / "a.txt"
    return path.read_bytes().decode("utf-8", "replace") if path.is_file() else ""


def _sound(folder: Path) -> None:
    if "one" not in _text(folder):
        raise UserError("there is no one", "add it", folder)


def _faulty(folder: Path) -> None:
    if "two" not in _text(folder):
        raise KeyError("two")


def _slow(folder: Path) -> None:
    if "two" not in _text(folder):
        time.sleep(3600)


def _busy(folder: Path) -> None:
    while "two" not in _text(folder):
        pass


def _greedy(folder: Path) -> None:
    if "two" not in _text(folder):
        bytearray(2 << 30)


def _dying(folder: Path) -> None:
    if "two" not in _text(folder):
        os.abort()


def _unprintable(folder: Path) -> None:
    if "two" not in _text(folder):
        e = UserError("two", "add it")
        e.args = ("\x1b[0m",)
        raise e


def _make(folder: Path) -> None:
    (folder / "a.txt").write_text("one two three\nfour five six\n")


READERS = {
    "sound": _sound,
    "faulty": _faulty,
    "slow": _slow,
    "busy": _busy,
    "greedy": _greedy,
    "dying": _dying,
    "unprintable": _unprintable,
}
PLANTED = {name: Target(name, read, {"a.txt": LINES}, (), made=_make) for name, read in READERS.items()}
