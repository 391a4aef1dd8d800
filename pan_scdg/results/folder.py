"""The folder of a result: where a run keeps its scores while it computes, and how the result gets its final name.

While a run computes, ``OUT/.pan_scdg`` is its work folder: ``job.json`` (input, profile, models, versions), the
append-only ``scores.jsonl``, and the staged results. A stopped run reads the scores and continues. When everything is
staged, the files are renamed into OUT, ``job.json`` last: a folder with ``job.json`` is a complete result.
"""

import errno
import fcntl
import json
import os
import platform
import shutil
import traceback
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any, Generic, Protocol, TypeVar

from pan_scdg.commit import find_commit
from pan_scdg.digests import hash_file
from pan_scdg.errors import Interrupted, UserError
from pan_scdg.logs import say
from pan_scdg.models.devices import describe_machine
from pan_scdg.results.files import JOB, PAGE, SCORES, write_lines
from pan_scdg.results.job import FORMAT, JobFile, TaskName
from pan_scdg.results.records import Key, ScoreLine
from pan_scdg.version import __version__

WORK_FOLDER = ".pan_scdg"
COMMITS = "commits"
"""A line for each commit of the code that has computed here."""
PUBLISHING = "publishing.json"
"""Written when all files are staged: those to publish, and those of a former result to remove."""
ERROR_LOG = "error.log"
"""The traceback of an internal error, which the next run with this output removes."""
LARGE_FIELDS = ("gains", "offsets", "cosines")
"""Fields of a line of scores that are read from the file when they are needed."""
PACKAGES = ("numpy", "tokenizers", "torch", "transformers", "sentence-transformers")
"""Packages whose versions a result records; ``ir-metadata.yml`` lists all."""
FULL_DISK = {errno.ENOSPC, errno.EDQUOT, errno.EFBIG}
"""Errors after which a run continues, with the half of an index that it has built."""
DIFFERENT_JOB = ("task", "input", "profile", "models", "versions", "code")
"""Fields of a job that a message names if they differ; any other is a setting."""


class Scored(Protocol):
    """The record of a scored pair or candidate."""

    @property
    def key(self) -> Key:
        """Return the ids that name it."""
        ...

    @property
    def incidents(self) -> Sequence[str]:
        """Return what may have changed its last digits."""
        ...

    def to_json(self) -> dict[str, Any]:
        """Return the fields of its line."""
        ...


Item = TypeVar("Item", bound=Scored)
Parse = Callable[[Mapping[str, Any]], Item]


