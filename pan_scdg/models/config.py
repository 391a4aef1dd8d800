"""Read and check ``config.json``; nothing else in the package reads this file of a checkpoint.

A model can have more positions than its checkpoint publishes, as the position rule of the profile says. No file of the
checkpoint is edited for it, since models may be mounted read-only.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from pan_scdg.errors import UserError, UserErrors
from pan_scdg.models.files import describe_mismatch, read_object
from pan_scdg.models.weights import list_weight_files
from pan_scdg.profile import ModelSettings

CONFIG, TOKENIZER_CONFIG, ADAPTER = "config.json", "tokenizer_config.json", "adapter_config.json"
PROCESSORS = ("processor_config.json", "preprocessor_config.json")
"""Further files from which sentence-transformers learns which classes to use."""
MOST_LAYERS = 1000
"""Each layer is built, with all that belongs to it, before a weight is read."""
CODE = "auto_map"
"""The field that asks for classes from the folder itself."""
PUBLISHED = "as-published"
"""The position rule that changes nothing."""
NEWER = {"ministral3": "5.23.0"}
"""Text architectures that the pinned transformers lacks, with a release that the tests of ``lm/`` pass with."""


class _TextFields(BaseModel):
    """The fields that are read of the part about the language model."""

    model_config = ConfigDict(strict=True, extra="ignore")
    model_type: str | None = None
    max_position_embeddings: Annotated[int, Field(gt=0)] | None = None
    rope_scaling: dict[str, Any] | None = None
    rope_parameters: dict[str, Any] | None = None


class _Fields(_TextFields):
    """The fields that are read of the whole file."""

    architectures: list[str] | None = None
    text_config: _TextFields | None = None


@dataclass(frozen=True)
class ModelConfig:
    """The checked content of a ``config.json``."""

    data: dict[str, Any]
    path: Path = Path(CONFIG)

    @property
    def text(self) -> dict[str, Any]:
        """Return the part about the language model: ``text_config`` if the file has one."""
        return self.data.get("text_config") or self.data

    @property
    def positions(self) -> int | None:
        """Return the longest input in tokens; None if the file names no limit."""
        return self.text.get("max_position_embeddings")

    @property
    def architectures(self) -> list[str]:
        """Return the names of the model classes."""
        return self.data.get("architectures") or []

    @property
    def may_be_tied(self) -> bool:
        """Return True unless the file says that the output head is a matrix of its own."""
        said = [part["tie_word_embeddings"] for part in (self.data, self.text) if "tie_word_embeddings" in part]
        return any(said) or not said


def read_config(folder: Path, encoder: bool = False, weights: bool = True) -> ModelConfig:
    """Return the checked ``config.json`` of a checkpoint.

    Args:
        folder: the checkpoint.
        encoder: the checkpoint is the transformer of an embedding model. Its files may then have ``auto_map`` at the
            top, which the library ignores because of ``trust_remote_code=False``.
        weights: they must be there; they are needed for everything but the tokenizer.

    Raises:
        UserError: the folder, the file or the weights are missing, the file is not a JSON object, a field has the wrong
            type, the folder holds an adapter, or the checkpoint asks for code of its own or for weights elsewhere.
    """
    if not folder.is_dir():
        raise UserError(
            "the model folder does not exist", "put the checkpoint there, or choose another profile", folder
        )
    if (folder / ADAPTER).exists():
        raise UserError("this is an adapter, not a whole model", "merge it into its base model first", folder)
    config = ModelConfig(read_object(folder / CONFIG), folder / CONFIG)
    if weights:
        list_weight_files(folder)
    _refuse_code(config.data, config.path, encoder)
    for path in (folder / name for name in (TOKENIZER_CONFIG, *(PROCESSORS if encoder else ()))):
        if path.exists():
            _refuse_code(read_object(path), path, encoder)
    _check_layers(config)
    _check_fields(config)
    return config


def check_library(config: ModelConfig) -> None:
    """Raise UserError if the installed transformers lacks the architecture or would misread the config.

    transformers 4 ignores ``rope_parameters``, a field of version 5, and would silently use its default rotary
    frequencies.
    """
    import transformers
    from transformers.models.auto.configuration_auto import CONFIG_MAPPING_NAMES

    installed, kind = transformers.__version__, config.text.get("model_type")
    if kind in NEWER and kind not in CONFIG_MAPPING_NAMES:
        raise UserError(
            f"transformers {installed} has no text architecture {kind!r}",
            f"install transformers {NEWER[kind]}, see tools/test_transformers5.sh",
            config.path,
        )
    if int(installed.partition(".")[0]) < 5 and "rope_parameters" in config.text:
        raise UserError(
            f"rope_parameters is a field of transformers 5, which the installed {installed} would ignore",
            "use the checkpoint as it was published, or write rope_theta and rope_scaling instead",
            config.path,
        )


def count_positions(config: ModelConfig, settings: ModelSettings) -> int | None:
    """Return the longest input in tokens under the profile's position rule; None if the checkpoint names no limit.

    Raises:
        UserError: the rule does not apply to this checkpoint.
    """
    if settings.position_factor is None:
        return config.positions
    return int(_need_unscaled(config, settings) * settings.position_factor)


def make_library_config(config: ModelConfig, settings: ModelSettings) -> Any:
    """Return the configuration of transformers with the positions of the rule.

    It is what transformers reads from a ``config.json`` whose ``max_position_embeddings`` is raised and, under
    ``yarn``, whose rotary parameters name YaRN over the published positions.

    Raises:
        UserError: the rule does not apply to this checkpoint, or the model has no rotary positions.
    """
    import transformers

    positions = count_positions(config, settings)
    folder = str(config.path.parent)
    loaded = transformers.AutoConfig.from_pretrained(folder, local_files_only=True, trust_remote_code=False)
    text: Any = loaded.get_text_config()
    newer = int(transformers.__version__.partition(".")[0]) >= 5
    if not hasattr(text, "rope_parameters" if newer else "rope_theta"):
        raise UserError(
            f'positions = "{settings.positions}" needs rotary positions, which {type(text).__name__} has not',
            f'use positions = "{PUBLISHED}" in [model]',
            config.path,
        )
    if settings.positions == "yarn":
        scaled = {
            "rope_type": "yarn",
            "factor": settings.position_factor,
            "original_max_position_embeddings": config.positions,
        }
        if newer:
            text.rope_parameters = {**text.rope_parameters, **scaled}
        else:
            text.rope_scaling = scaled
    text.max_position_embeddings = positions
    return loaded


def _need_unscaled(config: ModelConfig, settings: ModelSettings) -> int:
    """Return the published positions of a checkpoint to which a rule applies: it names them and scales no angles.

    A checkpoint that scales its angles itself says with them how many positions it has.
    """
    remedy = f'use positions = "{PUBLISHED}" in [model]'
    if config.positions is None:
        raise UserError(
            f'positions = "{settings.positions}" needs a checkpoint that names its positions', remedy, config.path
        )
    if (kind := _find_rope_type(config.text)) != "default":
        what = f'positions = "{settings.positions}", but the checkpoint scales its positions itself ({kind})'
        raise UserError(what, remedy, config.path)
    return config.positions


def _find_rope_type(text: dict[str, Any]) -> str:
    """Return the kind of rotary embedding that a text config names, as transformers 4 or 5 writes it."""
    rope = text.get("rope_scaling") or text.get("rope_parameters") or {}
    return str(rope.get("rope_type", rope.get("type", "default")))


def _check_fields(config: ModelConfig) -> None:
    """Raise UserErrors, one for each field of the wrong type."""
    try:
        _Fields.model_validate(config.data)
    except ValidationError as e:
        faults = [describe_mismatch(fault) for fault in e.errors(include_url=False, include_input=False)]
        raise UserErrors([UserError(what, "replace the damaged file", config.path) for what in faults]) from e


def _check_layers(config: ModelConfig) -> None:
    """Raise UserError if the file asks for more layers than any model has."""
    for part in (config.data, *(value for value in config.data.values() if isinstance(value, dict))):
        for name in ("num_hidden_layers", "num_layers", "n_layer", "n_layers"):
            if isinstance(count := part.get(name), int | float) and not count <= MOST_LAYERS:
                raise UserError(f"{name} is above {MOST_LAYERS}", "replace the damaged file", config.path)


def _refuse_code(data: dict[str, Any], path: Path, permit_auto_map: bool) -> None:
    """Raise UserError if a file asks for code, or for weights elsewhere, which the fingerprint would not cover."""
    foreign = [field for field in _find_foreign_fields(data) if not (permit_auto_map and field == CODE)]
    if foreign:
        what = f"the checkpoint asks to run code of its own or to read files elsewhere ({foreign[0]})"
        raise UserError(what, "use a model that transformers supports, in one folder", path)


def _find_foreign_fields(value: Any, depth: int = 0) -> Iterator[str]:
    """Yield the fields that name code or other files, at any depth."""
    if isinstance(value, list):
        value = dict(enumerate(value))
    for name, inner in value.items() if isinstance(value, dict) else ():
        kernel = str(name).endswith("attn_implementation") and "/" in str(inner)  # would be downloaded and run
        if name in (CODE, "transformers_weights") or kernel:
            yield str(name) if depth == 0 else f"{name}, nested"
        else:
            yield from _find_foreign_fields(inner, depth + 1)
