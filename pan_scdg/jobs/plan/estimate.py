"""Estimate the cost of a run: count the tokens of its batches, and measure the speed of the model on some of them."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from pan_scdg.cluster.session import Cluster
from pan_scdg.jobs.output.mark import Partial
from pan_scdg.jobs.plan.indexing import estimate_indexing
from pan_scdg.jobs.plan.inputs import Counted, count_candidates, count_pairs
from pan_scdg.jobs.plan.probe import Speed, probe
from pan_scdg.jobs.plan.tokens import SHARE, Tokens, count_operations, estimate_hours
from pan_scdg.jobs.requests import Computing, FirstStageOptions, Request, take_first
from pan_scdg.jobs.retrieval.retrieve import Prepared, prepare
from pan_scdg.models.catalogue import describe_size
from pan_scdg.models.config import read_config
from pan_scdg.notices import Notices
from pan_scdg.pan.text_alignment import read_pairs
from pan_scdg.profile import Profile
from pan_scdg.progress import HOUR, format_duration
from pan_scdg.scoring.candidates import select_scored
from pan_scdg.scoring.model import ScoringModel
from pan_scdg.scoring.pair_method import OnError
from pan_scdg.scoring.pair_plan import check_pairs

NOT_KNOWN = (
    "candidates are not known yet: each query is assumed to have its own sources",
    "indexing and the first stage are not estimated",
)
HEADS_NOT_KNOWN = (
    "the candidates that the small model leaves are not known yet: each query is assumed to have its own sources",
)
GIB = 1 << 30


@dataclass(frozen=True)
class Plan:
    """The estimated cost of a run; a field that does not apply is None."""

    task: str
    profile: str
    device: str
    engine: str
    devices: int
    """Number of models that compute in parallel."""
    pairs: int
    """Number of document pairs, or of pairs of a query and a candidate."""
    tokens: Tokens | None
    counted: str
    speed: Speed | None
    notes: Sequence[str]
    gpus: Mapping[str, float]
    """Hours of scoring on GPUs of other machines."""
    queries: int | None = None
    documents: int | None = None
    partial: Partial | None = None
    small: "Plan | None" = None
    """The cost of the small model of a cascade, which comes first."""
    indexing: Mapping[str, float] = field(default_factory=dict)
    """Hours in which the encoder reads the corpus on GPUs of other machines; empty if they are not estimated."""

    @property
    def hours(self) -> float | None:
        """Return the hours of scoring."""
        if self.speed is None or self.tokens is None:
            return None
        tokens = self.tokens.full if self.engine == "reference" else self.tokens.packed
        return tokens / (self.speed.tokens_per_second * self.devices) / 3600

    def to_json(self) -> dict[str, Any]:
        """Return the plan as JSON values."""
        speed, tokens, hours = self.speed, self.tokens, self.hours
        return {
            "task": self.task,
            "profile": self.profile,
            "device": self.device,
            "devices": self.devices,
            "engine": self.engine,
            "pairs": self.pairs,
            "queries": self.queries,
            "documents": self.documents,
            "partial": None if self.partial is None else self.partial.model_dump(),
            "tokens_with_reuse": None if tokens is None else round(tokens.packed),
            "tokens_without_reuse": None if tokens is None else round(tokens.full),
            "tokens_counted": None if tokens is None else self.counted,
            "tokens_per_second": None if speed is None else round(speed.tokens_per_second),
            "probe_seconds": None if speed is None else round(speed.seconds, 1),
            "hours": None if hours is None else float(f"{hours:.3g}"),
            "hours_by_gpu": _round(self.gpus),
            "indexing_hours_by_gpu": _round(self.indexing),
            "weights_gib": None if speed is None else float(f"{speed.weights / GIB:.3g}"),
            "peak_memory_gib": None if speed is None else float(f"{speed.peak / GIB:.3g}"),
            "largest_call_tokens": None if speed is None else speed.largest_call,
            "notes": list(self.notes),
            **({} if self.small is None else {"small_model": self.small.to_json()}),
        }

    def to_lines(self) -> list[str]:
        """Return the plan as a table."""
        first = [] if self.small is None else ["small model:", *self.small.to_lines(), "", "profile's model:"]
        return [*first, *(f"{name:22} {value}" for name, value in self._list_rows())]

    def _list_rows(self) -> Iterator[tuple[str, str]]:
        values = self.to_json()
        yield "job", f"{self.task}, profile {self.profile}, engine {self.engine}"
        for name in ("queries", "documents", "pairs"):
            if values[name] is not None:
                yield name, f"{values[name]:,}"
        if self.tokens is not None:
            yield "tokens, with reuse", f"{values['tokens_with_reuse']:,} (counted {self.counted})"
            yield "tokens, without reuse", f"{values['tokens_without_reuse']:,}"
        if self.speed is not None:
            yield "tokens per second", f"{values['tokens_per_second']:,} on each of {self.devices} x {self.device}"
            yield "time", f"about {format_duration(values['hours'] * HOUR)}"
            peak = f"{describe_size(self.speed.peak)}, of which {describe_size(self.speed.weights)} are weights"
            yield "memory", f"{peak}; largest call probed: {self.speed.largest_call:,} tokens"
        devices = "" if self.devices == 1 else f"{self.devices} "
        for name, found in (("indexing", self.indexing), ("time", self.gpus)):
            for gpu, hours in found.items():
                yield f"{name} on {devices}{gpu}", f"about {format_duration(hours * HOUR)}"
        for note in self.notes:
            yield "note", note


def _round(hours: Mapping[str, float]) -> dict[str, float] | None:
    """Return hours with three digits, or None without hours."""
    return {gpu: float(f"{number:.3g}") for gpu, number in hours.items()} or None


def plan_pairs(
    profile: Profile,
    directory: Path,
    computing: Computing,
    *,
    limit: int | None = None,
    strict: bool = False,
    on_error: OnError = "stop",
) -> tuple[Plan, list[str]]:
    """Return the plan of pair detection by gains and the lines to show with it; nothing is written.

    Raises:
        UserError: the run would be refused.
    """
    notices = Notices(strict)
    corpus = read_pairs(directory, notices)
    pairs, partial = take_first(corpus.pairs, limit, "pairs")
    settings = profile.need_pairs()
    with closing(prepare_probe(computing).open_model(profile.need_model())) as model:
        planned, failed = check_pairs(pairs, model, settings, notices, on_error)
        notes = [f"{len(failed)} pairs cannot be scored and will be decided negative"] if failed else []
        if settings.threshold is None:
            notes.append("the profile has no threshold: until `calibrate` chooses one, `run` needs --scores-only")
        counted = count_pairs(planned, model, settings)
        found = make_plan("pairs", profile.name, computing, model, counted, len(pairs), notes)
    limited = [] if partial is None else [partial.format_warning()]
    return replace(found, partial=partial), [*notices.list_warnings(), *limited]


def prepare_probe(computing: Computing) -> Computing:
    """Return the settings for one process, with the state folder only if it exists, since a plan creates none."""
    state = computing.state if computing.state is not None and computing.state.is_dir() else None
    return replace(computing, cluster=Cluster(actors=1), state=state)


def _estimate_hours(model: ScoringModel, computing: Computing, tokens: Tokens) -> dict[str, float]:
    """Return the hours on GPUs of other machines, shared by as many of them as there are processes."""
    operations = count_operations(read_config(model.folder, weights=False), tokens)
    if operations is None:
        return {}
    again = tokens.full / tokens.packed if computing.engine == "reference" and tokens.packed else 1.0
    return {gpu: estimate_hours(operations, gpu) * again / (computing.cluster.actors or 1) for gpu in computing.gpus}


def plan_retrieval(
    profile: Profile, request: Request, computing: Computing, stages: FirstStageOptions
) -> tuple[Plan, list[str]]:
    """Return the plan of source retrieval and the lines to show with it; nothing is written.

    Without given candidates, each query is assumed to have its own sources, which overestimates the cost.

    Raises:
        UserError: the run would be refused.
    """
    prepared = prepare(profile, request, prepare_probe(computing), stages)
    if prepared.encoder is not None:
        prepared.encoder.release()
    notes, indexing = [] if prepared.given is not None else list(NOT_KNOWN), dict[str, float]()
    if computing.gpus and prepared.given is None:
        processes = computing.cluster.actors or 1
        indexing, notes[-1] = estimate_indexing(prepared.corpus, prepared.settings, computing.gpus, processes)
    if prepared.model is None:
        found = make_plan("retrieval", profile.name, computing, None, None, 0, notes)
    elif (small := prepared.small) is None:
        found = _plan_model(prepared, prepared.model, computing, profile.name, notes)
    else:
        own = prepared._replace(targets=small.targets, settings=small.settings)
        first = _plan_model(own, small.model, computing, profile.name, notes)
        small.model.unload()
        found = _plan_model(prepared, prepared.model, computing, profile.name, HEADS_NOT_KNOWN)
        found = replace(found, small=first)
    found = replace(found, queries=len(prepared.queries), documents=len(prepared.corpus), partial=prepared.partial)
    found = replace(found, indexing=indexing)
    limited = [] if prepared.partial is None else [prepared.partial.format_warning()]
    return found, [*prepared.notices.list_warnings(), *limited]


def _plan_model(
    prepared: Prepared, model: ScoringModel, computing: Computing, profile: str, notes: Sequence[str]
) -> Plan:
    """Return the plan of scoring the candidates with one model."""
    pairs = _count_scored(prepared)
    known = prepared.given if prepared.settings.cascade is None else None
    with closing(model):
        counted = count_candidates(prepared.corpus, prepared.targets, known, pairs, prepared.settings, model)
        return make_plan("retrieval", profile, computing, model, counted, pairs, notes)


def _count_scored(prepared: Prepared) -> int:
    """Return the number of candidates of all queries that would be scored."""
    settings, given = prepared.settings, prepared.given
    most = settings.depth if settings.cascade is None else settings.cascade.head
    if given is not None:
        return sum(len(select_scored(given[query.query_id], settings)[:most]) for query in prepared.queries)
    each = min(settings.scored or settings.depth, settings.depth, len(prepared.corpus), most)
    return len(prepared.queries) * each if settings.rerank else 0


def make_plan(
    task: str,
    profile: str,
    computing: Computing,
    model: ScoringModel | None,
    counted: Counted | None,
    pairs: int,
    notes: Sequence[str] = (),
) -> Plan:
    """Return the plan of scoring, with the measured speed of the model, or hours on GPUs of other machines.

    The model is loaded unless tokens are only counted. Without ``counted`` tokens nothing is scored.
    """
    speed, gpus, notes = None, dict[str, float](), list(notes)
    if model is not None and counted is not None:
        speed = probe(model, counted.largest, counted.works) if counted.works and not computing.gpus else None
        gpus = _estimate_hours(model, computing, counted.tokens)
        notes += model.list_incidents()
    if computing.gpus:
        devices = computing.cluster.actors or 1
        notes.append(
            f"hours: estimated from published peaks of these GPUs, of which {SHARE:.0%} is assumed; not measured"
        )
    else:
        devices = len(computing.cluster.list_devices(computing.device)) if computing.device == "cuda" else 1
    return Plan(
        task=task,
        profile=profile,
        device=computing.device,
        engine=computing.engine,
        devices=devices,
        pairs=pairs,
        tokens=None if counted is None else counted.tokens,
        counted="exactly" if counted is not None and counted.exact else "by sampling",
        speed=speed,
        notes=[*notes, "scores that an earlier run stored are not subtracted"],
        gpus=gpus,
    )