class ScoreFile(Generic[Item]):
    """An append-only file with a JSON line for each scored pair or candidate.

    Args:
        path: the file; created by the first line.
        parse: returns the record of a line.

    Raises:
        UserError: a line other than the last is not one of this program.
    """

    def __init__(self, path: Path, parse: Parse[Item]) -> None:
        self.path, self._parse = path, parse
        self._lines: dict[Key, Item] = {}
        self._offsets: dict[Key, int] = {}
        self._size = 0
        self.total = 0
        """The number of lines of the finished result; 0: not known yet."""
        if path.exists():
            self._read()

    def _read(self) -> None:
        with self.path.open("rb") as file:
            for number, data in enumerate(file, 1):
                if not data.endswith(b"\n"):
                    break  # the run was killed while it wrote this line
                try:
                    self._index(json.loads(data), self._size)
                except (ValueError, TypeError, LookupError, AttributeError) as e:
                    raise UserError(
                        "is not a line of scores", "delete the file and run again", self.path, number
                    ) from e
                self._size += len(data)

    def _index(self, line: Mapping[str, Any], offset: int) -> None:
        score = self._parse({name: value for name, value in line.items() if name not in LARGE_FIELDS})
        self._lines[score.key] = score
        self._offsets[score.key] = offset

    def __contains__(self, key: object) -> bool:
        return key in self._lines

    def __getitem__(self, key: Key) -> Item:
        """Return the record of a pair or candidate without `LARGE_FIELDS`."""
        return self._lines[key]

    def __iter__(self) -> Iterator[Key]:
        return iter(self._lines)

    def __len__(self) -> int:
        return len(self._lines)

    def list_incidents(self) -> list[str]:
        """Return what may have changed last digits, by the lines that the run and those before it wrote."""
        return list(dict.fromkeys(incident for score in self._lines.values() for incident in score.incidents))

    def describe(self) -> str:
        """Return how many pairs or candidates a stopped run has; empty for none."""
        if not self._lines:
            return ""
        of_all = f" of {self.total:,}" if self.total else ""
        what = "pairs" if isinstance(next(iter(self._lines.values())), ScoreLine) else "candidates"
        return f"{len(self._lines):,}{of_all} {what} are kept"

    def append(self, scores: Iterable[Item]) -> None:
        """Write lines, all of which are in the file when this returns; a last line that was cut off is removed."""
        with self.path.open("ab", buffering=0) as file:
            file.truncate(self._size)
            for score in scores:
                line = score.to_json()
                data = json.dumps(line).encode() + b"\n"
                if file.write(data) != len(data):
                    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(self.path))
                self._index(line, self._size)
                self._size += len(data)

    def read_line(self, key: Key) -> Item:
        """Return the whole record of a pair or candidate."""
        with self.path.open("rb") as file:
            file.seek(self._offsets[key])
            return self._parse(json.loads(file.readline()))


class WorkFolder(Generic[Item]):
    """The folder of an unfinished result; see `open_result`."""

    def __init__(self, output: Path, job: JobFile, parse: Parse[Item]) -> None:
        self.output, self.path, self.job = output, output / WORK_FOLDER, job
        self._commit = _record_commit(self.path / COMMITS)
        self.staged = self.path / "staged"
        self.scores = ScoreFile(self.path / SCORES, parse)

    def write_scores(self, keys: Iterable[Key]) -> str:
        """Stage the scores there are, in the order of the keys and without `LARGE_FIELDS`; return the file's name."""
        return write_lines(self.staged, SCORES, (self.scores[key] for key in keys if key in self.scores))

    def publish(self, files: Sequence[str], job: JobFile | None = None) -> None:
        """Rename the staged files into the output, then write ``job.json``, and remove the work folder.

        Args:
            files: names of staged files, in the order of publication; may lie in folders.
            job: the same job with what is known about it now; commit, machine and packages of this process are added
                unless it has others.
        """
        job = job or self.job
        job = replace(
            job,
            commit=job.commit or self._commit,
            machine=job.machine or describe_machine(job.device),
            packages=job.packages or list_packages(),
            files={name: hash_file(self.staged / name) for name in files},
        )
        former = read_job(self.output)
        stale = sorted({*_list_files(former), PAGE} - {*files}) if former else []  # `report` may have added a page
        write_json(self.path / PUBLISHING, {"job": job.to_json(), "remove": stale})
        _publish(self.output)


