"""One job in several shards: each scores a share of the batches, ``merge`` puts them together.

What a batch holds, and which share has it, follows from the whole input. So a score is the same in a shard as in a
single run, and so is every byte of the merged result.
"""

import heapq
import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

from pan_scdg.digests import file_digest
from pan_scdg.errors import UserError
from pan_scdg.pan.runs import open_gzip_text
from pan_scdg.pan.untrusted import gzip_lines
from pan_scdg.profile import ModelSettings
from pan_scdg.retrieval.ranking import Ranked, Ranking
from pan_scdg.store import Store
from pan_scdg.tasks.first_stage import FirstStage
from pan_scdg.tasks.output import read_mark

SCORES = "scores.sqlite"
CANDIDATES = "candidates.jsonl.gz"
FIELDS = {
    "input": "another input",
    "profile": "another profile",
    "models": "other models",
    "names": "another map of original names",
}
"""What differing fields of a job are called to the user; the rest by their own names."""


class Share(NamedTuple):
    """One of several parts of a job's work."""

    number: int
    """From 1."""
    of: int

    def __str__(self) -> str:
        return f"shard {self.number}/{self.of}"

    def mine(self, names: Sequence[str], sizes: Sequence[int]) -> set[int]:
        """Positions of what this share has to do: the largest first, each to the share with the least so far."""
        loads = [(0, number) for number in range(1, self.of + 1)]
        found = set()
        for position in sorted(range(len(names)), key=lambda i: (-sizes[i], names[i])):
            load, number = loads[0]
            heapq.heapreplace(loads, (load + sizes[position], number))
            if number == self.number:
                found.add(position)
        return found


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
        dtype = self.job["models"]["language_model"]["dtype"]
        return settings.model_copy(update={"dtype": dtype, "dtype_without_bf16": None})

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

    def candidates(self) -> dict[str, FirstStage]:
        """The first stage of job 2, which every shard has found for itself.

        Raises:
            UserError: they did not all find the same.
        """
        first, *others = self.folders
        found = read_candidates(first / CANDIDATES)
        for folder in others:
            if read_candidates(folder / CANDIDATES) != found:
                raise UserError(
                    f"has other candidates than {first}",
                    "make one run of the first stage (--stop-after first-stage) and give it to all with --candidates",
                    folder,
                )
        return found


def write_shard(
    folder: Path, store: Store, keys: Iterable[str], first_stage: Mapping[str, FirstStage] | None = None
) -> list[str]:
    """Write the entries of ``keys`` (and the gains kept beside them) and the first stage of job 2; names of files."""
    store.export([name for key in keys for name in (key, f"{key}/gains", f"{key}/ids")], folder / SCORES)
    if first_stage is None:
        return [SCORES]
    with open_gzip_text(folder / CANDIDATES) as file:
        for query_id, (routes, candidates) in first_stage.items():
            file.write(json.dumps({"query": query_id, "routes": routes, "candidates": candidates}) + "\n")
    return [CANDIDATES, SCORES]


def read_candidates(path: Path) -> dict[str, FirstStage]:
    """What `write_shard` wrote of the first stage, by query."""

    def ranking(pairs: Iterable[Sequence[Any]]) -> Ranking:
        return [Ranked(*pair) for pair in pairs]

    records = (json.loads(line) for _, line in gzip_lines(path))
    return {
        r["query"]: FirstStage(
            {route: ranking(found) for route, found in r["routes"].items()}, ranking(r["candidates"])
        )
        for r in records
    }


def read_shards(folders: Sequence[Path]) -> Shards:
    """All shards of one job.

    Raises:
        UserError: one is unfinished, damaged, twice there, missing, or was made for another job than the first.
    """
    marks = [_mark(folder) for folder in folders]
    first, of = folders[0], marks[0]["job"]["shard"][1]
    whole = _whole(marks[0])
    found: dict[int, Path] = {}
    incidents: dict[int, list[str]] = {}
    origins: dict[int, Mapping[str, Mapping[str, str]]] = {}
    for folder, mark in zip(folders, marks, strict=True):
        number, count = mark["job"]["shard"]
        if count != of:
            raise UserError(f"is one of {count} shards, {first} one of {of}", "merge the shards of one job", folder)
        if differ := _differing(whole, _whole(mark)):
            what = FIELDS.get(differ[0], f"another {differ[0]}")
            raise UserError(f"was made for {what} than {first}", "merge the shards of one job", folder)
        if number in found:
            raise UserError(f"is shard {number}, and so is {found[number]}", "give each shard once", folder)
        found[number], origins[number] = folder, mark.get("origins", {})
        incidents[number] = [f"shard {number} of {of}: {incident}" for incident in mark.get("incidents", [])]
    if missing := [str(number) for number in range(1, of + 1) if number not in found]:
        raise UserError(
            f"of {of} shards {len(missing)} {'is' if len(missing) == 1 else 'are'} missing: {', '.join(missing)}",
            f"run {'it' if len(missing) == 1 else 'them'} with --shard {missing[0]}/{of}"
            f"{'' if len(missing) == 1 else ' and so on'}, and give all folders",
        )
    order = sorted(found)
    told = [incident for number in order for incident in incidents[number]]
    return Shards([found[number] for number in order], whole, told, origins[order[0]])


def _mark(folder: Path) -> dict[str, Any]:
    """What a finished shard says of itself; its files are unchanged since."""
    mark = read_mark(folder)
    if mark is None or "shard" not in mark.get("job", {}):
        raise UserError("holds no finished shard", "run it to its end with --shard", folder)
    for name, digest in mark["files"].items():
        path = folder / Path(name).name
        if not path.is_file() or file_digest(path) != digest:
            raise UserError("is not as the shard left it", "run the shard again with --overwrite", path)
    return mark


def _differing(one: Mapping[str, Any], other: Mapping[str, Any]) -> list[str]:
    """Names of the fields in which two jobs differ, also those that only one has."""
    return [name for name in {**one, **other} if one.get(name) != other.get(name)]


def _whole(mark: Mapping[str, Any]) -> dict[str, Any]:
    """The job that a shard is a part of."""
    return {name: value for name, value in mark["job"].items() if name != "shard"}
