"""Estimate the cost of a run: count the tokens of its batches, and measure the speed of the model on some of them."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from pan_scdg.cluster.session import Cluster
from pan_scdg.errors import UserError
from pan_scdg.jobs.plan.count import Counted, count_candidates, count_pairs
from pan_scdg.jobs.plan.gpus import SHARE, estimate_hours, estimate_indexing
from pan_scdg.jobs.plan.probe import probe
from pan_scdg.jobs.requests import Computing, FirstStageOptions, Request, take_first
from pan_scdg.jobs.retrieval.retrieve import Retrieval, prepare
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
    "the first stage is not estimated; indexing is with --gpu, if the encoder is installed and is a decoder",
)
INDEXING = "indexing: tokens are counted by sampling; ready indexes are not subtracted"
ASSUMED = f"hours: estimated from published peaks of these GPUs, of which {SHARE:.0%} is assumed; not measured"
STORED = "scores that an earlier run stored are not subtracted"
GIB = 1 << 30


@dataclass(frozen=True)
class Plan:
    """The estimated cost of a run, with the fields of ``--json``; a field that does not apply is None."""

    task: str
    profile: str
    device: str
    devices: int
    """Number of models that compute in parallel."""
    engine: str
    pairs: int
    """Number of document pairs, or of pairs of a query and a candidate."""
    queries: int | None = None
    documents: int | None = None
    tokens_with_reuse: int | None = None
    tokens_without_reuse: int | None = None
    tokens_counted: str | None = None
    tokens_per_second: int | None = None
    hours: float | None = None
    hours_by_gpu: Mapping[str, float] | None = None
    """Hours of scoring on GPUs of other machines."""
    indexing_hours_by_gpu: Mapping[str, float] | None = None
    """Hours in which the encoder reads the corpus on GPUs of other machines."""
    weights_gib: float | None = None
    peak_memory_gib: float | None = None
    notes: Sequence[str] = ()
    small_model: "Plan | None" = None
    """The cost of the small model of a cascade, which comes first."""

    def to_json(self) -> dict[str, Any]:
        """Return the plan as JSON values."""
        return asdict(self)

    def to_lines(self) -> list[str]:
        """Return the plan as a table."""
        small = self.small_model
        first = [] if small is None else ["small model:", *small.to_lines(), "", "profile's model:"]
        return [*first, *(f"{name:22} {value}" for name, value in self._list_rows())]

    def _list_rows(self) -> Iterator[tuple[str, str]]:
        yield "job", f"{self.task}, profile {self.profile}, engine {self.engine}"
        for name, number in (("queries", self.queries), ("documents", self.documents), ("pairs", self.pairs)):
            if number is not None:
                yield name, f"{number:,}"
        if self.tokens_with_reuse is not None:
            yield "tokens, with reuse", f"{self.tokens_with_reuse:,} (counted {self.tokens_counted})"
            yield "tokens, without reuse", f"{self.tokens_without_reuse:,}"
        if self.hours is not None:
            yield "tokens per second", f"{self.tokens_per_second:,} on each of {self.devices} x {self.device}"
            yield "time", f"about {format_duration(self.hours * HOUR)}"
            peak, weights = (describe_size(round((n or 0) * GIB)) for n in (self.peak_memory_gib, self.weights_gib))
            yield "memory", f"{peak}, of which {weights} are weights"
        devices = "" if self.devices == 1 else f"{self.devices} "
        for name, found in (("indexing", self.indexing_hours_by_gpu), ("time", self.hours_by_gpu)):
            for gpu, hours in (found or {}).items():
                yield f"{name} on {devices}{gpu}", f"about {format_duration(hours * HOUR)}"
        for note in self.notes:
            yield "note", note


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
        UserError: the run would be refused, or needs no language model.
    """
    if profile.baseline is not None:
        what = f"--plan counts tokens of a language model, and profile {profile.name} decides pairs without one"
        raise UserError(what, "leave it out, or choose a profile that decides by gains, such as scdg-mini")
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
    return found, [*notices.list_warnings(), *limited]


