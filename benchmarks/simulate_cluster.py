"""Simulate the time of a run on a cluster: ``python -m benchmarks.simulate_cluster [--gpus N ...] [--real]``.

The scheduler is the real one, `pan_scdg.cluster.actors.Actors`; Ray, the machines and the clock are simulated, so that
an hour of a thousand actors takes seconds. An actor computes one task after the other, each for a time that is given;
a machine may join, or be lost at a given time with what it was computing.

Without ``--real`` the tasks are those of the plan in docs/scale.md, and a table of hours and idle shares is printed.
With it, the scheduler runs three times with Ray on this machine, with tasks that sleep and tasks that a model scores,
and each time is printed beside the simulated one. Times of an empty task and of a token are measured before, in runs of
their own with as many actors. The last line is one JSON object.
"""

import json
import os
import random
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import SimpleNamespace
from typing import Any, NamedTuple
from unittest.mock import patch

import click

from pan_scdg.cluster.actor import Place
from pan_scdg.cluster.actors import Actors
from pan_scdg.cluster.session import Cluster, Node
from pan_scdg.lm.works import ScoringOrders
from pan_scdg.models.find import find_model
from pan_scdg.models.fingerprint import fingerprint_weights
from pan_scdg.profile import load_profile
from pan_scdg.scdg.sequences import ScoringInput, Tokenizer, build_pair_passes

EXAMPLES = Path(__file__).parents[1] / "examples" / "pan25-pairs" / "test"
FOREVER = float("inf")


class Machine(NamedTuple):
    """A simulated machine; times in seconds since the start."""

    name: str
    actors: int
    joins: float = 0.0
    lost: float = FOREVER
    slowness: float = 1.0
    """Times as long as the others it takes for a task."""


class Costs(NamedTuple):
    """Seconds."""

    loading: float
    """From the start of an actor to its first task; one actor of a machine loads at a time."""
    work: float
    """Of each task, besides what it computes."""


LOADED = Costs(0.0, 0.01)
"""Assumed: models are loaded, which takes minutes of days, and a task is on its way for so long."""


@dataclass(eq=False)
class _Reference:
    end: float
    machine: Machine


class _LostError(Exception):
    """Stands for Ray's errors about actors."""


@dataclass
class _Actor:
    """A simulated actor: what Ray's handle of one does."""

    ray: "_SimulatedRay"
    machine: Machine
    free: float = 0.0

    @property
    def load(self) -> Any:
        return SimpleNamespace(remote=lambda *_: self._begin(self.ray.costs.loading))

    @property
    def compute(self) -> Any:
        return SimpleNamespace(
            remote=lambda seconds: self._begin(self.ray.costs.work + seconds * self.machine.slowness, seconds)
        )

    def _begin(self, seconds: float, useful: float = 0.0) -> _Reference:
        self.free = max(self.free, self.ray.now) + seconds
        if self.free <= self.machine.lost:
            self.ray.useful += useful * self.machine.slowness
        return _Reference(min(self.free, max(self.machine.lost, self.ray.now)), self.machine)


