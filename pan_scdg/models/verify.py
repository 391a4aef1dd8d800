"""``models verify``: whether the models at hand are those that a profile means, without loading their weights."""

from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

from pan_scdg.errors import UserError, UserErrors, one_line
from pan_scdg.models.cache import FoundModel, ModelNotFoundError
from pan_scdg.models.checkpoint import check_library, check_recorded, check_weights, read_config, text_config
from pan_scdg.models.config import check_fields
from pan_scdg.models.encoder import folder_fingerprint
from pan_scdg.models.fingerprint import metadata_fingerprint, weights_fingerprint
from pan_scdg.models.listing import NOT_FOUND, needs_of
from pan_scdg.models.load import load_tokenizer
from pan_scdg.models.lock import differences, locked, unlocked
from pan_scdg.models.places import licence_at, place_of_encoder, place_of_model
from pan_scdg.models.probes import check_probes
from pan_scdg.profile import Calibration, ModelSettings, Profile
from pan_scdg.scdg.sequences import Tokenizer

UNFIT = "does not fit"
WIDTH = 15
"""Characters of the longest fact's name."""


class ModelCheck(NamedTuple):
    """What was found, in the order in which it is shown, and everything that does not fit the profile."""

    facts: dict[str, Any]
    faults: list[UserError]

    def note(self, name: str, look: Callable[[], Any]) -> None:
        """Add what ``look`` finds, or what is wrong."""
        try:
            self.facts[name] = look()
        except UserError as e:
            self.faults.extend(e.errors if isinstance(e, UserErrors) else [e])
            self.facts[name] = UNFIT


def check_model(profile: Profile, given: Path | None = None) -> ModelCheck:
    """Compare the models of a profile with what profile and lock say of them; reads all weights for their SHA-256.

    Args:
        profile: its ``[model]`` table names the checkpoint, the kind of tokenizer, probes and fingerprints; of the
            encoder of its dense routes it says no more than the name.
        given: folder of the checkpoint; see `models.cache.find_model`.

    Raises:
        UserError: there is no checkpoint with a readable ``config.json``; whatever else is wrong is among the faults.
    """
    check, encoder = ModelCheck({"profile": profile.name}, []), needs_of(profile).encoder
    if profile.model is not None or encoder is None:
        _check_language_model(check, profile, place_of_model(profile.need_model().name, given))
    if encoder is not None:
        _check_encoder(check, encoder)
    return check


def _check_encoder(check: ModelCheck, name: str) -> None:
    check.facts["encoder"] = name
    try:
        place = place_of_encoder(name)
    except UserError as e:
        check.faults.append(e)
        check.facts["encoder-found"] = NOT_FOUND if isinstance(e, ModelNotFoundError) else UNFIT
        return
    check.facts.update({f"encoder-{fact}": text for fact, text in _place(place).items()})
    check.note("encoder-lock", lambda: _as_locked(place))
    check.note("encoder-weights", lambda: folder_fingerprint(place.folder))


def _check_language_model(check: ModelCheck, profile: Profile, place: FoundModel) -> None:
    settings, folder = profile.need_model(), place.folder
    config = read_config(folder)
    check_fields(config, folder)
    check.facts.update({"model": place.name, **_place(place)})
    check.facts.update(_architecture(config))
    check.note("library", lambda: _library(config, folder))
    check.note("inputs", lambda: _inputs(profile, config, folder))
    check.note("weight files", lambda: check_weights(folder))
    if check.facts["library"] != UNFIT:
        _note_tokenizer(check, folder, settings)
    check.note("recorded", lambda: _recorded(folder, settings))
    check.note("lock", lambda: _as_locked(place))
    check.note("metadata", lambda: metadata_fingerprint(folder))
    check.note("weights", lambda: weights_fingerprint(folder))
    if (calibration := profile.pairs and profile.pairs.calibration) and calibration.model is not None:
        check.note("calibration", lambda: _calibration(calibration, check.facts["weights"], folder))


