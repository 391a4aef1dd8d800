"""The lifecycle of a result, shared by all jobs: lock, check, compute, seal, publish.

    with produce_result(output, job, overwrite) as result:
        if result.needed:
            with result.compute(state) as store:
                names = write_files(result.staged, store)
            result.seal(names)

A complete result, or one that a killed run sealed but did not publish, is not computed again.
"""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

from pan_scdg.jobs.output.directory import Job, OutputDirectory, lock_output
from pan_scdg.jobs.output.mark import Partial
from pan_scdg.jobs.output.metadata import track_run
from pan_scdg.jobs.output.status import write_status
from pan_scdg.scoring.model import ScoringModel
from pan_scdg.store import Store


class Attempt:
    """One attempt to produce the result of a job in an output directory that is locked and checked."""

    def __init__(self, directory: OutputDirectory, complete: bool) -> None:
        self._directory, self.complete = directory, complete
        self.staged, self.job = directory.staged, directory.job

    @property
    def needed(self) -> bool:
        """Return True unless the result is complete or sealed."""
        return not self.complete and not self._directory.is_sealed()

    @contextmanager
    def compute(
        self, state: Path | None, metadata: bool = False, model: ScoringModel | None = None, failed: int = 0
    ) -> Iterator[Store]:
        """Remove a former result that is overwritten, and open the store, which a killed run may have begun.

        Args:
            state: the folder of the store; None: inside the output directory until it is published.
            metadata: stage ir-metadata.yml when the body ends; see `track_run`.
            model: the language model of the job, for this file and the status.
            failed: number of items that cannot be scored, for the status.
        """
        self._directory.start()
        with (
            Store(state or self._directory.hidden) as store,
            track_run(self.staged, self.job, metadata, model),
            write_status(self._directory.hidden, failed, model),
        ):
            yield store

    def seal(
        self,
        names: Sequence[str],
        incidents: Sequence[str] = (),
        partial: Partial | None = None,
        origins: Mapping[str, Mapping[str, str]] | None = None,
    ) -> None:
        """Declare the staged files ``names`` complete; see `OutputDirectory.seal`."""
        self._directory.seal(names, incidents, partial, origins)


@contextmanager
def produce_result(path: Path, job: Job, overwrite: bool = False) -> Iterator[Attempt]:
    """Lock the output directory, yield the attempt, and publish what it sealed.

    Args:
        path: the output directory, created if it is missing.
        job: all fields that the bytes of the result depend on.
        overwrite: replace the result of another job.

    Raises:
        UserError: the directory is in use, not writable, or holds something else; see `OutputDirectory.prepare`.
    """
    with lock_output(path):
        directory = OutputDirectory(path, job)
        attempt = Attempt(directory, directory.prepare(overwrite))
        yield attempt
        if not attempt.complete:
            directory.publish()