@contextmanager
def open_result(
    output: Path, job: JobFile, parse: Parse[Item], *, overwrite: bool = False
) -> Iterator[WorkFolder[Item] | None]:
    """Lock an output folder and yield its work folder, with the scores of a stopped run; None if it is complete.

    Args:
        output: created if it does not exist.
        job: all fields that the result depends on.
        parse: see `ScoreFile`.
        overwrite: replace the result, or the unfinished work, of another job. A former result stays until the new one
            is complete.

    Raises:
        UserError: the folder cannot be written, is locked, or holds other files or another job.
    """
    job = replace(job, versions={"pan_scdg": __version__, **job.versions})
    with _lock(output):
        work = output / WORK_FOLDER
        if (work / PUBLISHING).exists():
            _publish(output)  # a run was killed while it published
        complete, started = read_job(output), _parse_job(work / JOB)
        if overwrite:
            if started is not None and started.identify() != job.identify():
                shutil.rmtree(work)
        elif complete is not None:
            _check_same(complete, job, "contains a result", output)
            shutil.rmtree(work, ignore_errors=True)
            yield None
            return
        elif started is not None:
            _check_same(started, job, "contains an unfinished result", output)
        _refuse_other_files(output, _list_files(complete))
        shutil.rmtree(work / "staged", ignore_errors=True)
        (output / ERROR_LOG).unlink(missing_ok=True)
        try:
            (work / "staged").mkdir(parents=True)
            write_json(work / JOB, job.identify())
        except OSError as e:
            raise _make_write_error(output, e) from e
        opened = WorkFolder(output, job, parse)
        try:
            yield opened
        except (Interrupted, KeyboardInterrupt) as e:
            raise type(e)("; ".join(filter(None, (str(e), opened.scores.describe())))) from e
        except UserError as e:
            disk_is_full = isinstance(e.__cause__, OSError) and e.__cause__.errno in FULL_DISK
            if not len(opened.scores) and not disk_is_full:  # the run was refused before it computed anything
                shutil.rmtree(work)
            raise
        except Exception as e:
            # an error of the system, such as a full disk, has a number; a library that cannot be loaded has none
            if not isinstance(e, OSError) or e.errno is None:
                with suppress(OSError):
                    (output / ERROR_LOG).write_text(traceback.format_exc(), encoding="utf-8")
            raise


def read_job(folder: Path) -> JobFile | None:
    """Return ``job.json`` of a complete result; None if the folder has none.

    Raises:
        UserError: it is not a file of this program, or of another format.
    """
    content = _read_json(folder / JOB)
    if content is not None and (content.get("format") != FORMAT or not isinstance(content.get("files"), dict)):
        raise _make_version_error(folder / JOB)
    return _parse_job(folder / JOB)


def _parse_job(path: Path) -> JobFile | None:
    """Return the job of a complete or an unfinished result."""
    content = _read_json(path)
    try:
        return None if content is None else JobFile.from_json(content)
    except TypeError as e:
        raise _make_version_error(path) from e


def _make_version_error(path: Path) -> UserError:
    return UserError("is not a result of this version", "delete it and run again", path)


def _list_files(job: JobFile | None) -> list[str]:
    return [] if job is None else [*(job.files or ())]


def require_job(folder: Path, task: TaskName | None = None) -> JobFile:
    """Return ``job.json`` of a complete result of a task ("pairs", "retrieval" or "check"), or of any.

    Raises:
        UserError: the folder is no complete result, or one of another task.
    """
    job = read_job(folder)
    if job is None:
        unfinished = (folder / WORK_FOLDER / JOB).exists()
        what = "contains an unfinished result" if unfinished else "contains no result"
        raise UserError(what, "finish `run` with this --output first", folder)
    if task is not None and job.task != task:
        raise UserError(f"contains a result of the task {job.task}", f"give one of the task {task}", folder)
    return job


def read_code(folder: Path) -> str | None:
    """Return the hash of the code that computed a result, or computes an unfinished one; None without any."""
    job = read_job(folder) or _parse_job(folder / WORK_FOLDER / JOB)
    return None if job is None else job.code


def list_changed_files(folder: Path, job: JobFile | None) -> list[str]:
    """Return a warning if a file of a complete result is missing, or is not as the run wrote it.

    The page does not count, which `report` makes again.
    """

    def is_changed(name: str, digest: str) -> bool:
        return not (folder / name).is_file() or hash_file(folder / name) != digest

    files = {} if job is None else job.files or {}
    changed = [name for name, digest in files.items() if name != PAGE and is_changed(name, digest)]
    if not changed:
        return []
    more = f" and {len(changed) - 1} more" if len(changed) > 1 else ""
    return [f"warning: {folder / changed[0]}{more}: changed or removed after the run"]


