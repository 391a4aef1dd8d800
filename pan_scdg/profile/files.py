"""Read and validate a profile: every frozen hyperparameter of one submission, in a TOML file.

``[model]`` is the language model with its settings, ``[pairs]`` pair detection by SCDG and ``[retrieval]`` source
retrieval. The table ``[baseline]`` is a simple method that decides pairs instead; beside an ``alignment``, ``[pairs]``
says how the gains are computed that explain a verdict. Field names and defaults are those of the paper; where the paper
is silent the docstring of the field's class says what we chose.
"""

from collections.abc import Mapping
from contextlib import suppress
from difflib import get_close_matches
from pathlib import Path
from typing import Any

import tomlkit
from pydantic import Field, ValidationError, model_validator
from tomlkit.exceptions import TOMLKitError

from pan_scdg.errors import UserError, UserErrors
from pan_scdg.profile.baseline import BaselineSettings
from pan_scdg.profile.pairs import PairSettings
from pan_scdg.profile.passages import PassageSettings
from pan_scdg.profile.retrieval import RetrievalSettings
from pan_scdg.profile.table import ModelSettings, Table

SHIPPED = Path(__file__).parent.parent / "profiles"
LARGEST_FILE = 1 << 16
"""Largest size of a profile file in bytes; the largest bundled one has fewer than 8,000."""
SHOWN = 100
"""Number of characters of a name that an error shows."""
FAULTS = 20
"""Number of faults of a profile that are reported at once."""


class Profile(Table):
    """One submission."""

    name: str = Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]*$")
    description: str
    needs_gpu: bool = False
    """Its models are too large for a CPU: ``--device auto`` then asks for a GPU. No result depends on it."""
    model: ModelSettings | None = None
    """Required unless the profile is a first stage alone."""
    pairs: PairSettings | None = None
    retrieval: RetrievalSettings | None = None
    baseline: BaselineSettings | None = None
    passages: PassageSettings | None = None
    """Detections of positive pairs consist of passages; None: each covers both documents. No score depends on it."""

    @model_validator(mode="after")
    def _has_a_job(self) -> "Profile":
        if self.passages is not None and self.pairs is None and self.baseline is None:
            raise ValueError("the table [passages] needs a [pairs] or a [baseline] table")
        measures = self.passages is not None and self.passages.gains
        if measures and self.model is None:
            raise ValueError("passages.gains needs the table [model]")
        others = [table for table in (self.model, self.pairs, self.retrieval) if table is not None]
        if self.baseline is not None:
            if others and not self.baseline.allows_gains:
                raise ValueError("a profile with this [baseline] table can have no other table than [passages]")
            if self.pairs is not None and self.pairs.threshold is not None:
                raise ValueError("the [baseline] decides, so [pairs] can have no threshold")
            if not others or (measures and others == [self.model]):
                return self
        if self.pairs is None and self.retrieval is None:
            raise ValueError("a profile needs a [pairs], a [retrieval] or a [baseline] table")
        if self.model is None and (self.pairs is not None or (self.retrieval is not None and self.retrieval.rerank)):
            raise ValueError("the table [model] is missing, which only a [retrieval] with rerank = false does not need")
        return self

    def need_model(self) -> ModelSettings:
        """Return the settings of the language model, or raise UserError."""
        if self.model is None:
            raise UserError(f"profile {self.name} has no [model] table", "choose another profile: see `profiles`")
        return self.model

    def need_pairs(self) -> PairSettings:
        """Return the settings of pair detection, or raise UserError."""
        if self.pairs is None:
            raise UserError(f"profile {self.name} has no [pairs] table", "choose another profile: see `profiles`")
        return self.pairs

    def need_retrieval(self) -> RetrievalSettings:
        """Return the settings of source retrieval, or raise UserError."""
        if self.retrieval is None:
            raise UserError(f"profile {self.name} has no [retrieval] table", "choose another profile: see `profiles`")
        return self.retrieval

    def measure_passages(self, wanted: bool = True) -> "Profile":
        """Return the profile with ``[passages]`` whose gains are measured if ``wanted`` and there is a ``[model]``."""
        gains = wanted and self.model is not None
        passages = (self.passages or PassageSettings()).model_copy(update={"gains": gains})
        return self.model_copy(update={"passages": passages})

    def decide_nothing(self) -> "Profile":
        """Return the profile without thresholds, and without ``[passages]``, which only positive pairs have."""
        pairs = self.pairs and self.pairs.model_copy(update={"threshold": None})
        baseline = self.baseline and self.baseline.model_copy(update={"threshold": None})
        return self.model_copy(update={"pairs": pairs, "baseline": baseline, "passages": None})

    def rerank_by_gains_alone(self) -> "Profile":
        """Return the profile without ``[retrieval.match]`` and ``[retrieval.cascade]``."""
        retrieval = self.retrieval and self.retrieval.model_copy(update={"match": None, "cascade": None})
        return self.model_copy(update={"retrieval": retrieval})

    def make_small_profile(self) -> "Profile | None":
        """Return source retrieval by the small model of the cascade alone; None without a cascade."""
        if self.retrieval is None or (cascade := self.retrieval.cascade) is None:
            return None
        own = {"context": cascade.context, "source_tokens": cascade.source_tokens}
        changes = {"cascade": None, **{name: value for name, value in own.items() if value is not None}}
        retrieval = self.retrieval.model_copy(update=changes)
        without = dict.fromkeys(("pairs", "baseline", "passages"))
        return self.model_copy(update={**without, "model": cascade.model, "retrieval": retrieval})


