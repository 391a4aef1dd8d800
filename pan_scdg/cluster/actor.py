"""The process of one device: what it loads, and how it computes a work."""

from collections.abc import Callable
from typing import Any, NamedTuple, NoReturn, Protocol

from pan_scdg.cluster.session import check_versions
from pan_scdg.errors import UserError


class Place(NamedTuple):
    """The device and machine that an actor runs on."""

    device: str
    """"cpu" or "cuda"."""
    threads: int
    """Of each product on a CPU."""
    here: bool
    """On the machine of the process that started it."""


class Crew(NamedTuple):
    """Who computes."""

    processes: int
    nodes: int
    lost: int
    """Machines that were used and are gone."""
    ended: int
    """Processes that ended before their work was done."""
    retried: int
    """Works that a process or machine had when it ended; others compute them."""
    computed: dict[str, int]
    """Works that each machine has computed, by its name."""

    def __str__(self) -> str:
        """Return the numbers, for people."""
        return f"{self.processes} processes, {self.nodes} nodes" + (f", {self.lost} lost" if self.lost else "")


class Orders(Protocol):
    """The preparation of an actor for its first work; can be pickled."""

    def prepare(self) -> None:
        """Do what takes time and little memory, such as imports: all actors of a machine do it at once."""
        ...

    def load(self, place: Place) -> Callable[[Any], Any]:
        """Return the function that computes a work; the actors of a machine call this one after the other.

        Raises:
            UserError: this machine cannot compute what the others do.
        """
        ...


class OutOfMemory(Exception):  # noqa: N818 - not the fault of the work
    """A work did not fit in the memory of a device: its actor is replaced, and others get its works."""


class Actor:
    """The process of a device."""

    def __init__(self, orders: Orders) -> None:
        self._orders = orders
        self._compute: Callable[[Any], Any] = _refuse_work
        orders.prepare()

    def load(self, place: Place, versions: dict[str, str]) -> None:
        """Load what computes works; raise UserError if this machine cannot, or has other versions of the packages."""
        check_versions(versions)
        try:
            self._compute = self._orders.load(place)
        except UserError:
            raise
        except Exception as e:
            if place.here:
                raise
            raise UserError(f"{type(e).__name__}: {e}", "install there what is installed here") from e

    def compute(self, work: Any) -> Any:
        """Return the result of a work."""
        return self._compute(work)


def _refuse_work(_work: Any) -> NoReturn:
    raise RuntimeError("nothing was loaded")
