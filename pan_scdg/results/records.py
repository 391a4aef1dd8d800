"""The records of a result, each a line of one of its files.

What a line contains in JSON is decided here alone: each record has ``to_json``, and ``from_json``, whose LookupError,
TypeError or ValueError is a fault of the line; see `read_lines`.
"""

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from typing import Any, Literal, NamedTuple

from pan_scdg.records import DocumentPair, MeasuredPassage, Ranked, Ranking, Reason, TokenGains
from pan_scdg.results.files import DECISIONS, GAINS, PASSAGES, read_lines, write_lines

Key = tuple[str, str]
"""The ids of suspicious document and source, or of query and document."""
PAIR_KEY, CANDIDATE_KEY = ("suspicious", "source"), ("query", "document")
GAIN_DECIMALS = 6
"""Digits of the gain of a token, in nats."""
MAX_SCORE = 1e15
"""Largest absolute value of a valid score, so that sums stay finite."""
Finding = Literal["likely", "unclear", "no sign"]
"""A decision as people read it. Likely: the pair is positive. Unclear: a reader should look at it, see `Decision`."""
NOT_SCORED, JUST_BELOW, TOO_LITTLE_TEXT, USUAL_SCORE = "not_scored", "just_below", "too_little_text", "usual_score"
FEW_WORDS, FEW_SENTENCES = "few_words", "few_sentences"
"""Codes of reasons; the method gives the last one."""
SIGNS = {JUST_BELOW, TOO_LITTLE_TEXT}
"""Codes by which a pair without reuse is unclear for its score."""
TOO_SHORT = {FEW_WORDS, FEW_SENTENCES}
DISGUISED = "disguised"
"""Code: letters of a text are read in another order, or apart, than a reader sees them."""
SHARED, ANNOUNCED = "shared", "announced"
"""Codes of a passage in a check: several texts have it; a colon announces it in both, so that it may be given."""
SIDES = ("suspicious", "source")
OTHER_SIDE = {"suspicious": "source", "source": "suspicious"}


