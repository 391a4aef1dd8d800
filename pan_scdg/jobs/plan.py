"""Estimate the cost of a run: count the tokens of its batches, and measure the speed of the model on some of them."""

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field, replace
from typing import Any

from pan_scdg.errors import UserError
from pan_scdg.jobs.detect import open_method
from pan_scdg.jobs.output_mark import Partial
from pan_scdg.jobs.plan_tokens import SHARE, Tokens, count_operations, count_tokens, estimate_hours
from pan_scdg.jobs.probe import Speed, Work, probe
from pan_scdg.jobs.requests import Computing, FirstStageOptions, Request, take_first
from pan_scdg.jobs.retrieve import Prepared, prepare
from pan_scdg.models.config import read_config
from pan_scdg.notices import Notices
from pan_scdg.pan.source_retrieval import stream_corpus
from pan_scdg.pan.text_alignment import read_pairs
from pan_scdg.profile import Profile
from pan_scdg.progress import Progress
from pan_scdg.scdg.sequences import ScoringInput
from pan_scdg.scoring.batches import make_batches
from pan_scdg.scoring.candidates import Target, select_scored
from pan_scdg.scoring.gain_method import GainMethod
from pan_scdg.scoring.model import ScoringModel, list_devices
from pan_scdg.scoring.pair_plan import PlannedPair
from pan_scdg.scoring.passes import PairsWork, SourceWork, digest_input

PROBED = 16
"""Largest number of batches given to the probe, evenly over all."""
SAMPLED = 64
"""Number of documents whose tokens are counted, evenly over the candidates or the corpus."""
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
    queries: int | None
    documents: int | None
    tokens: Tokens | None
    counted: str
    speed: Speed | None
    partial: Partial | None
    notes: Sequence[str]
    gpus: Mapping[str, float] = field(default_factory=dict)
    """Hours of scoring on GPUs that are not here."""

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
            "hours_by_gpu": {gpu: float(f"{hours:.3g}") for gpu, hours in self.gpus.items()} or None,
            "weights_gib": None if speed is None else float(f"{speed.weights / GIB:.3g}"),
            "peak_memory_gib": None if speed is None else float(f"{speed.peak / GIB:.3g}"),
            "largest_call_tokens": None if speed is None else speed.largest_call,
            "notes": list(self.notes),
        }

    def to_lines(self) -> list[str]:
        """Return the plan as a table."""
        return [f"{name:22} {value}" for name, value in self._rows()]

    def _rows(self) -> Iterator[tuple[str, str]]:
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
            yield "hours", f"{values['hours']:g}"
            peak = f"{values['peak_memory_gib']:g} GiB, of which {values['weights_gib']:g} are weights"
            yield "memory", f"{peak}; largest call probed: {self.speed.largest_call:,} tokens"
        for gpu, hours in self.gpus.items():
            where = gpu if self.devices == 1 else f"{self.devices} {gpu}"
            yield f"hours on {where}", f"{hours:.3g}"
        for note in self.notes:
            yield "note", note


def plan_pairs(profile: Profile, request: Request, computing: Computing) -> tuple[Plan, list[str]]:
    """Return the plan of pair detection and the lines to show with it; nothing is written.

    Raises:
        UserError: the run would be refused.
    """
    notices = Notices(request.strict)
    corpus = read_pairs(request.input, notices)
    pairs, partial = take_first(corpus.pairs, request.limit, "pairs")
    # a plan decides nothing, so that it needs no threshold
    method = open_method(profile, replace(request, scores_only=True), _for_probe(computing), corpus.pairs, pairs)
    if not isinstance(method, GainMethod):
        raise UserError("--plan does not support baselines", "choose a profile with a language model")
    with closing(method):
        planned, failed = method.check(pairs, notices, request.on_error)
        distinct = list({pair.key: pair for pair in planned}.values())
        tokens, largest, works = _count_pairs(distinct, method)
        speed = probe(method.model, largest, works) if works and not computing.gpus else None
        gpus = _estimate_hours(method.model, computing, tokens)
    notes = [f"{len(failed)} pairs cannot be scored and will be decided negative"] if failed else []
    notes += method.model.incidents()
    if profile.need_pairs().threshold is None and profile.baseline is None and not request.scores_only:
        notes.append("the profile has no threshold: calibrate it, or score with --scores-only")
    found = _make_plan("pairs", profile, computing, len(pairs), tokens, "exactly", speed, partial, notes)
    found = replace(found, gpus=gpus)
    return found, [*notices.list_warnings(), *([] if partial is None else [partial.format_warning()])]


