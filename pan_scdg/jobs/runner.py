"""The one frame of all tasks: open the result, find the models, compute on all devices, write, publish.

A task says what it reads, what it computes and which files it writes; all else is the same for pairs, checks and
retrieval.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import replace
from functools import partial
from typing import Any, Generic, NamedTuple, Protocol

from pan_scdg.jobs.clock import Clock
from pan_scdg.jobs.cluster import Workers, open_workers
from pan_scdg.jobs.metadata import write_metadata
from pan_scdg.jobs.options import Partial, RunOptions
from pan_scdg.lm.model import name_engine
from pan_scdg.logs import say
from pan_scdg.models.find import FoundModel, describe_models
from pan_scdg.notices import Notices
from pan_scdg.progress import Stopwatch
from pan_scdg.report.pages import write_page
from pan_scdg.results.files import PAGE
from pan_scdg.results.folder import Item, WorkFolder, open_result, require_job
from pan_scdg.results.job import JobFile


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
            files.append(write_page(work.staged, task.job, options.input))
            page.append(f"report: {options.output / PAGE}")
        if options.metadata:
            files.append(write_metadata(work.staged, task.job, task.watch.seconds))
        incidents = [*work.scores.list_incidents(), *workers.incidents]
        work.publish(files, replace(task.job, engine=name_engine(options.engine, incidents), incidents=incidents))
    return [*task.notices.list_warnings(), *task.lines, *task.summarise(), *page]
