"""Count findings in the input that are unusual but harmless."""

from collections import Counter
from collections.abc import Iterator, Sequence

from pan_scdg.errors import UserError, escape_controls

MAX_NAMES = 20
"""Names of files in one line."""


class Notices:
    """Unusual findings in the input, counted by kind; with ``strict`` the first one is an error with this remedy."""

    def __init__(self, strict: bool = False, remedy: str = "correct the input or leave out --strict") -> None:
        self.strict, self._remedy = strict, remedy
        self._count: Counter[str] = Counter()
        self._first: dict[str, str] = {}
        self.left_out: dict[str, str] = {}
        """Names of files that could not be read, and the reason with a remedy."""
        self._files: dict[str, list[str]] = {}
        self._skipped: dict[str, str] = {}

    def add(self, kind: str, where: str) -> None:
        """Count a finding: its ``kind`` (a phrase such as "empty corpus document") and its place.

        Raises:
            UserError: in strict mode.
        """
        if self.strict:
            raise UserError(kind, self._remedy, where)
        self._count[kind] += 1
        self._first.setdefault(kind, where)

    def add_file(self, kind: str, name: str) -> None:
        """Count a finding about a text, whose name is listed.

        Raises:
            UserError: in strict mode.
        """
        if self.strict:
            raise UserError(kind, self._remedy, name)
        self._files.setdefault(kind, []).append(name)

    def skip(self, name: str, remedy: str) -> None:
        """Count a file of a format that is not read, with a sentence about what to do, if there is one.

        Raises:
            UserError: in strict mode.
        """
        if self.strict:
            raise UserError("unsupported format", self._remedy, name)
        self._skipped[name] = remedy

    def include(self, other: "Notices", folder: str) -> None:
        """Add the findings about the files of a folder, whose names begin with it."""
        self.left_out |= {folder + name: reason for name, reason in other.left_out.items()}
        self._skipped |= {folder + name: remedy for name, remedy in other._skipped.items()}
        for kind, names in other._files.items():
            self._files.setdefault(kind, []).extend(folder + name for name in names)

    def _list_skipped(self) -> Iterator[str]:
        if self._skipped:
            files = "file" if len(self._skipped) == 1 else "files"
            remedies = dict.fromkeys(filter(None, self._skipped.values()))
            line = f"Skipped {len(self._skipped)} unsupported {files}: {list_names(list(self._skipped))}."
            yield " ".join([line, *remedies])

    def list_warnings(self) -> list[str]:
        """Return a warning for each file that was left out, and for each kind how often it was found, and where."""
        left_out = (f"not read: {name}. {reason}" for name, reason in self.left_out.items())
        files = (f"{kind}: {list_names(names)}" for kind, names in self._files.items())
        counted = (
            f"{kind}: {count} time{'s' if count > 1 else ''}, first at {self._first[kind]}"
            for kind, count in self._count.items()
        )
        return [escape_controls(f"warning: {line}") for line in (*left_out, *self._list_skipped(), *files, *counted)]


def list_names(names: Sequence[str]) -> str:
    """Return names as a list, at most `MAX_NAMES` of them and the number of the others."""
    more = len(names) - MAX_NAMES
    return ", ".join(names[:MAX_NAMES]) + (f" and {more} more" if more > 0 else "")