def _for_probe(computing: Computing) -> Computing:
    """Return the settings for one process, with the state folder only if it exists, since a plan creates none."""
    state = computing.state if computing.state is not None and computing.state.is_dir() else None
    return replace(computing, workers=1, state=state)


def _estimate_hours(model: ScoringModel, computing: Computing, tokens: Tokens) -> dict[str, float]:
    """Return the hours on GPUs that are not here, shared by as many of them as there are workers."""
    operations = count_operations(read_config(model.folder, weights=False), tokens)
    if operations is None:
        return {}
    again = tokens.full / tokens.packed if computing.engine == "reference" and tokens.packed else 1.0
    return {gpu: estimate_hours(operations, gpu) * again / (computing.workers or 1) for gpu in computing.gpus}


def _count_pairs(pairs: Sequence[PlannedPair], method: GainMethod) -> tuple[Tokens, Work, list[Work]]:
    """Return the tokens of all batches, the largest batch, and a sample of them."""
    model, settings = method.model, method.settings
    budget = model.settings.pack_tokens
    texts = {(pair.pair.suspicious.doc_id, pair.mode): pair for pair in pairs}
    inputs = (item for pair in texts.values() for item in pair.make_unconditional(model.tokenizer, settings))
    alone = {digest_input(item): item for item in inputs}
    items, tokens, sampled = list(alone.values()), Tokens(0, 0), dict[int, Work]()
    for batch in make_batches(list(alone), [item.length for item in items], budget):
        tokens += count_tokens([items[i] for i in batch.members], budget)
    found = make_batches([pair.key for pair in pairs], [pair.tokens for pair in pairs], budget)
    chosen = set(choose_evenly(PROBED, len(found)))
    with Progress("counting tokens", len(pairs)) as progress:
        for number, batch in enumerate(found):
            work = PairsWork([pairs[i].prepare() for i in batch.members], settings).make_inputs(model.tokenizer)
            tokens += count_tokens(work, budget)
            if number in chosen:
                sampled[number] = work
            progress.update(len(batch.members))
    return tokens, sampled.get(0, []), list(sampled.values())


def plan_retrieval(
    profile: Profile, request: Request, computing: Computing, stages: FirstStageOptions
) -> tuple[Plan, list[str]]:
    """Return the plan of source retrieval and the lines to show with it; nothing is written.

    Without given candidates, each query is assumed to have its own sources, which overestimates the cost.

    Raises:
        UserError: the run would be refused.
    """
    prepared = prepare(profile, request, _for_probe(computing), stages)
    if prepared.encoder is not None:
        prepared.encoder.release()
    model, tokens, speed, exact, gpus = prepared.model, None, None, False, dict[str, float]()
    if model is not None:
        with closing(model):
            tokens, exact, largest, works = _count_candidates(request, prepared, model)
            speed = probe(model, largest, works) if works and not computing.gpus else None
            gpus = _estimate_hours(model, computing, tokens)
    known = prepared.given is not None
    notes = [] if model is None else model.incidents()
    if not known:
        notes.append("candidates are not known yet: each query is assumed to have its own sources")
        alone = "the hours are of scoring alone: " if speed or gpus else ""
        notes.append(f"{alone}indexing and the first stage are not estimated")
    pairs, counted = _count_scored(prepared), "exactly" if exact else "by sampling"
    found = _make_plan("retrieval", profile, computing, pairs, tokens, counted, speed, prepared.partial, notes)
    found = replace(found, queries=len(prepared.queries), documents=len(prepared.corpus.ids), gpus=gpus)
    limited = [] if prepared.partial is None else [prepared.partial.format_warning()]
    return found, [*prepared.notices.list_warnings(), *limited]


