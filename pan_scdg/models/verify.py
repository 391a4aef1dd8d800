"""Compare models with the records of a profile and the lock (``models verify``), without loading weights."""

from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

from pan_scdg.errors import UserError, UserErrors, escape_controls
from pan_scdg.models.config import ModelConfig, check_library, count_positions, read_config
from pan_scdg.models.find import FoundModel, ModelNotFoundError, find_encoder, find_model
from pan_scdg.models.fingerprint import check_recorded, fingerprint_folder, fingerprint_metadata, fingerprint_weights
from pan_scdg.models.load import load_tokenizer
from pan_scdg.models.lock import find_entry, list_differences, list_unlocked
from pan_scdg.models.needs import NOT_FOUND, find_needs
from pan_scdg.models.weights import check_weights
from pan_scdg.profile import Calibration, ModelSettings, Profile

MISMATCH = "does not fit"
WIDTH = 15
"""Characters of the longest fact's name."""


class ModelCheck(NamedTuple):
    """The facts about the models of a profile, in the order in which they are shown, and all faults."""

    facts: dict[str, Any]
    faults: list[UserError]

    def note(self, name: str, examine: Callable[[], Any]) -> None:
        """Add the fact that ``examine`` returns, or the errors that it raises."""
        try:
            self.facts[name] = examine()
        except UserError as e:
            self.faults.extend(e.errors if isinstance(e, UserErrors) else [e])
            self.facts[name] = MISMATCH

    def to_lines(self) -> list[str]:
        """Return the facts, one line each; a table of fingerprints has a line for each file."""
        lines = []
        for name, value in self.facts.items():
            if isinstance(value, dict):
                lines += [f"{'sha256':{WIDTH}} {digest}  {file}" for file, digest in value.items()]
            else:
                lines.append(f"{name:{WIDTH}} {value}")
        return [escape_controls(line) for line in lines]


def check_model(profile: Profile, given: Path | None = None) -> ModelCheck:
    """Compare the models of a profile with the records of profile and lock; reads all weights for their SHA-256.

    Args:
        profile: its ``[model]`` table names the checkpoint, the kind of tokenizer, probes and fingerprints; of the
            encoder of its dense routes it gives only the name.
        given: folder of the checkpoint; see `models.find.find_model`.

    Raises:
        UserError: there is no checkpoint with a readable ``config.json``; all other faults are collected.
    """
    check, encoders = ModelCheck({"profile": profile.name}, []), find_needs(profile).encoders
    if profile.model is not None or not encoders:
        _check_language_model(check, profile, find_model(profile.need_model().name, given))
    if (small := profile.make_small_profile()) is not None:
        found = ModelCheck({}, check.faults)
        _check_language_model(found, small, find_model(small.need_model().name))
        check.facts.update({f"small-{name}": fact for name, fact in found.facts.items()})
    for number, name in enumerate(encoders, 1):
        _check_encoder(check, name, "encoder" if number == 1 else f"encoder-{number}")
    return check


def _check_encoder(check: ModelCheck, name: str, prefix: str) -> None:
    check.facts[prefix] = name
    try:
        place = find_encoder(name)
    except UserError as e:
        check.faults.append(e)
        check.facts[f"{prefix}-found"] = NOT_FOUND if isinstance(e, ModelNotFoundError) else MISMATCH
        return
    check.facts.update({f"{prefix}-{fact}": text for fact, text in _describe_place(place).items()})
    check.note(f"{prefix}-lock", lambda: _compare_with_lock(place))
    check.note(f"{prefix}-weights", lambda: fingerprint_folder(place.folder))


def _check_language_model(check: ModelCheck, profile: Profile, place: FoundModel) -> None:
    folder, config, settings = place.folder, read_config(place.folder), profile.need_model()
    check.facts.update({"model": place.name, **_describe_place(place)})
    check.note("library", lambda: _check_library(config))
    check.note("inputs", lambda: _check_inputs(profile, config))
    check.note("weight files", lambda: check_weights(folder))
    if check.facts["library"] != MISMATCH:
        check.note("tokenizer", lambda: _check_tokenizer(folder, settings))
    check.note("recorded", lambda: _check_recorded(folder, settings))
    check.note("lock", lambda: _compare_with_lock(place))
    check.note("metadata", lambda: fingerprint_metadata(folder))
    check.note("weights", lambda: fingerprint_weights(folder))
    if (calibration := profile.pairs and profile.pairs.calibration) and calibration.model is not None:
        check.note("calibration", lambda: _check_calibration(calibration, check.facts["weights"], folder))


def _describe_place(place: FoundModel) -> dict[str, str]:
    at = "" if place.revision is None else f" at {place.revision}"
    return {"folder": str(place.folder), "found": f"{place.where}{at}", "licence": place.licence}


def _check_library(config: ModelConfig) -> str:
    import transformers

    check_library(config)
    return f"transformers {transformers.__version__}"


def _check_inputs(profile: Profile, config: ModelConfig) -> str:
    """Return the longest inputs that the profile permits; a run too would refuse more than the model's positions."""
    longest = {
        "pairs.limit": profile.pairs.limit if profile.pairs else 0,
        "retrieval.context": profile.retrieval.context if profile.retrieval and profile.retrieval.rerank else 0,
    }
    positions = count_positions(config, profile.need_model())
    for field, tokens in longest.items():
        if positions is not None and tokens > positions:
            raise UserError(
                f"{field} is {tokens} tokens, but the model has {positions} positions",
                f'lower {field} in the profile, or give the model more: positions = "extended" or "yarn" in [model]',
                config.path,
            )
    permitted = [f"{field} {tokens}" for field, tokens in longest.items() if tokens]
    return f"{', '.join(permitted)} of {positions or 'any number of'} positions"


def _check_tokenizer(folder: Path, settings: ModelSettings) -> str:
    tokenizer = load_tokenizer(folder, settings.model_copy(update={"fingerprint": {}}))  # see `_check_recorded`
    return f"{settings.tokenizer}, {type(tokenizer).__name__}, {len(settings.probes)} probes as expected"


def _check_recorded(folder: Path, settings: ModelSettings) -> str:
    if not settings.fingerprint:
        return "the profile records no fingerprints"
    check_recorded(folder, settings, weights=True)
    return f"{len(settings.fingerprint)} files as recorded"


def _compare_with_lock(place: FoundModel) -> str:
    """Compare every file with the lock, which covers the two caches and no other folder."""
    entry = find_entry(place)
    if entry is None:
        return "unpinned"
    if place.revision not in (None, entry.revision):
        raise UserError(
            f"{place.name}: this is the revision {place.revision}, but the lock file pins {entry.revision}",
            "mount or fetch the pinned revision, or fetch this one to pin it",
            place.folder,
        )
    faults = list_differences(place.folder, entry, weights=True)
    if place.revision is None:  # a snapshot also has files that are never fetched
        faults += list_unlocked(place.folder, entry)
    if faults:
        raise UserErrors(faults)
    return f"{len(entry.files)} files as locked, {entry.repository} at {entry.revision}"


def _check_calibration(calibration: Calibration, weights: str, folder: Path) -> str:
    if calibration.model != weights:
        remedy = "use the model that it was made with, or calibrate with this one"
        raise UserError(f"the profile's calibration is of a model {calibration.model}", remedy, folder)
    return "of these weights"