@dataclass(frozen=True)
class Decision:
    """The decision about a pair, a line of ``decisions.jsonl``."""

    suspicious: str
    """The id of the suspicious document."""
    source: str
    score: float | None
    """None for a pair that could not be scored."""
    threshold: float | None
    """None if no threshold applies to the model."""
    decision: bool | None
    """True for reuse; None without a threshold."""
    finding: Finding
    near_threshold: bool | None = None
    """Another processor could decide differently; None if no noise of the scores is known."""
    reasons: tuple[Reason, ...] = ()
    method: str = ""
    numbers: Mapping[str, float | str] = field(default_factory=dict)
    """What the method measured, by name."""
    negatives_at_least: float | None = None
    """The share of the calibration's negative pairs that score as high."""
    negatives: int | None = None
    """The number of these pairs."""
    swapped: bool = False
    """The numbers are those of the source as the target; see `check`."""
    suspicious_name: str = ""
    """The user's own name of the document, if there is one."""
    source_name: str = ""

    @classmethod
    def decide_alone(cls, key: Key, decision: bool | None) -> "Decision":
        """Return the decision of a system that gives no score."""
        return cls(*key, None, None, decision, "likely" if decision else "no sign")

    @property
    def key(self) -> Key:
        """Return the ids of both documents."""
        return self.suspicious, self.source

    def find_reason(self, *codes: str) -> Reason | None:
        """Return the first reason with one of these codes."""
        return next((reason for reason in self.reasons if reason.code in codes), None)

    def add(self, *reasons: Reason) -> "Decision":
        """Return the decision with further reasons."""
        return replace(self, reasons=(*self.reasons, *reasons))

    def swap(self) -> "Decision":
        """Return the decision with both documents in the other order; its numbers stay those of its direction."""
        reasons = tuple(
            reason._replace(numbers={**reason.numbers, "side": OTHER_SIDE[str(reason.numbers["side"])]})
            if "side" in reason.numbers
            else reason
            for reason in self.reasons
        )
        return replace(self, suspicious=self.source, source=self.suspicious, reasons=reasons, swapped=True)

    def to_json(self) -> dict[str, Any]:
        """Return the fields of a line; those without a meaning for this pair are left out."""
        own = {name: getattr(self, f"{name}_name") for name in SIDES}
        line: dict[str, Any] = {name: getattr(self, name) for name in SIDES}
        line |= {f"{name}_name": value for name, value in own.items() if value}
        line |= {name: getattr(self, name) for name in ("score", "threshold", "decision", "finding")}
        if self.near_threshold is not None:
            line["near_threshold"] = self.near_threshold
        line["reasons"] = [reason.to_json() for reason in self.reasons]
        line |= {"method": self.method, **self.numbers}
        if self.negatives is not None:
            line |= {"negatives_at_least": self.negatives_at_least, "negatives": self.negatives}
        return {**line, "swapped": True} if self.swapped else line

    @classmethod
    def from_json(cls, line: Mapping[str, Any]) -> "Decision":
        """Return the decision of a line, which may be that of another system: ids and a decision are enough.

        Raises:
            ValueError: a field is missing or not valid.
        """
        if not isinstance(line.get("suspicious"), str) or not isinstance(line.get("source"), str):
            raise ValueError("'suspicious' and 'source' must be strings")
        decision = line.get("decision", "")
        if decision is not None and not isinstance(decision, bool):
            raise ValueError("'decision' must be true, false or null")
        for name in ("score", "threshold"):
            value = line.get(name)
            if not (value is None or (type(value) in (int, float) and abs(value) <= MAX_SCORE)):
                raise ValueError(f"{name!r} is not a valid number")
        values = {name: line[name] for name in DECISION_FIELDS if name in line and name not in ("reasons", "numbers")}
        return cls(
            **{"score": None, "threshold": None, "finding": "likely" if decision else "no sign", **values},
            reasons=tuple(map(Reason.from_json, line.get("reasons", ()))),
            numbers={k: v for k, v in line.items() if k not in DECISION_FIELDS and isinstance(v, int | float | str)},
        )


@dataclass(frozen=True)
class DecidedPair:
    """A decided pair with what explains the decision."""

    record: Decision
    passages: tuple[MeasuredPassage, ...] = ()
    """Of both texts, measured; also those that do not count."""
    gains: TokenGains | None = None
    """Of the tokens in passages, or of all, if they were measured."""

    @property
    def suspicious(self) -> str:
        """Return the name of the suspicious text."""
        return self.record.suspicious

    @property
    def source(self) -> str:
        """Return the name of the other text."""
        return self.record.source

    @property
    def score(self) -> float | None:
        """Return the score; None for a pair that could not be scored."""
        return self.record.score

    @property
    def decision(self) -> bool | None:
        """Return True for reuse; None if no threshold applies."""
        return self.record.decision

    @property
    def finding(self) -> Finding:
        """Return the decision as people read it."""
        return self.record.finding

    @property
    def is_near(self) -> bool:
        """Return True for a pair without reuse whose score a reader should look at all the same."""
        return self.record.find_reason(*SIGNS) is not None

    @property
    def short_texts(self) -> tuple[str, ...]:
        """Return the names of the texts that are too short for a decision, if the pair is unclear for nothing else."""
        if self.finding != "unclear" or self.decision or self.is_near:
            return ()
        sides = (str(reason.numbers["side"]) for reason in self.record.reasons if reason.code in TOO_SHORT)
        return tuple(dict.fromkeys(self.suspicious if side == SIDES[0] else self.source for side in sides))

    def add(self, *reasons: Reason) -> "DecidedPair":
        """Return the pair with further reasons."""
        return replace(self, record=self.record.add(*reasons))


DECISION_FIELDS = {one.name for one in fields(Decision)}