def write_json(path: Path, value: object) -> None:
    """Write a JSON file under another name, and rename it."""
    write_atomically(path, json.dumps(value, indent=1) + "\n")


def write_atomically(path: Path, text: str) -> None:
    """Write a text file under another name, and rename it."""
    part = path.with_name(f".{path.name}.part")
    part.write_text(text, encoding="utf-8", newline="\n")
    os.replace(part, path)


def list_packages() -> dict[str, str]:
    """Return the versions of the installed packages that scores depend on, and of Python."""
    versions = {"python": platform.python_version()}
    for name in PACKAGES:
        with suppress(PackageNotFoundError):
            versions[name] = version(name)
    return versions


def _record_commit(path: Path) -> str:
    """Add the commit of this process to those that computed in a work folder, and return them all."""
    commits = path.read_text(encoding="ascii").split() if path.exists() else []
    if find_commit() not in commits:
        commits.append(find_commit())
        path.write_text("".join(f"{commit}\n" for commit in commits), encoding="ascii")
    return ", ".join(commits)


def _publish(output: Path) -> None:
    work = output / WORK_FOLDER
    plan = _read_json(work / PUBLISHING)
    if plan is None:
        raise ValueError("nothing is ready to be published")
    (output / JOB).unlink(missing_ok=True)
    for name in plan["remove"]:
        (output / name).unlink(missing_ok=True)
        for folder in (output / name).parents[: len(Path(name).parts) - 1]:
            with suppress(OSError):  # it does not exist any more, or has other files
                folder.rmdir()
    for name in plan["job"]["files"]:
        if (work / "staged" / name).exists():  # otherwise it was renamed before the run was killed
            (output / name).parent.mkdir(parents=True, exist_ok=True)
            os.replace(work / "staged" / name, output / name)
    write_json(output / JOB, plan["job"])
    shutil.rmtree(work)


@contextmanager
def _lock(output: Path) -> Iterator[None]:
    """Create the output folder and lock it, so that no second run writes there."""
    try:
        output.mkdir(parents=True, exist_ok=True)
        folder = os.open(output, os.O_RDONLY | os.O_DIRECTORY)
    except OSError as e:
        raise _make_write_error(output, e) from e
    try:
        try:
            fcntl.flock(folder, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as e:
            raise UserError(
                "another run is writing this output", "wait for it, or choose another --output", output
            ) from e
        except OSError:
            say([f"warning: {output}: this file system has no locks; do not start a second run with this output"])
        yield
    finally:
        os.close(folder)


def _check_same(recorded: JobFile, job: JobFile, what: str, output: Path) -> None:
    former, own = recorded.identify(), job.identify()
    different = [name for name in own if former.get(name) != own[name]]
    if different:
        fields = [name for name in different if name in DIFFERENT_JOB] or ["settings"]
        remedy = "choose another --output, or --overwrite to replace it"
        raise UserError(f"{what} from another run: different {' and '.join(fields)}", remedy, output)


def _refuse_other_files(output: Path, files: Sequence[str]) -> None:
    """Raise UserError if the output has a visible entry that is not of a former result."""
    own = {JOB, ERROR_LOG, *(Path(name).parts[0] for name in files), *([PAGE] if files else [])}
    others = sorted(
        entry.name for entry in output.iterdir() if not entry.name.startswith(".") and entry.name not in own
    )
    if others:
        raise UserError(f"the output folder already contains {others[0]!r}", "choose an empty --output", output)


def _read_json(path: Path) -> dict[str, Any] | None:
    try:
        value = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        return None
    except (ValueError, RecursionError, OSError) as e:
        raise UserError("cannot be read as JSON", "delete it and run again", path) from e
    if not isinstance(value, dict):
        raise UserError("is not a file of this program", "delete it and run again", path)
    return value


def _make_write_error(output: Path, error: OSError) -> UserError:
    return UserError(f"cannot be written: {error.strerror}", "choose another --output", output)