def prepare_probe(computing: Computing) -> Computing:
    """Return the settings for one process, with the state folder only if it exists, since a plan creates none."""
    state = computing.state if computing.state is not None and computing.state.is_dir() else None
    return replace(computing, cluster=Cluster(actors=1), state=state)


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
    notes, indexing = list[str](), dict[str, float]()
    if prepared.given is None:
        processes = computing.cluster.actors or 1
        indexing = estimate_indexing(prepared.corpus, prepared.settings, computing.gpus, processes)
        notes = [*NOT_KNOWN, *([INDEXING] if indexing else [])]
    if prepared.model is None:
        found = make_plan("retrieval", profile.name, computing, None, None, 0, notes)
    elif (small := prepared.small) is None:
        found = _plan_model(prepared, prepared.model, computing, notes)
    else:
        own = replace(prepared, targets=small.targets, settings=small.settings)
        first = _plan_model(own, small.model, computing, notes)
        small.model.unload()
        # the candidates that the small model leaves are not known either
        found = replace(_plan_model(prepared, prepared.model, computing, NOT_KNOWN[:1]), small_model=first)
    limited = [] if prepared.partial is None else [prepared.partial.format_warning()]
    return (
        replace(
            found,
            queries=len(prepared.queries),
            documents=len(prepared.corpus),
            indexing_hours_by_gpu=_round_hours(indexing),
        ),
        [*prepared.notices.list_warnings(), *limited],
    )


def _plan_model(prepared: Retrieval, model: ScoringModel, computing: Computing, notes: Sequence[str]) -> Plan:
    """Return the plan of scoring the candidates with one model."""
    pairs = _count_scored(prepared)
    known = prepared.given if prepared.settings.cascade is None else None
    with closing(model):
        counted = count_candidates(prepared.corpus, prepared.targets, known, pairs, prepared.settings, model)
        return make_plan("retrieval", prepared.profile.name, computing, model, counted, pairs, notes)


def _count_scored(prepared: Retrieval) -> int:
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
    devices = len(computing.cluster.list_devices(computing.device)) if computing.device == "cuda" else 1
    if computing.gpus:
        devices = computing.cluster.actors or 1
    facts: dict[str, Any] = {}
    incidents: list[str] = []
    if model is not None and counted is not None:
        tokens = counted.tokens
        facts = {
            "tokens_with_reuse": round(tokens.packed),
            "tokens_without_reuse": round(tokens.full),
            "tokens_counted": "exactly" if counted.exact else "by sampling",
        }
        computed = tokens.full if computing.engine == "reference" else tokens.packed
        if computing.gpus:
            # the operations are those of the default engine
            again = computed / tokens.packed if tokens.packed else 1.0
            hours = estimate_hours(read_config(model.folder, weights=False), tokens, computing.gpus, devices)
            facts["hours_by_gpu"] = _round_hours({gpu: again * number for gpu, number in hours.items()})
        elif counted.works:
            speed = probe(model, counted.works)
            facts["tokens_per_second"] = round(speed.tokens_per_second)
            facts["hours"] = _round(computed / (speed.tokens_per_second * devices * HOUR))
            facts["weights_gib"], facts["peak_memory_gib"] = _round(speed.weights / GIB), _round(speed.peak / GIB)
        incidents = model.list_incidents()
    return Plan(
        task=task,
        profile=profile,
        device=computing.device,
        devices=devices,
        engine=computing.engine,
        pairs=pairs,
        notes=[*notes, *incidents, *([ASSUMED] if computing.gpus else []), STORED],
        **facts,
    )


def _round(number: float) -> float:
    """Return a number with three digits."""
    return float(f"{number:.3g}")


def _round_hours(hours: Mapping[str, float]) -> dict[str, float] | None:
    """Return hours with three digits, or None without hours."""
    return {gpu: _round(number) for gpu, number in hours.items()} or None