@dataclass
class _SimulatedRay:
    """The parts that `Actors` uses of the module ``ray``, of a cluster and of the clock."""

    machines: Sequence[Machine]
    costs: Costs
    now: float = 0.0
    useful: float = 0.0
    """Seconds that all actors computed together."""
    exceptions: Any = field(
        default_factory=lambda: SimpleNamespace(
            RayTaskError=type("Raised", (Exception,), {}),
            RayError=_LostError,
            ObjectLostError=type("Gone", (_LostError,), {}),
            OutOfMemoryError=type("Short", (_LostError,), {}),
        )
    )
    util: Any = field(
        default_factory=lambda: SimpleNamespace(
            scheduling_strategies=SimpleNamespace(NodeAffinitySchedulingStrategy=lambda node_id, soft: node_id)
        )
    )

    def monotonic(self) -> float:
        return self.now

    def connect(self) -> "_SimulatedRay":
        return self

    def list_nodes(self) -> list[Node]:
        here = (m for m in self.machines if m.joins <= self.now < m.lost)
        return [Node(machine.name, machine.name, machine.actors, False) for machine in here]

    def name_devices(self, node: Node, _device: str) -> list[str]:
        return [f"{node.name}:{number}" for number in range(node.gpus)]

    def count_threads(self) -> int:
        return 1

    def remote(self, _kind: type) -> Any:
        def start(scheduling_strategy: str, **_: Any) -> Any:
            machine = next(machine for machine in self.machines if machine.name == scheduling_strategy)
            return SimpleNamespace(remote=lambda _orders: _Actor(self, machine))

        return SimpleNamespace(options=start)

    def wait(self, references: Sequence[_Reference], timeout: float) -> tuple[list[_Reference], None]:
        first = min(references, key=lambda reference: reference.end, default=_Reference(FOREVER, self.machines[0]))
        if first.end > self.now + timeout:
            self.now += timeout
            return [], None
        self.now = max(self.now, first.end)
        return [first], None

    def get(self, reference: _Reference, timeout: float | None = None) -> float:
        if reference.end > self.now or self.now >= reference.machine.lost:
            raise _LostError("the machine is lost")
        return reference.end

    def kill(self, _actor: _Actor) -> None:
        """Do nothing: nobody asks a killed actor."""


class Outcome(NamedTuple):
    """The result of a simulation."""

    seconds: float
    idle: float
    """Share of the time of all actors in which they compute nothing."""
    retried: int


def simulate(works: Iterator[float] | Sequence[float], machines: Sequence[Machine], costs: Costs) -> Outcome:
    """Return the schedule of tasks of these durations in seconds."""
    ray = _SimulatedRay(machines, costs)
    with patch("pan_scdg.cluster.actors.time", ray), patch("pan_scdg.cluster.actors.say"):
        actors: Actors[float, float] = Actors(ray, _NoOrders(), "cuda")  # type: ignore[arg-type]
        for _ in actors.map(works):
            pass
    total = sum(m.actors * max(0.0, min(ray.now, m.lost) - m.joins) for m in machines)
    return Outcome(ray.now, 1 - ray.useful / total, actors.retried)


class _NoOrders:
    def prepare(self) -> None:
        """Do nothing."""

    def load(self, _place: Place) -> Callable[[Any], Any]:
        raise AssertionError("actors that are simulated load nothing")


class Sleeping(NamedTuple):
    """Orders of actors whose tasks sleep."""

    def prepare(self) -> None:
        """Import nothing."""

    def load(self, _place: Place) -> Callable[[float], None]:
        """Return the function that sleeps."""
        return time.sleep


@dataclass(frozen=True)
class Pair:
    """A task: the two inputs of a pair."""

    source: str
    target: str

    def make_inputs(self, tokenizer: Tokenizer) -> list[ScoringInput]:
        """Return the inputs without and with the source."""
        return list(build_pair_passes(tokenizer, self.source, self.target))


def read_works(sizes: Sequence[int]) -> list[Pair]:
    """Return pairs of example texts with these numbers of characters a text."""
    texts = [
        "".join(path.read_text(encoding="utf-8") for path in sorted(EXAMPLES.glob(f"{side}/*")))
        for side in ("src", "susp")
    ]
    return [Pair(*(text[3000 * number :][:size] for text in texts)) for number, size in enumerate(sizes)]


def measure(actors: int, orders: Any, warm: Any, batches: Sequence[Sequence[Any]]) -> list[tuple[float, list[Any]]]:
    """Return the seconds and results of each batch of tasks, with Ray on this machine, after all actors are loaded."""
    cluster, found = Cluster("local", actors), []
    try:
        with Actors[Any, Any](cluster, orders, "cpu") as running:
            while running.count().processes < actors:
                list(running.map([warm] * actors))
            for works in batches:
                began = time.monotonic()
                results = list(running.map(works))
                found.append((time.monotonic() - began, results))
    finally:
        cluster.close()
    return found


