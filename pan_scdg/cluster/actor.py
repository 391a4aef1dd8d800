"""The process of one device: loading, computing a task, and getting what it returned."""

from collections.abc import Callable, Iterable, Iterator
from typing import Any, Generic, NamedTuple, NoReturn, Protocol, TypeVar

from pan_scdg.cluster.session import check_versions, unwrap_signals
from pan_scdg.errors import UserError, escape_controls

Item = TypeVar("Item")
Result = TypeVar("Result")
SWITCH = 2e-4
"""Seconds after which Python lets another thread run. Its default of 5e-3 would hold back each of the model's calls
of the device for so long while other work that is written in Python, such as a tokenizer, is busy."""


class Place(NamedTuple):
    """The device and machine that an actor runs on."""

    device: str
    """"cpu" or "cuda"."""
    threads: int
    """Of each product on a CPU."""
    here: bool
    """On the machine of the process that started it."""


class Orders(Protocol):
    """The preparation of an actor for its first task; can be pickled."""

    def prepare(self) -> None:
        """Do what takes time and little memory, such as imports: all actors of a machine do it at once."""
        ...

    def load(self, place: Place) -> Callable[[Any], Any]:
        """Return the function that computes a task; the actors of a machine call this one after the other.

        Raises:
            UserError: this machine cannot compute what the others do.
        """
        ...


class Alone(Generic[Item, Result]):
    """Computes tasks in this process; used instead of `Actors` with one device."""

    def __init__(self, compute: Callable[[Item], Result]) -> None:
        self._compute = compute

    def map(self, works: Iterable[Item]) -> Iterator[Result]:
        """Yield the result of each task."""
        return map(self._compute, works)

    def count(self) -> None:
        """Return None, since there are no actors."""

    def close(self) -> None:
        """Do nothing."""


class OutOfMemory(Exception):  # noqa: N818 - not the fault of the task
    """A task did not fit in the memory of a device: its actor is replaced, and others get its tasks."""


class Actor:
    """The process of a device."""

    def __init__(self, orders: Orders) -> None:
        self._orders = orders
        self._compute: Callable[[Any], Any] = _refuse_work
        orders.prepare()

    def load(self, place: Place, versions: dict[str, str]) -> None:
        """Load the function that computes tasks.

        Raises:
            UserError: this machine cannot compute, or has other versions of the packages.
        """
        check_versions(versions)
        try:
            self._compute = self._orders.load(place)
        except UserError:
            raise
        except Exception as e:
            if place.here:
                raise
            raise UserError(f"{type(e).__name__}: {e}", "install the same packages there") from e

    def compute(self, work: Any) -> Any:
        """Return the result of a task."""
        return self._compute(work)


def _refuse_work(_work: Any) -> NoReturn:
    raise RuntimeError("nothing was loaded")


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
