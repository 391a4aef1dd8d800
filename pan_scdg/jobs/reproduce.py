"""``reproduce``: compute a result again from its ``job.json``, and say whether both are the same."""

import shutil
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from enum import Enum
from pathlib import Path
from typing import Any, NamedTuple

from pan_scdg.commit import UNKNOWN, find_commit
from pan_scdg.digests import hash_file
from pan_scdg.errors import UserError
from pan_scdg.jobs.agreement import NOISE_FACTOR, Agreement, compare_pairs, compare_runs, compare_scores, estimate_noise
from pan_scdg.jobs.options import RunOptions, Sample, choose_device, hash_job_code
from pan_scdg.jobs.pairs import detect_pairs
from pan_scdg.jobs.retrieval import RetrievalWorker, retrieve_sources
from pan_scdg.jobs.worker import PairWorker
from pan_scdg.models.devices import describe_machine
from pan_scdg.notices import Notices
from pan_scdg.pan.inputs import detect_task, hash_input
from pan_scdg.pan.runs import format_run, open_gzip_text
from pan_scdg.pan.source_retrieval import find_qrels, read_qrels
from pan_scdg.pan.text_alignment import read_pairs
from pan_scdg.pan.untrusted import is_file
from pan_scdg.profile import Profile, load_profile, parse_profile
from pan_scdg.progress import format_count
from pan_scdg.records import Identities
from pan_scdg.results.files import CANDIDATES, DECISIONS, RUN, SCORES, read_lines
from pan_scdg.results.folder import list_packages, read_code, read_job, write_json
from pan_scdg.results.job import JobFile, TaskName
from pan_scdg.results.records import Decision, ScoreLine
from pan_scdg.retrieval.candidates import read_stages
from pan_scdg.settings import EngineName
from pan_scdg.version import __version__

REPRODUCTION = "reproduction.json"
RERUN, NOISE_RERUN, FIRST_STAGE = "rerun", "noise-rerun", "first-stage"
"""Folders in the output: the result that is computed, another one to measure the noise, and the recorded candidates."""
NOISE_PAIRS, NOISE_QUERIES = 20, 2
"""Items that are computed once more to measure the noise."""
SHOWN = 40
"""Characters of a value that a line shows."""


class Verdict(Enum):
    """The verdicts of the command, each with its exit code."""

    REPRODUCED = "reproduced", 0
    WITHIN_NOISE = "reproduced within noise", 4
    DIFFERENT = "not reproduced", 5
    IMPOSSIBLE = "cannot be reproduced", 6

    @property
    def exit_code(self) -> int:
        """Return the exit code."""
        return self.value[1]

    def __str__(self) -> str:
        """Return the words."""
        return self.value[0]


@dataclass(frozen=True)
class ReproduceOptions:
    """The options of ``reproduce``; see its help."""

    result: Path
    input: Path
    output: Path
    profile: str | None = None
    sample: Sample | None = None
    from_corpus: bool = False
    truth: Path | None = None
    noise: float | None = None
    device: str | None = None
    engine: EngineName | None = None
    workers: int | None = None
    model: Path | None = None
    vectors: Path | None = None


class Condition(NamedTuple):
    """A condition of the scores, as the result records it and as it is here; by name, or under an empty one."""

    name: str
    recorded: Mapping[str, str]
    here: Mapping[str, str]

    @property
    def is_same(self) -> bool:
        """Return True if nothing differs."""
        return self.recorded == self.here

    def __str__(self) -> str:
        """Return a line."""
        if self.is_same:
            return f"{self.name}: same"
        values = [(name, *(value[:SHOWN] for value in both)) for name, both in self.differences.items()]
        return f"{self.name}: differs: " + "; ".join(f"{n} {a} recorded, {b} here".strip() for n, a, b in values)

    @property
    def differences(self) -> dict[str, tuple[str, str]]:
        """Return the values that differ, as recorded and as here."""
        names = {**self.recorded, **self.here}
        both = {name: (self.recorded.get(name, "none"), self.here.get(name, "none")) for name in names}
        return {name: (recorded, here) for name, (recorded, here) in both.items() if recorded != here}

    def to_json(self) -> dict[str, Any]:
        """Return the fields as JSON values."""
        return {"name": self.name, "same": self.is_same, "differences": self.differences}


class Noise(NamedTuple):
    """The largest difference of two scores that means nothing, and where the number comes from."""

    value: float
    source: str

    def __str__(self) -> str:
        """Return the number and its source."""
        return f"{self.value:.2g} ({self.source})"


class ImpossibleError(Exception):
    """The result cannot be computed again; the text is the reason."""


