"""The one frame of all tasks: open the result, find the models, compute on all devices, write, publish.

A task says what it reads, what it computes and which files it writes; all else is the same for pairs, checks and
retrieval.
"""

import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import replace
from functools import partial
from typing import Any, Generic, NamedTuple, Protocol

from pan_scdg.jobs.cluster import Workers, open_workers
from pan_scdg.jobs.metadata import write_metadata
from pan_scdg.jobs.options import Partial, RunOptions
from pan_scdg.logs import say
from pan_scdg.models.find import FoundModel, describe_models
from pan_scdg.notices import Notices
from pan_scdg.progress import Progress, Stopwatch
from pan_scdg.results.files import PAGE
from pan_scdg.results.folder import Item, WorkFolder, open_result, require_job
from pan_scdg.results.job import JobFile

LIMIT_HOURS = 24
"""TIRA's limit."""
WRITING_SHARE = 0.02
"""Share of the time until a deadline that is left for the last tasks and the results."""
FIRST_STAGE_SHARE = 0.75
"""Share of it that indexes and first stage may take: candidates by BM25 alone are worth more scored than others not."""

MEASURED_SHARE = 0.005
"""Share of it, seven minutes of 24 hours, after which the speed of an index says whether it can end in time."""


class Worker(Protocol):
    """Computes the parts of a task in each process."""

    def __call__(self, part: Any, /) -> Any:
        """Return what is computed of a part."""
        ...

    def list_models(self) -> Mapping[str, FoundModel]:
        """Return the models that the result depends on, by their names in the job."""
        ...


class Run(NamedTuple, Generic[Item]):
    """The work folder and the workers of a task that computes."""

    work: WorkFolder[Item]
    workers: Workers[Any, Any]
    compute: Callable[[Iterable[Any]], Iterator[Any]]
    """Computes parts by the workers, in order; with a deadline it may end before the last one."""


class Clock:
    """Measures the time until a deadline, of which some is left for what follows.

    Args:
        hours: until the results have to be written.
    """

    def __init__(self, hours: float) -> None:
        self._began, self._seconds = time.monotonic(), hours * 3600

    def is_late(self) -> bool:
        """Return True if the results have to be written now."""
        return self._measure() >= 1 - WRITING_SHARE

    def is_late_to_score(self) -> bool:
        """Return True if what is not searched yet would leave too little time for the scores."""
        return self._measure() >= FIRST_STAGE_SHARE

    def watch(self, progress: Progress, rerank: bool) -> Callable[[], bool]:
        """Return a function that returns True as soon as a stage is late, or cannot end in time at its speed.

        Args:
            progress: of the stage, which has not begun; the time of its first items, with that of loading, is no speed.
            rerank: the stage has to leave time for scores.
        """
        share, start = FIRST_STAGE_SHARE if rerank else 1 - WRITING_SHARE, progress.done
        first: list[tuple[float, int]] = []

        def is_late() -> bool:
            now = self._measure()
            if now >= share:
                return True
            if progress.total is None or progress.done == start:
                return False
            first.append((now, progress.done))
            began, done = first[0]
            del first[1:]
            if now - began < MEASURED_SHARE or progress.done == done:
                return False
            end = now + (progress.total - progress.done) * (now - began) / (progress.done - done)
            if end > share:
                hours, limit = (value * self._seconds / 3600 for value in (end, share))
                say([f"warning: {progress.stage} would take until hour {hours:.3g} of {limit:.3g}: it is left out"])
            return end > share

        return is_late

    def _measure(self) -> float:
        """Return the share of the time that has passed."""
        return (time.monotonic() - self._began) / self._seconds


class Task(ABC, Generic[Item]):
    """A task with its input, which its constructor reads.

    Args:
        options: of the command.
    """

    parse: Callable[[Mapping[str, Any]], Item]
    """Returns the record of a line of scores."""
    worker: Worker
    job: JobFile
    """All that the result depends on, and what is known of how it was computed."""

    def __init__(self, options: RunOptions) -> None:
        self.options = options
        self.clock = None if options.deadline is None else Clock(options.deadline)
        self.notices, self.watch = Notices(options.strict), Stopwatch()
        self.lines: list[str] = []
        """Warnings about the result, which are shown at the end."""

    @abstractmethod
    def compute(self, run: Run[Item]) -> None:
        """Compute what a stopped run has not computed."""

    @abstractmethod
    def write(self, work: WorkFolder[Item]) -> list[str]:
        """Stage the files; return their names in the order of publication."""

    @abstractmethod
    def summarise(self) -> list[str]:
        """Return the lines about the complete result."""

    def note_part(self, part: Partial | None) -> None:
        """Record that only a part of the input is processed."""
        if part is not None:
            self.job = replace(self.job, partial=str(part))
            self.lines.append(f"warning: {part}")

    def note_deadline(self, late: list[str]) -> None:
        """Record what there was no time for."""
        if late:
            self.job = replace(self.job, deadline="; ".join(late))
            self.lines += [f"warning: {line}" for line in late]


def run_task(task: Task[Item]) -> list[str]:
    """Compute a task and publish its result, or continue it; return the lines to show the user.

    Raises:
        UserError: the output is not usable, or what a task raises; no result is published.
    """
    options, page = task.options, list[str]()
    with open_result(options.output, task.job, task.parse, overwrite=options.overwrite) as work:
        if work is None:
            late = require_job(options.output).deadline
            lines = [f"warning: {late}: repeat with --overwrite to compute all"] if late else []
            return [*task.lines, *lines, f"already complete: {options.output}"]
        models = task.worker.list_models()
        task.job = replace(
            task.job,
            versions=work.job.versions,
            model_names={name: one.name for name, one in models.items()},
            model_revisions={name: one.revision for name, one in models.items() if one.revision is not None},
        )
        say([describe_models(models.values())] if models else [])
        with open_workers(task.worker, options.devices) as workers:
            is_late = None if task.clock is None else task.clock.is_late
            task.compute(Run(work, workers, partial(workers.map, is_late=is_late)))
        files = task.write(work)
        if options.report:
            from pan_scdg.report.pages import write_page

            files.append(write_page(work.staged, task.job, options.input))
            page.append(f"report: {options.output / PAGE}")
        if options.metadata:
            files.append(write_metadata(work.staged, task.job, task.watch.seconds))
        incidents = [*work.scores.list_incidents(), *workers.incidents]
        work.publish(files, task.job.add_incidents(incidents))
    return [*task.notices.list_warnings(), *task.lines, *task.summarise(), *page]
