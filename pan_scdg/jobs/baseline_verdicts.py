"""What job 1 writes about a pair that a baseline has scored."""

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Annotated, Any, NamedTuple

from pydantic import NonNegativeInt, PositiveInt, Strict, TypeAdapter

from pan_scdg.baselines.char_ngrams import passages_of
from pan_scdg.jobs.pair_results import Verdict, who
from pan_scdg.own_files import EXACT, parse_as
from pan_scdg.profile.baseline import BaselineSettings, CharNgrams
from pan_scdg.progress import Progress
from pan_scdg.records import DocumentPair, Passage
from pan_scdg.scoring.baseline_scoring import LazyPair, TextFacts
from pan_scdg.scoring.pair_plan import FailedPair
from pan_scdg.store import Store, key_of

WITHOUT_MATCH = "decided positive without a match: there is no passage to write"
EMPTY = "a document is empty"
_Numbers = tuple[NonNegativeInt, PositiveInt, NonNegativeInt, PositiveInt, str]
_PASSAGES = TypeAdapter(list[Annotated[_Numbers, Strict(False)]], config=EXACT)


class Scored(NamedTuple):
    """A pair, the numbers that the method gives of it by name, and the one that decides."""

    pair: DocumentPair
    lazy: LazyPair
    features: Mapping[str, float]
    score: float


class BaselineRule(NamedTuple):
    """A pair is positive when its score is at least ``threshold``; without one nothing is decided."""

    settings: BaselineSettings
    threshold: float | None

    def positive(self, item: Scored) -> bool | None:
        """The decision about a pair; None: not decided."""
        return None if self.threshold is None else item.score >= self.threshold


def verdicts_of(
    scored: Sequence[Scored],
    rule: BaselineRule,
    names: Mapping[str, str],
    facts: Mapping[str, TextFacts],
    store: Store,
) -> Iterator[Verdict]:
    """The verdict about each pair, in order.

    Matches of character n-grams are passages; another method decides about documents, and its passage is both of them.
    """
    positive = [item for item in scored if rule.positive(item)]
    found = _matches(positive, rule.settings, facts, store) if isinstance(rule.settings, CharNgrams) else None
    for item in scored:
        passages = _whole(item, facts) if found is None else found.get(item.pair, ())
        yield _verdict(item, rule, names, passages if rule.positive(item) else (), found is not None)


def failed_verdict(item: FailedPair, rule: BaselineRule, names: Mapping[str, str]) -> Verdict:
    """A pair that could not be read, decided negative because the user asked for that."""
    decision, said = (False, "not scored, decided negative") if rule.threshold is not None else (None, "not scored")
    record = {
        **who(item.pair, names),
        "score": None,
        "threshold": rule.threshold,
        "decision": decision,
        "baseline": rule.settings.kind,
        "warnings": [f"{said}: {item.error.what}"],
    }
    return Verdict(record, ())


def _verdict(
    item: Scored, rule: BaselineRule, names: Mapping[str, str], passages: tuple[Passage, ...], matched: bool
) -> Verdict:
    positive = rule.positive(item)
    record: dict[str, Any] = {
        **who(item.pair, names),
        "score": item.score,
        "threshold": rule.threshold,
        "decision": positive,
        "baseline": rule.settings.kind,
        **({} if len(item.features) == 1 else item.features),
        "warnings": [WITHOUT_MATCH if matched else EMPTY] if positive and not passages else [],
    }
    return Verdict(record, passages)


def _whole(item: Scored, facts: Mapping[str, TextFacts]) -> tuple[Passage, ...]:
    """One passage over both documents; none where one is empty, for a length of 0 would break evaluators."""
    target, source = (facts[text.doc_id].length for text in item.lazy)
    return (Passage(0, target, 0, source, ""),) if target and source else ()


def _matches(
    positive: Sequence[Scored], settings: CharNgrams, facts: Mapping[str, TextFacts], store: Store
) -> dict[DocumentPair, tuple[Passage, ...]]:
    """The passages of the positive pairs, from the store where they are known."""
    found = {}
    with Progress("finding passages", len(positive)) as progress:
        for item in positive:
            target, source = (facts[text.doc_id].digest for text in item.lazy)
            key = key_of("char-ngram passages", {"n": settings.n, "target": target, "source": source})
            passages = store.read(key, _unpacked)
            if passages is None:
                texts = item.lazy.texts()
                passages = passages_of(texts.target, texts.source, settings.n)
                store.put([(key, json.dumps(passages).encode())])
            found[item.pair] = passages
            progress.update()
    return found


def _unpacked(data: bytes) -> tuple[Passage, ...]:
    return tuple(Passage(*values) for values in parse_as(data, _PASSAGES))
