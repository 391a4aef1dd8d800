"""What is scored together: a function of the keys and sizes of all that is to be scored, and of nothing else."""

import heapq
from collections.abc import Sequence
from typing import NamedTuple

from pan_scdg.store import key_of

MOST = 100_000
"""Shares of a job; nobody has more machines."""


class Batch(NamedTuple):
    """Some of a list of things, by their positions."""

    members: tuple[int, ...]
    digest: str
    """Of the members' keys: results that differ in the last digits between two batches have different keys."""


def batches(keys: Sequence[str], sizes: Sequence[int], budget: int) -> list[Batch]:
    """Batches of at most ``budget`` tokens (a thing that is larger alone is alone), the largest things first.

    Whether memory suffices then shows at the beginning.

    Args:
        keys: the key of each thing.
        sizes: about how many tokens each has.
        budget: tokens of a batch.

    Raises:
        ValueError: there are not as many keys as sizes.
    """
    if len(keys) != len(sizes):
        raise ValueError(f"{len(keys)} keys but {len(sizes)} sizes")
    order = sorted(range(len(keys)), key=lambda i: (-sizes[i], keys[i]))
    found: list[list[int]] = []
    room = 0
    for number in order:
        if not found or sizes[number] > room:
            found.append([])
            room = budget
        found[-1].append(number)
        room -= sizes[number]
    return [Batch(tuple(members), digest_keys([keys[i] for i in members])) for members in found]


def digest_keys(keys: Sequence[str]) -> str:
    """A digest of the keys of one batch."""
    return key_of("batch", {"keys": list(keys)})


class Share(NamedTuple):
    """One of several parts of a job's work."""

    number: int
    """From 1."""
    of: int

    def __str__(self) -> str:
        return f"shard {self.number}/{self.of}"

    def mine(self, names: Sequence[str], sizes: Sequence[int]) -> set[int]:
        """Positions of what this share has to do: the largest first, each to the share with the least so far."""
        # a share beyond the number of things has nothing to do, so that the list is never longer than the work
        loads = [(0, number) for number in range(1, min(self.of, len(names)) + 1)]
        found = set()
        for position in sorted(range(len(names)), key=lambda i: (-sizes[i], names[i])):
            load, number = loads[0]
            heapq.heapreplace(loads, (load + sizes[position], number))
            if number == self.number:
                found.add(position)
        return found
