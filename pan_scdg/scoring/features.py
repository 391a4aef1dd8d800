"""Storage of scored pairs: the statistics of their gains and, on request, the gains themselves."""

import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
from pydantic import PositiveInt, TypeAdapter, create_model

from pan_scdg.errors import UserError
from pan_scdg.own_files import OwnRecord, parse_as
from pan_scdg.profile import Control
from pan_scdg.scdg.aggregation import AGGREGATIONS, Aggregate, GainStatistics
from pan_scdg.scdg.gains import Gains
from pan_scdg.store import Store, pack_array, unpack_array, unpack_floats

_TABLES = {kind.replace("-", "_"): kind for kind, entry in AGGREGATIONS.items() if entry.is_stored}
"""Aggregations by the names of their tables: scores by parameter."""


_fields: dict[str, Any] = {name: (float, ...) for name in GainStatistics._fields if name != "scores"}
_fields |= {"tokens": (PositiveInt, ...), **dict.fromkeys(_TABLES, (dict[str, float], {}))}
_STATISTICS = TypeAdapter(create_model("_Statistics", __base__=OwnRecord, **_fields))
"""`GainStatistics` as they are stored: a table of scores for each aggregation."""


class FeatureStore(NamedTuple):
    """The features of the pairs or candidates of a job in the store, which are computed batch by batch."""

    store: Store
    wanted: Sequence[Aggregate]
    keep_gains: bool
    control: Control

    def load(self, keys: Iterable[str]) -> dict[str, GainStatistics] | None:
        """Return the stored features of a batch by key; None if any is missing, since a batch is scored as a whole."""
        every = {key: self._load(key) for key in keys}
        found = {key: values for key, values in every.items() if values is not None}
        return found if len(found) == len(every) else None

    def save(self, gains: Mapping[str, Gains], incidents: Sequence[str] = ()) -> dict[str, GainStatistics]:
        """Store and return the statistics of a batch by key; also store the gains if they are to be kept.

        ``incidents`` are stored beside them, so that later runs report them too.
        """
        values = {key: of.summarise(self.wanted) for key, of in gains.items()}
        items: list[tuple[str, bytes]] = []
        for key, found in values.items():
            items.append((key, _pack(found)))
            items += self.store.note(key, incidents)
            if self.keep_gains:
                of = gains[key]
                rows = [a for a in (of.unconditional, of.conditional, of.control) if a is not None]
                items.append((f"{key}/gains", pack_array(np.stack(rows))))
                items.append((f"{key}/ids", pack_array(of.token_ids)))
        self.store.put(items)
        self.store.use(values)
        return values

    def _load(self, key: str) -> GainStatistics | None:
        """Return the stored statistics; None if they are missing, or lack a wanted score or the gains to be kept.

        A missing score is computed, and stored, from the gains if these were kept.
        """
        values = self.store.read(key, _unpack)
        if values is None or (self.keep_gains and self.store.get(f"{key}/ids") is None):
            return None
        self.store.use([key])
        if values.scores.keys() >= set(self.wanted):
            return values
        if (gains := _load_kept(self.store, key, self.control)) is None:
            return None
        values = gains.summarise(self.wanted)
        self.store.put([(key, _pack(values))])
        return values


def _load_kept(store: Store, key: str, baseline: Control) -> Gains | None:
    """Return the gains over ``baseline`` that `FeatureStore.save` kept; None if it kept none."""
    ids, rows = load_ids(store, key), store.read(f"{key}/gains", lambda data: _unpack_rows(data, baseline))
    if ids is None or rows is None:
        return None
    unconditional, conditional, *control = rows
    return Gains(ids, unconditional, conditional, control[0] if control else None, baseline)


def _pack(values: GainStatistics) -> bytes:
    fields: dict[str, Any] = {}
    for name, value in values._asdict().items():
        if name != "scores":
            fields[name] = value
            continue
        for table, kind in _TABLES.items():
            number = float if AGGREGATIONS[kind].parameter == "q" else int
            fields[table] = {repr(number(a.parameter)): v for a, v in values.scores.items() if a.kind == kind}
    return json.dumps(fields).encode()


def _unpack(data: bytes) -> GainStatistics:
    fields = parse_as(data, _STATISTICS).model_dump()
    tables = {kind: fields.pop(table) for table, kind in _TABLES.items()}
    scores = {Aggregate(kind, float(p)): score for kind, table in tables.items() for p, score in table.items()}
    return GainStatistics(**fields, scores=scores)


def _unpack_rows(data: bytes, baseline: Control) -> npt.NDArray[np.float64]:
    """Return the stored log-probabilities, ``[2 or 3, n]`` nats; the third row is the control, if there is one."""
    rows = unpack_floats(data, 2)
    if len(rows) not in (2, 3) or not rows.shape[1]:
        raise ValueError("not the log-probabilities of a pair")
    if baseline != "none" and len(rows) == 2:
        raise ValueError("the log-probabilities of the control are missing")
    return rows


def load_ids(store: Store, key: str) -> npt.NDArray[np.int64] | None:
    """Return the token ids that `FeatureStore.save` kept, ``[n]``, None if it kept none."""
    return store.read(f"{key}/ids", _unpack_ids)


def _unpack_ids(data: bytes) -> npt.NDArray[np.int64]:
    ids = unpack_array(data)
    if ids.ndim != 1 or ids.dtype.kind not in "iu":
        raise ValueError("not token ids")
    return ids


def load_gains(store: Store, key: str, baseline: Control = "none") -> Gains:
    """Return the gains over ``baseline`` that `FeatureStore.save` kept."""
    gains = _load_kept(store, key, baseline)
    if gains is None:
        raise UserError("the gains of a pair are missing", "delete the state and run again", store.folder)
    return gains
