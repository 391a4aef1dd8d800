"""The life of `run`, `merge`, `check` and every study: lock, score, stage the result or a shard, seal and publish."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, NamedTuple

from pan_scdg.jobs.output.directory import OutputDirectory
from pan_scdg.jobs.output.mark import Partial, lock_output
from pan_scdg.jobs.output.metadata import track_run
from pan_scdg.jobs.output.status import write_status
from pan_scdg.jobs.shards import Shards, write_shard
from pan_scdg.logs import say
from pan_scdg.models.find import FoundModel, describe_models
from pan_scdg.notices import Notices
from pan_scdg.retrieval.candidates import FirstStage
from pan_scdg.scoring.batches import WHOLE, Shard
from pan_scdg.scoring.model import ScoringModel
from pan_scdg.store import Store


class Scored(NamedTuple):
    """The values that a job has computed; its scores are in the store."""

    values: Any
    """For the result."""
    stages: Mapping[str, Mapping[str, FirstStage]] = {}
    """The first stages of source retrieval by the file that a shard has them in."""


@dataclass(frozen=True, kw_only=True)
class ReadyJob:
    """A job whose input and models are checked, before anything is computed or written."""

    scoring: Mapping[str, Any]
    """All fields that the scores depend on, without paths."""
    rest: Mapping[str, Any] = field(default_factory=dict)
    """All other fields that the bytes of the result depend on."""
    places: Mapping[str, FoundModel]
    """Its models by their names in the job."""
    models: Sequence[ScoringModel]
    """The language models, which may have incidents; the first is that of the profile."""
    inputs: str = ""
    """Its inputs, in words, for the summary of a shard."""
    summary: Sequence[str]
    """The lines about the finished result."""
    notices: Notices
    score: Callable[[Store, Shard], Scored]
    write: Callable[[Scored, Store, OutputDirectory], list[str]]
    """Stages the result, and returns the names of its files."""
    shard: Shard = WHOLE
    count_lost: Callable[[], int] = lambda: 0
    """Checks what is scored; returns the number of items that cannot be scored. Not called for a complete result."""
    partial: Partial | None = None
    metadata: bool = False
    """Write ir-metadata.yml beside the result; see `track_run`."""

    def make_shard(self, shard: Shard, output: Path) -> "ReadyJob":
        """Return the job that scores one shard; its result is a folder for the ``shards`` of a later job."""

        def write(scored: Scored, store: Store, result: OutputDirectory) -> list[str]:
            return write_shard(result.staged, store, scored.stages)

        some = "" if shard == WHOLE else f"{shard} of "
        summary = [f"scored {some}{self.inputs}: {output}"]
        return replace(self, shard=shard, rest={"shard": list(shard)}, write=write, summary=summary)

    def list_incidents(self) -> list[str]:
        """Return the incidents of the language models."""
        return list(dict.fromkeys(incident for model in self.models for incident in model.list_incidents()))


def carry_out(
    job: ReadyJob, output: Path, overwrite: bool, shard: Shard | None, shards: Shards, state: Path | None
) -> list[str]:
    """Produce the result of a job, or its shard, unless it is complete; return the lines to show the user.

    Args:
        job: what is computed.
        output: the output directory.
        overwrite: replace the result of another job.
        shard: score this shard and write its scores; None: write the result.
        shards: shards with all scores; none: they are computed.
        state: folder that caches scores for later runs; None: inside the output until it is published.

    Raises:
        UserError: the shards are of another job, or the output is not usable; it is unchanged then.
    """
    shards.check(job.scoring)
    job = job if shard is None else job.make_shard(shard, output)
    limited = [] if job.partial is None else [job.partial.format_warning()]
    with lock_output(output):
        result = OutputDirectory(output, {**job.scoring, **job.rest})
        if result.prepare(overwrite):
            return [*limited, f"already complete: {output}"]
        if result.needed:
            lost = job.count_lost()
            result.start()
            with (
                Store(state or result.hidden) as store,
                track_run(result.staged, result.job, job.metadata, next(iter(job.models), None)),
                write_status(result.hidden, lost),
            ):
                say([describe_models(job.places.values())] if job.places else [])
                shards.restore(store)
                names = job.write(job.score(store, job.shard), store, result)
            result.seal(names, job.list_incidents(), job.partial, shards.list_origins(job.places))
        result.publish()
    incidents = [f"warning: {incident}" for incident in job.list_incidents()]
    return [*job.notices.list_warnings(), *incidents, *limited, *job.summary]
