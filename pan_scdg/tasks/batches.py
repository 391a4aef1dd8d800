"""What is scored together: a function of the keys and sizes of all that is to be scored, and of nothing else."""

from collections.abc import Sequence
from typing import NamedTuple

from pan_scdg.store import key_of


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
    return [Batch(tuple(members), digest_of([keys[i] for i in members])) for members in found]


def digest_of(keys: Sequence[str]) -> str:
    """A digest of the keys of one batch."""
    return key_of("batch", {"keys": list(keys)})
