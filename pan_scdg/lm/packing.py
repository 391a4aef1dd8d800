"""What goes through the model together: inputs with a common context share it, rows are filled up to a token budget.

The plan is a function of the inputs and the budget alone. It decides which numbers meet in one matrix product, and with
that the last bits of every result; hence nothing that differs between two runs of one job may have a say in it.
"""

from collections import defaultdict
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from pan_scdg.scdg.arrays import TokenIds
from pan_scdg.scdg.sequences import ScoringInput


class Shared(NamedTuple):
    """Inputs that have all of their context but its last token in common; a single input shares nothing."""

    members: tuple[int, ...]
    """Positions in the list of inputs."""
    prefix: int
    """Tokens of the common prefix; 0: there is none."""


class Row(NamedTuple):
    """One call of the model."""

    parts: tuple[Shared, ...]
    kept: bool = False
    """The prefix of its only part comes from the row before, which was the first of that part."""
    keep: bool = False
    """Keys and values of the prefix of its only part are needed by the next row."""

    @property
    def members(self) -> tuple[int, ...]:
        """Positions of the inputs that the row scores."""
        return tuple(member for part in self.parts for member in part.members)


def plan(items: Sequence[ScoringInput], budget: int) -> list[list[Row]]:
    """Rows of at most ``budget`` tokens (an input that is longer alone has a row alone), in the order to be run.

    Rows that follow each other on a kept prefix are one list, every other row is a list alone. Longer parts come first
    (first fit, decreasing), equal ones in the order of the inputs.

    Raises:
        ValueError: ``budget`` is below 1.
    """
    if budget < 1:
        raise ValueError(f"a row needs at least 1 token, not {budget}")
    parts = sorted(shared_contexts(items), key=lambda part: (-_tokens(part, items), part.members))
    chains = [_chain(part, items, budget) for part in parts if _tokens(part, items) > budget]
    rows: list[list[Shared]] = []
    room: list[int] = []
    for part in parts:
        need = _tokens(part, items)
        if need > budget:
            continue
        at = next((i for i, left in enumerate(room) if left >= need), len(rows))
        if at == len(rows):
            rows.append([])
            room.append(budget)
        rows[at].append(part)
        room[at] -= need
    return [*chains, *([Row(tuple(row))] for row in rows)]


def shared_contexts(items: Sequence[ScoringInput]) -> Iterable[Shared]:
    """The inputs by their common context, in the order of the first of each."""
    alike: dict[bytes, list[int]] = defaultdict(list)
    for number, item in enumerate(items):
        alike[item.context_ids.tobytes()].append(number)
    for members in alike.values():
        prefix = len(items[members[0]].context_ids) - 1
        if len(members) > 1 and prefix:  # a context of one token leaves nothing to share
            yield Shared(tuple(members), prefix)
        else:
            yield from (Shared((member,), 0) for member in members)


def continuation(item: ScoringInput, prefix: int) -> TokenIds:
    """What is left of an input behind the prefix: its first token is context, for its output speaks of the target."""
    return item.context_ids[prefix:]


def own_length(item: ScoringInput, prefix: int) -> int:
    """Tokens of an input behind the prefix. The last token's output would speak of nothing, so it is left out."""
    return item.length - prefix - 1


def row_tokens(row: Row, items: Sequence[ScoringInput]) -> int:
    """Tokens that go through the model in the call of a row."""
    own = sum(own_length(items[member], part.prefix) for part in row.parts for member in part.members)
    return own if row.kept else own + sum(part.prefix for part in row.parts)


def _tokens(part: Shared, items: Sequence[ScoringInput]) -> int:
    return part.prefix + sum(own_length(items[member], part.prefix) for member in part.members)


def _chain(part: Shared, items: Sequence[ScoringInput], budget: int) -> list[Row]:
    """Rows for a part that exceeds the budget: the first has the prefix, all have as many members as fit."""
    groups: list[list[int]] = []
    room = 0
    for member in part.members:
        need = own_length(items[member], part.prefix)
        if need > room or not groups:
            room = budget if groups else budget - part.prefix
            groups.append([])
        groups[-1].append(member)
        room -= need
    last = len(groups) - 1
    return [
        Row((Shared(tuple(group), part.prefix),), kept=number > 0, keep=number == 0 and last > 0)
        for number, group in enumerate(groups)
    ]