class ScoreLine(NamedTuple):
    """The measurements of a pair, a line of ``scores.jsonl``."""

    suspicious: str
    source: str
    values: Mapping[str, float]
    """By name."""
    reasons: tuple[Reason, ...] = ()
    incidents: tuple[str, ...] = ()
    """What may have changed the last digits, such as a lack of memory."""
    gains: TokenGains | None = None
    """Of all tokens of the suspicious document, while a run that keeps them computes."""

    @property
    def key(self) -> Key:
        """Return the ids of both documents."""
        return self.suspicious, self.source

    def to_json(self) -> dict[str, Any]:
        """Return the fields of a line; those without a meaning for this pair are left out."""
        line: dict[str, Any] = {"suspicious": self.suspicious, "source": self.source, "values": self.values}
        line["reasons"] = [reason.to_json() for reason in self.reasons]
        if self.incidents:
            line["incidents"] = self.incidents
        return line if self.gains is None else {**line, **self.gains.to_json()}

    @classmethod
    def from_json(cls, line: Mapping[str, Any]) -> "ScoreLine":
        """Return the record of a line."""
        reasons = tuple(map(Reason.from_json, line["reasons"]))
        gains = TokenGains.from_json(line) if "gains" in line else None
        key = _read_key(line, PAIR_KEY)
        return cls(*key, dict(line["values"]), reasons, tuple(line.get("incidents", ())), gains)


class PassageLine(NamedTuple):
    """A passage of a decided pair, a line of ``passages.jsonl``."""

    suspicious: str
    source: str
    passage: MeasuredPassage
    sentences: tuple[Sequence[str], Sequence[str]] | None = None
    """Of a check: the whole sentences around the passage in both texts."""

    @property
    def key(self) -> Key:
        """Return the ids of both documents."""
        return self.suspicious, self.source

    def to_json(self) -> dict[str, Any]:
        """Return the fields of a line."""
        line = {"suspicious": self.suspicious, "source": self.source, **self.passage.to_json()}
        if self.sentences is None:
            return line
        reasons = [reason.to_json() for reason in self.passage.reasons]
        return {**line, "sentences": self.sentences[0], "sentences2": self.sentences[1], "reasons": reasons}

    @classmethod
    def from_json(cls, line: Mapping[str, Any]) -> "PassageLine":
        """Return the record of a line."""
        sentences = (line["sentences"], line["sentences2"]) if "sentences" in line else None
        return cls(*_read_key(line, PAIR_KEY), MeasuredPassage.from_json(line), sentences)


class GainsLine(NamedTuple):
    """The gains of the tokens of a pair or of a candidate, a line of ``gains.jsonl.gz``."""

    key: Key
    tokens: TokenGains
    names: tuple[str, str] = PAIR_KEY

    def to_json(self) -> dict[str, Any]:
        """Return the fields of a line."""
        return {**dict(zip(self.names, self.key, strict=True)), **self.tokens.to_json()}

    @classmethod
    def from_json(cls, line: Mapping[str, Any]) -> "GainsLine":
        """Return the record of a line."""
        names = PAIR_KEY if PAIR_KEY[0] in line else CANDIDATE_KEY
        return cls(_read_key(line, names), TokenGains.from_json(line), names)


class TextLine(NamedTuple):
    """A text of a check as it was read, a line of ``texts.jsonl``."""

    name: str
    kind: Literal["suspicious", "source", "old"]
    words: int
    """Number of words that were compared."""
    warnings: tuple[str, ...]
    excluded: tuple[tuple[int, int, str], ...]
    """Begin and end of what does not count, in characters, and the reason."""
    text: str

    def to_json(self) -> dict[str, Any]:
        """Return the fields of a line."""
        return self._asdict()

    @classmethod
    def from_json(cls, line: Mapping[str, Any]) -> "TextLine":
        """Return the record of a line."""
        excluded = tuple((begin, end, reason) for begin, end, reason in line["excluded"])
        return cls(line["name"], line["kind"], line["words"], tuple(line["warnings"]), excluded, line["text"])


