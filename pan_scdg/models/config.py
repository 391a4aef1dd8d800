"""Whether the fields of a checkpoint's ``config.json`` that are read here have the types that they must have."""

from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

from pan_scdg.errors import UserError, UserErrors


class Field(NamedTuple):
    """A field that may be missing or null, and what it is otherwise."""

    name: str
    what: str
    fits: Callable[[Any], bool]


def _is_names(value: Any) -> bool:
    return isinstance(value, list) and all(isinstance(name, str) for name in value)


def _is_count(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value > 0


WHOLE = (
    Field("architectures", "a list of names", _is_names),
    Field("text_config", "an object", lambda value: isinstance(value, dict)),
)
"""At the top of the file."""
TEXT = (
    Field("model_type", "a name", lambda value: isinstance(value, str)),
    Field("max_position_embeddings", "a number of tokens", _is_count),
    Field("rope_scaling", "an object", lambda value: isinstance(value, dict)),
    Field("rope_parameters", "an object", lambda value: isinstance(value, dict)),
)
"""In the part about the language model: ``text_config`` where there is one."""


def check_fields(config: dict[str, Any], folder: Path) -> None:
    """Raise UserErrors, one for each field of another type.

    Args:
        config: what the file holds.
        folder: the checkpoint, for the messages.
    """
    inner = config.get("text_config")
    text, within = (inner, "text_config.") if isinstance(inner, dict) else (config, "")
    faults = [
        UserError(f"{prefix}{field.name} is not {field.what}", "replace the damaged file", folder / "config.json")
        for part, prefix, fields in ((config, "", WHOLE), (text, within, TEXT))
        for field in fields
        if part.get(field.name) is not None and not field.fits(part[field.name])
    ]
    if faults:
        raise UserErrors(faults)