def _calibration(calibration: Calibration, weights: str, folder: Path) -> str:
    if calibration.model != weights:
        remedy = "use the model that it was made with, or calibrate with this one"
        raise UserError(f"the profile's calibration is of a model {calibration.model}", remedy, folder)
    return "of these weights"


def _place(place: FoundModel) -> dict[str, str]:
    at = "" if place.revision is None else f" at {place.revision}"
    return {"folder": str(place.folder), "found": f"{place.where}{at}", "licence": licence_at(place)}


def _as_locked(place: FoundModel) -> str:
    """Hold every file against the lock, which speaks of the two caches and of no other folder."""
    entry = locked(place.name) if place.where in ("model_cache", "huggingface cache") else None
    if entry is None:
        return "unpinned"
    if place.revision not in (None, entry.revision):
        raise UserError(
            f"{place.name}: this is the revision {place.revision}, and the lock pins {entry.revision}",
            "mount or fetch that one, or fetch this one to pin it",
            place.folder,
        )
    faults = differences(place.folder, entry, weights=True)
    if place.revision is None:  # a snapshot has what the repository has, also what is never fetched
        faults += unlocked(place.folder, entry)
    if faults:
        raise UserErrors(faults)
    return f"{len(entry.files)} files as locked, {entry.repository} at {entry.revision}"


def lines(check: ModelCheck) -> list[str]:
    """The facts, one line each; a table of fingerprints takes a line for each file."""
    shown = []
    for name, value in check.facts.items():
        if isinstance(value, dict):
            shown += [f"{'sha256':{WIDTH}} {digest}  {file}" for file, digest in value.items()]
        else:
            shown.append(f"{name:{WIDTH}} {value}")
    return [one_line(line) for line in shown]


def _architecture(config: dict[str, Any]) -> dict[str, Any]:
    text = text_config(config)
    rope = text.get("rope_parameters") or text.get("rope_scaling") or {}
    return {
        "architecture": ", ".join(config.get("architectures") or ["not named"]),
        "text model": text.get("model_type", "not named"),
        "positions": text.get("max_position_embeddings", "not named"),
        "rope": " ".join(f"{key}={value}" for key, value in sorted(rope.items())) or "not scaled",
    }


def _library(config: dict[str, Any], folder: Path) -> str:
    import transformers

    check_library(config, folder)
    return f"transformers {transformers.__version__}"


def _inputs(profile: Profile, config: dict[str, Any], folder: Path) -> str:
    """What the profile feeds the model at most; a run would refuse more than the model's positions too."""
    wanted = {
        "pairs.limit": profile.pairs.limit if profile.pairs else 0,
        "retrieval.context": profile.retrieval.context if profile.retrieval and profile.retrieval.rerank else 0,
    }
    positions = text_config(config).get("max_position_embeddings")
    for field, tokens in wanted.items():
        if positions is not None and tokens > positions:
            raise UserError(
                f"{field} is {tokens} tokens, but the checkpoint has {positions} positions",
                f"lower {field} in the profile, or see its comment on how the checkpoint gets more",
                folder / "config.json",
            )
    return ", ".join(f"{field} {tokens}" for field, tokens in wanted.items() if tokens)


def _note_tokenizer(check: ModelCheck, folder: Path, settings: ModelSettings) -> None:
    """Its kind, and where that is right the probes; fingerprints are looked at by themselves."""
    found: list[Tokenizer] = []

    def kind() -> str:
        bare = settings.model_copy(update={"probes": {}, "fingerprint": {}})
        found.append(tokenizer := load_tokenizer(folder, bare))
        return f"{settings.tokenizer}, {type(tokenizer).__name__}"

    def probes() -> str:
        check_probes(found[0], settings.probes, folder)
        return f"{len(settings.probes)} as expected" if settings.probes else "the profile has none"

    check.note("tokenizer", kind)
    if found:
        check.note("probes", probes)


def _recorded(folder: Path, settings: ModelSettings) -> str:
    if not settings.fingerprint:
        return "the profile records no fingerprints"
    check_recorded(folder, settings, weights=True)
    return f"{len(settings.fingerprint)} files as recorded"
