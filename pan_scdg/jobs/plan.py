"""What a run will cost: the record that ``run --plan`` prints, as a table or as one JSON object."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple

from pan_scdg.errors import UserError
from pan_scdg.jobs.options import Partial
from pan_scdg.jobs.plan_disk import Place
from pan_scdg.jobs.plan_probe import Speed
from pan_scdg.lm.packing import plan, row_tokens
from pan_scdg.scdg.sequences import ScoringInput

GIB = 1 << 30


class Tokens(NamedTuple):
    """Tokens that go through the model; fractions where they were sampled."""

    reused: float
    """Packed, with common prefixes once."""
    full: float
    """Every input in full, as the reference engine does it."""

    def __add__(self, other: "Tokens") -> "Tokens":  # type: ignore[override]
        """Both together."""
        return Tokens(self.reused + other.reused, self.full + other.full)

    def times(self, factor: float) -> "Tokens":
        """So many times as much."""
        return Tokens(self.reused * factor, self.full * factor)


def tokens_of(items: Sequence[ScoringInput], budget: int) -> Tokens:
    """The tokens of inputs that are computed together, in calls of at most ``budget``."""
    rows = [row for chain in plan(items, budget) for row in chain]
    return Tokens(sum(row_tokens(row, items) for row in rows), sum(item.length for item in items))


@dataclass(frozen=True)
class Cost:
    """What a run will take; None: does not apply, or is not known before the run."""

    task: str
    profile: str
    device: str
    engine: str
    devices: int
    """Models side by side."""
    pairs: int
    """Document pairs, or queries with a candidate each, that are to be scored."""
    queries: int | None
    documents: int | None
    tokens: Tokens | None
    counted: Literal["exactly", "by sampling"]
    speed: Speed | None
    places: Sequence[Place]
    partial: Partial | None
    notes: Sequence[str]

    @property
    def hours(self) -> float | None:
        """Of scoring."""
        if self.speed is None or self.tokens is None:
            return None
        tokens = self.tokens.full if self.engine == "reference" else self.tokens.reused
        return tokens / (self.speed.tokens_per_second * self.devices) / 3600

    def record(self) -> dict[str, Any]:
        """The JSON object."""
        speed, tokens = self.speed, self.tokens
        return {
            "task": self.task,
            "profile": self.profile,
            "device": self.device,
            "devices": self.devices,
            "engine": self.engine,
            "pairs": self.pairs,
            "queries": self.queries,
            "documents": self.documents,
            "partial": None if self.partial is None else self.partial._asdict(),
            "tokens_with_reuse": None if tokens is None else round(tokens.reused),
            "tokens_without_reuse": None if tokens is None else round(tokens.full),
            "tokens_counted": None if tokens is None else self.counted,
            "tokens_per_second": None if speed is None else round(speed.tokens_per_second),
            "probe_seconds": None if speed is None else round(speed.seconds, 1),
            "hours": None if self.hours is None else float(f"{self.hours:.3g}"),
            "weights_gib": None if speed is None else _gib(speed.weights),
            "peak_memory_gib": None if speed is None else _gib(speed.peak),
            "largest_call_tokens": None if speed is None else speed.largest_call,
            "disk": [
                {
                    "for": place.what,
                    "folder": str(place.folder),
                    "needed_gib": _gib(place.needed),
                    "free_gib": _gib(place.free),
                }
                for place in self.places
            ],
            "notes": list(self.notes),
        }

    def lines(self) -> list[str]:
        """The same as a table."""
        return [f"{name:22} {value}" for name, value in self._rows()]

    def _rows(self) -> Iterator[tuple[str, str]]:
        known = self.record()
        yield "job", f"{self.task}, profile {self.profile}, engine {self.engine}"
        for name in ("queries", "documents", "pairs"):
            if known[name] is not None:
                yield name, f"{known[name]:,}"
        if self.tokens is not None:
            yield "tokens, with reuse", f"{known['tokens_with_reuse']:,} (counted {self.counted})"
            yield "tokens, without reuse", f"{known['tokens_without_reuse']:,}"
        if self.speed is not None:
            yield "tokens per second", f"{known['tokens_per_second']:,} on each of {self.devices} x {self.device}"
            yield "hours", f"{known['hours']:g}"
            peak = f"{known['peak_memory_gib']:g} GiB, of which {known['weights_gib']:g} are weights"
            yield "memory", f"{peak}; largest call probed: {self.speed.largest_call:,} tokens"
        for place in known["disk"]:
            need, free = place["needed_gib"], place["free_gib"]
            yield f"disk, {place['for']}", f"about {need:g} GiB needed, {free:g} GiB free in {place['folder']}"
        for note in self.notes:
            yield "note", note

    def check_disk(self) -> None:
        """Raise UserError where a file system has less free than all that is written to it needs."""
        for place in self.places:
            needed = sum(other.needed for other in self.places if other.device == place.device)
            if needed > place.free:
                raise UserError(
                    f"about {_gib(needed):g} GiB are needed and {_gib(place.free):g} GiB are free",
                    "free some, or choose another --output or --state folder",
                    place.folder,
                )


def _gib(size: float) -> float:
    return float(f"{size / GIB:.3g}")
