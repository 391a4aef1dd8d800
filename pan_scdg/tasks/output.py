"""The output directory: staged in a hidden folder, published in one pass, recognised when it is already there.

Life of a directory: the hidden folder ``.pan_scdg`` appears with ``job.json`` (what is being computed), results are
staged in it, ``manifest.json`` lists them when all are complete, then each file is renamed to its final name, the mark
of completeness last, and ``.pan_scdg.json`` (job and digests) stays. A kill at any moment leaves a directory from
which the same command continues; nothing incomplete ever has its final name. ``ir-metadata.yml`` is published along
with the results if it is there; nothing depends on it, and no digest is taken of it.

Results are staged here and not in a ``--state`` folder elsewhere: a rename is atomic only within one file system.
"""

import errno
import json
import os
import shutil
from collections.abc import Container, Iterable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path, PurePosixPath
from typing import Any

from pan_scdg.digests import file_digest
from pan_scdg.errors import UserError
from pan_scdg.own_files import HIDDEN, MARK, write_atomically

METADATA = "ir-metadata.yml"
"""Written by `run_metadata`."""

Job = Mapping[str, Any]


__all__ = ["HIDDEN", "MARK", "METADATA", "OutputDirectory", "read_mark"]


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

    def prepare(self, overwrite: bool = False) -> bool:
        """Check the directory; True when the finished result of this very job is already in it.

        Nothing of a former result is touched yet: a run that is refused later must not cost it.

        Raises:
            UserError: it is not writable, or holds a visible entry, or the state or result of another job
                (``overwrite`` permits results and state of ours, never anything else).
        """
        try:
            self.path.mkdir(parents=True, exist_ok=True)
        except OSError as e:
            raise self._not_writable(e.strerror) from e
        if not os.access(self.path, os.W_OK | os.X_OK):
            raise self._not_writable(os.strerror(errno.EACCES))
        self._overwrite = overwrite
        if not overwrite and self._is_complete():
            return True
        if not overwrite:
            self._refuse_other_state()
        former = _load(self.hidden / "manifest.json") or (_load(self.path / MARK) if overwrite else None) or {}
        self._refuse_entries_beside({METADATA, *_with_folders(former["files"])} if "files" in former else set())
        return False

    def start(self) -> None:
        """Begin or go on: from here on there is a hidden folder and, with ``overwrite``, no former result.

        Raises:
            UserError: it is not writable.
        """
        try:
            if self._overwrite:
                self._remove_ours()
            self.staged.mkdir(parents=True, exist_ok=True)
            (self.staged / METADATA).unlink(missing_ok=True)  # it tells of an attempt that did not end
            write_atomically(self.hidden / "job.json", _dump(self.job))
        except OSError as e:
            raise self._not_writable(e.strerror) from e

    def _not_writable(self, why: str | None) -> UserError:
        return UserError(f"cannot write the output directory: {why}", "choose another --output", self.path)

    def _is_complete(self) -> bool:
        mark = _load(self.path / MARK)
        if mark is None:
            return False
        if mark.get("job") != self.job:
            raise UserError(
                "holds the result of another input, profile or setting",
                "choose another --output, or --overwrite to replace it",
                self.path,
            )
        missing = [name for name in mark["files"] if not (self.path / name).is_file()]
        if missing:
            raise UserError(f"was finished, but {missing[0]} is gone since", "redo it with --overwrite", self.path)
        shutil.rmtree(self.hidden, ignore_errors=True)
        return True

    def _refuse_other_state(self) -> None:
        job = _load(self.hidden / "job.json")
        if job is not None and job != self.job:
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
        former = _load(self.hidden / "manifest.json") or _load(self.path / MARK) or {}
        for name in [METADATA, *_with_folders(former["files"])] if "files" in former else []:
            if (self.path / name).is_dir():
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

        A name may lead through folders (``tables/medians.csv``), which are made.

        ``incidents`` are what may have moved last digits, such as memory that was short, ``partial`` says what part
        of the input the results are of, and ``origins`` where each model was found; they stay beside the job, whose
        identity does not depend on them.
        """
        files = {name: file_digest(self.staged / name) for name in names}
        told: dict[str, Any] = {"incidents": list(incidents)} if incidents else {}
        told |= {} if partial is None else {"partial": dict(partial)}
        told |= {"origins": origins} if origins else {}
        write_atomically(self.hidden / "manifest.json", _dump({"job": self.job, "files": files, **told}))

    def publish(self) -> None:
        """Rename every sealed file to its final name, in the order of `seal`, then leave the mark."""
        manifest = _load(self.hidden / "manifest.json")
        if manifest is None:
            raise ValueError("publish before seal")
        for name in [METADATA, *manifest["files"]]:
            if (self.staged / name).exists():
                (self.path / name).parent.mkdir(parents=True, exist_ok=True)
                os.replace(self.staged / name, self.path / name)
        write_atomically(self.path / MARK, _dump(manifest))
        shutil.rmtree(self.hidden, ignore_errors=True)


def _with_folders(names: Iterable[str]) -> list[str]:
    """The names, and behind them the folders that they lead through, the innermost first; nothing outside."""
    inside = [PurePosixPath(name) for name in names]
    inside = [path for path in inside if not path.is_absolute() and ".." not in path.parts]
    folders = {folder for path in inside for folder in path.parents} - {PurePosixPath(".")}
    return [str(path) for path in (*inside, *sorted(folders, key=lambda folder: (-len(folder.parts), folder)))]


def read_mark(directory: Path) -> dict[str, Any] | None:
    """Job and file digests of a finished output directory, None when it has no mark."""
    return _load(directory / MARK)


def _dump(value: Any) -> str:
    return json.dumps(value, indent=1, sort_keys=False, ensure_ascii=True) + "\n"


def _load(path: Path) -> dict[str, Any] | None:
    try:
        value = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        return None
    except (json.JSONDecodeError, UnicodeDecodeError, NotADirectoryError) as e:
        raise UserError("is not a file of this program", "remove it, or choose another --output", path) from e
    return value if isinstance(value, dict) else None
