"""Read the results of ``run``, and the manifests in the folders that ``studies prepare`` wrote."""

from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Annotated, Any, NamedTuple, Protocol, TypeVar

import numpy as np
import numpy.typing as npt
from pydantic import AfterValidator, Field, TypeAdapter, ValidationError

from pan_scdg.errors import UserError
from pan_scdg.pan.untrusted import check_id, parse_json_object, stream_lines
from pan_scdg.profile import Profile, parse_profile
from pan_scdg.results.files import SCORES, read_lines
from pan_scdg.results.folder import require_job
from pan_scdg.results.job import JobFile, TaskName
from pan_scdg.results.records import ScoreLine

Record = TypeVar("Record")
Names = tuple[str, str]
"""The names of the suspicious and the source document of a pair, without folders and a trailing ``.txt``."""
Values = Mapping[str, float]
"""The numbers that a method measured on a pair."""
Floats = npt.NDArray[np.float64]
Flags = npt.NDArray[np.bool_]
Numbers = npt.NDArray[np.intp]
Short = Annotated[str, Field(max_length=512)]
Id = Annotated[Short, AfterValidator(lambda text: check_id(text, "", None))]
MANIFEST = "manifest.jsonl"
MAX_NAMES = 5
"""Names that a sentence on missing pairs shows."""


@dataclass(frozen=True)
class ManifestPair:
    """A pair of a manifest, with those of the paper's fields that the studies need."""

    pair_id: Id
    susp_file: Id
    src_file: Id
    doc_label: Annotated[int, Field(ge=0, le=1)]  # not a Literal, which takes true for 1
    """1: the suspicious document reuses the source."""

    @property
    def names(self) -> Names:
        """Return the names of both documents as results have them."""
        return strip_name(self.susp_file), strip_name(self.src_file)


def strip_name(name: str) -> str:
    """Return the name of a document without folders and a trailing ``.txt``."""
    return name.rpartition("/")[2].removesuffix(".txt")


def read_manifest(path: Path) -> tuple[ManifestPair, ...]:
    """Return the pairs of a manifest, in the order of the file; raises UserError as `read_records`."""
    return read_records(path, ManifestPair, "pair", lambda pair: (pair.pair_id, pair.names))


def read_records(
    path: Path, kind: type[Record], what: str, keys: Callable[[Record], Iterable[Hashable]]
) -> tuple[Record, ...]:
    """Return the records of a file in JSON Lines, or raise UserError if one is invalid or two have an equal key.

    ``kind`` is a dataclass, whose types decide what is valid; fields that it lacks are ignored. ``what`` names a record
    in messages.
    """
    adapter = TypeAdapter(kind)
    records: list[Record] = []
    lines: dict[Hashable, int] = {}
    for number, line in stream_lines(path):
        if not line.strip():
            continue
        parse_json_object(line, path, number)  # within limits, finite
        try:
            records.append(adapter.validate_json(line, strict=True))
        except UserError as e:
            raise UserError(e.what, e.remedy, path, number) from e
        except ValidationError as e:
            fault = e.errors(include_url=False, include_input=False)[0]
            message = ": ".join([*(str(name) for name in fault["loc"][:1]), fault["msg"]])
            raise UserError(message, "correct the line", path, number) from e
        for key in keys(records[-1]):
            if (first := lines.setdefault(key, number)) != number:
                raise UserError(f"the {what} {key!r} occurs twice, first in line {first}", "keep one", path, number)
    if not records:
        raise UserError(f"the file contains no {what}", "add at least one", path)
    return tuple(records)


@dataclass(frozen=True)
class Result:
    """A finished result of ``run``."""

    folder: Path
    job: JobFile
    name: str | None = None
    """The name that the user gave it."""

    @cached_property
    def profile(self) -> Profile:
        """Return the profile that it was computed with."""
        return parse_profile(self.job.profile, self.folder)

    def describe(self) -> dict[str, Any]:
        """Return the fields of the job that identify it."""
        return replace(self.job, files=None).to_json()

    def read_values(self, manifest: Sequence[ManifestPair]) -> dict[Names, Values]:
        """Return the numbers of its scored pairs, whatever the manifest has."""
        return read_values(self.folder)


def warn_about_inputs(results: Sequence[Result]) -> list[str]:
    """Return a warning if results are of different inputs, whose pairs may have the same names."""
    inputs: dict[str, list[str]] = {}
    for result in results:
        inputs.setdefault(result.job.input, []).append(result.folder.name)
    if len(inputs) < 2:
        return []
    return [f"warning: results of different inputs: {'; '.join(', '.join(folders) for folders in inputs.values())}."]


