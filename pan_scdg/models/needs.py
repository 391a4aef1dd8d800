"""List the models that profiles need, and their state on this machine; reads metadata only."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

from pan_scdg.errors import UserError, escape_controls
from pan_scdg.models.catalogue import BUNDLED, CATALOGUE, TERRIER, describe_size, find_licence
from pan_scdg.models.find import SHORT, FoundModel, ModelNotFoundError, find_encoder, find_model
from pan_scdg.models.lock import list_lock_warnings, read_lock
from pan_scdg.models.terrier_jars import find_jar_folder, find_terrier_jar
from pan_scdg.profile import Profile, list_profiles, load_profile

NOT_FOUND = "not found"
COLUMNS = ("model", "found", "size", "licence", "pinned")


class Needs(NamedTuple):
    """The names of the models and packages that a profile needs beside this package."""

    model: str | None
    encoders: tuple[str, ...]
    terrier: bool
    small: str | None = None
    """The small language model of a cascade."""

    @property
    def models(self) -> list[str]:
        """Return the models, which compute on a device."""
        return list(dict.fromkeys(n for n in (self.model, self.small, *self.encoders) if n is not None))

    @property
    def names(self) -> list[str]:
        """Return the models, and Terrier if it is needed."""
        return [*self.models, TERRIER] if self.terrier else self.models


class ModelState(NamedTuple):
    """One row of ``models list``."""

    name: str
    found: str
    """Kind of place."""
    size: str
    licence: str
    pinned: str
    folder: str = "-"
    why: str = "-"
    """The fault of an existing folder."""


class ModelList(NamedTuple):
    """The names that each bundled profile needs, and the state of each of them."""

    profiles: dict[str, list[str]]
    models: list[ModelState]

    def to_json(self) -> dict[str, Any]:
        """Return the list as JSON values."""
        return {"profiles": self.profiles, "models": {model.name: model._asdict() for model in self.models}}

    def to_lines(self) -> list[str]:
        """Return the list as two tables, followed by the faults of unusable folders."""
        profiles = [("profile", "needs"), *((name, ", ".join(n) or "nothing") for name, n in self.profiles.items())]
        models = _format_table([COLUMNS, *(model[: len(COLUMNS)] for model in self.models)])
        faults = [escape_controls(model.why) for model in self.models if model.why != "-"]
        return [*_format_table(profiles), "", *models, *faults]


def find_needs(profile: Profile) -> Needs:
    """Return the models that a profile needs, and whether it needs Terrier's jars."""
    baseline, retrieval = profile.baseline, profile.retrieval
    model = None if profile.model is None else profile.model.name
    encoders = list[str]()
    if baseline is not None:
        model = model or baseline.language_model
        encoders += [] if baseline.encoder is None else [baseline.encoder]
    if profile.passages is not None and profile.passages.encoder is not None:
        encoders.append(profile.passages.encoder)
    terrier = False
    if retrieval is not None:
        lexical = [route.startswith("bm25") for route in retrieval.routes]
        encoders += [] if all(lexical) else [retrieval.need_dense().model]
        encoders += [] if retrieval.match is None or not retrieval.rerank else [retrieval.match.model]
        terrier = any(lexical) and retrieval.bm25.engine != "fts5"
    small = profile.make_small_profile()
    return Needs(model, tuple(dict.fromkeys(encoders)), terrier, None if small is None else small.need_model().name)


def list_licences(profile: Profile) -> str:
    """Return the licences of a profile's models and packages, each once; empty without any."""
    return "; ".join(dict.fromkeys(find_licence(name) for name in find_needs(profile).names))


def list_models() -> ModelList:
    """Return the needs of the bundled profiles and the state of each model.

    Raises:
        UserError: the lock is damaged.
    """
    needs = {name: find_needs(load_profile(name)) for name in list_profiles()}
    encoders = {name for need in needs.values() for name in need.encoders}
    names = dict.fromkeys(name for need in needs.values() for name in need.names)
    states = [_examine_terrier() if name == TERRIER else _examine(name, name in encoders) for name in names]
    return ModelList({profile: need.names for profile, need in needs.items()}, states)


def _format_table(rows: Sequence[Sequence[str]]) -> list[str]:
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return ["  ".join(text.ljust(width) for text, width in zip(row, widths, strict=True)).rstrip() for row in rows]


def _examine(name: str, encoder: bool) -> ModelState:
    try:
        place = find_encoder(name) if encoder else find_model(name)
    except UserError as e:
        size = f"about {describe_size(CATALOGUE[name].size)}" if name in CATALOGUE else "-"
        absent = ModelState(name, NOT_FOUND, size, find_licence(name), _describe_pin(name))
        return absent if isinstance(e, ModelNotFoundError) else absent._replace(found="not usable", why=str(e))
    size, pinned = _measure_folder(place.folder), _describe_pin(name, place)
    return ModelState(name, place.where, size, find_licence(name), pinned, str(place.folder))


def _describe_pin(name: str, place: FoundModel | None = None) -> str:
    """Return the state of a model, and of the folder in which it was found, according to the lock."""
    if name in BUNDLED and place is not None:
        return "bundled"
    entry = read_lock().get(name)
    if entry is None:
        return "unpinned"
    if place is not None and list_lock_warnings(place):
        return "NOT as pinned"
    return f"pinned to {entry.revision[:SHORT]}"


def _examine_terrier() -> ModelState:
    folder, found = find_jar_folder(), "model_cache"
    try:
        find_terrier_jar()
    except UserError:
        found = NOT_FOUND
    size = "about 104 MB" if found == NOT_FOUND else _measure_folder(folder)
    return ModelState(TERRIER, found, size, find_licence(TERRIER), "hashes known", str(folder))


def _measure_folder(folder: Path) -> str:
    return describe_size(sum(path.stat().st_size for path in folder.rglob("*") if path.is_file()))
