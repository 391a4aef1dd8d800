"""Count findings in the input that are unusual but harmless."""

from collections import Counter

from pan_scdg.errors import UserError, escape_controls


class Notices:
    """Unusual findings in the input, counted by kind; with ``strict`` the first one is an error with this remedy."""

    def __init__(self, strict: bool = False, remedy: str = "correct the input or leave out --strict") -> None:
        self.strict, self._remedy = strict, remedy
        self._count: Counter[str] = Counter()
        self._first: dict[str, str] = {}

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
        """Return one warning for each kind: how often it was found, and where first."""
        return [
            escape_controls(f"warning: {kind}: {count} time{'s' if count > 1 else ''}, first at {self._first[kind]}")
            for kind, count in self._count.items()
        ]
