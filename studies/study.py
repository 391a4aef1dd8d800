"""The options of all studies, and a study that is ready to run."""

from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack, closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from pan_scdg.errors import UserError
from pan_scdg.jobs.lifecycle import ReadyJob
from pan_scdg.jobs.plan.estimate import Plan, prepare_probe
from pan_scdg.jobs.requests import Computing
from pan_scdg.profile import ModelSettings, PairSettings, Profile
from studies.data.folders import DataFolders
from pan_scdg.scoring.batches import Shard
from pan_scdg.scoring.model import ScoringModel

OnError = Literal["stop", "leave-out"]
"""Treatment of inputs that cannot be scored: stop, or exclude them from every row and note it in the report."""
SHOWN = 10
"""Number of items that could not be scored whose reasons a report shows."""


@dataclass(frozen=True)
class StudyOptions:
    """The options of the command line that all studies have."""

    folders: DataFolders
    output: Path
    given: Mapping[str, Path]
    """The user's manifests and splits, by kind."""
    computing: Computing
    """Device, engine, state and shards of the language model."""
    device: str
    """``--device``, for baselines."""
    overwrite: bool
    on_error: OnError
    shard: Shard | None
    """Score this shard with the language model and make no report; None: score everything."""
    plan: bool
    """Print the cost of scoring with the language model; nothing is written."""
    as_json: bool
    """With ``plan``: print JSON."""

    @property
    def reports(self) -> bool:
        """Return True unless only the language model scores, or nothing does."""
        return self.shard is None and not self.plan

    def open_model(self, settings: ModelSettings, stack: ExitStack, name: str = "language_model") -> ScoringModel:
        """Return a language model, which ``stack`` closes."""
        computing = prepare_probe(self.computing) if self.plan else self.computing
        return stack.enter_context(closing(computing.open_model(settings, name)))

    def describe(self) -> dict[str, Any]:
        """Return the fields of the job that all studies have, besides task, profiles and models."""
        return {"device": self.computing.device, "engine": self.computing.engine, "on_error": self.on_error}


@dataclass(frozen=True, kw_only=True)
class ReadyStudy(ReadyJob):
    """A study whose data and models are checked, before anything is computed or written."""

    notes: Sequence[str]
    """Sentences on inputs that cannot be scored and are left out."""
    plan: Callable[[], list[Plan]]
    """Returns the cost of each language model and set of inputs."""


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
    """Return a sentence on the inputs that could not be scored, with the reasons of the first of them.

    Args:
        lost: why each cannot be scored, by id.
        of: the number and the kind of all.
    """
    reasons = "; ".join(f"{name}: {why}" for name, why in list(lost.items())[:SHOWN])
    return f"{len(lost)} of the {of} cannot be scored and are in no row. {reasons}."


def note_lost(count: int, kind: str) -> list[str]:
    """Return the notes on inputs that cannot be scored."""
    return [f"{count} {kind} cannot be scored and will be left out"] if count else []


def write_files(folder: Path, files: Mapping[str, str | bytes]) -> list[str]:
    """Write files below ``folder``; return their names."""
    for name, content in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(content if isinstance(content, bytes) else content.encode())
    return list(files)
