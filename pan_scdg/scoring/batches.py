"""Divide work into batches and shards, as a function of the keys and sizes of all items alone."""

import heapq
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from pan_scdg.store import make_key

MOST = 100_000
"""Largest number of shards of a job."""


class Batch(NamedTuple):
    """Items that are computed together, by their positions in a list."""

    members: tuple[int, ...]
    digest: str
    """Hash of the members' keys, part of the store's keys, since results of two batches may differ in last digits."""


def make_batches(keys: Sequence[str], sizes: Sequence[int], budget: int) -> list[Batch]:
    """Divide items into batches of at most ``budget`` tokens, the largest items first.

    A larger item is a batch of its own. A lack of memory thus shows at the beginning.

    Raises:
        ValueError: the numbers of keys and sizes differ.
    """
    if len(keys) != len(sizes):
        raise ValueError(f"{len(keys)} keys but {len(sizes)} sizes")
    order = sorted(range(len(keys)), key=lambda i: (-sizes[i], keys[i]))
    found: list[list[int]] = []
    left = 0
    for number in order:
        if not found or sizes[number] > left:
            found.append([])
            left = budget
        found[-1].append(number)
        left -= sizes[number]
    return [Batch(tuple(members), digest_keys([keys[i] for i in members])) for members in found]


def digest_keys(keys: Sequence[str]) -> str:
    """Return a hash of the keys of one batch."""
    return make_key("batch", {"keys": list(keys)})


class Shard(NamedTuple):
    """One of the parts of a job, a filter over named items; `WHOLE` keeps them all."""

    number: int
    """Its number, from 1."""
    of: int
    """Number of shards."""

    def __str__(self) -> str:
        return f"shard {self.number}/{self.of}"

    def select(self, sizes: Mapping[str, int]) -> set[str]:
        """Return the names of this shard's items: the largest go first, each to the shard with the least work."""
        # a shard beyond the number of items stays empty, so the list is never longer than the work
        loads = [(0, number) for number in range(1, min(self.of, len(sizes)) + 1)]
        found = set()
        for name in sorted(sizes, key=lambda name: (-sizes[name], name)):
            load, number = loads[0]
            heapq.heapreplace(loads, (load + sizes[name], number))
            if number == self.number:
                found.add(name)
        return found


WHOLE = Shard(1, 1)
"""The only shard of a job."""
