"""What is odd in the input but costs no submission: counted here, told once each."""

from collections import Counter

from pan_scdg.errors import UserError, one_line


class Notices:
    """Counts odd things by kind. With ``strict`` the first one is an error instead."""

    def __init__(self, strict: bool = False) -> None:
        self.strict = strict
        self._count: Counter[str] = Counter()
        self._first: dict[str, str] = {}

    def add(self, kind: str, where: str) -> None:
        """Note one ``kind`` of odd thing (a whole phrase, e.g. "empty corpus document") seen at ``where``.

        Raises:
            UserError: in strict mode.
        """
        if self.strict:
            raise UserError(kind, "correct the input or leave out --strict", where)
        self._count[kind] += 1
        self._first.setdefault(kind, where)

    def lines(self) -> list[str]:
        """One line a kind: how often it was seen and where first."""
        return [
            one_line(f"warning: {kind}: {count} time{'s' if count > 1 else ''}, first at {self._first[kind]}")
            for kind, count in self._count.items()
        ]
