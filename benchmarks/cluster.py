"""Measure the cost and the gain of actors: one actor against this process, two actors with a thread each against one.

    python -m benchmarks.cluster [--batches 12] [--tokens 8000] [--rounds 5]

Each has one thread. A batch holds targets of random tokens after contexts of random tokens; all three compute the same
batches, and the rounds are interleaved, so that other jobs of the machine disturb all of them equally. Start and
loading are not counted.
"""

import argparse
import os
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from copy import copy
from statistics import median

import numpy as np

from pan_scdg.cluster.actors import Actors
from pan_scdg.cluster.session import Cluster
from pan_scdg.lm.ahead import TokenisedInputs
from pan_scdg.lm.works import Computed, ScoringOrders, Values, Work
from pan_scdg.profile import load_profile
from pan_scdg.scdg.sequences import ScoringInput
from pan_scdg.scoring.model import ScoringModel

ROUND = 500
"""Tokens of a context and of a target."""
VOCABULARY = 1000
"""Ids that are drawn from, fewer than the model's."""


def make_works(batches: int, tokens: int) -> list[TokenisedInputs]:
    """Return batches of ``tokens`` tokens each."""
    rng = np.random.default_rng(0)

    def make_input() -> ScoringInput:
        return ScoringInput(rng.integers(VOCABULARY, size=ROUND), rng.integers(VOCABULARY, size=ROUND))

    return [TokenisedInputs([make_input() for _ in range(max(1, tokens // (2 * ROUND)))]) for _ in range(batches)]


def measure(compute: Callable[[list[TokenisedInputs]], Iterator[Values]], works: list[TokenisedInputs]) -> float:
    """Return the seconds for all batches."""
    began = time.perf_counter()
    for _ in compute(works):
        pass
    return time.perf_counter() - began


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    for name, default in (("batches", 12), ("tokens", 8000), ("rounds", 5)):
        parser.add_argument(f"--{name}", type=int, default=default)
    given = parser.parse_args()
    import torch

    torch.set_num_threads(1)
    model = ScoringModel(load_profile("scdg-mini").need_model(), "cpu")
    works = make_works(given.batches, given.tokens)
    orders = ScoringOrders(model.folder, model.settings, "packed", model.fingerprint)
    with ExitStack() as stack:
        cluster = Cluster("local", 2)
        stack.callback(cluster.close)
        cluster.connect()
        single = copy(cluster)  # in the same Ray
        single.actors = 1
        one = stack.enter_context(Actors[Work, Computed](single, orders, "cpu"))
        list(one.map(works[:1]))
        two = stack.enter_context(Actors[Work, Computed](cluster, orders, "cpu"))
        while two.count().processes < 2:
            list(two.map(works[:1]))
        ways: dict[str, Callable[[list[TokenisedInputs]], Iterator[Values]]] = {
            "no actor": model.map,
            "one actor": lambda all_: (computed.values for computed in one.map(all_)),
            "two actors": lambda all_: (computed.values for computed in two.map(all_)),
        }
        seconds: dict[str, list[float]] = {way: [] for way in ways}
        measure(model.map, works[:1])  # loads
        for _ in range(given.rounds):
            for way, compute in ways.items():
                seconds[way].append(measure(compute, works))
            print({way: round(of[-1], 2) for way, of in seconds.items()}, "load", os.getloadavg()[0], flush=True)
    none, one_actor, two_actors = seconds.values()
    overhead = median(b / a - 1 for a, b in zip(none, one_actor))
    print(f"median of {given.rounds} rounds: overhead of one actor {overhead:+.1%}")
    print(f"two actors {median(b / c for b, c in zip(one_actor, two_actors)):.2f} times as fast as one")


if __name__ == "__main__":
    main()
