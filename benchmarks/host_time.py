"""Measure how long a GPU would wait for the host: tasks of retrieval, and a model that sleeps instead of computing.

The texts are generated, and tokenised by the tokenizer of scdg-mini; windows and context are those of pan26-qwen3-8b.
"""

import time
from collections.abc import Iterator
from typing import Any

import click

from benchmarks import corpus
from benchmarks.pairs import format_rows
from pan_scdg.jobs.cluster import open_workers
from pan_scdg.jobs.rerank import SourceTask, Target, build_inputs
from pan_scdg.models.devices import Devices
from pan_scdg.models.find import find_model
from pan_scdg.models.load import load_tokenizer
from pan_scdg.profile import load_profile
from pan_scdg.scdg.sequences import encode_query

QUERIES = 8


class SleepingWorker:
    """Prepares tasks as a run does, and sleeps instead of computing them."""

    def __init__(self, speed: float) -> None:
        profile = load_profile("pan26-qwen3-8b")
        self.settings = profile.need_retrieval()
        self.tokenizer = load_tokenizer(find_model("scdg-mini").folder, load_profile("scdg-mini").need_model())
        self.speed, self.prepared, self.busy, self.tokens = speed, 0.0, 0.0, 0

    def prepare(self, task: SourceTask) -> int:
        """Return the tokens of a task; its source counts once."""
        began = time.perf_counter()
        inputs = build_inputs(task, self.tokenizer, self.settings)
        self.prepared += time.perf_counter() - began
        return len(inputs[0].context_ids) + sum(len(item.target_ids) for item in inputs)

    def compute(self, tokens: int) -> None:
        """Sleep for as long as a GPU takes."""
        began = time.perf_counter()
        time.sleep(tokens / self.speed)
        self.busy, self.tokens = self.busy + time.perf_counter() - began, self.tokens + tokens

    def __call__(self, task: SourceTask) -> None:
        """Prepare a task and sleep, one after the other."""
        self.compute(self.prepare(task))


def make_tasks(worker: SleepingWorker, sources: int) -> Iterator[SourceTask]:
    """Yield sources with two queries each."""
    texts = [corpus.make_query(number, corpus.DOCUMENTS) for number in range(QUERIES)]
    targets = [Target(text, encode_query(worker.tokenizer, text), worker.settings.context // 2) for text in texts]
    for number in range(sources):
        first = number % QUERIES
        yield SourceTask(corpus.make_document(number), (targets[first], targets[(first + 1) % QUERIES]))


def measure(sources: int, speed: float, ahead: bool) -> list[str]:
    """Return a row: tasks prepared ahead in a thread, or each before it is computed."""
    worker = SleepingWorker(speed)
    tasks = list(make_tasks(worker, sources))
    computes: Any = worker if ahead else worker.__call__
    began = time.perf_counter()
    with open_workers(computes, Devices("cpu")) as workers:
        for _ in workers.map(tasks):
            pass
    seconds = time.perf_counter() - began
    idle, host = 1 - worker.busy / seconds, 1000 * worker.prepared / sources
    cells = ["in a thread" if ahead else "before it", str(sources), f"{worker.tokens / sources:,.0f}", f"{host:.0f}"]
    return [*cells, f"{idle:.2%}"]


@click.command(help=__doc__)
@click.option("--sources", default=40, show_default=True)
@click.option("--speed", default=20_000.0, show_default=True, help="Tokens per second.")
def main(sources: int, speed: float) -> None:
    rows = [measure(sources, speed, ahead) for ahead in (False, True)]
    click.echo(format_rows(["next task prepared", "tasks", "tokens a task", "host, ms a task", "idle"], rows))


if __name__ == "__main__":
    main()