def list_profiles() -> list[str]:
    """Return the names of the bundled profiles."""
    return sorted(p.stem for p in SHIPPED.glob("*.toml"))


def find_profile(name_or_file: str) -> Path:
    """Return the file of a bundled profile, or the file itself.

    Raises:
        UserError: neither exists.
    """
    shipped = SHIPPED / f"{name_or_file}.toml"
    with suppress(OSError):  # no file can have a name that is longer than file systems permit
        if shipped.parent == SHIPPED and shipped.is_file():
            return shipped
        if Path(name_or_file).is_file():
            return Path(name_or_file)
    shown = name_or_file if len(name_or_file) <= SHOWN else f"{name_or_file[:SHOWN]}..."
    if name_or_file.endswith(".toml") or Path(name_or_file).name != name_or_file:
        remedy = "correct its name, or name a bundled profile: see `profiles`"
        raise UserError(f"there is no profile file {shown!r}", remedy)
    if close := get_close_matches(name_or_file[:SHOWN], list_profiles(), n=1):
        remedy = f"did you mean {close[0]!r}? `profiles` lists them"
    else:
        remedy = f"give a profile file or one of: {', '.join(list_profiles())}"
    raise UserError(f"unknown profile {shown!r}", remedy)


def load_profile(name_or_file: str) -> Profile:
    """Return the validated profile of a name or a file.

    Raises:
        UserError: the file is missing, not TOML, or a field is unknown, missing or out of range.
    """
    path = find_profile(name_or_file)
    return parse_profile(read_toml(path).unwrap(), path)


def read_toml(path: Path) -> tomlkit.TOMLDocument:
    """Return the TOML document in a profile file, comments included.

    Raises:
        UserError: the file cannot be read, is too large, or is not TOML.
    """
    try:
        with path.open("rb") as file:
            data = file.read(LARGEST_FILE + 1)
        if len(data) > LARGEST_FILE:
            raise UserError(f"larger than {LARGEST_FILE} bytes", "give a profile", path)
        return tomlkit.parse(data.decode("utf-8"))
    except OSError as e:
        raise UserError(f"cannot be read: {e.strerror}", "give a profile that can be read", path) from e
    except RecursionError as e:
        raise UserError("not valid TOML: nested too deeply", "correct the profile", path) from e
    except (TOMLKitError, ValueError) as e:  # ValueError: not UTF-8, or a number of thousands of digits
        line = getattr(e, "line", None)
        raise UserError(f"not valid TOML: {e}", "correct the profile", path, line) from e


def parse_profile(data: Mapping[str, Any], where: str | Path) -> Profile:
    """Return the validated profile of a plain dictionary, whose arrays become tuples."""
    try:
        return Profile.model_validate(_convert_lists(data))
    except ValidationError as e:
        faults = [(".".join(map(str, f["loc"]))[:SHOWN] or "profile", f["msg"]) for f in e.errors()[:FAULTS]]
        raise UserErrors([UserError(f"{name}: {what}", "correct the profile", where) for name, what in faults]) from e


def _convert_lists(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {k: _convert_lists(v) for k, v in value.items()}
    return tuple(value) if isinstance(value, list) else value
