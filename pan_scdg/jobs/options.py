"""The options of a run, and the fields of ``job.json`` that follow from them."""

from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import Literal, NamedTuple, TypeVar

from pan_scdg.commit import hash_code
from pan_scdg.errors import UserError
from pan_scdg.logs import say
from pan_scdg.methods import IMPORTED, MethodOptions
from pan_scdg.models.catalogue import CATALOGUE
from pan_scdg.models.devices import Devices, describe_hiding, resolve_device
from pan_scdg.profile import Profile
from pan_scdg.records import Identities
from pan_scdg.resources import limit_threads
from pan_scdg.results.job import JobFile, TaskName
from pan_scdg.settings import EngineName

Item = TypeVar("Item")
OnError = Literal["stop", "negative", "raise"]
"""Treatment of pairs that cannot be scored: stop and name all of them, decide them negative with the reason, or, in
Python, raise the first error."""


class Sample(NamedTuple):
    """A number of pairs or queries to draw, and the seed."""

    size: int
    seed: int


class Partial(NamedTuple):
    """The part of the input that a result covers, which --limit or a sample selected."""

    done: int
    total: int
    what: Literal["pairs", "queries"]
    sample: Sample | None = None

    def __str__(self) -> str:
        """Return the part in words."""
        if self.sample is not None:
            return f"partial: {self.done} of {self.total} {self.what}, drawn with the seed {self.sample.seed}"
        return f"partial: the first {self.done} of {self.total} {self.what}, the rest was left out by --limit"


@dataclass(frozen=True)
class RunOptions:
    """The options of ``run``; see its help."""

    input: Path
    output: Path
    device: str = "cpu"
    """"cpu" or "cuda"."""
    workers: int | None = None
    cluster: str | None = None
    model: Path | None = None
    vectors: Path | None = None
    engine: EngineName | None = None
    """None: packed if the model can be."""
    limit: int | None = None
    sample: Sample | None = None
    """Part of the first ``limit`` pairs or queries to process; None: all of them."""
    overwrite: bool = False
    strict: bool = False
    on_error: OnError = "stop"
    keep_gains: bool = False
    scores_only: bool = False
    report: bool = False
    metadata: bool = False
    index: Path | None = None
    candidates: Path | None = None
    deadline: float | None = None
    """Hours after which the results are written, whether all pairs or candidates are scored or not."""

    @property
    def devices(self) -> Devices:
        """Return the devices to compute with."""
        return Devices(self.device, self.workers, self.cluster)

    @property
    def method(self) -> MethodOptions:
        """Return the options of the method that scores pairs."""
        return MethodOptions(
            self.device, self.model, self.vectors, self.engine, self.keep_gains, all_settings=self.scores_only
        )


def choose_device(profile: Profile, device: str) -> str:
    """Return the device of a profile's models, "cpu" or "cuda", and limit threads to the cores of this process.

    A profile without any model needs no GPU.

    Args:
        profile: its models run on the device.
        device: "auto" or a device.

    Raises:
        UserError: the device is missing or unusable, or "auto" finds no GPU for a profile that needs one.
    """
    limit_threads()
    if device == "auto" and not profile.list_models():
        return "cpu"
    chosen = resolve_device(device)
    large = [name for name in profile.list_models() if name in CATALOGUE]
    if device == "auto" and chosen == "cpu" and large:
        raise UserError(
            f"profile {profile.name} needs a GPU for {large[0]} and none is visible{describe_hiding()}",
            "run it on a machine with a GPU (in a container: docker run --gpus all), choose the profile offline, or "
            "use the device cpu",
        )
    if device == "auto" and chosen == "cpu" and describe_hiding():
        say([f"note: no GPU is visible{describe_hiding()}; computing on the CPU"])
    return chosen


def choose_items(
    items: tuple[Item, ...], options: RunOptions, what: Literal["pairs", "queries"]
) -> tuple[tuple[Item, ...], Partial | None]:
    """Return the items of an input to process, in order, and the part they are; None if they are all items."""
    chosen, sample = items[: options.limit], options.sample
    if sample is not None and sample.size < len(chosen):
        order = list(range(len(chosen)))
        Random(sample.seed).shuffle(order)  # a smaller sample is part of a larger one
        drawn = tuple(chosen[number] for number in sorted(order[: sample.size]))
        return drawn, Partial(sample.size, len(items), what, sample)
    return chosen, Partial(len(chosen), len(items), what) if len(chosen) < len(items) else None


def choose_recorded(items: tuple[Item, ...], job: JobFile, what: Literal["pairs", "queries"]) -> tuple[Item, ...]:
    """Return the items of an input that a result is about, in order."""
    sample = None if job.sample is None else Sample(*job.sample)
    return choose_items(items, RunOptions(Path(), Path(), limit=job.limit, sample=sample), what)[0]


def make_job(task: TaskName, profile: Profile, options: RunOptions, input_digest: str, models: Identities) -> JobFile:
    """Return the fields that results of all tasks depend on."""
    return JobFile(
        task=task,
        code=hash_job_code(task, profile),
        input=input_digest,
        profile=profile.model_dump(mode="json", exclude_none=True),
        models=models,
        device=options.device,
        asked_engine=options.engine or "packed",
        keep_gains=options.keep_gains,
        scores_only=options.scores_only,
        report=options.report,
        limit=options.limit,
        sample=options.sample,
    )


def hash_job_code(task: TaskName, profile: Profile) -> str:
    """Return the hash of the code that computes a task, with the files of a method from outside of the package."""
    if task == "retrieval" or profile.decide is None:
        return hash_code()
    return hash_code(type(profile.method_settings), IMPORTED.get(profile.decide.method, ()))
