"""One job in several shards: each scores a share of the batches, ``merge`` puts them together.

What a batch holds, and which share has it, follows from the whole input. So a score is the same in a shard as in a
single run, and so is every byte of the merged result.
"""

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, JsonValue, PositiveInt, ValidationError

from pan_scdg.errors import UserError
from pan_scdg.jobs.output_mark import Mark, is_unchanged, read_mark
from pan_scdg.jobs.requests import Computing
from pan_scdg.models.fit import Job
from pan_scdg.own_files import MARK
from pan_scdg.profile import ModelSettings, Profile
from pan_scdg.retrieval.candidate_files import CANDIDATES, read_stages, write_stages
from pan_scdg.retrieval.candidates import FirstStage
from pan_scdg.scoring.batches import MOST, Share
from pan_scdg.scoring.model import ScoringModel
from pan_scdg.store import Store

AGAIN = "run the shard again with --overwrite"
SCORES = "scores.sqlite"
FIELDS = {
    "input": "another input",
    "profile": "another profile",
    "models": "other models",
    "names": "another map of original names",
}
"""What differing fields of a job are called to the user; the rest by their own names."""


SHOWN = 10
"""Missing shards that are named."""


class ShardJob(BaseModel):
    """The part of a shard's job that ``merge`` takes its settings from; the rest is compared only."""

    model_config = ConfigDict(strict=True, allow_inf_nan=False)

    task: Literal["pairs", "retrieval"]
    shard: Annotated[list[Annotated[int, Field(ge=1, le=MOST)]], Field(min_length=2, max_length=2)]
    profile: dict[str, JsonValue]
    models: dict[str, dict[str, JsonValue]]
    device: Annotated[str, Field(min_length=1, max_length=80)]
    engine: Literal["packed", "reference"]
    keep_gains: bool
    on_error: Literal["stop", "negative"]
    candidates: str | None
    limit: PositiveInt | None = None


@dataclass(frozen=True)
class Shards:
    """All shards of one job, finished and checked."""

    folders: Sequence[Path]
    job: Mapping[str, Any]
    """That of the whole, as a single run would have it."""
    incidents: Sequence[str]
    origins: Mapping[str, Mapping[str, str]]
    """Where the first had its models from."""

    def settled(self, settings: ModelSettings) -> ModelSettings:
        """The settings in which the shards were computed, whatever this machine could do."""
        models: Any = self.job["models"]
        changes = {"dtype": models.get("language_model", {}).get("dtype"), "dtype_without_bf16": None}
        try:
            return ModelSettings.model_validate({**settings.model_dump(), **changes})
        except ValidationError as e:
            raise UserError("the mark names no dtype of a language model", AGAIN, self.folders[0] / MARK) from e

    def check(self, job: Mapping[str, Any]) -> None:
        """Raise UserError, naming what differs, unless ``job`` is what the shards were made for."""
        asked = json.loads(json.dumps(job))
        if differ := _differing(self.job, asked):
            raise UserError(
                f"the shards were made for {' and '.join(FIELDS.get(name, f'another {name}') for name in differ)}",
                "merge them with the input, models and version that they were made with",
                self.folders[0],
            )

    def restore(self, store: Store) -> None:
        """Put all scores into the store of the merging job."""
        for folder in self.folders:
            store.absorb(folder / SCORES)

    def candidates(self, queries: Iterable[str]) -> dict[str, FirstStage]:
        """The first stage of job 2 for these queries, which every shard has found for itself.

        Raises:
            UserError: they did not all find the same, or not for these queries.
        """
        first, *others = self.folders
        found = read_stages(first / CANDIDATES, AGAIN)
        if missing := sorted(set(queries) - found.keys()):
            raise UserError(f"has no candidates of the query {missing[0]!r}", AGAIN, first / CANDIDATES)
        for folder in others:
            if read_stages(folder / CANDIDATES, AGAIN) != found:
                raise UserError(
                    f"has other candidates than {first}",
                    "make one run of the first stage (--stop-after first-stage) and give it to all with --candidates",
                    folder,
                )
        return found


def open_model(profile: Profile, computing: Computing, job: Job, merged: Shards | None) -> ScoringModel:
    """Find the language model of a profile; it may not compute if every score is in ``merged`` shards.

    Raises:
        UserError: see `ScoringModel`.
    """
    if merged is None:
        return computing.open_model(profile.need_model(), job)
    model = computing.open_model(merged.settled(profile.need_model()), job, scored_in=merged.folders[0])
    model.inherit(merged.incidents)
    return model