def _count_scored(prepared: Prepared) -> int:
    """Return the number of candidates of all queries that would be scored."""
    settings, given = prepared.settings, prepared.given
    if given is not None:
        return sum(len(select_scored(given[query.query_id], settings)) for query in prepared.queries)
    each = min(settings.scored or settings.depth, settings.depth, len(prepared.corpus.ids)) if settings.rerank else 0
    return len(prepared.queries) * each


def _count_candidates(
    request: Request, prepared: Prepared, model: ScoringModel
) -> tuple[Tokens, bool, Work, list[Work]]:
    """Return the tokens of all inputs, True if they are exact, the largest work, and a sample of works.

    Counts the inputs of sampled documents and extrapolates.
    """
    targets = list({target.text.digest: target for target in prepared.targets}.values())
    wanted = _group_by_source(targets, prepared)
    total = len(prepared.corpus.ids) if wanted is None else len(wanted)
    chosen, budget = set(choose_evenly(SAMPLED, total)), model.settings.pack_tokens
    tokens, pairs, works, largest, number = Tokens(0, 0), 0, list[Work](), list[ScoringInput](), 0
    with Progress("counting tokens", total) as progress:
        for document in stream_corpus(request.input, Notices()):
            if wanted is not None and document.doc_id not in wanted:
                continue
            if number in chosen and targets:
                queries = [targets[number % len(targets)]] if wanted is None else wanted[document.doc_id]
                texts = [query.text for query in queries]
                items = SourceWork(document.text, texts, prepared.settings).make_inputs(model.tokenizer)
                tokens += count_tokens(items, budget)
                pairs += len(queries)
                works.append(items)
                largest = max(largest, items, key=lambda work: sum(item.length for item in work))
            number += 1
            progress.update()
    in_all = _count_scored(prepared) if wanted is None else sum(map(len, wanted.values()))
    alone = [count_tokens([target.unconditional], budget) for target in targets]
    counted = sum(alone, tokens.times(in_all / pairs if pairs else 0.0))
    return (
        counted,
        wanted is not None and total <= SAMPLED,
        largest,
        [works[i] for i in choose_evenly(PROBED, len(works))],
    )


def _group_by_source(targets: Sequence[Target], prepared: Prepared) -> Mapping[str, list[Target]] | None:
    """Return the queries of each candidate to score; None without given candidates."""
    if prepared.given is None:
        return None
    found: dict[str, list[Target]] = defaultdict(list)
    for target in targets:
        for candidate in select_scored(prepared.given[target.query_id], prepared.settings):
            found[candidate.doc_id].append(target)
    return found


def _make_plan(
    task: str,
    profile: Profile,
    computing: Computing,
    pairs: int,
    tokens: Tokens | None,
    counted: str,
    speed: Speed | None,
    partial: Partial | None,
    notes: list[str],
) -> Plan:
    if computing.gpus:
        devices = computing.workers or 1
        notes.append(
            f"hours: estimated from published peaks of these GPUs, of which {SHARE:.0%} is assumed; not measured"
        )
    else:
        devices = len(list_devices(computing.device, computing.workers)) if computing.device == "cuda" else 1
    notes = [*notes, "scores that an earlier run stored are not subtracted"]
    return Plan(
        task,
        profile.name,
        computing.device,
        computing.engine,
        devices,
        pairs,
        None,
        None,
        tokens,
        counted,
        speed,
        partial,
        notes,
    )


def choose_evenly(count: int, of: int) -> list[int]:
    """Return at most ``count`` positions, spread evenly over ``of``."""
    return [position * of // count for position in range(count)] if of > count else list(range(of))
