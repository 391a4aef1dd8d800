"""What every baseline can do, and what it is given."""

from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple, Protocol


class TextPair(NamedTuple):
    """One pair to be scored: texts, and the ids by which the pair is known."""

    target_id: str
    source_id: str
    target: str
    source: str


class PairScorer(Protocol):
    """A simple method. What it needs beyond the two texts (statistics, an encoder) it got when it was made."""

    features: tuple[str, ...]
    """Names of the numbers it gives of a pair; a method with one number calls it ``score``."""

    def identity(self) -> dict[str, Any]:
        """Everything besides the two texts that its numbers depend on, as JSON values: part of the store's keys."""
        ...

    def score(self, pairs: Iterable[TextPair]) -> Iterator[tuple[float, ...]]:
        """Its numbers of each pair, in order; pairs are taken as they come and not all kept.

        Raises:
            UserError: a pair cannot be scored.
        """
        ...