class Reproduction:
    """The recomputation of one result.

    Args:
        options: see the help of the command.

    Raises:
        UserError: the result or the input is not usable, or nothing names the profile.
    """

    def __init__(self, options: ReproduceOptions) -> None:
        self._options = options
        self._job = job = read_job(options.result)
        if job is not None and job.task == "check":
            raise UserError("is a result of `check`", "give a result of `run`", options.result)
        if job is None and options.profile is None:
            raise UserError("has no job.json, which records the profile", "name it with --profile", options.result)
        self._scores_only = job is not None and job.scores_only
        self._task = detect_task(options.input)
        self._profile = self._read_profile()
        self._record: dict[str, Any] = {"result": options.result.name, "profile": self._profile.name}
        self._uses_engine = False
        self.verdict = Verdict.IMPOSSIBLE

    def run(self) -> Iterator[str]:
        """Yield a line for each condition and figure, and the verdict at last; write ``reproduction.json``.

        Raises:
            UserError: a file of the result cannot be read, or the rerun fails.
        """
        reason: str | None = None
        try:
            rerun = yield from self._prepare()
            _compute(self._task, self._profile, rerun)
            agreement = self._compare(self._options.result, rerun.output)
            self._record["comparison"] = agreement.figures
            yield from agreement.lines
            self.verdict, reason = self._judge(agreement, rerun)
        except ImpossibleError as e:
            self.verdict, reason = Verdict.IMPOSSIBLE, str(e)
        self._record |= {"verdict": str(self.verdict), "reason": reason}
        self._options.output.mkdir(parents=True, exist_ok=True)
        write_json(self._options.output / REPRODUCTION, self._record)
        yield f"{self.verdict}{f': {reason}' if reason else ''}"

    def _read_profile(self) -> Profile:
        """Return the profile of ``--profile``, or the recorded one with the ranks that its run scored in time."""
        options, job = self._options, self._job
        if options.profile is not None:
            return load_profile(options.profile)
        if job is None:
            raise ValueError("no profile")
        profile = parse_profile(job.profile, options.result)
        if profile.retrieval is None or job.scored_ranks is None:
            return profile
        return profile.model_copy(
            update={"retrieval": profile.retrieval.model_copy(update={"scored": job.scored_ranks})}
        )

    def _prepare(self) -> Any:
        """Yield a line for each condition; return the options of the rerun.

        Raises:
            ImpossibleError: the task, the input or a model is another one, or a model or the device is missing.
        """
        options, job = self._options, self._job
        if job is not None and job.task != self._task:
            raise ImpossibleError(f"the result is of the task {job.task}, the input of the task {self._task}")
        if job is None:
            yield f"{options.result}: no job.json, so that nothing is known about how it was computed"
        try:
            device = options.device or ("auto" if job is None else job.device)
            rerun = self._make_options(choose_device(self._profile, device))
            models = self._identify_models(rerun)
            self._uses_engine = "language_model" in models
        except UserError as e:
            raise ImpossibleError(" ".join([e.sentences, *self._list_downloads()])) from e
        if job is not None:
            conditions = self._list_conditions(job, rerun, models)
            self._record["conditions"] = [condition.to_json() for condition in conditions]
            yield from map(str, conditions)
            self._check_conditions(conditions)
        return rerun

    def _list_conditions(self, job: JobFile, rerun: RunOptions, models: Identities) -> list[Condition]:
        result, recorded, versions = self._options.result, job.files or {}, job.packages
        files = {name: hash_file(result / name) if is_file(result / name) else "none" for name in recorded}
        described = self._profile.model_dump(mode="json", exclude_none=True)
        return [
            Condition("input", {"": job.input}, {"": hash_input(rerun.input, self._task)}),
            Condition("files", recorded, files),
            Condition("profile", _name_values(job.profile), _name_values(described)),
            *(
                Condition(f"model {name}", _name_values(job.models.get(name, {})), _name_values(fields))
                for name, fields in models.items()
            ),
            Condition("version", job.versions, {"pan_scdg": __version__}),
            Condition("code", {"": job.code or UNKNOWN}, {"": hash_job_code(self._task, self._profile)}),
            Condition("commit", {"": job.commit or UNKNOWN}, {"": find_commit()}),
            Condition("packages", versions, {name: list_packages().get(name, "none") for name in versions}),
            Condition("device", {"": job.device}, {"": rerun.device}),
            Condition("machine", _name_values(job.machine), _name_values(describe_machine(rerun.device))),
            Condition("engine", {"": job.engine}, {"": rerun.engine or "packed"}),
        ]

    def _check_conditions(self, conditions: list[Condition]) -> None:
        """Raise ImpossibleError unless input and models are the recorded ones, as far as the profile is."""
        same = {condition.name: condition.is_same for condition in conditions}
        if not same["input"]:
            raise ImpossibleError("this is not the input of the result")
        others = [name for name in same if name.startswith("model ") and not same[name]]
        if others and self._options.profile is None:
            raise ImpossibleError(" ".join([f"the {others[0]} is another one.", *self._list_downloads()]))

    def _identify_models(self, rerun: RunOptions) -> Identities:
        if self._task == "pairs":
            return PairWorker(self._profile, rerun.method).identify()
        searches = rerun.candidates is None
        return RetrievalWorker(self._profile, rerun.device, rerun.model, rerun.engine, searches).identify()

    def _list_downloads(self) -> list[str]:
        """Return how to fetch the recorded models at their revisions."""
        if self._job is None:
            return []
        names, revisions = self._job.model_names, self._job.model_revisions
        return [f"Recorded: `pan-scdg models fetch {names[n]} --revision {revisions[n]}`." for n in sorted(revisions)]

    def _make_options(self, device: str) -> RunOptions:
        options, job = self._options, self._job
        return RunOptions(
            options.input,
            options.output / RERUN,
            device,
            options.workers,
            model=options.model,
            vectors=options.vectors,
            engine=options.engine or ("reference" if job and job.engine == "reference" else None),
            limit=job.limit if job else None,
            sample=options.sample,
            on_error="negative",
            scores_only=self._scores_only,
            candidates=self._write_first_stage() if self._task == "retrieval" else None,
        )

    def _write_first_stage(self) -> Path | None:
        """Write the recorded candidates as the run that they were before the rerank; None: search again.

        Raises:
            ImpossibleError: the first stage is to be searched again, and for some queries it ran out of time.
        """
        recorded, limited = self._options.result / CANDIDATES, self._job.searched_by_words if self._job else ()
        if self._options.from_corpus and limited:
            what = f"for lack of time {format_count(len(limited), 'query')} had a first stage of BM25 alone"
            raise ImpossibleError(f"{what}, which no search gives again: leave out --from-corpus")
        if self._options.from_corpus or not is_file(recorded):
            return None
        folder = self._options.output / FIRST_STAGE
        folder.mkdir(parents=True, exist_ok=True)
        with open_gzip_text(folder / RUN) as file:
            for query_id, stage in read_stages(recorded).items():
                file.writelines(format_run(query_id, [one.doc_id for one in stage.candidates], "first-stage"))
        shutil.copyfile(recorded, folder / CANDIDATES)
        return folder

    def _compare(self, first: Path, second: Path) -> Agreement:
        """Compare two outputs, as far as the second one goes."""
        options = self._options
        if self._task == "retrieval":
            truth = options.truth or find_qrels(options.input)
            return compare_runs(first, second, read_qrels(truth) if is_file(truth) else None)
        name = SCORES if self._scores_only else DECISIONS
        parse: Callable[[dict[str, Any]], ScoreLine | Decision] = (
            ScoreLine.from_json if self._scores_only else Decision.from_json
        )
        keys = {line.key for line in read_lines(second / name, parse)}
        pairs = read_pairs(options.input, Notices(), may_lack_files=True).pairs
        chosen = [pair for pair in pairs if pair.key in keys]
        return (compare_scores if self._scores_only else compare_pairs)(first, second, chosen)

    def _judge(self, agreement: Agreement, rerun: RunOptions) -> tuple[Verdict, str | None]:
        if agreement.is_equal():
            return Verdict.REPRODUCED, None
        if agreement.largest_difference == 0:
            return Verdict.DIFFERENT, "the scores are the same, but not what follows from them"
        noise = self._find_noise(rerun)
        self._record["noise"] = noise._asdict()
        return Verdict.WITHIN_NOISE if agreement.fits(noise.value) else Verdict.DIFFERENT, f"noise {noise}"

    def _find_noise(self, rerun: RunOptions) -> Noise:
        """Return the noise that was given or that the profile has; else measure it."""
        if self._options.noise is not None:
            return Noise(self._options.noise, "given")
        decide = self._profile.decide
        if self._task == "pairs" and not rerun.scores_only and decide is not None and decide.noise is not None:
            return Noise(decide.noise, "of the profile")
        return self._measure_noise(rerun)

    def _measure_noise(self, rerun: RunOptions) -> Noise:
        """Compute a few items with the other engine, or without a language model in other batches."""
        size, what = (NOISE_PAIRS, "pair") if self._task == "pairs" else (NOISE_QUERIES, "query")
        seed = rerun.sample.seed if rerun.sample is not None else 0
        if rerun.sample is not None:
            size = min(size, rerun.sample.size)
        other = replace(
            rerun,
            output=self._options.output / NOISE_RERUN,
            engine=None if rerun.engine == "reference" else "reference",
            sample=Sample(size, seed),
        )
        _compute(self._task, self._profile, other)
        agreement = self._compare(rerun.output, other.output)
        difference = agreement.largest_difference or 0.0
        between = "the engines packed and reference" if self._uses_engine else "two sizes of batches"
        source = (
            f"{NOISE_FACTOR} times the largest difference between {between} on {format_count(agreement.size, what)}"
        )
        return Noise(estimate_noise(difference), source)


def _compute(task: TaskName, profile: Profile, options: RunOptions) -> None:
    """Compute a result, or continue it; what other code computed there is replaced."""
    if read_code(options.output) != hash_job_code(task, profile):
        options = replace(options, overwrite=True)
    (detect_pairs if task == "pairs" else retrieve_sources)(profile, options)


def _name_values(fields: Mapping[str, object], prefix: str = "") -> dict[str, str]:
    """Return the values of fields as text, those of tables by their dotted names."""
    values: dict[str, str] = {}
    for name, value in fields.items():
        if isinstance(value, Mapping):
            values |= _name_values(value, f"{prefix}{name}.")
        else:
            values[f"{prefix}{name}"] = str(value)
    return values