class QueryLine(NamedTuple):
    """The first stage of a query, a line of ``candidates.jsonl.gz``; scores keep all their digits."""

    query: str
    routes: Mapping[str, Ranking]
    """The ranking of each route."""
    candidates: Ranking
    """Their fusion."""

    def to_json(self) -> dict[str, Any]:
        """Return the fields of a line."""
        return self._asdict()

    @classmethod
    def from_json(cls, line: Mapping[str, Any]) -> "QueryLine":
        """Return the record of a line."""
        routes = {route: _parse_ranking(pairs) for route, pairs in line["routes"].items()}
        return cls(str(line["query"]), routes, _parse_ranking(line["candidates"]))


def _parse_ranking(pairs: Iterable[tuple[Any, Any]]) -> Ranking:
    ranking = [Ranked(str(doc_id), float(score)) for doc_id, score in pairs]
    if len({ranked.doc_id for ranked in ranking}) < len(ranking) or not all(math.isfinite(r.score) for r in ranking):
        raise ValueError("a document occurs twice, or a score is not finite")
    return ranking


class MeasuredCandidate(NamedTuple):
    """The measurements of a candidate of a query, a line of the score file of a run that is not complete."""

    query: str
    document: str
    tokens: int
    """Number of tokens of the query."""
    target_ids: str
    """A hash of these tokens, by which results know that they scored the same ones."""
    unconditional_mean: float
    """The mean log-probability of the query without a source, in nats."""
    values: Mapping[str, float]
    """Statistics of the gains, and their aggregations by field."""
    cosines: Sequence[float] | None = None
    """Of each sentence of the query with the most similar one of the source."""
    gains: Sequence[float] | None = None
    """Of each token of the query, in nats, if they are kept."""
    incidents: tuple[str, ...] = ()

    @property
    def key(self) -> Key:
        """Return the ids of query and document."""
        return self.query, self.document

    def to_json(self) -> dict[str, Any]:
        """Return the fields of a line."""
        line: dict[str, Any] = {name: getattr(self, name) for name in SCORE_FIELDS}
        line |= self.values
        more = {"cosines": self.cosines, "gains": self.gains, "incidents": self.incidents}
        return line | {name: value for name, value in more.items() if value}

    @classmethod
    def from_json(cls, line: Mapping[str, Any]) -> "MeasuredCandidate":
        """Return the record of a line."""
        own = {name: line[name] for name in SCORE_FIELDS}
        more = {name: line[name] for name in ("cosines", "gains") if name in line}
        values = {k: v for k, v in line.items() if k not in own and isinstance(v, int | float)}
        return cls(**own, values=values, **more, incidents=tuple(line.get("incidents", ())))


SCORE_FIELDS = (*CANDIDATE_KEY, "tokens", "target_ids", "unconditional_mean")


class CandidateLine(NamedTuple):
    """A candidate of a query in the final order, a line of ``scores.jsonl.gz``."""

    query: str
    document: str
    rank: int
    final: float | None
    """The score after reranking; None: not reranked."""
    coarse_rank: int
    coarse: float
    """The score of the first stage."""
    routes: Mapping[str, int | None]
    """The rank in each route; None: the route did not find it."""
    score: MeasuredCandidate | None = None
    """None: not scored."""
    match: float | None = None
    """The share of the query that its sentences explain, with ``[retrieval.match]``."""

    def to_json(self) -> dict[str, Any]:
        """Return the fields of a line."""
        line = {name: getattr(self, name) for name in RANK_FIELDS}
        line |= {f"{route.replace('-', '_')}{RANK}": rank for route, rank in self.routes.items()}
        if self.score is not None:
            line |= self.score._replace(cosines=None, gains=None, incidents=()).to_json()
        return line if self.match is None else {**line, "match": self.match}

    @classmethod
    def from_json(cls, line: Mapping[str, Any]) -> "CandidateLine":
        """Return the record of a line."""
        routes = {name.removesuffix(RANK).replace("_", "-"): rank for name, rank in line.items() if name[-5:] == RANK}
        routes.pop("coarse")
        own = {name: line[name] for name in RANK_FIELDS}
        others = {k: v for k, v in line.items() if k not in (*RANK_FIELDS[2:], "match") and not k.endswith(RANK)}
        score = MeasuredCandidate.from_json(others) if "tokens" in line else None
        return cls(**own, routes=routes, score=score, match=line.get("match"))


