"""``job.json``: the fields that a result depends on, how it was computed, and the list of its files."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from typing import Any, Literal, NamedTuple

from pan_scdg.records import Identities, find_dtype

TaskName = Literal["pairs", "retrieval", "check"]
FORMAT = 4
"""Version of the files of a result; raised when their meaning changes or the same settings give other scores."""
COMMON = (
    *("task", "code", "input", "profile", "models", "device", "asked_engine", "keep_gains", "scores_only", "report"),
    *("limit", "sample"),
)
"""Fields by which two jobs are the same, in the order of the file."""
OF_TASK: dict[str, tuple[str, ...]] = {
    "pairs": ("fingerprint", "names"),
    "check": ("fingerprint", "suspicious", "handout", "within_class", "author_folders", "gains"),
    "retrieval": ("candidates",),
}
"""Those of each task."""
ABOUT = (
    *("commit", "machine", "packages", "partial", "model_names", "model_revisions", "engine", "documents"),
    *("searched_by_words", "scored_ranks", "deadline", "check", "incidents"),
)
"""Fields that say how a result was computed, and are left out if they are empty."""


ONE_AT_A_TIME = "inputs were computed one at a time"
"""The beginning of an incident: the model could not be packed."""


class CheckFacts(NamedTuple):
    """Facts about a check that its page gives besides the decisions."""

    lines: Sequence[str]
    """What was excluded, and what is odd about the texts."""
    not_read: Mapping[str, str]
    """Files that are no part of any pair, with the reason."""
    not_listed: int
    """Pairs that the first stage left out."""
    threshold: float | None


@dataclass(frozen=True, kw_only=True)
class JobFile:
    """The fields of ``job.json``, as JSON values without paths."""

    task: TaskName
    input: str = ""
    """The hash of the input."""
    profile: Mapping[str, Any] = field(default_factory=dict)
    """The tables of the profile; `profile.parse_profile` reads them."""
    models: Identities = field(default_factory=dict)
    """What identifies each model, by its name in the job."""
    device: str = "cpu"
    code: str | None = None
    """The hash of the code that computes."""
    asked_engine: str = "packed"
    keep_gains: bool = False
    scores_only: bool = False
    report: bool = False
    limit: int | None = None
    sample: Sequence[int] | None = None
    """Size and seed of a `Sample`."""
    versions: Mapping[str, str] = field(default_factory=dict)

    fingerprint: str = ""
    """Of the model that the scores of pairs depend on; empty without one."""
    names: str | None = None
    """The hash of the user's own names of documents."""
    suspicious: str | None = None
    """The name of the folder of a check, as of the template in `handout`."""
    handout: str | None = None
    within_class: bool = False
    author_folders: bool = False
    gains: bool = True
    candidates: str | None = None
    """The hash of the candidates of a retrieval that searched for none."""

    commit: str = ""
    """The commits of the code that computed."""
    machine: Mapping[str, Any] = field(default_factory=dict)
    packages: Mapping[str, str] = field(default_factory=dict)
    files: Mapping[str, str] | None = None
    """The hash of each file of the result by its name; None: not complete."""

    partial: str = ""
    """The part of the input that was processed, in words."""
    deadline: str = ""
    """What there was no time for, in words."""
    model_names: Mapping[str, str] = field(default_factory=dict)
    model_revisions: Mapping[str, str] = field(default_factory=dict)
    engine: str = ""
    """The one that computed: where a model cannot be packed, `incidents` says so."""
    incidents: Sequence[str] = ()
    """What may have changed last digits."""
    documents: int | None = None
    """The number of documents of the corpus."""
    searched_by_words: Sequence[str] = ()
    """Queries that were searched by BM25 alone, for lack of time."""
    scored_ranks: int | None = None
    """The coarse ranks that were scored for every query, if there was no time for all."""
    check: CheckFacts | None = None

    @property
    def method(self) -> str:
        """Return the name of the method that decides; empty without one."""
        return str((self.profile.get("decide") or {}).get("method", ""))

    @property
    def dtype(self) -> str | None:
        """Return the dtype of the language model; None without one."""
        return find_dtype(self.models)

    def add_incidents(self, incidents: Sequence[str]) -> "JobFile":
        """Return the job with the incidents of all scores, and the engine that computed by them."""
        is_packed = self.asked_engine == "packed" and not any(one.startswith(ONE_AT_A_TIME) for one in incidents)
        return replace(self, engine="packed" if is_packed else "reference", incidents=incidents)

    def identify(self) -> dict[str, Any]:
        """Return the fields by which two jobs are the same."""
        names = (*COMMON, *OF_TASK[self.task], "versions")
        same: dict[str, Any] = json.loads(json.dumps({name: getattr(self, name) for name in names}))
        return same

    def to_json(self) -> dict[str, Any]:
        """Return the fields of the file; those of `ABOUT` are left out if they are empty."""
        about = {name: value for name in ABOUT if (value := getattr(self, name)) not in (None, "", (), [], {})}
        if self.check is not None:
            about["check"] = self.check._asdict()
        files = {} if self.files is None else {"files": self.files}
        return {"format": FORMAT, **self.identify(), **about, **files}

    @classmethod
    def from_json(cls, content: Mapping[str, Any]) -> "JobFile":
        """Return the record of a file; fields of other versions are ignored.

        Raises:
            TypeError: a field is missing or not valid.
        """
        names = {one.name for one in fields(cls)}
        values = {name: value for name, value in content.items() if name in names}
        if "check" in values:
            values["check"] = CheckFacts(**values["check"])
        return cls(**values)
