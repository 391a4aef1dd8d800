"""Store and load the gain statistics of scored pairs and, on request, the gains."""

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
from pydantic import Field, PositiveInt, TypeAdapter

from pan_scdg.errors import UserError
from pan_scdg.own_files import OwnRecord, parse_as
from pan_scdg.profile import PAPER_GRID, Control
from pan_scdg.scdg.gains import Gains, GainStatistics, baseline_of, statistics
from pan_scdg.store import Store, pack_array, unpack_array, unpack_floats

STORED_GRID = (*PAPER_GRID, 100)
"""Percentages whose Top-q mean is stored with every pair, so that a change of q needs no new scores."""
STORED_WINDOWS = (32, 64, 96, 128, 192, 256, 384)
"""Widths whose best windows are stored in pair detection, so that a change of w needs no new scores."""
_TABLES: dict[str, Callable[[str], float]] = {"top": float, "window": int, "window_median": int, "window_bounded": int}


class _Statistics(OwnRecord):
    """`GainStatistics` in JSON, whose keys are strings."""

    tokens: PositiveInt
    mean: float
    median: float
    positive_rate: float
    total: float
    top: dict[str, float]
    window: dict[str, float] = Field(default_factory=dict)
    window_median: dict[str, float] = Field(default_factory=dict)
    window_bounded: dict[str, float] = Field(default_factory=dict)
    code_length: float | None = None
    positive_mean: float | None = None
    deviation: float | None = None


_STATISTICS = TypeAdapter(_Statistics)


class Wanted(NamedTuple):
    """The percentages and window widths of the statistics to compute.

    With ``moments``, the mean of positive gains and the deviation are required, too; older entries lack them.
    """

    grid: tuple[float, ...]
    windows: tuple[int, ...] = ()
    medians: tuple[int, ...] = ()
    bounded: tuple[int, ...] = ()
    moments: bool = False

    def covered_by(self, statistics: GainStatistics) -> bool:
        """Return True if ``statistics`` has all of them."""
        return (
            set(self.grid) <= set(statistics.top)
            and set(self.windows) <= set(statistics.window)
            and set(self.medians) <= set(statistics.window_median)
            and set(self.bounded) <= set(statistics.window_bounded)
            and not (self.moments and None in (statistics.positive_mean, statistics.deviation))
        )


def make_grid(wanted: Iterable[float]) -> tuple[float, ...]:
    """Return the percentages that are always stored and the additional ones of a profile."""
    return tuple(sorted({float(q) for q in (*STORED_GRID, *wanted)}))


def choose_pair_features(q: float | None, windows: Iterable[int]) -> Wanted:
    """Return the percentages and widths that are always stored and the additional ones of a profile."""
    widths = tuple(sorted({*STORED_WINDOWS, *windows}))
    return Wanted(make_grid([] if q is None else [q]), widths, widths, widths)


def compute_features(gains: Gains, wanted: Wanted) -> GainStatistics:
    """Return the statistics of ``gains`` with the code length of the target without a source."""
    found = statistics(gains.gains, wanted.grid, wanted.windows, wanted.medians, wanted.bounded)
    return found._replace(code_length=-float(np.sum(gains.unconditional)))


def save_features(
    store: Store, gains: Mapping[str, Gains], wanted: Wanted, keep_gains: bool, incidents: Sequence[str] = ()
) -> dict[str, GainStatistics]:
    """Store the statistics of ``gains`` by key and, with ``keep_gains``, the gains, in one transaction.

    Incidents are stored beside them and reported by every run that uses them.
    """
    values = {key: compute_features(of, wanted) for key, of in gains.items()}
    items: list[tuple[str, bytes]] = []
    for key, found in values.items():
        items.append((key, _pack_statistics(found)))
        items += store.note(key, incidents)
        if keep_gains:
            of = gains[key]
            rows = [a for a in (of.unconditional, of.conditional, of.control) if a is not None]
            items.append((f"{key}/gains", pack_array(np.stack(rows))))
            items.append((f"{key}/ids", pack_array(of.token_ids)))
    store.put(items)
    return values


def load_features(
    store: Store, key: str, wanted: Wanted, keep_gains: bool, baseline: Control = "none"
) -> GainStatistics | None:
    """Return the stored statistics; None if they, required gains or wanted values are missing.

    Missing values are computed from the gains over ``baseline`` if these were stored.
    """
    values = store.read(key, _unpack_statistics)
    if values is None or (keep_gains and store.get(f"{key}/ids") is None):
        return None
    return values if wanted.covered_by(values) else _recompute(store, key, wanted, baseline)


def _recompute(store: Store, key: str, wanted: Wanted, baseline: Control) -> GainStatistics | None:
    """Return the statistics of the stored gains; None if no gains were stored."""
    ids, rows = load_ids(store, key), store.read(f"{key}/gains", lambda data: _parse_rows(data, baseline))
    if ids is None or rows is None:
        return None
    unconditional, conditional, *control = rows
    kept = Gains(ids, unconditional, conditional, control[0] if control else None, baseline)
    values = compute_features(kept, wanted)
    store.put([(key, _pack_statistics(values))])
    return values


def _pack_statistics(values: GainStatistics) -> bytes:
    tables = {name: {repr(k): v for k, v in getattr(values, name).items()} for name in _TABLES}
    return json.dumps({**values._asdict(), **tables}).encode()


def _unpack_statistics(data: bytes) -> GainStatistics:
    found = parse_as(data, _STATISTICS).model_dump()
    tables = {name: {number(k): v for k, v in found[name].items()} for name, number in _TABLES.items()}
    return GainStatistics(**{**found, **tables})


def _parse_rows(data: bytes, baseline: Control) -> npt.NDArray[np.float64]:
    """Return the stored log-probabilities, ``[2 or 3, n]`` nats; a third row is the control."""
    rows = unpack_floats(data, 2)
    if len(rows) not in (2, 3) or not rows.shape[1]:
        raise ValueError("not the log-probabilities of a pair")
    if baseline != "none" and len(rows) == 2:
        raise ValueError("the log-probabilities of the control are missing")
    return rows


def load_ids(store: Store, key: str) -> npt.NDArray[np.int64] | None:
    """Return the token ids that `save_features` stored, ``[n]``, or None."""
    return store.read(f"{key}/ids", _parse_ids)


def _parse_ids(data: bytes) -> npt.NDArray[np.int64]:
    ids = unpack_array(data)
    if ids.ndim != 1 or ids.dtype.kind not in "iu":
        raise ValueError("not token ids")
    return ids


def load_gains(store: Store, key: str, baseline: Control = "none") -> npt.NDArray[np.float64]:
    """Return the gains over ``baseline`` that `save_features` stored, ``[n]`` nats.

    Raises:
        UserError: the store has no gains under this key.
    """
    rows = store.read(f"{key}/gains", lambda data: _parse_rows(data, baseline))
    if rows is None:
        raise UserError("the gains of a pair are not in the store", "delete the state and run again", store.folder)
    unconditional, conditional, *control = rows
    gains: npt.NDArray[np.float64] = conditional - baseline_of(unconditional, control[0] if control else None, baseline)
    return gains