def describe_scorers(results: Iterable[tuple[str, JobFile | None]]) -> list[str]:
    """Return a sentence on each language model: how it computed, where that can differ from the paper.

    ``results`` are names of rows with their ``job.json``; those without a language model are left out.
    """
    return list(dict.fromkeys(text for name, job in results if job for text in _describe_model(name, job)))


def _describe_model(name: str, job: JobFile) -> Iterator[str]:
    used = job.models.get("language_model")
    if not isinstance(used, Mapping):
        return
    model, machine, factor = job.profile["model"], job.machine, job.profile["model"].get("position_factor")
    is_replaced = job.engine == "reference" and model["attention"] == "varlen"  # `models.load` replaces it
    own_norm = job.device == "cpu" or job.asked_engine == "reference"
    facts = {
        "engine": job.engine,
        "attention": "sdpa" if is_replaced else model["attention"],
        "positions": f"{model['positions']} {factor:g} times" if factor else model["positions"],
        "norm": "of transformers" if own_norm else "one kernel of torch",
        "type": used["dtype"],
        **{package: job.packages[package] for package in ("torch", "transformers")},
        "device": ", ".join(dict.fromkeys(machine["gpus"])) or machine["processor"],
    }
    yield f"{name}: {model['name']} with {', '.join(f'{fact} {value}' for fact, value in facts.items())}."


def read_result(argument: str, task: TaskName) -> Result:
    """Return the result of ``[NAME=]FOLDER``, or raise UserError if the folder has no finished one of this task."""
    name, path = split_name(argument)
    return Result(path, require_job(path, task), name)


def split_name(argument: str) -> tuple[str | None, Path]:
    """Return name and path of ``[NAME=]PATH``; an existing path may contain an equals sign."""
    name, _, path = argument.partition("=")
    return (name.strip(), Path(path)) if name and path and not Path(argument).exists() else (None, Path(argument))


class PairScores(NamedTuple):
    """The scores of the pairs of a manifest in several results."""

    pairs: Sequence[ManifestPair]
    """Those that every result has scored."""
    values: Mapping[Path, Sequence[Values]]
    """The numbers of these pairs, by the folder of the result."""
    missing: Sequence[str]
    """Ids of the pairs that a result lacks."""

    @property
    def labels(self) -> Flags:
        """Return True for each pair of reuse."""
        return np.array([pair.doc_label == 1 for pair in self.pairs], dtype=np.bool_)

    def select(self, ids: Iterable[str]) -> Numbers:
        """Return the numbers of the pairs with these ids; missing ones are left out."""
        numbers = {pair.pair_id: number for number, pair in enumerate(self.pairs)}
        return np.array([numbers[pair_id] for pair_id in ids if pair_id in numbers], dtype=np.intp)

    def describe_missing(self, data: str) -> list[str]:
        """Return a sentence on the pairs that are in no row, if there are any."""
        if not self.missing:
            return []
        count, total = len(self.missing), len(self.pairs) + len(self.missing)
        names = ", ".join(self.missing[:MAX_NAMES])
        return [f"{count} of the {total} pairs of {data} have no score in a result and are in no row: {names}."]


class Scored(Protocol):
    """A result or an archive of scores, with numbers of the pairs of a manifest."""

    @property
    def folder(self) -> Path:
        """Return what identifies it."""
        ...

    def read_values(self, manifest: Sequence[ManifestPair]) -> dict[Names, Values]:
        """Return the numbers of each scored pair."""
        ...


def read_scores(results: Sequence[Scored], manifest: Sequence[ManifestPair]) -> PairScores:
    """Return the scores of the pairs that all results have scored, in the order of the manifest."""
    by_folder = {result.folder: result.read_values(manifest) for result in results}
    scored = set.intersection(*(set(values) for values in by_folder.values()))
    kept = [pair for pair in manifest if pair.names in scored]
    if not kept:
        raise UserError("no pair of the manifest has a score in every result", "give results of this input")
    values = {folder: [scores[pair.names] for pair in kept] for folder, scores in by_folder.items()}
    return PairScores(kept, values, [pair.pair_id for pair in manifest if pair.names not in scored])


def read_values(folder: Path) -> dict[Names, Values]:
    """Return the numbers of every scored pair of a result."""
    return {
        (strip_name(line.suspicious), strip_name(line.source)): line.values
        for line in read_lines(folder / SCORES, ScoreLine.from_json)
        if line.values
    }
