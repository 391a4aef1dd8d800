"""The protocol of pair methods, which pair detection uses: SCDG or a baseline."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple, Protocol, TypeVar

from pan_scdg.models.find import FoundModel
from pan_scdg.notices import Notices
from pan_scdg.records import DocumentPair, Passage
from pan_scdg.scoring.model import ScoringModel
from pan_scdg.scoring.pair_plan import FailedPair, OnError
from pan_scdg.store import Store

Planned = TypeVar("Planned")
Scored = TypeVar("Scored")


class Verdict(NamedTuple):
    """A decided pair: its record in ``decisions.jsonl``, and the passages of its detection XML."""

    pair: DocumentPair
    record: Mapping[str, Any]
    passages: tuple[Passage, ...]


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
        """Return the language model, which scores the pairs or measures their passages; None: there is none."""

    def identify(self) -> dict[str, Any]:
        """Return the fields that identify the models in the job."""
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

    def score(self, planned: Sequence[Planned], store: Store) -> list[Scored]:
        """Score the pairs, in order; scores in the store are reused and new ones are added."""
        ...

    def list_keys(self, item: Scored) -> Sequence[str]:
        """Return the store's keys of a scored pair."""
        ...

    def judge(self, scored: Sequence[Scored], names: Mapping[str, str], store: Store) -> Iterator[Verdict]:
        """Yield the verdict about each pair, in order.

        Args:
            scored: what `score` returned.
            names: the user's own names of documents by id; may be empty.
            store: holds intermediate results.
        """
        ...

    def judge_failed(self, failed: FailedPair, names: Mapping[str, str]) -> Verdict:
        """Return the verdict about a pair that could not be scored: negative, with the reason as a warning."""
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


def explain_failure(failed: FailedPair, decides: bool) -> str:
    """Return the warning about a pair that could not be scored."""
    return f"{'not scored, decided negative' if decides else 'not scored'}: {failed.error.what}"
