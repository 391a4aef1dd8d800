"""Give a model more positions than its checkpoint publishes, as the profile's position rule says.

No file of the checkpoint is edited, since models may be mounted read-only.
"""

from pathlib import Path
from typing import TYPE_CHECKING, Any

from pan_scdg.errors import UserError

if TYPE_CHECKING:
    from pan_scdg.models.config import ModelConfig
    from pan_scdg.profile import ModelSettings

PUBLISHED = "as-published"
"""The rule that changes nothing."""


def count_positions(config: "ModelConfig", settings: "ModelSettings") -> int | None:
    """Return the longest input in tokens under the profile's position rule; None if the checkpoint names no limit.

    Raises:
        UserError: the rule does not apply to this checkpoint.
    """
    if settings.position_factor is None:
        return config.positions
    return int(_need_unscaled(config, settings) * settings.position_factor)


def _need_unscaled(config: "ModelConfig", settings: "ModelSettings") -> int:
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


def make_library_config(folder: Path, config: "ModelConfig", settings: "ModelSettings") -> Any:
    """Return the configuration of transformers with the positions of the rule.

    It is what transformers reads from a ``config.json`` whose ``max_position_embeddings`` is raised and, under
    ``yarn``, whose rotary parameters name YaRN over the published positions.

    Raises:
        UserError: the rule does not apply to this checkpoint, or the model has no rotary positions.
    """
    import transformers

    positions = count_positions(config, settings)
    loaded = transformers.AutoConfig.from_pretrained(str(folder), local_files_only=True, trust_remote_code=False)
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
