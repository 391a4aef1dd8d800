"""The options that all studies share, what they mean for models and jobs, and the files beside a report."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from pan_scdg.cluster.session import Cluster
from pan_scdg.errors import UserError
from pan_scdg.jobs.output.directory import produce_result
from pan_scdg.jobs.plan.estimate import prepare_probe
from pan_scdg.jobs.plan.tokens import choose_gpus
from pan_scdg.jobs.requests import Computing
from pan_scdg.jobs.shards import Shards, open_model
from pan_scdg.lm.engine import EngineName
from pan_scdg.logs import say
from pan_scdg.models.find import FoundModel, describe_models
from pan_scdg.models.fit import Job, choose_device
from pan_scdg.models.lock import list_origins
from pan_scdg.profile import ModelSettings, PairSettings, Profile
from pan_scdg.research.data.folders import DataFolders
from pan_scdg.scoring.batches import Share
from pan_scdg.scoring.model import ScoringModel
from pan_scdg.scoring.pair_plan import OnError as PairAction
from pan_scdg.store import Store

OnError = Literal["stop", "leave-out"]
"""Treatment of what cannot be scored: stop, or leave it out of every row and say so in the report."""
SHOWN = 10
"""Number of items that could not be scored whose reasons a report shows."""


@dataclass(frozen=True)
class StudyOptions:
    """The options of the command line that all studies have."""

    folders: DataFolders
    output: Path
    given: Mapping[str, Path] = field(default_factory=dict)
    """The user's manifests and splits, by kind."""
    state: Path | None = None
    model: Path | None = None
    """Folder of the language model; None: the model cache."""
    device: str = "auto"
    engine: EngineName = "packed"
    cluster: Cluster = field(default_factory=Cluster)
    """The devices of the language model."""
    overwrite: bool = False
    on_error: OnError = "stop"
    share: Share | None = None
    """Score one shard with the language model and make no report; None: all."""
    shards: Shards | None = None
    """All shards, which hold every score of the language model; None: they are computed."""
    plan: bool = False
    """Print the cost of scoring with the language model; nothing is written."""
    gpu: str | None = None
    """With ``plan``: a GPU that is not here."""
    as_json: bool = False
    """With ``plan``: print JSON."""

    @property
    def reports(self) -> bool:
        """Return True unless only the language model scores, or nothing does."""
        return self.share is None and not self.plan

    @property
    def pair_action(self) -> PairAction:
        """Return ``on_error`` as the checks of pairs name it."""
        return "stop" if self.on_error == "stop" else "negative"

    def choose_computing(self, profile: Profile) -> Computing:
        """Return device, engine and state of the language model: those of the shards, if there are any."""
        if self.shards is not None:
            return Computing(self.shards.job["device"], self.model, self.shards.job["engine"], state=self.state)
        gpus = choose_gpus(profile, self.gpu, self.device) if self.plan else ()
        device = "cpu" if gpus else choose_device(profile, self.device)
        return Computing(device, self.model, self.engine, self.cluster, self.state, gpus)

    def open_model(
        self, settings: ModelSettings, computing: Computing, name: str = "language_model", job: Job = "pairs"
    ) -> ScoringModel:
        """Return a language model; it does not compute if shards hold all scores."""
        return open_model(settings, prepare_probe(computing) if self.plan else computing, job, self.shards, name)

    def identify(self, scoring: Mapping[str, Any], rest: Mapping[str, Any]) -> dict[str, Any]:
        """Return the job of this study, or of its shard.

        Args:
            scoring: everything that the scores of the language model depend on.
            rest: everything else that the bytes of the report depend on.

        Raises:
            UserError: the shards were made from something else.
        """
        if self.share is not None:
            return {**scoring, "shard": list(self.share)}
        if self.shards is not None:
            self.shards.check(scoring)
        return {**scoring, **rest}

    def restore(self, store: Store) -> None:
        """Copy the scores of all shards into the store."""
        if self.shards is not None:
            self.shards.restore(store)

    def list_origins(self, places: Mapping[str, FoundModel]) -> Mapping[str, Mapping[str, str]]:
        """Return where the models were found that scored."""
        return list_origins(places) if self.shards is None else {**list_origins(places), **self.shards.origins}

    def summarise(self, done: str) -> str:
        """Return the last line of a study about ``done``, its inputs in words."""
        return f"studied {done}: {self.output}" if self.share is None else f"{self.share} of {done}: {self.output}"


def produce_report(
    options: StudyOptions,
    identity: Mapping[str, Any],
    places: Mapping[str, FoundModel],
    models: Sequence[ScoringModel],
    compute: Callable[[Store, Path, Mapping[str, Any]], list[str]],
    done: str,
) -> list[str]:
    """Produce the report of a study, or its shard, unless it is complete; return the lines to show the user.

    Args:
        options: those of the study.
        identity: its job.
        places: its models by their names in the job.
        models: the language models, which may have incidents.
        compute: writes the files from a store into a folder for a job, and returns their names.
        done: the inputs in words.
    """
    with produce_result(options.output, identity, options.overwrite) as result:
        if result.complete:
            return [f"already complete: {options.output}"]
        if result.needed:
            say([describe_models(list(places.values()))] if places else [])
            with result.compute(options.state) as store:
                options.restore(store)
                names = compute(store, result.staged, result.job)
            result.seal(names, _list_incidents(models), origins=options.list_origins(places))
    return [*(f"warning: {incident}" for incident in _list_incidents(models)), options.summarise(done)]


def _list_incidents(models: Sequence[ScoringModel]) -> list[str]:
    return list(dict.fromkeys(incident for model in models for incident in model.incidents()))


def require_gains(profile: Profile) -> PairSettings:
    """Return the pair settings of a profile that computes gains.

    Raises:
        UserError: the profile is a baseline, or has no model or no pair settings.
    """
    if profile.pairs is None and profile.baseline is not None:
        raise UserError(
            f"profile {profile.name} is a baseline, which has no gains", "name a profile of SCDG with --profile"
        )
    profile.need_model()
    return profile.need_pairs()


def describe_lost(lost: Mapping[str, str], of: str) -> str:
    """Return a sentence on what could not be scored, with the reasons of the first of them.

    Args:
        lost: why each cannot be scored, by id.
        of: the number and the kind of all.
    """
    reasons = "; ".join(f"{name}: {why}" for name, why in list(lost.items())[:SHOWN])
    return f"{len(lost)} of the {of} cannot be scored and are in no row. {reasons}."


def warn_about_lost(count: int, what: Literal["pairs", "queries"]) -> list[str]:
    """Return a warning if there are pairs or queries that cannot be scored."""
    return [f"warning: {count} {what} cannot be scored"] if count else []


def write_files(folder: Path, files: Mapping[str, str | bytes]) -> list[str]:
    """Write files below ``folder``; return their names."""
    for name, content in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(content if isinstance(content, bytes) else content.encode())
    return list(files)
