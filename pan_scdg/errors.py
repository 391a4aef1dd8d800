"""Exceptions whose text is meant for the user; each is one line on stderr."""

import unicodedata
from importlib.util import find_spec
from pathlib import Path
from typing import Any

MAX_MESSAGE_LENGTH = 200
"""Characters of an exception's text that a message shows."""


class UserError(Exception):
    """Wrong input or settings (exit code 2).

    Its text is ``file:line: what is wrong. What to do.``; file and line are left out if unknown.
    """

    def __init__(self, what: str, remedy: str, where: str | Path | None = None, line: int | None = None) -> None:
        self.what, self.remedy, self.where, self.line = what, remedy, where, line
        place = "" if where is None else f"{where}:" if line is None else f"{where}:{line}:"
        super().__init__(escape_controls(f"{place} {self.sentences}".strip()))

    @property
    def sentences(self) -> str:
        """The message without file and line; a remedy that ends with a quoted command has no full stop."""
        end = "." if self.remedy[-1:].isalnum() or self.remedy[-1:] in ")]" else ""
        return f"{self.what.rstrip('.')}. {self.remedy[:1].upper()}{self.remedy[1:]}{end}"

    def __reduce__(self) -> tuple[Any, ...]:
        """Return the arguments that pickle needs, so that the exception can come from another process."""
        return type(self), (self.what, self.remedy, self.where, self.line)


class UserErrors(UserError):  # noqa: N818 - several of them
    """Several faults found at once, one line each; equal faults are reported once, and lists of faults are joined."""

    def __init__(self, errors: list[UserError]) -> None:
        if not errors:
            raise ValueError("UserErrors needs at least one error")
        single = [e for fault in errors for e in (fault.errors if isinstance(fault, UserErrors) else [fault])]
        self.errors: list[UserError] = list({str(e): e for e in single}.values())
        Exception.__init__(self, "\n".join(str(e) for e in self.errors))

    def __reduce__(self) -> tuple[Any, ...]:
        """Return the arguments that pickle needs."""
        return type(self), (self.errors,)


class InputError(UserError):
    """One input cannot be computed, for example for lack of memory; others of the same batch may be."""


class UnusableDeviceError(UserError):
    """A device is missing, or torch cannot use it."""


class DeviceError(Exception):
    """A device failed, or the process that used it: nothing can be computed in that process any more."""


class LostDeviceError(DeviceError):
    """A device failed in every process that was started for it."""


class Interrupted(BaseException):
    """An early end of a run that continues from its state when started again (exit code 3).

    Its text, if any, is the reason.
    """


def need_packages(extra: str, *packages: str) -> None:
    """Raise UserError if a package of one of the project's extras is not installed; the message names the extra."""
    for name in packages:
        if find_spec(name) is None:
            raise UserError(
                f"the package {name} is not installed", f"install the extra: pip install 'pan_scdg[{extra}]'"
            )


def escape_controls(text: str) -> str:
    """Return ``text`` with control characters escaped, so that names of files cannot forge lines or colours."""
    return "".join(c if c.isprintable() else _escape(c) for c in text)


def _escape(character: str) -> str:
    # no-break spaces are not printable, and harmless
    return " " if unicodedata.category(character) == "Zs" else character.encode("unicode_escape").decode("ascii")


def get_first_line(error: BaseException) -> str:
    """Return the first line of an exception's text, or its type if it has none."""
    return (str(error).strip().splitlines() or [type(error).__name__])[0]
