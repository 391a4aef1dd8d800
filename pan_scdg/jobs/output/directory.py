"""The output directory of a job: check it, stage the results, seal them, publish them; see `carry_out`.

Results are staged in a hidden folder of the output directory and published in one pass.

The hidden folder ``.pan_scdg`` first holds ``job.json`` (the job that is computed) and the staged results.
``manifest.json`` lists them when all are complete. Then each file is renamed to its final name, and ``.pan_scdg.json``
(job and hashes) marks the output as finished. After a kill or a power failure, the same command continues, and
no incomplete file has its final name. ``ir-metadata.yml`` is published with the results if it exists, but not hashed.

Results are staged here and not in a ``--state`` folder elsewhere: a rename is atomic only within one file system.

The directory itself may be a symbolic link, since the user named it. Its content is untrusted: no link in it is
followed, and no name that leads out of it is accepted.
"""

import errno
import json
import os
import shutil
from collections.abc import Container, Iterable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path, PurePosixPath
from typing import Any

from pydantic import JsonValue, RootModel

from pan_scdg.digests import hash_file
from pan_scdg.errors import UserError
from pan_scdg.jobs.output.mark import (
    METADATA,
    Mark,
    Partial,
    dump,
    is_unchanged,
    make_write_error,
    read_mark,
)
from pan_scdg.own_files import HIDDEN, MARK, find_link, read_record, sync_file, sync_folder, write_atomically

Job = Mapping[str, Any]


class JobRecord(RootModel[dict[str, JsonValue]]):
    """The content of ``job.json``."""