def write_shard(
    folder: Path, store: Store, keys: Iterable[str], first_stage: Mapping[str, FirstStage] | None = None
) -> list[str]:
    """Write the entries of ``keys`` (and the gains kept beside them) and the first stage of job 2; names of files."""
    store.export([name for key in keys for name in (key, f"{key}/gains", f"{key}/ids")], folder / SCORES)
    if first_stage is None:
        return [SCORES]
    write_stages(folder / CANDIDATES, first_stage)
    return [CANDIDATES, SCORES]


def read_shards(folders: Sequence[Path]) -> Shards:
    """All shards of one job.

    Raises:
        UserError: one is unfinished, damaged, twice there, missing, or was made for another job than the first.
    """
    marks = [_mark(folder) for folder in folders]
    first, (_, of) = folders[0], _share_of(marks[0], folders[0])
    whole = _whole(marks[0])
    found: dict[int, Path] = {}
    incidents: dict[int, list[str]] = {}
    origins: dict[int, Mapping[str, Mapping[str, str]]] = {}
    for folder, mark in zip(folders, marks, strict=True):
        number, count = _share_of(mark, folder)
        if count != of:
            raise UserError(f"is one of {count} shards, {first} one of {of}", "merge the shards of one job", folder)
        if differ := _differing(whole, _whole(mark)):
            what = FIELDS.get(differ[0], f"another {differ[0]}")
            raise UserError(f"was made for {what} than {first}", "merge the shards of one job", folder)
        if number in found:
            raise UserError(f"is shard {number}, and so is {found[number]}", "give each shard once", folder)
        found[number], origins[number] = folder, mark.origins
        incidents[number] = [f"shard {number} of {of}: {incident}" for incident in mark.incidents]
    if missing := [str(number) for number in range(1, of + 1) if number not in found]:
        more = ", ..." if len(missing) > SHOWN else ""
        raise UserError(
            f"of {of} shards {len(missing)} {'is' if len(missing) == 1 else 'are'} missing: "
            f"{', '.join(missing[:SHOWN])}{more}",
            f"run {'it' if len(missing) == 1 else 'them'} with --shard {missing[0]}/{of}"
            f"{'' if len(missing) == 1 else ' and so on'}, and give all folders",
        )
    order = sorted(found)
    told = [incident for number in order for incident in incidents[number]]
    return Shards([found[number] for number in order], whole, told, origins[order[0]])


def _mark(folder: Path) -> Mark:
    """What a finished shard says of itself; its files are unchanged since."""
    mark = read_mark(folder)
    if mark is None or "shard" not in mark.job:
        raise UserError("holds no finished shard", "run it to its end with --shard", folder)
    try:
        ShardJob.model_validate(mark.job)
    except ValidationError as e:
        first = e.errors(include_url=False, include_input=False)[0]
        what = f"is not the mark of a shard: {'.'.join(map(str, first['loc']))[:80]}: {first['msg']}"
        raise UserError(what, AGAIN, folder / MARK) from e
    needed = {SCORES, CANDIDATES} if mark.job["task"] == "retrieval" else {SCORES}
    if mark.files.keys() != needed:
        raise UserError("is not the mark of a shard: it names other files", AGAIN, folder / MARK)
    for name, digest in mark.files.items():
        if not is_unchanged(folder, name, digest):
            raise UserError("is not as the shard left it", AGAIN, folder / name)
    return mark


def _share_of(mark: Mark, folder: Path) -> Share:
    shard: Any = mark.job["shard"]
    if not shard[0] <= shard[1]:
        raise UserError(f"says that it is shard {shard[0]} of {shard[1]}", AGAIN, folder / MARK)
    return Share(*shard)


def _differing(one: Mapping[str, Any], other: Mapping[str, Any]) -> list[str]:
    """Names of the fields in which two jobs differ, also those that only one has."""
    return [name for name in {**one, **other} if one.get(name) != other.get(name)]


def _whole(mark: Mark) -> dict[str, Any]:
    """The job that a shard is a part of."""
    return {name: value for name, value in mark.job.items() if name != "shard"}
