"""Profile: every frozen hyperparameter of one submission, read from a TOML file and validated.

A profile has up to three tables: ``[model]`` (which language model and how it is run), ``[pairs]`` (job 1) and
``[retrieval]`` (job 2); or the one table ``[baseline]``, a simple method for job 1. Field names and defaults are those
of the paper; where the paper is silent the docstring of the field's class says what we chose.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import tomlkit
from pydantic import Field, ValidationError, model_validator
from tomlkit.exceptions import TOMLKitError

from pan_scdg.errors import UserError, UserErrors
from pan_scdg.profile.baseline import BaselineSettings
from pan_scdg.profile.pairs import PairSettings
from pan_scdg.profile.retrieval import RetrievalSettings
from pan_scdg.profile.table import ModelSettings, Table

SHIPPED = Path(__file__).parents[1] / "profiles"


class Profile(Table):
    """One submission."""

    name: str = Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]*$")
    description: str
    needs_gpu: bool = False
    """Its models are too large for a CPU: ``--device auto`` then asks for a GPU. No result depends on it."""
    model: ModelSettings | None = None
    """Needed by everything but a first stage alone."""
    pairs: PairSettings | None = None
    retrieval: RetrievalSettings | None = None
    baseline: BaselineSettings | None = None

    @model_validator(mode="after")
    def _has_a_job(self) -> "Profile":
        if self.baseline is not None:
            if self.model is not None or self.pairs is not None or self.retrieval is not None:
                raise ValueError("a profile with a [baseline] table has no other")
            return self
        if self.pairs is None and self.retrieval is None:
            raise ValueError("a profile needs a [pairs], a [retrieval] or a [baseline] table")
        if self.model is None and (self.pairs is not None or (self.retrieval is not None and self.retrieval.rerank)):
            raise ValueError("the table model is missing: only a [retrieval] with rerank = false does without")
        return self

    def need_model(self) -> ModelSettings:
        """The settings of the language model, or a UserError."""
        if self.model is None:
            raise UserError(f"profile {self.name} has no [model] table", "choose another profile: see `profiles`")
        return self.model

    def need_pairs(self) -> PairSettings:
        """The settings of job 1, or a UserError."""
        if self.pairs is None:
            raise UserError(f"profile {self.name} has no [pairs] table", "choose another profile: see `profiles`")
        return self.pairs

    def need_retrieval(self) -> RetrievalSettings:
        """The settings of job 2, or a UserError."""
        if self.retrieval is None:
            raise UserError(f"profile {self.name} has no [retrieval] table", "choose another profile: see `profiles`")
        return self.retrieval


def shipped_profiles() -> list[str]:
    """Names of the profiles that come with the package."""
    return sorted(p.stem for p in SHIPPED.glob("*.toml"))


def find_profile(name_or_file: str) -> Path:
    """The file of a shipped profile, or the file itself.

    Raises:
        UserError: neither exists.
    """
    shipped = SHIPPED / f"{name_or_file}.toml"
    if shipped.parent == SHIPPED and shipped.is_file():
        return shipped
    if Path(name_or_file).is_file():
        return Path(name_or_file)
    raise UserError(
        f"there is no profile {name_or_file!r}",
        f"give a profile file or one of: {', '.join(shipped_profiles())}",
    )


def load_profile(name_or_file: str) -> Profile:
    """Read and validate a profile.

    Raises:
        UserError: the file is missing, not TOML, or a field is unknown, missing or out of range.
    """
    path = find_profile(name_or_file)
    try:
        data = tomlkit.parse(path.read_text(encoding="utf-8")).unwrap()
    except (TOMLKitError, UnicodeDecodeError) as e:
        line = getattr(e, "line", None)
        raise UserError(f"not valid TOML: {e}", "correct the profile", path, line) from e
    return parse_profile(data, path)


def parse_profile(data: Mapping[str, Any], where: str | Path) -> Profile:
    """Validate the plain dictionary of a profile. TOML arrays stand for tuples."""
    try:
        return Profile.model_validate(_tuples(data))
    except ValidationError as e:
        raise UserErrors(
            [
                UserError(f"{'.'.join(map(str, f['loc'])) or 'profile'}: {f['msg']}", "correct the profile", where)
                for f in e.errors()
            ]
        ) from e


def _tuples(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {k: _tuples(v) for k, v in value.items()}
    return tuple(value) if isinstance(value, list) else value
