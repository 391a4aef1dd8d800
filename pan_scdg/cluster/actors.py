"""Compute tasks in actors, one for each device of a cluster: processes that can die, on machines that come and go.

The result of a task does not depend on the actor, and results come in the order of the tasks. What an actor leaves
unfinished when it ends is computed by others.
"""

import time
from collections import Counter, deque
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any, Generic

from pan_scdg.cluster.actor import Actor, Item, Lost, Orders, Place, Result, get_value
from pan_scdg.cluster.session import Cluster, Node, list_versions, unwrap_signals
from pan_scdg.errors import Interrupted, UserError
from pan_scdg.logs import say
from pan_scdg.progress import Crew

AHEAD = 2
"""Tasks that an actor has at one time: one being computed, and the next."""
HELD = 64
"""Tasks for each actor that are unfinished or wait for an earlier one; bounds the memory of results."""
DEATHS = 3
"""Deaths of actors by one task, or by loading on one device, that are an error."""
POLL = 2.0
"""Seconds after which machines that came or went are looked for."""
PATIENCE = 60.0
"""Seconds without a process that can compute before a message says so."""


@dataclass(eq=False)
class _Task:
    work: Any
    reference: Any = None
    """Of Ray, for the result; None: no actor has the task."""
    done: bool = False
    result: Any = None
    error: BaseException | None = None
    deaths: int = 0
    wanted: bool = True
    """False: the result is no longer needed."""


@dataclass(eq=False)
class _Slot:
    """A device and its actor."""

    node: Node
    name: str
    actor: Any = None
    loading: Any = None
    """Of Ray, for the end of loading; None: loaded, or not begun."""
    ready: bool = False
    failures: int = 0
    """Actors in a row that ended before their first task."""
    tasks: deque[_Task] = field(default_factory=deque)
    """In order; the first is being computed."""


