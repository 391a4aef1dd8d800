"""What a run of job 1 will cost: every pair is read and tokenised, a few are scored for the speed."""

from collections.abc import Sequence
from contextlib import closing
from dataclasses import replace

from pan_scdg.jobs.detect import PairJob, read_job
from pan_scdg.jobs.options import RunOptions
from pan_scdg.jobs.plan import Cost, Tokens, tokens_of
from pan_scdg.jobs.plan_disk import Place, place
from pan_scdg.jobs.plan_probe import Work, probe
from pan_scdg.profile import Profile
from pan_scdg.progress import Progress
from pan_scdg.scdg.sequences import ScoringInput
from pan_scdg.scoring.batches import batches
from pan_scdg.scoring.model import devices_of
from pan_scdg.scoring.pair_plan import PlannedPair
from pan_scdg.scoring.pairs import check_pairs
from pan_scdg.scoring.passes import ids_digest
from pan_scdg.scoring.works import PairsWork

PROBED = 16
"""Most batches that the probe has to choose from, evenly over all."""
FEATURES, FILL = 1024, 1.5
"""Bytes that are stored of a pair, and those of the file for one that is stored (measured on the examples)."""
KEPT_TOKEN, PACKED_TOKEN, ALONE_TOKEN = 24, 4, 4
"""Bytes of a target token: its kept gains in the store, in the result (measured), and its unconditional score."""
RESULT = 4096 + 512
"""Bytes of a pair's results: a file takes a block (4,096), and a line of decisions about 400 (measured)."""
NOTE_STATE = "what an earlier run may have stored is not taken off"


def cost_of_pairs(profile: Profile, options: RunOptions) -> tuple[Cost, list[str]]:
    """What ``detect_pairs`` would cost with these options, and the lines to show beside; nothing is written.

    Raises:
        UserError: the run would be refused.
    """
    job = read_job(profile, probing(options))
    complete = job.output.path.is_dir() and job.output.prepare(options.overwrite)
    planned, failed = check_pairs(job.corpus.pairs, job.model, job.settings, job.notices, options.on_error)
    pairs = list({plan.key: plan for plan in planned}.values())
    alone = _alone(pairs, job)
    tokens, targets, largest, works = _counted(pairs, job)
    budget = job.model.settings.pack_tokens
    for batch in batches(list(alone), [item.length for item in alone.values()], budget):
        inputs = list(alone.values())
        tokens += tokens_of([inputs[i] for i in batch.members], budget)
    with closing(job.model):
        speed = probe(job.model, largest, works) if works else None
    devices = devices_of(options.device, options.workers)
    state = FILL * (len(pairs) * FEATURES + ALONE_TOKEN * sum(len(item.target_ids) for item in alone.values()))
    kept = targets if options.keep_gains else 0
    cost = Cost(
        task="pairs",
        profile=profile.name,
        device=options.device,
        engine=options.engine,
        devices=len(devices) if options.device == "cuda" else 1,
        pairs=len(job.corpus.pairs),
        queries=None,
        documents=None,
        tokens=tokens,
        counted="exactly",
        speed=speed,
        places=places(options, RESULT * len(job.corpus.pairs) + PACKED_TOKEN * kept, state + FILL * KEPT_TOKEN * kept),
        partial=job.partial,
        notes=[
            *(["the output is already complete: the run would do nothing"] if complete else []),
            *([f"{len(failed)} pairs cannot be scored and will be decided negative"] if failed else []),
            *job.model.incidents(),
            NOTE_STATE,
            "disk is estimated from the numbers of pairs and tokens, with bytes measured on the examples",
        ],
    )
    return cost, [*job.notices.lines(), *job.told()]


def probing(options: RunOptions) -> RunOptions:
    """The same for a probe: one process, and a state folder only where there is one, since none is made."""
    places(options, 0, 0)  # both must be writable, which is soon known
    there = options.state is not None and options.state.is_dir()
    return replace(options, workers=1, state=options.state if there else None)


def places(options: RunOptions, output: float, state: float, indexes: float = 0) -> list[Place]:
    """Where the run will write; state and indexes lie beside the output if no folder is given for them."""
    elsewhere = options.state or options.output
    found = [place("output", options.output, output), place("state", elsewhere, state)]
    return [*found, place("indexes", elsewhere, indexes)] if indexes else found


def evenly(count: int, of: int) -> list[int]:
    """At most ``count`` positions, evenly over ``of``."""
    return [position * of // count for position in range(count)] if of > count else list(range(of))


def _alone(pairs: Sequence[PlannedPair], job: PairJob) -> dict[str, ScoringInput]:
    """The distinct unconditional inputs."""
    texts = {(plan.pair.suspicious.doc_id, plan.mode): plan for plan in pairs}
    items = (i for plan in texts.values() for i in plan.texts().unconditional(job.model.tokenizer, job.settings))
    return {ids_digest(item): item for item in items}


def _counted(pairs: Sequence[PlannedPair], job: PairJob) -> tuple[Tokens, int, Work, list[Work]]:
    """Tokens of the passes with a source, target tokens of the pairs, the largest batch and a sample of batches."""
    budget = job.model.settings.pack_tokens
    found = batches([plan.key for plan in pairs], [plan.tokens for plan in pairs], budget)
    tokens, targets, sampled = Tokens(0, 0), 0, dict[int, Work]()
    each = 1 if job.settings.control == "none" else 2
    chosen = set(evenly(PROBED, len(found)))
    with Progress("counting tokens", len(pairs)) as progress:
        for number, batch in enumerate(found):
            work = PairsWork([pairs[i].texts() for i in batch.members], job.settings)
            items = work.inputs(job.model.tokenizer)
            tokens += tokens_of(items, budget)
            targets += sum(len(item.target_ids) for item in items) // each
            if number in chosen:
                sampled[number] = items
            progress.update(len(batch.members))
    return tokens, targets, sampled.get(0, []), list(sampled.values())
