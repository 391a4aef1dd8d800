"""The options that all studies share, and the files that a study writes beside its report."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from pan_scdg.errors import UserError
from pan_scdg.profile import PairSettings, Profile
from pan_scdg.research.data.folders import DataFolders

OnError = Literal["stop", "leave-out"]
"""Treatment of pairs that cannot be scored: stop, or leave them out of every row and say so in the report."""


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
    overwrite: bool = False
    on_error: OnError = "stop"


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


def write_files(folder: Path, files: Mapping[str, str | bytes]) -> list[str]:
    """Write files below ``folder``; return their names."""
    for name, content in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(content if isinstance(content, bytes) else content.encode())
    return list(files)
