"""What is stored of a scored pair: the statistics of its gains and, on request, the gains themselves."""

import json
from collections.abc import Iterable

import numpy as np
import numpy.typing as npt

from pan_scdg.profile import PAPER_GRID
from pan_scdg.scdg.gains import Gains, GainStatistics, statistics
from pan_scdg.store import Store, pack_array, unpack_array

STORED_GRID = (*PAPER_GRID, 100)
"""Percentages whose Top-q mean is stored with every pair, so that another q rescores nothing."""


def feature_grid(wanted: Iterable[float]) -> tuple[float, ...]:
    """The stored percentages and those that a profile asks for besides."""
    return tuple(sorted({float(q) for q in (*STORED_GRID, *wanted)}))


def save_features(store: Store, key: str, gains: Gains, grid: Iterable[float], keep_gains: bool) -> GainStatistics:
    """Store the statistics of ``gains``, and the gains when they are to be kept, in one transaction."""
    values = statistics(gains.gains, tuple(grid))
    items = [(key, json.dumps({**values._asdict(), "top": {repr(q): v for q, v in values.top.items()}}).encode())]
    if keep_gains:
        items.append((f"{key}/gains", pack_array(np.stack([gains.unconditional, gains.conditional]))))
        items.append((f"{key}/ids", pack_array(gains.token_ids)))
    store.put(items)
    return values


def load_features(store: Store, key: str, grid: Iterable[float], keep_gains: bool) -> GainStatistics | None:
    """The stored statistics; None when there are none, or they lack a percentage or the gains that are asked for."""
    stored = store.get(key)
    if stored is None or (keep_gains and store.get(f"{key}/ids") is None):
        return None
    data = json.loads(stored)
    top = {float(q): v for q, v in data.pop("top").items()}
    if any(q not in top for q in grid):
        return None
    return GainStatistics(**data, top=top)


def load_gains(store: Store, key: str) -> npt.NDArray[np.float64]:
    """The gains that `save_features` kept, ``[n]`` nats."""
    data = store.get(f"{key}/gains")
    if data is None:
        raise ValueError("the gains of this pair were not kept")
    unconditional, conditional = unpack_array(data)
    gains: npt.NDArray[np.float64] = conditional - unconditional
    return gains
