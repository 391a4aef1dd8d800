"""What is stored of a scored pair: the statistics of its gains and, on request, the gains themselves."""

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
"""Percentages whose Top-q mean is stored with every pair, so that another q rescores nothing."""
STORED_WINDOWS = (32, 64, 96, 128, 192, 256, 384)
"""Widths whose best windows are stored with every pair of job 1, so that another w rescores nothing."""
_TABLES: dict[str, Callable[[str], float]] = {"top": float, "window": int, "window_median": int, "window_bounded": int}


class _Statistics(OwnRecord):
    """`GainStatistics` as they are stored; JSON has no keys but texts."""

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
    """The percentages and window widths that `statistics` is to know.

    ``moments``: the mean of the positive gains and the deviation, too. What was stored before there were such lacks
    them, and is good enough for whoever does not ask.
    """

    grid: tuple[float, ...]
    windows: tuple[int, ...] = ()
    medians: tuple[int, ...] = ()
    bounded: tuple[int, ...] = ()
    moments: bool = False

    def known(self, statistics: GainStatistics) -> bool:
        """Whether all of them are in ``statistics``."""
        return (
            set(self.grid) <= set(statistics.top)
            and set(self.windows) <= set(statistics.window)
            and set(self.medians) <= set(statistics.window_median)
            and set(self.bounded) <= set(statistics.window_bounded)
            and not (self.moments and None in (statistics.positive_mean, statistics.deviation))
        )


def feature_grid(wanted: Iterable[float]) -> tuple[float, ...]:
    """The stored percentages and those that a profile asks for besides."""
    return tuple(sorted({float(q) for q in (*STORED_GRID, *wanted)}))


def pair_features(q: float | None, windows: Iterable[int]) -> Wanted:
    """What is known of every pair: the stored percentages and widths, and what a profile asks for besides."""
    widths = tuple(sorted({*STORED_WINDOWS, *windows}))
    return Wanted(feature_grid([] if q is None else [q]), widths, widths, widths)


def features_of(gains: Gains, wanted: Wanted) -> GainStatistics:
    """The statistics of ``gains`` with the code length of the target alone."""
    found = statistics(gains.gains, wanted.grid, wanted.windows, wanted.medians, wanted.bounded)
    return found._replace(code_length=-float(np.sum(gains.unconditional)))


def save_features(
    store: Store, gains: Mapping[str, Gains], wanted: Wanted, keep_gains: bool, incidents: Sequence[str] = ()
) -> dict[str, GainStatistics]:
    """Store the statistics of ``gains`` by key, and the gains when they are to be kept, in one transaction.

    ``incidents`` are noted beside them: whoever uses them later has to tell of these.
    """
    values = {key: features_of(of, wanted) for key, of in gains.items()}
    items: list[tuple[str, bytes]] = []
    for key, found in values.items():
        items.append((key, _packed(found)))
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
    """The stored statistics; None when there are none, or they lack the gains that are asked for or what is wanted.

    What they lack is made, and stored, from the gains where these were kept; ``baseline`` is what they are gains over.
    """
    values = store.read(key, _unpacked)
    if values is None or (keep_gains and store.get(f"{key}/ids") is None):
        return None
    return values if wanted.known(values) else _made_again(store, key, wanted, baseline)


def _made_again(store: Store, key: str, wanted: Wanted, baseline: Control) -> GainStatistics | None:
    """The statistics of the gains that were kept; None where they were not."""
    ids, rows = load_ids(store, key), store.read(f"{key}/gains", lambda data: _rows(data, baseline))
    if ids is None or rows is None:
        return None
    unconditional, conditional, *control = rows
    kept = Gains(ids, unconditional, conditional, control[0] if control else None, baseline)
    values = features_of(kept, wanted)
    store.put([(key, _packed(values))])
    return values


def _packed(values: GainStatistics) -> bytes:
    tables = {name: {repr(k): v for k, v in getattr(values, name).items()} for name in _TABLES}
    return json.dumps({**values._asdict(), **tables}).encode()


def _unpacked(data: bytes) -> GainStatistics:
    found = parse_as(data, _STATISTICS).model_dump()
    tables = {name: {number(k): v for k, v in found[name].items()} for name, number in _TABLES.items()}
    return GainStatistics(**{**found, **tables})


def _rows(data: bytes, baseline: Control) -> npt.NDArray[np.float64]:
    """The stored log-probabilities, ``[2 or 3, n]`` nats; the third row is the control, if there is one."""
    rows = unpack_floats(data, 2)
    if len(rows) not in (2, 3) or not rows.shape[1]:
        raise ValueError("not the log-probabilities of a pair")
    if baseline != "none" and len(rows) == 2:
        raise ValueError("the log-probabilities of the control are missing")
    return rows


def load_ids(store: Store, key: str) -> npt.NDArray[np.int64] | None:
    """Return the token ids that `save_features` kept, ``[n]``, None where it kept none."""
    return store.read(f"{key}/ids", _ids)


def _ids(data: bytes) -> npt.NDArray[np.int64]:
    ids = unpack_array(data)
    if ids.ndim != 1 or ids.dtype.kind not in "iu":
        raise ValueError("not token ids")
    return ids


def load_gains(store: Store, key: str, baseline: Control = "none") -> npt.NDArray[np.float64]:
    """The gains over ``baseline`` that `save_features` kept, ``[n]`` nats."""
    rows = store.read(f"{key}/gains", lambda data: _rows(data, baseline))
    if rows is None:
        raise UserError("the gains of a pair are missing", "delete the state and run again", store.folder)
    unconditional, conditional, *control = rows
    gains: npt.NDArray[np.float64] = conditional - baseline_of(unconditional, control[0] if control else None, baseline)
    return gains
