"""``models list``: what each profile needs beside this package, and whether it is here. Reads metadata only."""

import hashlib
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

from pan_scdg.errors import UserError, one_line
from pan_scdg.models.cache import FoundModel, ModelNotFoundError
from pan_scdg.models.catalogue import CATALOGUE, EMBEDDED, TERRIER, licence_of, size_in_words
from pan_scdg.models.fingerprint import metadata_fingerprint
from pan_scdg.models.lock import locked
from pan_scdg.models.places import SHORT, place_of_encoder, place_of_model, provenance
from pan_scdg.profile import Profile, load_profile, shipped_profiles
from pan_scdg.profile.baseline import BaselineSettings, Cosine, Prompted
from pan_scdg.retrieval.bm25.terrier_jars import jar_folder, terrier_jar

NOT_FOUND = "not found"


class Needs(NamedTuple):
    """What a profile needs, by name; None: it does without."""

    model: str | None
    encoder: str | None
    terrier: bool

    @property
    def models(self) -> list[str]:
        """What computes on a device."""
        return [name for name in (self.model, self.encoder) if name is not None]

    @property
    def names(self) -> list[str]:
        """All of it."""
        return [*self.models, TERRIER] if self.terrier else self.models


class Shown(NamedTuple):
    """A model as it is listed."""

    name: str
    found: str
    """Kind of place."""
    size: str
    licence: str
    pinned: str
    fingerprint: str
    """SHA-256 over names and digests of the metadata files, shortened."""
    folder: str = "-"
    why: str = "-"
    """What is wrong with a folder that is there."""


COLUMNS = ("model", "found", "size", "licence", "pinned", "fingerprint")


def needs_of(profile: Profile) -> Needs:
    """The models of a profile, and whether it reads Terrier's jars."""
    job, model = profile.retrieval, None if profile.model is None else profile.model.name
    if profile.baseline is not None:
        return _needs_of_baseline(profile.baseline)
    if job is None:
        return Needs(model, None, False)
    lexical = [route.startswith("bm25") for route in job.routes]
    encoder = None if all(lexical) else job.need_dense().model
    return Needs(model, encoder, any(lexical) and job.bm25.engine != "fts5")


def _needs_of_baseline(settings: BaselineSettings) -> Needs:
    """Vectors that were made elsewhere and a model that a server holds need nothing of this machine."""
    if isinstance(settings, Prompted) and settings.served == "local":
        return Needs(settings.model, None, False)
    return Needs(None, settings.model if isinstance(settings, Cosine) else None, False)


def licences(profile: Profile) -> str:
    """The licences of what a profile needs, each once; empty where it needs nothing."""
    return "; ".join(dict.fromkeys(licence_of(name) for name in needs_of(profile).names))


def model_list() -> tuple[dict[str, list[str]], list[Shown]]:
    """Each shipped profile with the names of what it needs, and each of these with what is known of it.

    Raises:
        UserError: the lock is damaged.
    """
    needs = {name: needs_of(load_profile(name)) for name in shipped_profiles()}
    encoders = {need.encoder for need in needs.values()}
    names = dict.fromkeys(name for need in needs.values() for name in need.names)
    shown = [_terrier() if name == TERRIER else _shown(name, name in encoders) for name in names]
    return {profile: need.names for profile, need in needs.items()}, shown


def record(needs: dict[str, list[str]], shown: Sequence[Shown]) -> dict[str, Any]:
    """The list as JSON values."""
    return {"profiles": needs, "models": {model.name: model._asdict() for model in shown}}


def lines(needs: dict[str, list[str]], shown: Sequence[Shown]) -> list[str]:
    """The list as two tables."""
    profiles = [("profile", "needs"), *((name, ", ".join(names) or "nothing") for name, names in needs.items())]
    models = _table([COLUMNS, *(model[: len(COLUMNS)] for model in shown)])
    return [*_table(profiles), "", *models, *(one_line(model.why) for model in shown if model.why != "-")]


def _table(rows: Sequence[Sequence[str]]) -> list[str]:
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return ["  ".join(text.ljust(width) for text, width in zip(row, widths, strict=True)).rstrip() for row in rows]


def _shown(name: str, encoder: bool) -> Shown:
    try:
        place = place_of_encoder(name) if encoder else place_of_model(name)
    except ModelNotFoundError:
        return _absent(name, NOT_FOUND)
    except UserError as e:
        return _absent(name, "not usable")._replace(why=str(e))
    files = metadata_fingerprint(place.folder)
    listing = "".join(f"{digest}  {file}\n" for file, digest in sorted(files.items()))
    short = hashlib.sha256(listing.encode()).hexdigest()[:SHORT]
    size = size_in_words(_bytes_in(place.folder))
    return Shown(name, place.where, size, licence_of(name), _pinned(place), short, str(place.folder))


def _absent(name: str, found: str) -> Shown:
    about = f"about {size_in_words(CATALOGUE[name].size)}" if name in CATALOGUE else "-"
    return Shown(name, found, about, licence_of(name), _pinned_to(name), "-")


def _pinned_to(name: str) -> str:
    entry = locked(name)
    return "unpinned" if entry is None else f"pinned to {entry.revision[:SHORT]}"


def _pinned(place: FoundModel) -> str:
    """What the lock says of what was found."""
    if place.name in EMBEDDED:
        return "comes along"
    if locked(place.name) is None:
        return "unpinned"
    return "NOT as pinned" if provenance(place).warnings else _pinned_to(place.name)


def _terrier() -> Shown:
    try:
        folder, there = terrier_jar().parent, "model_cache"
    except UserError:
        folder, there = jar_folder(), NOT_FOUND
    size = "about 104 MB" if there == NOT_FOUND else size_in_words(_bytes_in(folder))
    return Shown(TERRIER, there, size, licence_of(TERRIER), "digests known", "-", str(folder))


def _bytes_in(folder: Path) -> int:
    return sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())
