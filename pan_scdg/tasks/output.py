"""The output directory: staged in a hidden folder, published in one pass, recognised when it is already there.

Life of a directory: the hidden folder ``.pan_scdg`` appears with ``job.json`` (what is being computed), results are
staged in it, ``manifest.json`` lists them when all are complete, then each file is renamed to its final name, the mark
of completeness last, and ``.pan_scdg.json`` (job and digests) stays. A kill at any moment leaves a directory from
which the same command continues; nothing incomplete ever has its final name.

Results are staged here and not in a ``--state`` folder elsewhere: a rename is atomic only within one file system.
"""

import json
import os
import shutil
from collections.abc import Container, Mapping, Sequence
from pathlib import Path
from typing import Any

from pan_scdg.digests import file_digest
from pan_scdg.errors import UserError

HIDDEN = ".pan_scdg"
MARK = ".pan_scdg.json"

Job = Mapping[str, Any]


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

    def prepare(self, overwrite: bool = False) -> bool:
        """Make the directory ready; True when the finished result of this very job is already in it.

        Raises:
            UserError: it is not writable, or holds a visible entry, or the state or result of another job
                (``overwrite`` removes results and state of ours, never anything else).
        """
        try:
            self.path.mkdir(parents=True, exist_ok=True)
            if overwrite:
                self._remove_ours()
            if self._is_complete():
                return True
            self._refuse_foreign_entries()
            self.staged.mkdir(parents=True, exist_ok=True)
            write_atomically(self.hidden / "job.json", _dump(self.job))
        except OSError as e:
            raise UserError(
                f"cannot write the output directory: {e.strerror}", "choose another --output", self.path
            ) from e
        return False

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

    def _refuse_foreign_entries(self) -> None:
        job = _load(self.hidden / "job.json")
        if job is not None and job != self.job:
            raise UserError(
                "holds the unfinished state of another input, profile or setting",
                "choose another --output, or --overwrite to discard it",
                self.path,
            )
        self._refuse_entries_beside((_load(self.hidden / "manifest.json") or {}).get("files", {}))

    def _refuse_entries_beside(self, ours: Container[str]) -> None:
        foreign = sorted(p.name for p in self.path.iterdir() if not p.name.startswith(".") and p.name not in ours)
        if foreign:
            raise UserError(
                f"the output directory is not empty: it holds {foreign[0]!r}", "choose an empty --output", self.path
            )

    def _remove_ours(self) -> None:
        mark = _load(self.path / MARK) or _load(self.hidden / "manifest.json") or {}
        ours = mark.get("files", {})
        self._refuse_entries_beside(ours)  # first: a run that is refused must not cost the former result
        for name in ours:
            (self.path / Path(name).name).unlink(missing_ok=True)
        (self.path / MARK).unlink(missing_ok=True)
        shutil.rmtree(self.hidden, ignore_errors=True)

    def abandon(self) -> None:
        """Forget an attempt in which nothing was computed, so that one with other settings may use the directory."""
        shutil.rmtree(self.hidden, ignore_errors=True)

    def publishing(self) -> bool:
        """Whether a former run had all results staged, so that only renaming is left."""
        return (self.hidden / "manifest.json").is_file()

    def seal(self, names: Sequence[str]) -> None:
        """Say that the files ``names`` in the staging folder are complete; the last one will be published last."""
        files = {name: file_digest(self.staged / name) for name in names}
        write_atomically(self.hidden / "manifest.json", _dump({"job": self.job, "files": files}))

    def publish(self, keep_hidden: bool = False) -> None:
        """Rename every sealed file to its final name, in the order of `seal`, then leave the mark."""
        manifest = _load(self.hidden / "manifest.json")
        if manifest is None:
            raise ValueError("publish before seal")
        for name in manifest["files"]:
            if (self.staged / name).exists():
                os.replace(self.staged / name, self.path / name)
        write_atomically(self.path / MARK, _dump(manifest))
        if not keep_hidden:
            shutil.rmtree(self.hidden, ignore_errors=True)


def read_mark(directory: Path) -> dict[str, Any] | None:
    """Job and file digests of a finished output directory, None when it has no mark."""
    return _load(directory / MARK)


def write_atomically(path: Path, text: str) -> None:
    """Write beside the final name, make it durable, rename."""
    beside = path.with_name(f".{path.name}.part")
    with open(beside, "w", encoding="utf-8", newline="\n") as file:
        file.write(text)
        file.flush()
        os.fsync(file.fileno())
    os.replace(beside, path)


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