class OutputDirectory:
    """One job's output directory.

    Args:
        path: the directory, created if it is missing.
        job: all fields that the result depends on, as JSON values; jobs are the same if these are equal.
    """

    def __init__(self, path: Path, job: Job) -> None:
        self.path = path
        self.job = json.loads(json.dumps(job))
        self.hidden = path / HIDDEN
        self.staged = self.hidden / "staged"
        self._overwrite = False

    def prepare(self, overwrite: bool = False) -> bool:
        """Check the directory; return True if it holds the finished result of this job.

        A former result is not changed yet, since the run may still be refused.

        Raises:
            UserError: it is not writable, or holds other visible entries, the state or result of another job (which
                ``overwrite`` permits), or foreign files under the names of its own.
        """
        try:
            self.path.mkdir(parents=True, exist_ok=True)
        except OSError as e:
            raise make_write_error(self.path, e.strerror) from e
        if not os.access(self.path, os.W_OK | os.X_OK):
            raise make_write_error(self.path, os.strerror(errno.EACCES))
        self._refuse_planted_folders()
        self._overwrite = overwrite
        if not overwrite and self._is_complete():
            return True
        if not overwrite:
            self._refuse_other_state()
        former = self._read_manifest() or (read_mark(self.path) if overwrite else None)
        if former is not None:
            self._refuse_links(self.path, former.files)
        self._refuse_entries_beside(set() if former is None else {METADATA, *_append_folders(former.files)})
        return False

    def start(self) -> None:
        """Create the hidden folder; with ``overwrite``, remove a former result.

        Raises:
            UserError: the directory is not writable.
        """
        try:
            if self._overwrite:
                self._remove_former()
            if self.staged.exists():  # left by an interrupted attempt; all files are written again
                shutil.rmtree(self.staged)
            self.staged.mkdir(parents=True)
            write_atomically(self.hidden / "job.json", dump(self.job))
            sync_folder(self.path)
        except OSError as e:
            raise make_write_error(self.path, e.strerror) from e

    def _refuse_planted_folders(self) -> None:
        for folder in (self.hidden, self.staged):
            if folder.is_symlink() or (folder.exists() and not folder.is_dir()):
                raise UserError("is not a folder that this program created", "remove it", folder)

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
                what = "was changed" if (self.path / name).exists() else "was removed"
                raise UserError(f"was finished, but {name} {what} since", "run again with --overwrite", self.path)
        shutil.rmtree(self.hidden, ignore_errors=True)
        return True

    def _read_manifest(self) -> Mark | None:
        return read_record(self.hidden / "manifest.json", Mark, f"remove the folder {HIDDEN}")

    def _refuse_other_state(self) -> None:
        job = read_record(self.hidden / "job.json", JobRecord, f"remove the folder {HIDDEN}")
        sealed = self._read_manifest()
        if (job is not None and job.root != self.job) or (sealed is not None and sealed.job != self.job):
            raise UserError(
                "holds the unfinished state of another input, profile or setting",
                "choose another --output, or --overwrite to discard it",
                self.path,
            )

    def _refuse_entries_beside(self, ours: Container[str]) -> None:
        entries = list(self.path.iterdir())
        for entry in entries:  # grows by the entries of our own folders
            if entry.relative_to(self.path).as_posix() in ours and entry.is_dir() and not entry.is_symlink():
                entries += entry.iterdir()
        names = (p.relative_to(self.path).as_posix() for p in entries if not p.name.startswith("."))
        foreign = sorted(name for name in names if name not in ours)
        if foreign:
            raise UserError(
                f"the output directory is not empty: it holds {foreign[0]!r}", "choose an empty --output", self.path
            )

    def _remove_former(self) -> None:
        former = self._read_manifest() or read_mark(self.path)
        for name in [] if former is None else [METADATA, *_append_folders(former.files)]:
            if find_link(self.path, str(PurePosixPath(name).parent)) is not None:
                continue
            if (self.path / name).is_dir() and not (self.path / name).is_symlink():
                with suppress(OSError):  # it holds foreign files
                    (self.path / name).rmdir()
            else:
                (self.path / name).unlink(missing_ok=True)
        (self.path / MARK).unlink(missing_ok=True)
        shutil.rmtree(self.hidden, ignore_errors=True)

    @property
    def needed(self) -> bool:
        """Return True unless a run that was killed has sealed the result, which is then published."""
        return self._overwrite or not (self.hidden / "manifest.json").is_file()

    def seal(
        self,
        names: Sequence[str],
        incidents: Sequence[str] = (),
        partial: Partial | None = None,
        origins: Mapping[str, Mapping[str, str]] | None = None,
    ) -> None:
        """Declare the staged files complete: sync them, and write the manifest.

        Args:
            names: files in the staging folder, in the order of publication; may lie in folders.
            incidents: events that may have changed last digits, such as a lack of memory.
            partial: the part of the input that the results cover; None: all of it.
            origins: where each model was found. Like incidents and partial, not part of the job's identity.
        """
        files = {name: hash_file(self.staged / name) for name in names}
        for name in files:
            sync_file(self.staged / name)
        self._sync_folders(self.staged, files)
        given: dict[str, Any] = {"incidents": list(incidents), "partial": partial, "origins": origins}
        noted = {name: value for name, value in given.items() if value}
        write_atomically(self.hidden / "manifest.json", Mark(job=self.job, files=files, **noted).to_text())

    def publish(self) -> None:
        """Rename every sealed file to its final name, in the order of `seal`, then write the mark.

        Raises:
            UserError: a file was changed after `seal`, or its final name is taken.
        """
        manifest = self._read_manifest()
        if manifest is None:
            raise ValueError("publish before seal")
        self._check_publishable(manifest)
        for name in [METADATA, *manifest.files]:
            if (self.staged / name).exists():
                (self.path / name).parent.mkdir(parents=True, exist_ok=True)
                os.replace(self.staged / name, self.path / name)
        self._sync_folders(self.path, manifest.files)
        write_atomically(self.path / MARK, manifest.to_text())
        shutil.rmtree(self.hidden, ignore_errors=True)

    def _check_publishable(self, manifest: Mark) -> None:
        """Raise UserError if any file cannot be published; called before the first is renamed."""
        self._refuse_planted_folders()
        self._refuse_links(self.path, manifest.files)
        if (self.path / MARK).exists():
            raise UserError(
                "another run has finished a result in it", "choose another --output, or --overwrite", self.path
            )
        self._refuse_entries_beside({METADATA, *_append_folders(manifest.files)})
        for name, digest in manifest.files.items():
            if is_unchanged(self.path, name, digest) and not (self.staged / name).exists():
                continue  # published before the run was stopped
            if not is_unchanged(self.staged, name, digest):
                what = f"the staged result {name} was changed"
                raise UserError(what, "run again with --overwrite", self.path)
            if (self.path / name).exists():
                raise UserError(f"holds {name}, which this run did not write", "move it away", self.path)

    def _sync_folders(self, folder: Path, names: Iterable[str]) -> None:
        for inner in {str(PurePosixPath(name).parent) for name in names}:
            sync_folder(folder / inner)
        sync_folder(folder)


def _append_folders(names: Iterable[str]) -> list[str]:
    """Return the names, followed by all folders in them, innermost first."""
    inside = [PurePosixPath(name) for name in names]
    folders = {folder for path in inside for folder in path.parents} - {PurePosixPath(".")}
    return [str(path) for path in (*inside, *sorted(folders, key=lambda folder: (-len(folder.parts), folder)))]
