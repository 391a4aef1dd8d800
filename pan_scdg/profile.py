"""Profiles: the frozen settings of one submission, in a TOML file.

``[decide]`` names the method that decides pairs, and its threshold; the table of that method has its settings, which
are part of the method's module. ``[model]`` is the language model, ``[gains]`` says how gains are computed (beside
another method they explain its decisions), ``[passages]`` how the passages of positive pairs are found, and
``[retrieval]`` source retrieval.
"""

import json
from collections.abc import Mapping
from contextlib import suppress
from difflib import get_close_matches
from pathlib import Path
from typing import TYPE_CHECKING, Any

import tomlkit
from pydantic import ConfigDict, ValidationError, create_model, model_validator
from tomlkit.exceptions import TOMLKitError

from pan_scdg.errors import UserError, UserErrors
from pan_scdg.methods import FILES, METHODS, Method, MethodOptions, MethodSettings, load_settings, register_method
from pan_scdg.models.catalogue import find_licence
from pan_scdg.settings import ProfileTables

if TYPE_CHECKING:
    from pan_scdg.methods.gains import GainSettings

SHIPPED = Path(__file__).parent / "profiles"
MAX_FILE_BYTES = 1 << 16
MAX_NAME_SHOWN = 100
"""Characters of a name that an error shows."""
MAX_FAULTS = 20
"""Faults of a profile that are reported at once."""


class Profile(ProfileTables):
    """One submission. Each table of a method is an attribute of its name in the file, such as ``bm25``."""

    model_config = ConfigDict(extra="allow")  # the tables of methods, which `_read_method_tables` validates

    @model_validator(mode="before")
    @classmethod
    def _read_method_tables(cls, data: Any) -> Any:
        """Validate all tables; a key that is neither a table of all methods nor that of one is an error."""
        if not isinstance(data, Mapping):
            return data
        present: Any = {
            name_table(method): (load_settings(method) | None, None) for method in METHODS if name_table(method) in data
        }
        decide = data.get("decide")
        method = decide.get("method") if isinstance(decide, Mapping) else None
        if isinstance(method, str) and method not in METHODS and name_table(method) in data:
            raise ValueError(f"the method {method!r} is not registered: give its file with --method FILE.py")
        return dict(create_model("Tables", __base__=ProfileTables, **present).model_validate(data))

    def __reduce_ex__(self, protocol: Any) -> Any:
        """Return what registers the method of the profile in another process first, if it is a user's file."""
        method = None if self.decide is None else self.decide.method
        if method not in FILES:
            return super().__reduce_ex__(protocol)
        return _restore_profile, (self.model_dump(mode="json", exclude_none=True), FILES[method])

    @model_validator(mode="after")
    def _has_a_job(self) -> "Profile":
        if self.decide is None and self.retrieval is None:
            raise ValueError("a profile needs a [decide] or a [retrieval] table")
        if self.passages is not None and self.decide is None:
            raise ValueError("the table [passages] needs a [decide] table")
        reranks = self.retrieval is not None and self.retrieval.rerank
        if self.model is None and (self.gains is not None or reranks):
            raise ValueError("the profile needs a table [model], unless rerank is false in [retrieval]")
        return self

    @model_validator(mode="after")
    def _has_the_table_of_its_method(self) -> "Profile":
        tables = {name for name in METHODS if self._find_table(name) is not None}
        method = None if self.decide is None else self.decide.method
        if method is not None and method not in METHODS:
            raise ValueError(f"decide.method {method!r} is not a method: use one of {', '.join(METHODS)}")
        if method is not None and method not in tables:
            raise ValueError(f"the table [{name_table(method)}] is missing, but decide.method names it")
        if others := tables - {method, "gains"}:
            raise ValueError(f"[{name_table(min(others))}] does not belong to the method {method}")
        if self.decide is not None and self.decide.threshold is not None:
            settings = self.method_settings
            missing = [name for name in settings.parameters if getattr(settings, name) is None]
            if missing or (settings.features and getattr(settings, "weights", None) is None):
                raise ValueError(f"a threshold needs the {missing[0] if missing else 'weights'} it was chosen with")
        return self

    def _find_table(self, method: str) -> MethodSettings | None:
        return (self.model_extra or {}).get(name_table(method))

    @property
    def gains(self) -> "GainSettings | None":
        """Return the table ``[gains]``, by which gains decide, or explain the decisions of another method."""
        table: GainSettings | None = (self.model_extra or {}).get("gains")
        return table

    @property
    def method_settings(self) -> MethodSettings:
        """Return the table of the method that decides pairs, or raise UserError."""
        method = self.need_decide().method
        settings = self._find_table(method)
        if settings is None:
            raise ValueError(f"profile {self.name} has no table [{name_table(method)}]")
        return settings

    def use_strict(self) -> "Profile":
        """Return the profile with its strict threshold; as it is if it has none."""
        decide = self.need_decide()
        if decide.strict is None:
            return self
        return self.model_copy(update={"decide": decide.model_copy(update={"threshold": decide.strict})})

    def open_method(self, options: MethodOptions, statistics: Any = None) -> Method:
        """Return the method that decides pairs.

        Args:
            options: device, folders and what is kept.
            statistics: what `MethodSettings.count_sources` returned for all sources of the input.

        Raises:
            UserError: a model or vectors are missing, or an option needs another method.
        """
        settings = self.method_settings
        unmet = {
            "--keep-gains needs a profile that decides by gains, such as scdg-mini": options.keep_gains
            and "keep_gains" not in settings.options,
            "a vectors folder needs a profile that reads vectors": options.vectors is not None
            and "vectors" not in settings.options,
            "the engine reference needs a profile with gains": options.engine == "reference" and self.gains is None,
            "a model folder needs a profile with a language model": options.model is not None
            and self.gains is None
            and "model" not in settings.options,
        }
        if needs := [need for need, is_unmet in unmet.items() if is_unmet]:
            raise UserError(needs[0], f"choose such a profile instead of {self.name}, or leave it out")
        return settings.open(self, options, statistics)

    def list_models(self) -> list[str]:
        """Return the names of the models that the profile loads."""
        names = [None if self.model is None else self.model.name]
        names += [] if self.decide is None else self.method_settings.list_models()
        names.append(None if self.passages is None else self.passages.encoder)
        if (retrieval := self.retrieval) is not None:
            is_lexical = all(route.startswith("bm25") for route in retrieval.routes)
            names.append(None if is_lexical else retrieval.need_dense().model)
            names.append(retrieval.match.model if retrieval.match is not None and retrieval.rerank else None)
        return list(dict.fromkeys(name for name in names if name is not None))

    def list_licences(self) -> str:
        """Return the licences of the models and packages that the profile needs, each once; empty without any."""
        return "; ".join(dict.fromkeys(find_licence(name) for name in self.list_models()))


