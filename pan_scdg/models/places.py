"""Where the models of a run were found: what is said of it on stderr, and what its result records of it."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from pan_scdg.models.cache import FoundModel, find_embedding, find_model
from pan_scdg.models.catalogue import UNKNOWN_LICENCE, licence_of, repositories_of
from pan_scdg.models.encoder import PACKAGED, encoder_folder
from pan_scdg.models.encoder_folder import check_encoder
from pan_scdg.models.lock import differences, locked

SHORT = 12
"""Characters of a commit or digest that are shown."""


class Provenance(NamedTuple):
    """What the place of a model says of where it comes from."""

    record: dict[str, str]
    """For the record of a result: the commit and the kind of place, never a path; empty where nothing is known."""
    warnings: list[str]


def place_of_model(name: str, given: Path | None = None) -> FoundModel:
    """The language model of a profile; see `models.cache.find_model`."""
    return find_model(name, given, repositories_of(name))


def place_of_encoder(name: str) -> FoundModel:
    """The embedding model of a profile: inside an installed package, or see `models.cache.find_embedding`.

    Raises:
        UserError: there is none, or its folder needs code or holds what is no part of such a model.
    """
    if name in PACKAGED:
        return FoundModel(name, encoder_folder(name), "package")
    found = find_embedding(name, repositories_of(name))
    check_encoder(encoder_folder(found.folder))
    return found


def provenance(found: FoundModel) -> Provenance:
    """Hold what was found against the lock; settings and vocabularies are read for it, weights are not.

    Raises:
        UserError: the lock is damaged.
    """
    if found.where not in ("model_cache", "huggingface cache"):
        return Provenance({}, [])
    entry, warnings = locked(found.name), []
    revision = found.revision
    if entry is not None and revision not in (None, entry.revision):
        warnings.append(
            f"warning: {found.name} is NOT the pinned revision: {found.where} has {revision}, "
            f"the lock pins {entry.revision}"
        )
    elif entry is not None and (faults := differences(found.folder, entry, weights=False)):
        warnings.append(
            f"warning: {found.name} is not as the lock has it: {Path(faults[0].where or '').name} for one, "
            "see `models verify`"
        )
    elif entry is not None:
        revision = entry.revision
    return Provenance({} if revision is None else {"revision": revision, "found": found.where}, warnings)


def origins_of(places: Mapping[str, FoundModel]) -> dict[str, dict[str, str]]:
    """What the result records of where each model of a job comes from; those of which nothing is known are left out."""
    records = {name: provenance(found).record for name, found in places.items()}
    return {name: record for name, record in records.items() if record}


def licence_at(found: FoundModel) -> str:
    """Return the licence of a model, in words; a folder that only its path names may hold any model."""
    return UNKNOWN_LICENCE if found.where in ("--model", "folder") else licence_of(found.name)


def models_line(models: Sequence[FoundModel]) -> str:
    """One line: each model, where it was found, and its licence."""
    return "models: " + "; ".join(
        f"{found.shown} from {found.where}"
        f"{'' if found.revision is None else f' at {found.revision[:SHORT]}'}, {licence_at(found)}"
        for found in models
    )
