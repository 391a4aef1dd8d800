"""What a user asked for, as one record that the tasks read, and the identity of the job that follows from it."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, NamedTuple, TypeVar

from pan_scdg.jobs.shards import Shards
from pan_scdg.models.device_memory import Job
from pan_scdg.profile import ModelSettings, Profile
from pan_scdg.profile.baseline import BaselineSettings
from pan_scdg.retrieval.given_candidates import candidates_digest
from pan_scdg.scoring.baseline_models import Outside, outside_of, refuse_needless
from pan_scdg.scoring.batches import Share
from pan_scdg.scoring.model import ScoringModel

Item = TypeVar("Item")


@dataclass(frozen=True)
class RunOptions:
    """The options of ``run`` that do not belong to a profile."""

    input: Path
    output: Path
    device: str
    state: Path | None = None
    model: Path | None = None
    limit: int | None = None
    """Only so many pairs or queries, the first of the input; None: all."""
    overwrite: bool = False
    strict: bool = False
    keep_gains: bool = False
    on_error: Literal["stop", "negative"] = "stop"
    engine: Literal["packed", "reference"] = "packed"
    """How passes are computed; see `lm.engine`."""
    workers: int | None = None
    """Processes that score side by side; None: one a GPU. The result does not depend on it."""
    index: Path | None = None
    """Folder of ready indexes (job 2)."""
    stop_after: Literal["first-stage"] | None = None
    """Write the candidates as the result (job 2)."""
    candidates: Path | None = None
    """A TREC run to rerank, in the place of the first stage (job 2)."""
    search_memory: int = 1024
    """MiB that a dense search may use; the result does not depend on it (job 2)."""
    share: Share | None = None
    """Score a share of the whole and write that for `merge`; None: all."""
    shards: Shards | None = None
    """Take every score from these; nothing is computed."""
    vectors: Path | None = None
    """Folder of document vectors that were made elsewhere (a baseline of job 1)."""
    metadata: bool = False
    """Write ir-metadata.yml beside the results, with machine and resources; see `run_metadata`."""

    def scoring_model(self, settings: ModelSettings, job: Job = "pairs") -> ScoringModel:
        """Find the language model of a profile and check it; its weights load when first needed.

        Raises:
            UserError: see `ScoringModel`.
        """
        model = ScoringModel(
            settings if self.shards is None else self.shards.settled(settings),
            self.device,
            folder=self.model,
            engine=self.engine,
            workers=self.workers,
            state=self.state,
            job=job,
            may_compute=self.shards is None,
        )
        if self.shards is not None:
            model.inherit(self.shards.incidents)
        return model


class Partial(NamedTuple):
    """What ``limit`` leaves of an input; an output directory with a part of a result says so."""

    done: int
    of: int
    what: str
    """"pairs" or "queries"."""

    def warning(self) -> str:
        """One line for the user."""
        return f"warning: partial: the first {self.done} of {self.of} {self.what}, the rest was left out by --limit"


def limited(items: Sequence[Item], options: RunOptions, what: str) -> tuple[Sequence[Item], Partial | None]:
    """The first items of an input, and what is to be said where these are not all."""
    if options.limit is None or options.limit >= len(items):
        return items, None
    return items[: options.limit], Partial(options.limit, len(items), what)


def job_of(
    task: str,
    profile: Profile,
    options: RunOptions,
    input_digest: str,
    models: dict[str, Any],
    partial: Partial | None = None,
) -> dict[str, Any]:
    """Everything that the bytes of a result depend on; the identity of an output directory.

    A limit is named only where it leaves something out: what was finished before there were limits is still known.
    """
    given, shards = options.candidates, options.shards
    candidates = None if given is None else candidates_digest(given)
    return {
        "task": task,
        "input": input_digest,
        "profile": profile.model_dump(mode="json", exclude={"needs_gpu"}),
        "models": models,
        "device": options.device,
        "engine": options.engine,
        "keep_gains": options.keep_gains,
        "on_error": options.on_error,
        "stop_after": options.stop_after,
        "candidates": candidates if shards is None else shards.job["candidates"],
        **({} if partial is None else {"limit": partial.done}),
        **({} if options.share is None else {"shard": list(options.share)}),
    }


def baseline_parts(settings: BaselineSettings, options: RunOptions, doc_ids: Sequence[str]) -> Outside:
    """Find what a baseline needs besides the texts.

    Raises:
        UserError: it is not there, or options were given that the method has no use for.
    """
    refuse_needless(
        settings,
        {
            "--keep-gains": options.keep_gains,
            "--shard": options.share is not None,
            "--engine reference": options.engine == "reference",
            "--workers": options.workers is not None,
        },
    )
    return outside_of(
        settings, options.device, doc_ids, vectors=options.vectors, model=options.model, state=options.state
    )
