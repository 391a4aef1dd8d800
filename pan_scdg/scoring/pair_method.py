"""The protocol of pair methods, which pair detection uses: SCDG or a baseline."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Literal, NamedTuple, Protocol, TypeVar

import numpy as np
import numpy.typing as npt
import tomlkit

from pan_scdg.errors import UserError, UserErrors
from pan_scdg.models.find import FoundModel
from pan_scdg.notices import Notices
from pan_scdg.align.align import Evidence
from pan_scdg.align.finder import OpenAlignment
from pan_scdg.profile import Profile
from pan_scdg.records import DocumentPair, Passage
from pan_scdg.scdg.gains import Gains
from pan_scdg.scdg.sequences import Offsets
from pan_scdg.scoring.batches import WHOLE, Shard
from pan_scdg.scoring.model import ScoringModel
from pan_scdg.store import Store

Planned = TypeVar("Planned")
Scored = TypeVar("Scored")
OnError = Literal["stop", "negative"]
"""Treatment of pairs that cannot be scored: stop, or decide them negative with the reason."""
Labels = npt.NDArray[np.bool_]
"""True where the source was reused, ``[pairs]``."""


class FailedPair(NamedTuple):
    """A pair that cannot be scored, with the reason."""

    pair: DocumentPair
    error: UserError


class Verdict(NamedTuple):
    """A decided pair: its record in ``decisions.jsonl``, and the passages of its detection XML."""

    pair: DocumentPair
    record: Mapping[str, Any]
    passages: tuple[Passage, ...]
    evidence: Sequence[Evidence] = ()
    """The measured passages, those that do not count too; empty until they are searched."""


class LocatedGains(NamedTuple):
    """The gains of the tokens of a suspicious document, and where the tokens are."""

    pair: DocumentPair
    gains: Gains
    offsets: Offsets
    """First character of each token and the one after its last, ``[n, 2]``."""


class Threshold(NamedTuple):
    """The least score of a positive pair, and the measured noise of scores."""

    least: float | None
    """None: nothing is decided."""
    noise: float | None = None
    """Largest difference of a score between processors; None: not measured."""

    def judge(self, score: float | None) -> dict[str, Any]:
        """Return the fields of a record about a score; None: the pair could not be scored, which is negative.

        ``near_threshold`` is one of them if the noise is known: another processor may then decide otherwise.
        """
        record: dict[str, Any] = {"score": score, "threshold": self.least, "decision": None}
        if self.least is None:
            return record
        record["decision"] = score is not None and bool(score >= self.least)
        if self.noise is not None:
            record["near_threshold"] = None if score is None else abs(score - self.least) <= self.noise
        return record


class Calibrated(NamedTuple):
    """Chosen values of a profile, with their quality on the pairs they were chosen on."""

    chosen: dict[str, Any]
    """The threshold and the other chosen fields of the profile, by name."""
    words: str
    """The choice in words."""
    f1: float
    accuracy: float
    pairs: int
    positives: int
    edit: Callable[[tomlkit.TOMLDocument], None]
    """Write the choice into a profile file."""

    def summarise(self) -> str:
        """Return the choice and its quality in one line."""
        return f"{self.words}: {describe_quality(self.f1, self.accuracy, self.pairs, self.positives)}"

    def to_json(self) -> dict[str, Any]:
        """Return the choice and its quality as JSON values."""
        quality = {"f1": self.f1, "accuracy": self.accuracy, "pairs": self.pairs, "positives": self.positives}
        return {**self.chosen, **quality}


def describe_quality(f1: float, accuracy: float, pairs: int, positives: int) -> str:
    """Return the quality of a choice in words."""
    return f"F1 {f1:.4f}, accuracy {accuracy:.4f} on {pairs} pairs ({positives} positive)"


class PairMethod(Protocol[Planned, Scored]):
    """A method that checks, scores and judges pairs, in this order; models are loaded when it scores."""

    @property
    def threshold(self) -> float | None:
        """Return the least score of a positive pair (paper, PAN25 decision rule); None if nothing is decided."""

    @property
    def device(self) -> str:
        """Return "cpu" or "cuda"."""

    @property
    def models(self) -> Mapping[str, FoundModel]:
        """Return the models that it uses, by their names in the job."""

    @property
    def model(self) -> ScoringModel | None:
        """Return the language model, which scores the pairs or measures their passages; None without one."""

    def identify(self) -> dict[str, Any]:
        """Return the fields that identify the models in the job."""
        ...

    def open_alignment(self, store: Store) -> OpenAlignment | None:
        """Return the alignment if it decides, whose sentences reports show; None: another method does."""
        ...

    def check(
        self, pairs: Sequence[DocumentPair], notices: Notices, on_error: OnError
    ) -> tuple[list[Planned], list[FailedPair]]:
        """Read and measure all pairs; return those that can be scored and those that cannot.

        Raises:
            UserErrors: naming every pair that cannot be scored, if ``on_error`` is "stop".
            UserError: nothing can be scored, for lack of memory for example.
        """
        ...

    def score(
        self, planned: Sequence[Planned], store: Store, shard: Shard = WHOLE, *, all_settings: bool = False
    ) -> list[Scored]:
        """Score the pairs of a shard, in order; scores in the store are reused and new ones are added.

        With ``all_settings``, the store also gets the scores with all settings that `calibrate` chooses from.
        """
        ...

    def judge(self, scored: Sequence[Scored], names: Mapping[str, str]) -> Iterator[Verdict]:
        """Yield the verdict about each pair, in order."""
        ...

    def judge_failed(self, failed: FailedPair, names: Mapping[str, str]) -> Verdict:
        """Return the verdict about a pair that could not be scored: negative, with the reason as a warning."""
        ...

    def locate_gains(self, scored: Sequence[Scored], store: Store) -> Iterator[LocatedGains]:
        """Yield each pair with the gains of its tokens and their characters; nothing if they were not kept."""
        ...

    def calibrate(
        self, scored: Sequence[Scored], known: Mapping[DocumentPair, bool], digest: str, store: Store
    ) -> Calibrated:
        """Choose the threshold of the profile, and its q, w, n or weights, on scored pairs."""
        ...

    def close(self) -> None:
        """Free the resources of scoring."""
        ...


def name_pair(pair: DocumentPair, names: Mapping[str, str]) -> dict[str, Any]:
    """Return the fields of a record that name a pair: its ids, and the user's own names if given."""
    ids = {"suspicious": pair.suspicious.doc_id, "source": pair.source.doc_id}
    if names:
        ids["suspicious_name"] = names.get(pair.suspicious.doc_id, pair.suspicious.doc_id)
        ids["source_name"] = names.get(pair.source.doc_id, pair.source.doc_id)
    return ids


def cover_both(target: int, source: int) -> tuple[Passage, ...]:
    """Return one passage over two documents of these lengths in characters.

    Returns no passage if either is empty, since evaluators fail on a feature of length 0.
    """
    return (Passage(0, target, 0, source, ""),) if target and source else ()


def refuse_failed(errors: Sequence[UserError]) -> None:
    """Raise UserErrors if a pair cannot be scored; as a further remedy it names the option that decides otherwise."""
    if errors:
        raise UserErrors([UserError(e.what, f"{e.remedy}, or see --on-error", e.where, e.line) for e in errors])


def explain_failure(failed: FailedPair, decides: bool) -> str:
    """Return the warning about a pair that could not be scored."""
    return f"{'not scored, decided negative' if decides else 'not scored'}: {failed.error.what}"


def check_calibrated(profile: Profile) -> Profile:
    """Return a profile that can decide about pairs.

    Raises:
        UserError: it was never calibrated.
    """
    if (profile.baseline or profile.need_pairs()).threshold is not None:
        return profile
    raise UserError(
        f"profile {profile.name} has no threshold and cannot decide",
        "calibrate it on pairs with truth: `calibrate --input DIR --profile NAME --write FILE`",
    )
