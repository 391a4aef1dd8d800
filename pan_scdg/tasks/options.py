"""What a user asked for, as one record that the tasks read."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from pan_scdg.errors import UserError
from pan_scdg.lm.fingerprint import weights_fingerprint
from pan_scdg.lm.models import LanguageModel, load_model, load_tokenizer
from pan_scdg.model_cache import find_model
from pan_scdg.profile import ModelSettings, Profile

DeviceChoice = Literal["auto", "cpu", "cuda"]


@dataclass(frozen=True)
class RunOptions:
    """The options of ``run`` that do not belong to a profile."""

    input: Path
    output: Path
    device: str
    state: Path | None = None
    model: Path | None = None
    overwrite: bool = False
    strict: bool = False
    keep_gains: bool = False
    on_error: Literal["stop", "negative"] = "stop"


def resolve_device(choice: DeviceChoice) -> str:
    """``cuda`` or ``cpu``; ``auto`` takes the GPU when one is visible.

    Raises:
        UserError: ``cuda`` was asked for and torch sees no GPU.
    """
    if choice == "cpu":
        return "cpu"
    import torch

    if torch.cuda.is_available():
        return "cuda"
    if choice == "cuda":
        raise UserError("no usable GPU: torch sees none", "check the driver, or use --device cpu")
    return "cpu"


class ModelAtHand:
    """A checkpoint folder whose fingerprint and tokenizer are there at once and whose weights load when first needed."""

    def __init__(self, settings: ModelSettings, device: str, given: Path | None = None) -> None:
        self.settings, self.device = settings, device
        self.folder = find_model(settings.name, given)
        self.fingerprint = weights_fingerprint(self.folder, None)
        self.tokenizer = load_tokenizer(self.folder, settings)
        self._loaded: LanguageModel | None = None

    @property
    def loaded(self) -> LanguageModel:
        """The model with its weights."""
        if self._loaded is None:
            self._loaded = load_model(self.folder, self.settings, self.device)
        return self._loaded

    def key_parts(self) -> dict[str, Any]:
        """What every stored score depends on, on the side of the model. ``head_rows`` is not among it: it bounds
        memory and changes no result."""
        return {
            "model": self.fingerprint,
            "tokenizer": self.settings.tokenizer,
            "dtype": self.settings.dtype,
            "attention": self.settings.attention,
            "device": self.device,
        }


def job_of(task: str, profile: Profile, options: RunOptions, input_digest: str, fingerprints: dict[str, str]) -> dict[str, Any]:
    """Everything that the bytes of a result depend on; the identity of an output directory."""
    return {
        "task": task,
        "input": input_digest,
        "profile": profile.model_dump(mode="json"),
        "models": fingerprints,
        "device": options.device,
        "keep_gains": options.keep_gains,
        "on_error": options.on_error,
    }