def name_table(method: str) -> str:
    """Return the name of the table of a method in a profile."""
    return method.replace("-", "_")


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
    shown = name_or_file if len(name_or_file) <= MAX_NAME_SHOWN else f"{name_or_file[:MAX_NAME_SHOWN]}..."
    if name_or_file.endswith(".toml") or Path(name_or_file).name != name_or_file:
        remedy = "correct its name, or choose a bundled profile (`pan-scdg profiles` lists them)"
        raise UserError(f"there is no profile file {shown!r}", remedy)
    if close := get_close_matches(name_or_file[:MAX_NAME_SHOWN], list_profiles(), n=1):
        remedy = f"did you mean {close[0]!r}? `pan-scdg profiles` lists them"
    else:
        remedy = f"give a profile file or one of: {', '.join(list_profiles())}"
    raise UserError(f"unknown profile {shown!r}", remedy)


def load_profile(name_or_file: str) -> Profile:
    """Return the validated profile of a name, a TOML file, or the ``job.json`` of a result.

    Raises:
        UserError: the file is missing, not TOML, or a field is unknown, missing or out of range.
    """
    path = find_profile(name_or_file)
    return parse_profile(read_recorded(path) if path.suffix == ".json" else read_toml(path).unwrap(), path)


def read_recorded(path: Path) -> dict[str, Any]:
    """Return the profile that a ``job.json`` records.

    Raises:
        UserError: the file cannot be read, is no JSON, or records no profile.
    """
    try:
        profile = json.loads(path.read_text(encoding="utf-8"))["profile"]
    except (OSError, ValueError, LookupError, TypeError, RecursionError) as e:
        raise UserError("records no profile", "give the job.json of a result, or a TOML file", path) from e
    if not isinstance(profile, dict):
        raise UserError("records no profile", "give the job.json of a result, or a TOML file", path)
    return profile


def read_toml(path: Path) -> tomlkit.TOMLDocument:
    """Return the TOML document in a profile file, comments included.

    Raises:
        UserError: the file cannot be read, is too large, or is not TOML.
    """
    try:
        with path.open("rb") as file:
            data = file.read(MAX_FILE_BYTES + 1)
        if len(data) > MAX_FILE_BYTES:
            raise UserError(f"larger than {MAX_FILE_BYTES} bytes", "give a profile", path)
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
        faults = [(".".join(map(str, f["loc"]))[:MAX_NAME_SHOWN] or "profile", f["msg"]) for f in e.errors()]
        errors = [UserError(f"{name}: {what}", "correct the profile", where) for name, what in faults[:MAX_FAULTS]]
        raise UserErrors(errors) from e


def _restore_profile(data: Mapping[str, Any], method_file: Path) -> Profile:
    register_method(method_file)
    return parse_profile(data, method_file)


def _convert_lists(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {k: _convert_lists(v) for k, v in value.items()}
    return tuple(value) if isinstance(value, list) else value