def compare(seed: int) -> Iterator[dict[str, Any]]:
    """Yield the simulated and the real run, for three runs with Ray on this machine."""
    generator = random.Random(seed)
    works = [generator.lognormvariate(-1.5, 0.8) for _ in range(60)]
    (empty, _), (real, _) = measure(2, Sleeping(), 0.0, [[0.0] * 400, works])
    costs = Costs(0.0, 2 * empty / 400)
    yield describe("60 tasks that sleep, two actors", simulate(works, [Machine("here", 2)], costs).seconds, real)
    model = load_profile("scdg-mini").need_model()
    folder = find_model(model.name).folder
    orders = ScoringOrders(folder, model, "packed", fingerprint_weights(folder, None))
    for actors in (1, 2):
        known, asked = read_works([3000] * 12), read_works([generator.randrange(1000, 6000) for _ in range(24)])
        (before, first), (real, second) = measure(actors, orders, known[0], [known, asked])
        each = actors * before / sum(computed.tokens for computed in first)
        seconds = [each * computed.tokens for computed in second]
        simulated = simulate(seconds, [Machine("here", actors)], Costs(0.0, 0.0)).seconds
        yield describe(f"24 pairs that scdg-mini scores, {actors} actors", simulated, real)


def describe(name: str, simulated: float, real: float) -> dict[str, Any]:
    """Return a row of the comparison."""
    return {
        "run": name,
        "simulated_s": round(simulated, 2),
        "real_s": round(real, 2),
        "ratio": round(simulated / real, 3),
    }


def plan(gpus: int, per_machine: int, works: int, seconds: float, seed: int) -> dict[str, Any]:
    """Return hours and idle share of tasks, of which 20,000 are simulated: undisturbed, and with two disturbances."""
    generator = random.Random(seed)
    count = min(works, 20_000)
    drawn = [generator.gammavariate(4, seconds / 4) for _ in range(count)]
    hosts = [Machine(f"m{i}", min(per_machine, gpus)) for i in range(max(1, gpus // per_machine))]
    even = simulate(drawn, hosts, LOADED)
    row = {"gpus": gpus, "works": works, "hours": round(sum(drawn) / count * works / gpus / 3600, 1)}
    row |= {"simulated_works": count, "idle": round(even.idle, 4)}
    if len(hosts) > 1:
        half = [hosts[0]._replace(lost=even.seconds / 2), hosts[1]._replace(slowness=1.5), *hosts[2:]]
        worse = simulate(drawn, half, LOADED)
        row |= {
            "ratio_with_a_lost_and_a_slow_machine": round(worse.seconds / even.seconds, 3),
            "retried": worse.retried,
        }
    return row


@click.command(help=__doc__)
@click.option("--gpus", multiple=True, type=click.IntRange(1), default=(1, 8, 64), show_default=True)
@click.option("--per-machine", type=click.IntRange(1), default=8, show_default=True, help="GPUs of a machine")
@click.option("--sources", type=click.IntRange(1), default=10_000_000, show_default=True)
@click.option("--queries", type=click.IntRange(1), default=100_000, show_default=True)
@click.option("--candidates", type=click.IntRange(1), default=1000, show_default=True, help="reranked of a query")
@click.option("--source-tokens", type=click.IntRange(1), default=8000, show_default=True)
@click.option("--query-tokens", type=click.IntRange(1), default=4700, show_default=True)
@click.option("--rate", type=click.FloatRange(1), default=20_000.0, show_default=True, help="tokens a second and GPU")
@click.option("--real", is_flag=True, help="compare with runs on this machine")
@click.option("--seed", default=0, show_default=True)
def main(
    gpus: Sequence[int],
    per_machine: int,
    sources: int,
    queries: int,
    candidates: int,
    source_tokens: int,
    query_tokens: int,
    rate: float,
    real: bool,
    seed: int,
) -> None:
    """Print a row for each run or number of GPUs, and all of them as one JSON object."""
    if real:
        rows = list(compare(seed))
    else:
        lists = queries * candidates / sources
        seconds = (source_tokens + lists * query_tokens) / rate
        rows = [plan(number, per_machine, sources, seconds, seed) for number in gpus]
    for row in rows:
        click.echo("  ".join(f"{name} {value}" for name, value in row.items()))
    click.echo(json.dumps({"rows": rows, "load": round(os.getloadavg()[0], 1)}))


if __name__ == "__main__":
    main()
