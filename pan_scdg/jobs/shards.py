"""Divide a job into shards: each scores some of the batches, and ``merge`` combines them.

The whole input determines the batches and their shards, so that scores and the merged result are the same, byte for
byte, as those of a single run.
"""

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any, Literal, NamedTuple

from pydantic import BaseModel, ConfigDict, Field, JsonValue, PositiveInt, TypeAdapter, ValidationError

from pan_scdg.errors import UserError
from pan_scdg.jobs.output.mark import Mark, is_unchanged, read_mark
from pan_scdg.models.find import FoundModel
from pan_scdg.models.lock import list_origins
from pan_scdg.own_files import MARK
from pan_scdg.profile import EncoderDtype, ModelSettings
from pan_scdg.retrieval.candidate_files import CANDIDATES, read_stages, write_stages
from pan_scdg.retrieval.candidates import FirstStage
from pan_scdg.scoring.batches import MOST, Shard
from pan_scdg.store import Store

AGAIN = "run the shard again with --overwrite"
SCORES = "scores.sqlite"
FIELDS = {
    "input": "another input",
    "profile": "another profile",
    "models": "other models",
    "names": "another map of original names",
}
"""Descriptions of differing job fields in messages; other fields are shown by name."""
SHOWN = 10
"""Number of missing shards that a message names."""
_ENCODER_DTYPE = TypeAdapter[EncoderDtype](EncoderDtype)


class _SharedJob(BaseModel):
    """The fields of the job of a shard that are used as settings; the others are only compared."""

    model_config = ConfigDict(strict=True, allow_inf_nan=False)

    shard: Annotated[list[Annotated[int, Field(ge=1, le=MOST)]], Field(min_length=2, max_length=2)]
    models: dict[str, dict[str, JsonValue]]
    device: Annotated[str, Field(min_length=1, max_length=80)]
    engine: Literal["packed", "reference"]


class ShardJob(_SharedJob):
    """The settings of a shard of ``run``, for ``merge``."""

    task: Literal["pairs", "retrieval"]
    profile: dict[str, JsonValue]
    keep_gains: bool
    on_error: Literal["stop", "negative"]
    candidates: str | None
    limit: PositiveInt | None = None


class StudyShardJob(_SharedJob):
    """The settings of a shard of a study, for its report."""

    task: Literal["studies pairs", "studies same-topic", "studies retrieval", "studies cascade", "studies retention"]


@dataclass(frozen=True)
class Shards:
    """All shards of one job, finished and checked; empty for a job that computes its scores itself."""

    folders: Sequence[Path] = ()
    job: Mapping[str, Any] = field(default_factory=dict)
    """The job of a single run over the whole input."""
    incidents: Sequence[str] = ()
    origins: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    """Origins of the first shard's models."""

    @property
    def scored_in(self) -> Path | None:
        """Return the folder of the first shard, for messages about a missing score; None: scores are computed."""
        return next(iter(self.folders), None)

    def settle_model(self, settings: ModelSettings, name: str) -> ModelSettings:
        """Return the settings that the shards were computed with, whatever this machine supports."""
        if not self.folders:
            return settings
        models: Any = self.job["models"]
        changes = {"dtype": models.get(name, {}).get("dtype"), "dtype_without_bf16": None}
        try:
            return ModelSettings.model_validate({**settings.model_dump(), **changes})
        except ValidationError as e:
            raise UserError("the mark names no dtype of a language model", AGAIN, self.folders[0] / MARK) from e

    def read_encoder_dtype(self) -> EncoderDtype | None:
        """Return the dtype in which the shards encoded the corpus; None: no shard did.

        Raises:
            UserError: their mark names none.
        """
        if "encoder" not in self.job.get("models", {}):
            return None
        try:
            return _ENCODER_DTYPE.validate_python(self.job["models"]["encoder"].get("dtype"))
        except ValidationError as e:
            raise UserError("the mark names no dtype of the encoder", AGAIN, self.folders[0] / MARK) from e

    def check(self, job: Mapping[str, Any]) -> None:
        """Raise UserError, naming the differing fields, unless the shards are of ``job``."""
        if self.folders and (differ := _list_differences(self.job, json.loads(json.dumps(job)))):
            raise UserError(
                f"the shards were made for {' and '.join(FIELDS.get(name, f'another {name}') for name in differ)}",
                "merge them with the input, models and version that they were made with",
                self.folders[0],
            )

    def restore(self, store: Store) -> None:
        """Copy all scores into the store of the merging job."""
        for folder in self.folders:
            store.absorb(folder / SCORES)

    def list_origins(self, models: Mapping[str, FoundModel]) -> Mapping[str, Mapping[str, str]]:
        """Return the origins of the models, those of the shards for the models that computed the scores."""
        return {**list_origins(models), **self.origins}

    def read_candidates(self, queries: Iterable[str], name: str = CANDIDATES) -> dict[str, FirstStage]:
        """Return the first stage of source retrieval for these queries, which every shard has stored in file ``name``.

        Raises:
            UserError: the shards stored different candidates, or none for a query.
            ValueError: there are no shards.
        """
        first, *others = self.folders
        found = read_stages(first / name, AGAIN)
        if missing := sorted(set(queries) - found.keys()):
            raise UserError(f"has no candidates of the query {missing[0]!r}", AGAIN, first / name)
        for folder in others:
            if read_stages(folder / name, AGAIN) != found:
                raise UserError(
                    f"has other candidates than {first}",
                    "run the first stage once (--stop-after first-stage) and give it to all with --candidates",
                    folder,
                )
        return found


