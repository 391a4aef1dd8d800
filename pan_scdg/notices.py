"""Count findings in the input that are unusual but harmless."""

from collections import Counter

from pan_scdg.errors import UserError, escape_controls


class Notices:
    """Unusual findings in the input, counted by kind; with ``strict`` the first one is an error with this remedy."""

    def __init__(self, strict: bool = False, remedy: str = "correct the input or leave out --strict") -> None:
        self.strict, self._remedy = strict, remedy
        self._count: Counter[str] = Counter()
        self._first: dict[str, str] = {}
        self.left_out: dict[str, str] = {}
        """Names of files that could not be read, and the reason with a remedy."""

    def add(self, kind: str, where: str) -> None:
        """Count a finding: its ``kind`` (a phrase such as "empty corpus document") and its place.

        Raises:
            UserError: in strict mode.
        """
        if self.strict:
            raise UserError(kind, self._remedy, where)
        self._count[kind] += 1
        self._first.setdefault(kind, where)

    def list_warnings(self) -> list[str]:
        """Return a warning for each file that was left out, and for each kind how often it was found, and where."""
        left_out = (f"left out: {name}: {reason}" for name, reason in self.left_out.items())
        counted = (
            f"{kind}: {count} time{'s' if count > 1 else ''}, first at {self._first[kind]}"
            for kind, count in self._count.items()
        )
        return [escape_controls(f"warning: {line}") for line in (*left_out, *counted)]
