"""Divide a job into shards: each scores some of the batches, and ``merge`` combines them.

The whole input determines the batches and their shards, so that scores and the merged result are the same, byte for
byte, as those of a single run.
"""

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any, Literal, NamedTuple

from pydantic import BaseModel, ConfigDict, Field, JsonValue, PositiveInt, ValidationError

from pan_scdg.errors import UserError
from pan_scdg.jobs.output.mark import Mark, is_unchanged, read_mark
from pan_scdg.models.find import FoundModel
from pan_scdg.models.lock import list_origins
from pan_scdg.own_files import MARK
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
    "of": "another number of shards",
}
"""Descriptions of differing job fields in messages; other fields are shown by name."""
SHOWN = 10
"""Number of missing shards that a message names."""


class _SharedModel(BaseModel):
    """The field of a model that is used as a setting."""

    dtype: Literal["float32", "bfloat16", "float16"] | None = None


class _SharedJob(BaseModel):
    """The fields of the job of a shard that are used as settings; the others are only compared."""

    model_config = ConfigDict(strict=True, allow_inf_nan=False)

    shard: Annotated[list[Annotated[int, Field(ge=1, le=MOST)]], Field(min_length=2, max_length=2)]
    models: dict[str, _SharedModel]
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

    def read_dtype(self, model: str) -> Any:
        """Return the dtype that a model of the shards computed in; None without shards or such a model."""
        return self.job.get("models", {}).get(model, {}).get("dtype")

    def check(self, job: Mapping[str, Any]) -> None:
        """Raise UserError, naming the differing fields, unless the shards are of ``job``."""
        if self.folders and (differ := _list_differences(self.job, json.loads(json.dumps(job)))):
            raise UserError(
                f"the shards were made for {' and '.join(map(_describe_field, differ))}",
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


class _Finished(NamedTuple):
    """A finished shard whose files are unchanged."""

    folder: Path
    shard: Shard
    mark: Mark

    @property
    def whole(self) -> dict[str, Any]:
        """Return the job of a single run."""
        return {name: value for name, value in self.mark.job.items() if name != "shard"}


def read_shards(folders: Sequence[Path], study: bool = False) -> Shards:
    """Read and check all shards of one job, or none.

    Raises:
        UserError: a shard is unfinished, damaged, given twice, missing, or of another job than the first.
    """
    if not folders:
        return Shards()
    found = _gather(folders)
    task = found[0].whole["task"]
    if _is_study(task) != study:
        raise UserError(
            f"holds a shard of {task if _is_study(task) else '`run`'}",
            f"give it to {f'`{task} --scores`' if _is_study(task) else 'merge, or to `calibrate --scores`'}",
            folders[0],
        )
    of = found[0].shard.of
    if missing := _list_missing(found):
        more = ", ..." if len(missing) > SHOWN else ""
        raise UserError(
            f"{len(missing)} of {of} shards {'is' if len(missing) == 1 else 'are'} missing "
            f"({', '.join(map(str, missing[:SHOWN]))}{more})",
            f"run --shard {missing[0]}/{of}{'' if len(missing) == 1 else ' and so on'}, then give all folders",
        )
    noted = [f"shard {one.shard.number} of {of}: {incident}" for one in found for incident in one.mark.incidents]
    return Shards([one.folder for one in found], found[0].whole, noted, found[0].mark.origins)


def find_missing(folders: Sequence[Path]) -> tuple[list[int], int]:
    """Return the numbers of the shards that are in none of the folders, or unfinished in theirs, and of all shards.

    Raises:
        UserError: no shard is finished, or finished ones are damaged or of several jobs.
    """
    finished = [folder for folder in folders if read_mark(folder) is not None]
    if not finished:
        raise UserError("none of these folders holds a finished shard", "wait for one, which names their number")
    found = _gather(finished)
    return _list_missing(found), found[0].shard.of


def _list_missing(found: Sequence[_Finished]) -> list[int]:
    return sorted(set(range(1, found[0].shard.of + 1)) - {one.shard.number for one in found})


def _gather(folders: Sequence[Path]) -> list[_Finished]:
    """Return finished shards of one job, sorted by number."""
    found = [_read_finished(folder) for folder in folders]
    first, places = found[0], dict[int, Path]()
    for one in found:
        differ = _list_differences({**first.whole, "of": first.shard.of}, {**one.whole, "of": one.shard.of})
        if differ:
            what = f"was made for {_describe_field(differ[0])} than {first.folder}"
            raise UserError(what, "merge the shards of one job", one.folder)
        if one.shard.number in places:
            what = f"is shard {one.shard.number}, and so is {places[one.shard.number]}"
            raise UserError(what, "give each shard once", one.folder)
        places[one.shard.number] = one.folder
    return sorted(found, key=lambda one: one.shard)


def _read_finished(folder: Path) -> _Finished:
    mark = read_mark(folder)
    if mark is None or "shard" not in mark.job:
        raise UserError(
            "holds no finished shard",
            "finish `run --shard`, `run --scores-only` or `studies ... --shard` on it first",
            folder,
        )
    is_study = _is_study(mark.job.get("task"))
    try:
        found = (StudyShardJob if is_study else ShardJob).model_validate(mark.job)
    except ValidationError as e:
        first = e.errors(include_url=False, include_input=False)[0]
        what = f"is not the mark of a shard: {'.'.join(map(str, first['loc']))[:80]}: {first['msg']}"
        raise UserError(what, AGAIN, folder / MARK) from e
    needed, shard = {SCORES, CANDIDATES} if found.task == "retrieval" else {SCORES}, Shard(*found.shard)
    has_files = needed <= mark.files.keys() if is_study else needed == mark.files.keys()
    if shard.number > shard.of or not has_files:
        raise UserError("is not the mark of a shard: number or files are wrong", AGAIN, folder / MARK)
    for name, digest in mark.files.items():
        if not is_unchanged(folder, name, digest):
            raise UserError("was changed since the shard was finished", AGAIN, folder / name)
    return _Finished(folder, shard, mark)


def _is_study(task: object) -> bool:
    return str(task).startswith("studies ")


def _describe_field(name: str) -> str:
    return FIELDS.get(name, f"another {name}")


def _list_differences(one: Mapping[str, Any], other: Mapping[str, Any]) -> list[str]:
    """Return the names of the fields that differ between two jobs or are missing in one."""
    return [name for name in {**one, **other} if one.get(name) != other.get(name)]