class Actors(Generic[Item, Result]):
    """One process for each device of a cluster; a context manager.

    Actors start when there is work. One that ends is replaced. A machine that joins gets its actors, unless it cannot
    compute as this machine would.

    Args:
        cluster: where the devices are.
        orders: what each actor does first.
        device: "cpu" or "cuda".
        at_once: threads of an actor, each of which computes a task; at most ``AHEAD``.
    """

    def __init__(self, cluster: Cluster, orders: Orders, device: str, at_once: int = 1) -> None:
        self._cluster, self._orders, self._device, self._at_once = cluster, orders, device, at_once
        self._ray: Any = None
        self._slots: list[_Slot] = []
        self._queue: deque[_Task] = deque()
        """Tasks that no actor has."""
        self._refused: dict[str, UserError] = {}
        self._looked, self._patient_until = -POLL, float("inf")
        self._closed = False
        self.deaths: list[str] = []
        """One line for each actor that ended."""
        self.retried = 0
        """Tasks that an actor had when it ended."""
        self.lost = 0
        """Machines that were used and are gone."""
        self.computed = Counter[str]()
        """Tasks that each machine has computed, by its name."""

    def map(self, works: Iterable[Item]) -> Iterator[Result]:
        """Yield the result of each task, in the order of the tasks.

        Tasks are taken as they are needed: for each actor at most ``AHEAD`` are unfinished. Another map may begin
        before this one is exhausted, even while this one takes a task.

        Raises:
            UserError: a task raised it, or no machine can be used.
            Interrupted: ``DEATHS`` actors ended while computing the same task, or all machines are lost.
            ValueError: the actors are closed.
        """
        source, window = iter(works), deque[_Task]()
        try:
            while True:
                self._fill(source, window)
                if not window:
                    return
                if not window[0].done:
                    self._wait()
                    continue
                task = window.popleft()
                if task.error is not None:
                    raise task.error
                yield task.result
        finally:
            for task in window:
                task.wanted = False

    def count(self) -> Crew:
        """Return the number of actors and machines."""
        nodes = [slot.node.node_id for slot in self._slots if slot.ready]
        return Crew(len(nodes), len(set(nodes)), self.lost, len(self.deaths), self.retried, dict(self.computed))

    def close(self) -> None:
        """End all actors, including busy ones."""
        self._closed = True
        for slot in self._slots:
            self._kill(slot)

    def __enter__(self) -> "Actors[Item, Result]":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _fill(self, source: Iterator[Item], window: deque[_Task]) -> None:
        """Take tasks until ``AHEAD`` per actor are unfinished, and hand them to actors."""
        while len(window) < HELD * self._width and sum(not task.done for task in window) < AHEAD * self._width:
            work = next(source, None)
            if work is None:
                break
            self._look()
            window.append(_Task(work))
            self._queue.append(window[-1])
        self._hand_out()

    @property
    def _width(self) -> int:
        return max(1, len(self._slots))

    def _hand_out(self) -> None:
        """Give tasks to the actors that have the fewest."""
        ready = [slot for slot in self._slots if slot.ready]
        while self._queue and ready:
            if not self._queue[0].wanted:
                self._queue.popleft()
                continue
            slot = min(ready, key=lambda slot: len(slot.tasks))
            if len(slot.tasks) >= AHEAD:
                return
            slot.tasks.append(self._queue.popleft())
            slot.tasks[-1].reference = slot.actor.compute.remote(slot.tasks[-1].work)

    def _wait(self) -> None:
        """Wait until an actor has loaded, returned a result or ended, and process the event."""
        self._look()
        if any(slot.ready for slot in self._slots):
            self._patient_until = time.monotonic() + PATIENCE
        elif time.monotonic() > self._patient_until:
            self._patient_until = float("inf")
            say(["waiting for a process to start; see ray status, if others use the GPUs of this cluster, too"])
        references = [slot.loading for slot in self._slots if slot.loading is not None]
        references += [slot.tasks[0].reference for slot in self._slots if slot.tasks]
        with unwrap_signals():
            done, _ = self._ray.wait(references, timeout=POLL)
        for slot in list(self._slots) if done else []:
            try:
                if slot.loading in done:
                    self._finish_loading(slot)
                while slot.tasks and slot.tasks[0].reference in done:
                    self._settle(slot, slot.tasks[0])
                    slot.tasks.popleft()
            except Lost as e:
                self._looked = -POLL
                self._list_alive()
                if slot in self._slots:  # its machine is not lost
                    self._replace(slot, str(e))
        self._hand_out()

    def _settle(self, slot: _Slot, task: _Task, timeout: float | None = None) -> None:
        """Note the result of a task, or the exception that it raised; raise Lost if there is neither."""
        try:
            task.result = get_value(self._ray, task.reference, timeout)
        except Lost:
            raise
        except Exception as e:
            task.error = e
        task.done, task.reference, task.work = True, None, None
        self.computed[slot.node.name] += 1

    def _finish_loading(self, slot: _Slot) -> None:
        """Mark an actor as ready, or refuse its machine."""
        reference, slot.loading = slot.loading, None
        try:
            get_value(self._ray, reference)
        except UserError as e:
            if slot.node.here:
                raise
            self._refuse(slot.node, e)
        else:
            slot.ready, slot.failures = True, 0
            self._looked = -POLL  # the next of this machine can load

    def _refuse(self, node: Node, error: UserError) -> None:
        """Stop using a machine, and log the reason."""
        say([f"warning: {node.name} is not used: {error}"])
        self._refused[node.node_id] = error
        for slot in [slot for slot in self._slots if slot.node.node_id == node.node_id]:
            self._give_back(slot)
            self._slots.remove(slot)

    def _replace(self, slot: _Slot, reason: str) -> None:
        """Note the end of an actor, and count it against the task that was being computed."""
        self.deaths.append(f"{slot.name}: {reason}")
        loaded, unfinished = slot.ready, self._give_back(slot)
        if unfinished:
            unfinished[0].deaths += 1
            if unfinished[0].deaths == DEATHS:
                unfinished[0].error, unfinished[0].done = _describe_deaths("computing the same batch", reason), True
                self._queue.remove(unfinished[0])
        slot.failures += not loaded
        if slot.failures == DEATHS:
            error = _describe_deaths("loading", f"{slot.name}: {reason}")
            if slot.node.here:
                raise error
            self._refuse(slot.node, UserError(str(error), "start Ray there again"))

    def _give_back(self, slot: _Slot) -> list[_Task]:
        """End an actor; return its unfinished tasks, which are the next to be handed out."""
        unfinished = []
        for task in slot.tasks:
            try:
                self._settle(slot, task, timeout=0)
            except Lost:
                task.reference = None
                unfinished.append(task)
        slot.tasks.clear()
        self._queue.extendleft(reversed(unfinished))
        self.retried += len(unfinished)
        self._kill(slot)
        return unfinished

    def _kill(self, slot: _Slot) -> None:
        if slot.actor is not None:
            self._ray.kill(slot.actor)
        slot.actor, slot.loading, slot.ready = None, None, False

    def _look(self) -> None:
        """Note machines that came or went, and start the actors that are missing."""
        if self._closed:
            raise ValueError("the actors are closed")
        if time.monotonic() - self._looked < POLL:
            return
        self._looked = time.monotonic()
        if self._ray is None:
            self._ray = self._cluster.connect()
            self._patient_until = time.monotonic() + PATIENCE
        for node in self._list_alive():
            if node.node_id not in self._refused:
                self._staff(node)
        if not self._slots:
            if self._refused:
                raise next(iter(self._refused.values()))
            if self.lost:
                raise Interrupted("all machines of the cluster that can compute are lost")
            raise UserError("no machine of the cluster has a GPU", "start Ray where there are some, or --device cpu")

    def _list_alive(self) -> list[Node]:
        """Return the machines that are alive, and remove the lost ones."""
        nodes = self._cluster.list_nodes()
        gone = {slot.node.node_id for slot in self._slots} - {node.node_id for node in nodes}
        for slot in [slot for slot in self._slots if slot.node.node_id in gone]:
            self._slots.remove(slot)
            if slot.ready:
                self._replace(slot, "its machine is lost")
            else:
                self._kill(slot)
        self.lost += len(gone)
        return nodes

    def _staff(self, node: Node) -> None:
        """Start the actors of a machine that are missing; one of them loads at a time."""
        own = [slot for slot in self._slots if slot.node.node_id == node.node_id]
        for name in self._cluster.name_devices(node, self._device)[len(own) :]:
            own.append(_Slot(node, name))
            self._slots.append(own[-1])
        for slot in own:
            if slot.actor is None:
                slot.actor = self._start(node)
        waiting = [slot for slot in own if not slot.ready]
        if waiting and all(slot.loading is None for slot in waiting):
            place = Place(self._device, self._cluster.count_threads(), node.here)
            waiting[0].loading = waiting[0].actor.load.remote(place, list_versions())

    def _start(self, node: Node) -> Any:
        """Return a new actor; Ray starts and retries nothing by itself, since what is lost is counted here."""
        there = self._ray.util.scheduling_strategies.NodeAffinitySchedulingStrategy(node.node_id, soft=False)
        options = {"num_cpus": 0, "num_gpus": int(self._device == "cuda"), "max_concurrency": self._at_once}
        options |= {"max_restarts": 0, "max_task_retries": 0}
        return self._ray.remote(Actor).options(scheduling_strategy=there, **options).remote(self._orders)


def _describe_deaths(doing: str, reason: str) -> Interrupted:
    return Interrupted(
        f"{DEATHS} processes ended while {doing}, the last: {reason}; check whether a host ran out of memory "
        "(fewer devices, or a smaller context or limit, need less)"
    )
