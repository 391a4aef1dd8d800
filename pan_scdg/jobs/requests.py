"""Records of the options of a run, which the command line fills and the jobs read."""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Literal, TypeVar

from pan_scdg.cluster.session import Cluster
from pan_scdg.jobs.output.mark import Partial
from pan_scdg.jobs.plan.gpus import choose_gpus
from pan_scdg.jobs.shards import Shards
from pan_scdg.lm.engine import EngineName
from pan_scdg.models.fit import choose_device
from pan_scdg.profile import ModelSettings, Profile
from pan_scdg.scoring.batches import Shard
from pan_scdg.scoring.model import ScoringModel
from pan_scdg.scoring.pair_method import OnError

Item = TypeVar("Item")
PAGE = "report.html"


@dataclass(frozen=True)
class Computing:
    """Options of finding models and computing with them."""

    device: str = "cpu"
    """"cpu" or "cuda"."""
    model: Path | None = None
    """Folder of the language model; None: found by its name in the profile."""
    engine: EngineName = "packed"
    cluster: Cluster = field(default_factory=Cluster)
    """The devices to compute with. No result depends on it."""
    state: Path | None = None
    """Folder that caches scores for later runs; None: inside the output until it is published."""
    gpus: Sequence[str] = ()
    """GPUs of `plan.gpus.TFLOPS` that a plan is for, which then counts tokens and needs neither weights nor a GPU."""
    shards: Shards = field(default_factory=Shards)
    """Shards with all scores of the job; empty: it computes them."""

    def settle_device(self, profile: Profile, device: str, plan: bool, gpu: str | None) -> "Computing":
        """Return the options with the device: that of the shards, or for a plan some GPUs, or one of this machine.

        Raises:
            UserError: this machine lacks the device, or no such GPU is known.
        """
        if job := self.shards.job:
            return replace(self, device=job["device"], engine=job["engine"], cluster=Cluster())
        gpus = choose_gpus(profile, gpu, device) if plan else ()
        return replace(self, device="cpu" if gpus else choose_device(profile, device), gpus=gpus)

    def open_model(self, settings: ModelSettings, name: str = "language_model") -> ScoringModel:
        """Find and check the language model of a profile; its weights load when first needed.

        Raises:
            UserError: see `ScoringModel`.
        """
        if dtype := self.shards.read_dtype(name):  # whatever this machine supports
            settings = settings.model_copy(update={"dtype": dtype, "dtype_without_bf16": None})
        model = ScoringModel(
            settings,
            self.device,
            folder=self.model,
            engine=self.engine,
            cluster=self.cluster,
            state=self.state,
            scored_in=self.shards.scored_in,
            counts_only=bool(self.gpus),
        )
        model.inherit(self.shards.incidents)
        return model


@dataclass(frozen=True)
class Request:
    """Input, output and options of a run."""

    input: Path
    output: Path
    limit: int | None = None
    """Only the first pairs or queries of the input; None: all."""
    overwrite: bool = False
    strict: bool = False
    """Treat unusual input as an error."""
    on_error: OnError = "stop"
    keep_gains: bool = False
    shard: Shard | None = None
    """Score this shard and write its scores, for `merge`; None: score everything and write the result."""
    scores_only: bool = False
    """Write the scores of the shard, or all, and decide nothing, so that no threshold is needed."""
    report: bool = False
    """Also write an HTML report."""
    metadata: bool = False
    """Write ir-metadata.yml beside the results; see `track_run`."""


@dataclass(frozen=True)
class FirstStageOptions:
    """Options of the first stage of source retrieval."""

    index: Path | None = None
    """Folder of prebuilt indexes; None: they are built in the state folder."""
    candidates: Path | None = None
    """TREC run to rerank instead of running a first stage."""
    stop: bool = False
    """Write the candidates as the result and score nothing."""
    search_memory: int = 1024
    """MiB that a dense search may use. No result depends on it."""


def take_first(
    items: Sequence[Item], limit: int | None, what: Literal["pairs", "queries"]
) -> tuple[Sequence[Item], Partial | None]:
    """Return the first items of an input, and the part they are, or None if they are all items."""
    if limit is None or limit >= len(items):
        return items, None
    return items[:limit], Partial(done=limit, of=len(items), what=what)


def describe_job(
    task: Literal["pairs", "retrieval", "check"],
    profile: Profile,
    *,
    input_digest: str,
    models: dict[str, Any],
    device: str,
    engine: EngineName,
    stop_after: str | None = None,
    candidates: str | None = None,
    partial: Partial | None = None,
    request: Request | None = None,
) -> dict[str, Any]:
    """Return all fields that scores and decisions depend on.

    A limit is included only if it excludes some of the input. Without a ``request`` its options have their defaults.
    """
    asked = request or Request  # the class has the defaults
    return {
        "task": task,
        "input": input_digest,
        "profile": profile.model_dump(mode="json", exclude={"needs_gpu"}),
        "models": models,
        "device": device,
        "engine": engine,
        "keep_gains": asked.keep_gains,
        "on_error": asked.on_error,
        "stop_after": stop_after,
        "candidates": candidates,
        **({} if partial is None else {"limit": partial.done}),
    }