RANK_FIELDS, RANK = (*CANDIDATE_KEY, "rank", "final", "coarse_rank", "coarse"), "_rank"


class EvidenceLine(NamedTuple):
    """A passage of a query and the source that explains it best, a line of ``evidence.jsonl``."""

    query: str
    document: str
    rank: int
    """Of the source, in the run."""
    passage: MeasuredPassage
    """With the place of the source that it is most like, an empty one if none is like it by its words."""
    second: str | None
    """The source that explains it second best; None without one."""
    margin: float | None
    """The difference of their gains, in nats per token."""

    def to_json(self) -> dict[str, Any]:
        """Return the fields of a line."""
        (begin, end), place, passage = self.passage.target, self.passage.source, self.passage
        begin2, end2 = place if place.length else (None, None)
        return {
            **{"query": self.query, "begin": begin, "end": end, "document": self.document, "rank": self.rank},
            **{"gain": passage.gain, "second": self.second, "margin": self.margin, "begin2": begin2, "end2": end2},
            **{"similarity": passage.similarity, "verbatim": passage.verbatim},
        }

    @classmethod
    def from_json(cls, line: Mapping[str, Any]) -> "EvidenceLine":
        """Return the record of a line."""
        passage = MeasuredPassage.from_json(line)
        return cls(line["query"], line["document"], line["rank"], passage, line["second"], line["margin"])


def _read_key(line: Mapping[str, Any], names: tuple[str, str]) -> Key:
    return str(line[names[0]]), str(line[names[1]])


def read_decisions(path: Path) -> list[Decision]:
    """Return the decisions of a ``decisions.jsonl``, in the order of the file.

    Raises:
        UserError: not readable, not JSON Lines, a line that is no decision, or a pair twice.
    """
    decisions: dict[Key, Decision] = {}

    def parse(line: dict[str, Any]) -> None:
        decision = Decision.from_json(line)
        if decision.key in decisions:
            raise ValueError(f"repeats the pair {decision.suspicious} and {decision.source}")
        decisions[decision.key] = decision

    for _ in read_lines(path, parse, "give the decisions.jsonl of `run`"):
        pass
    return list(decisions.values())


def write_decisions(folder: Path, decided: Iterable[DecidedPair]) -> str:
    """Write the decisions; return the name of the file."""
    return write_lines(folder, DECISIONS, (one.record for one in decided), rounded=True)


def write_passages(
    folder: Path,
    decided: Mapping[DocumentPair, DecidedPair],
    quote: Callable[[DocumentPair, MeasuredPassage], tuple[list[str], list[str]]] | None = None,
) -> list[str]:
    """Write the passages if there are any, with the sentences that ``quote`` returns; return the file's name."""
    if not any(one.passages for one in decided.values()):
        return []
    lines = (
        PassageLine(*pair.key, passage, None if quote is None else quote(pair, passage))
        for pair, one in decided.items()
        for passage in one.passages
    )
    return [write_lines(folder, PASSAGES, lines, rounded=True)]


def write_gains(folder: Path, decided: Mapping[DocumentPair, DecidedPair]) -> list[str]:
    """Write the gains of the tokens in passages if there are any; return the file's name."""
    lines = [GainsLine(pair.key, one.gains) for pair, one in decided.items() if one.gains is not None]
    return [write_lines(folder, GAINS, lines)] if lines else []
