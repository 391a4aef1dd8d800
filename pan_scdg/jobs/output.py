"""The output directory: staged in a hidden folder, published in one pass, recognised when it is already there.

Life of a directory: the hidden folder ``.pan_scdg`` appears with ``job.json`` (what is being computed), results are
staged in it, ``manifest.json`` lists them when all are complete, then each file is renamed to its final name, the mark
of completeness last, and ``.pan_scdg.json`` (job and digests) stays. A kill or a loss of power at any moment leaves a
directory from which the same command continues; nothing incomplete ever has its final name. ``ir-metadata.yml`` is
published along with the results if it is there; nothing depends on it, and no digest is taken of it.

Results are staged here and not in a ``--state`` folder elsewhere: a rename is atomic only within one file system.

The directory itself may be a symbolic link, for the user named it. Everything in it is untrusted: no link in it is
followed, and no name that leads out of it is accepted.
"""

import errno
import fcntl
import json
import os
import shutil
from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path, PurePosixPath
from typing import Any

from pydantic import JsonValue, RootModel

from pan_scdg.digests import file_digest
from pan_scdg.errors import UserError
from pan_scdg.jobs.output_mark import Mark, dump, is_unchanged, read_mark
from pan_scdg.logs import say
from pan_scdg.own_files import HIDDEN, MARK, find_link, read_record, sync_file, sync_folder, write_atomically

METADATA = "ir-metadata.yml"
"""Written by `run_metadata`."""
NO_LOCKS = {errno.EBADF, errno.EINVAL, errno.ENOLCK, errno.ENOSYS, errno.EOPNOTSUPP}
"""What locking a folder ends with on file systems that have no such locks, NFS for one."""

Job = Mapping[str, Any]


class JobRecord(RootModel[dict[str, JsonValue]]):
    """The content of ``job.json``."""


@contextmanager
def locked_output(path: Path) -> Iterator[None]:
    """Make a directory if need be, and keep other runs out of it.

    The lock is one of the folder itself, so that no file is left behind and a result that is only looked at may be
    read-only.

    Raises:
        UserError: it cannot be made, or another run is at work in it.
    """
    try:
        path.mkdir(parents=True, exist_ok=True)
        folder = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    except OSError as e:
        raise _not_writable(path, e.strerror) from e
    try:
        _lock(folder, path)
        yield
    finally:
        os.close(folder)


