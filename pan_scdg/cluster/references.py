"""Get the value of one of Ray's references, and classify Ray's errors."""

from typing import Any

from pan_scdg.cluster.actor import OutOfMemory
from pan_scdg.cluster.session import unwrap_signals
from pan_scdg.errors import UserError, escape_controls


class Lost(Exception):  # noqa: N818 - with the reason in words
    """An actor ended, or its result was lost."""


def get_value(ray: Any, reference: Any, timeout: float | None = None) -> Any:
    """Return the value of a reference, or raise the actor's exception.

    Raises:
        Lost: there is no value, and another actor may give one.
        UserError: an actor cannot start there, for example because a package is missing.
    """
    errors = ray.exceptions
    try:
        with unwrap_signals():
            return ray.get(reference, timeout=timeout)
    except errors.RayTaskError as e:
        if isinstance(e.cause, OutOfMemory):
            raise Lost("out of memory") from e
        raise e.cause from e
    except errors.RayError as e:
        if getattr(e, "actor_init_failed", False):  # what was raised is the last line of a text
            reason = escape_controls(str(e).strip().splitlines()[-1])
            raise UserError(f"a process cannot start: {reason}", "install the same packages there") from e
        if isinstance(e, errors.ObjectLostError):
            raise Lost("its result was lost") from e
        short = isinstance(e, errors.OutOfMemoryError) or "low on memory" in str(e)
        raise Lost("out of memory" if short else "it ended") from e
