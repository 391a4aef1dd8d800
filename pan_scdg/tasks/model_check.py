"""``models verify``: whether the checkpoint at hand is the one that a profile means, without loading its weights."""

from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

from pan_scdg.errors import UserError, UserErrors, one_line
from pan_scdg.lm.checkpoint import check_library, check_recorded, check_weights, read_config, text_config
from pan_scdg.lm.fingerprint import metadata_fingerprint, weights_fingerprint
from pan_scdg.lm.models import load_tokenizer
from pan_scdg.lm.probes import check_probes
from pan_scdg.model_cache import find_model
from pan_scdg.profile import ModelSettings, Profile
from pan_scdg.scdg.sequences import Tokenizer

UNFIT = "does not fit"


class ModelCheck(NamedTuple):
    """What was found, in the order in which it is shown, and everything that does not fit the profile."""

    facts: dict[str, Any]
    faults: list[UserError]


def check_model(profile: Profile, given: Path | None = None) -> ModelCheck:
    """Compare the checkpoint of a profile with what the profile says of it; reads all weights for their SHA-256.

    Args:
        profile: its ``[model]`` table names the checkpoint, the kind of tokenizer, probes and fingerprints.
        given: folder of the checkpoint, instead of ``model_cache/NAME``.

    Raises:
        UserError: there is no checkpoint with a readable ``config.json``; whatever else is wrong is among the faults.
    """
    settings = profile.need_model()
    folder = find_model(settings.name, given)
    config = read_config(folder)
    facts: dict[str, Any] = {"profile": profile.name, "model": settings.name, "folder": str(folder)}
    facts |= _architecture(config)
    faults: list[UserError] = []

    def note(name: str, look: Callable[[], Any]) -> None:
        try:
            facts[name] = look()
        except UserError as e:
            faults.extend(e.errors if isinstance(e, UserErrors) else [e])
            facts[name] = UNFIT

    note("library", lambda: _library(config, folder))
    note("inputs", lambda: _inputs(profile, config, folder))
    note("weight files", lambda: check_weights(folder))
    if facts["library"] != UNFIT:
        _note_tokenizer(note, folder, settings)
    note("recorded", lambda: _recorded(folder, settings))
    note("metadata", lambda: metadata_fingerprint(folder))
    note("weights", lambda: weights_fingerprint(folder))
    return ModelCheck(facts, faults)


def lines(check: ModelCheck) -> list[str]:
    """The facts, one line each; a table of fingerprints takes a line for each file."""
    shown = []
    for name, value in check.facts.items():
        if isinstance(value, dict):
            shown += [f"{'sha256':13} {digest}  {file}" for file, digest in value.items()]
        else:
            shown.append(f"{name:13} {value}")
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


def _note_tokenizer(note: Callable[[str, Callable[[], Any]], None], folder: Path, settings: ModelSettings) -> None:
    """Its kind, and where that is right the probes; fingerprints are looked at by themselves."""
    found: list[Tokenizer] = []

    def kind() -> str:
        bare = settings.model_copy(update={"probes": {}, "fingerprint": {}})
        found.append(tokenizer := load_tokenizer(folder, bare))
        return f"{settings.tokenizer}, {type(tokenizer).__name__}"

    def probes() -> str:
        check_probes(found[0], settings.probes, folder)
        return f"{len(settings.probes)} as expected" if settings.probes else "the profile has none"

    note("tokenizer", kind)
    if found:
        note("probes", probes)


def _recorded(folder: Path, settings: ModelSettings) -> str:
    if not settings.fingerprint:
        return "the profile records no fingerprints"
    check_recorded(folder, settings, weights=True)
    return f"{len(settings.fingerprint)} files as recorded"