def write_shard(folder: Path, store: Store, stages: Mapping[str, Mapping[str, FirstStage]]) -> list[str]:
    """Write the used scores of a store, and first stages of source retrieval by file; return the names of the files."""
    for name, stage in stages.items():
        write_stages(folder / name, stage)
    store.export(folder / SCORES, ("", "/gains", "/ids"))
    return [*stages, SCORES]


class _Gathered(NamedTuple):
    """Finished shards of one job by their numbers, with their marks."""

    of: int
    whole: dict[str, Any]
    """The job of a single run."""
    found: dict[int, tuple[Path, Mark]]

    def list_missing(self) -> list[int]:
        """Return the numbers of the other shards."""
        return [number for number in range(1, self.of + 1) if number not in self.found]


def read_shards(folders: Sequence[Path], study: bool = False) -> Shards:
    """Read and check all shards of one job, or none.

    Raises:
        UserError: a shard is unfinished, damaged, given twice, missing, or of another job than the first.
    """
    if not folders:
        return Shards()
    gathered = _gather(folders)
    task = gathered.whole["task"]
    if _is_study(task) != study:
        raise UserError(
            f"holds a shard of {task if _is_study(task) else '`run`'}",
            f"give it to {f'`{task} --scores`' if _is_study(task) else 'merge, or to `calibrate --scores`'}",
            folders[0],
        )
    if missing := [str(number) for number in gathered.list_missing()]:
        more = ", ..." if len(missing) > SHOWN else ""
        raise UserError(
            f"{len(missing)} of {gathered.of} shards {'is' if len(missing) == 1 else 'are'} missing "
            f"({', '.join(missing[:SHOWN])}{more})",
            f"run --shard {missing[0]}/{gathered.of}{'' if len(missing) == 1 else ' and so on'}, then give all folders",
        )
    found = sorted(gathered.found.items())
    noted = [f"shard {n} of {gathered.of}: {incident}" for n, (_, mark) in found for incident in mark.incidents]
    return Shards([folder for _, (folder, _) in found], gathered.whole, noted, found[0][1][1].origins)


def find_missing(folders: Sequence[Path]) -> tuple[list[int], int]:
    """Return the numbers of the shards that are in none of the folders, or unfinished in theirs, and of all shards.

    Raises:
        UserError: no shard is finished, or finished ones are damaged or of several jobs.
    """
    finished = [folder for folder in folders if read_mark(folder) is not None]
    if not finished:
        raise UserError("none of these folders holds a finished shard", "wait for one, which names their number")
    found = _gather(finished)
    return found.list_missing(), found.of


def _gather(folders: Sequence[Path]) -> _Gathered:
    """Read the marks of finished shards of one job."""
    marks = [_read_shard_mark(folder) for folder in folders]
    first, (_, of) = folders[0], _read_shard(marks[0], folders[0])
    gathered = _Gathered(of, _remove_shard(marks[0]), {})
    for folder, mark in zip(folders, marks, strict=True):
        number, count = _read_shard(mark, folder)
        if count != of:
            raise UserError(f"is one of {count} shards, {first} one of {of}", "merge the shards of one job", folder)
        if differ := _list_differences(gathered.whole, _remove_shard(mark)):
            what = FIELDS.get(differ[0], f"another {differ[0]}")
            raise UserError(f"was made for {what} than {first}", "merge the shards of one job", folder)
        if number in gathered.found:
            other = gathered.found[number][0]
            raise UserError(f"is shard {number}, and so is {other}", "give each shard once", folder)
        gathered.found[number] = folder, mark
    return gathered


def _read_shard_mark(folder: Path) -> Mark:
    """Return the mark of a finished shard whose files are unchanged."""
    mark = read_mark(folder)
    if mark is None or "shard" not in mark.job:
        raise UserError(
            "holds no finished shard",
            "finish `run --shard`, `run --scores-only` or `studies ... --shard` on it first",
            folder,
        )
    is_study = _is_study(mark.job.get("task"))
    try:
        (StudyShardJob if is_study else ShardJob).model_validate(mark.job)
    except ValidationError as e:
        first = e.errors(include_url=False, include_input=False)[0]
        what = f"is not the mark of a shard: {'.'.join(map(str, first['loc']))[:80]}: {first['msg']}"
        raise UserError(what, AGAIN, folder / MARK) from e
    needed = {SCORES, CANDIDATES} if mark.job["task"] == "retrieval" else {SCORES}
    if not (needed <= mark.files.keys() if is_study else needed == mark.files.keys()):
        raise UserError("is not the mark of a shard: it names other files", AGAIN, folder / MARK)
    for name, digest in mark.files.items():
        if not is_unchanged(folder, name, digest):
            raise UserError("was changed since the shard was finished", AGAIN, folder / name)
    return mark


def _is_study(task: object) -> bool:
    return str(task).startswith("studies ")


def _read_shard(mark: Mark, folder: Path) -> Shard:
    shard: Any = mark.job["shard"]
    if not shard[0] <= shard[1]:
        raise UserError(f"is not valid: it names shard {shard[0]} of {shard[1]}", AGAIN, folder / MARK)
    return Shard(*shard)


def _list_differences(one: Mapping[str, Any], other: Mapping[str, Any]) -> list[str]:
    """Return the names of the fields that differ between two jobs or are missing in one."""
    return [name for name in {**one, **other} if one.get(name) != other.get(name)]


def _remove_shard(mark: Mark) -> dict[str, Any]:
    """Return the job that the shard is part of."""
    return {name: value for name, value in mark.job.items() if name != "shard"}