def _lock(folder: int, path: Path) -> None:
    try:
        fcntl.flock(folder, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError as e:
        raise UserError("another run is writing this output", "wait for it, or choose another --output", path) from e
    except OSError as e:
        if e.errno not in NO_LOCKS:
            raise
        say([f"warning: {path}: no locks on this file system; start no second run with this output"])


def _not_writable(path: Path, why: str | None) -> UserError:
    return UserError(f"cannot write the output directory: {why}", "choose another --output", path)


class OutputDirectory:
    """One job's output directory.

    Args:
        path: the directory, made when missing.
        job: everything the result depends on, as JSON values: two jobs are the same when these are equal.

    Raises:
        UserError: see `prepare`.
    """

    def __init__(self, path: Path, job: Job) -> None:
        self.path = path
        self.job = json.loads(json.dumps(job))
        self.hidden = path / HIDDEN
        self.staged = self.hidden / "staged"
        self._overwrite = False

    @contextmanager
    def locked(self) -> Iterator[None]:
        """Make the directory if need be, and keep other runs out of it; see `locked_output`."""
        with locked_output(self.path):
            yield

    def prepare(self, overwrite: bool = False) -> bool:
        """Check the directory; True when the finished result of this very job is already in it.

        Nothing of a former result is touched yet: a run that is refused later must not cost it.

        Raises:
            UserError: it is not writable, or holds a visible entry, or the state or result of another job
                (``overwrite`` permits results and state of ours, never anything else), or something that this
                program did not write stands where its own files are.
        """
        try:
            self.path.mkdir(parents=True, exist_ok=True)
        except OSError as e:
            raise _not_writable(self.path, e.strerror) from e
        if not os.access(self.path, os.W_OK | os.X_OK):
            raise _not_writable(self.path, os.strerror(errno.EACCES))
        self._refuse_planted()
        self._overwrite = overwrite
        if not overwrite and self._is_complete():
            return True
        if not overwrite:
            self._refuse_other_state()
        former = self._sealed() or (read_mark(self.path) if overwrite else None)
        if former is not None:
            self._refuse_links(self.path, former.files)
        self._refuse_entries_beside(set() if former is None else {METADATA, *_with_folders(former.files)})
        return False

    def start(self) -> None:
        """Begin or go on: from here on there is a hidden folder and, with ``overwrite``, no former result.

        Raises:
            UserError: it is not writable.
        """
        try:
            if self._overwrite:
                self._remove_ours()
            if self.staged.exists():  # of an attempt that did not end, and all of it is written again
                shutil.rmtree(self.staged)
            self.staged.mkdir(parents=True)
            write_atomically(self.hidden / "job.json", dump(self.job))
            sync_folder(self.path)
        except OSError as e:
            raise _not_writable(self.path, e.strerror) from e

    def _refuse_planted(self) -> None:
        for folder in (self.hidden, self.staged):
            if folder.is_symlink() or (folder.exists() and not folder.is_dir()):
                raise UserError("is not a folder that this program made", "remove it", folder)

    def _refuse_links(self, folder: Path, names: Iterable[str]) -> None:
        for name in names:
            above = str(PurePosixPath(name).parent)
            if (link := find_link(folder, above)) is not None:
                raise UserError("is a symbolic link where a folder of results is expected", "remove it", link)

    def _is_complete(self) -> bool:
        mark = read_mark(self.path)
        if mark is None:
            return False
        if mark.job != self.job:
            raise UserError(
                "holds the result of another input, profile or setting",
                "choose another --output, or --overwrite to replace it",
                self.path,
            )
        for name, digest in mark.files.items():
            if not is_unchanged(self.path, name, digest):
                there = (self.path / name).exists()
                what = "is not as it was finished" if there else "is gone since"
                raise UserError(f"was finished, but {name} {what}", "redo it with --overwrite", self.path)
        shutil.rmtree(self.hidden, ignore_errors=True)
        return True

    def _sealed(self) -> Mark | None:
        return read_record(self.hidden / "manifest.json", Mark, f"remove the folder {HIDDEN}")

    def _refuse_other_state(self) -> None:
        job = read_record(self.hidden / "job.json", JobRecord, f"remove the folder {HIDDEN}")
        sealed = self._sealed()
        if (job is not None and job.root != self.job) or (sealed is not None and sealed.job != self.job):
            raise UserError(
                "holds the unfinished state of another input, profile or setting",
                "choose another --output, or --overwrite to discard it",
                self.path,
            )

    def _refuse_entries_beside(self, ours: Container[str]) -> None:
        entries = list(self.path.iterdir())
        for entry in entries:  # those of our folders, too, which are added while we go
            if entry.relative_to(self.path).as_posix() in ours and entry.is_dir() and not entry.is_symlink():
                entries += entry.iterdir()
        names = (p.relative_to(self.path).as_posix() for p in entries if not p.name.startswith("."))
        foreign = sorted(name for name in names if name not in ours)
        if foreign:
            raise UserError(
                f"the output directory is not empty: it holds {foreign[0]!r}", "choose an empty --output", self.path
            )

    def _remove_ours(self) -> None:
        former = self._sealed() or read_mark(self.path)
        for name in [] if former is None else [METADATA, *_with_folders(former.files)]:
            if find_link(self.path, str(PurePosixPath(name).parent)) is not None:
                continue
            if (self.path / name).is_dir() and not (self.path / name).is_symlink():
                with suppress(OSError):  # something that is not ours was put into it since
                    (self.path / name).rmdir()
            else:
                (self.path / name).unlink(missing_ok=True)
        (self.path / MARK).unlink(missing_ok=True)
        shutil.rmtree(self.hidden, ignore_errors=True)

    def publishing(self) -> bool:
        """Whether a former run had all results staged, so that only renaming is left."""
        return not self._overwrite and (self.hidden / "manifest.json").is_file()

    def seal(
        self,
        names: Sequence[str],
        incidents: Sequence[str] = (),
        partial: Mapping[str, Any] | None = None,
        origins: Mapping[str, Mapping[str, str]] | None = None,
    ) -> None:
        """Say that the files ``names`` in the staging folder are complete; the last one will be published last.

        A name may lead through folders (``tables/medians.csv``), which are made. The files are durable before the
        manifest is.

        ``incidents`` are what may have moved last digits, such as memory that was short, ``partial`` says what part
        of the input the results are of, and ``origins`` where each model was found; they stay beside the job, whose
        identity does not depend on them.
        """
        files = {name: file_digest(self.staged / name) for name in names}
        for name in files:
            sync_file(self.staged / name)
        self._sync_folders(self.staged, files)
        told: dict[str, Any] = {"incidents": list(incidents)} if incidents else {}
        told |= {} if partial is None else {"partial": dict(partial)}
        told |= {"origins": origins} if origins else {}
        write_atomically(self.hidden / "manifest.json", Mark(job=self.job, files=files, **told).text())

    def publish(self) -> None:
        """Rename every sealed file to its final name, in the order of `seal`, then leave the mark.

        Raises:
            UserError: a file changed since it was sealed, or something else has its final name by now.
        """
        manifest = self._sealed()
        if manifest is None:
            raise ValueError("publish before seal")
        self._check_publishable(manifest)
        for name in [METADATA, *manifest.files]:
            if (self.staged / name).exists():
                (self.path / name).parent.mkdir(parents=True, exist_ok=True)
                os.replace(self.staged / name, self.path / name)
        self._sync_folders(self.path, manifest.files)
        write_atomically(self.path / MARK, manifest.text())
        shutil.rmtree(self.hidden, ignore_errors=True)

    def _check_publishable(self, manifest: Mark) -> None:
        """Check everything before the first file is renamed: what was a while ago may be so no longer."""
        self._refuse_planted()
        self._refuse_links(self.path, manifest.files)
        if (self.path / MARK).exists():
            raise UserError("holds a finished result by now", "choose another --output, or --overwrite", self.path)
        self._refuse_entries_beside({METADATA, *_with_folders(manifest.files)})
        for name, digest in manifest.files.items():
            if is_unchanged(self.path, name, digest) and not (self.staged / name).exists():
                continue  # published before the run was stopped
            if not is_unchanged(self.staged, name, digest):
                what = f"the staged result {name} is not as it was written"
                raise UserError(what, "run again with --overwrite", self.path)
            if (self.path / name).exists():
                raise UserError(f"holds {name} by now, which this run did not put there", "move it away", self.path)

    def _sync_folders(self, folder: Path, names: Iterable[str]) -> None:
        for inner in {str(PurePosixPath(name).parent) for name in names}:
            sync_folder(folder / inner)
        sync_folder(folder)


def _with_folders(names: Iterable[str]) -> list[str]:
    """The names, and behind them the folders that they lead through, the innermost first."""
    inside = [PurePosixPath(name) for name in names]
    folders = {folder for path in inside for folder in path.parents} - {PurePosixPath(".")}
    return [str(path) for path in (*inside, *sorted(folders, key=lambda folder: (-len(folder.parts), folder)))]
