"""The records of a result, each a line of one of its files."""

from collections.abc import Mapping
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from typing import Any, Literal

from pan_scdg.records import Reason
from pan_scdg.results.files import read_lines

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
    def decide_alone(cls, key: tuple[str, str], decision: bool | None) -> "Decision":
        """Return the decision of a system that gives no score."""
        return cls(*key, None, None, decision, "likely" if decision else "no sign")

    @property
    def key(self) -> tuple[str, str]:
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
        values = {name: line[name] for name in FIELDS if name in line and name not in ("reasons", "numbers")}
        return cls(
            **{"score": None, "threshold": None, "finding": "likely" if decision else "no sign", **values},
            reasons=tuple(parse_reason(reason) for reason in line.get("reasons", ())),
            numbers={k: v for k, v in line.items() if k not in FIELDS and isinstance(v, int | float | str)},
        )


FIELDS = {one.name for one in fields(Decision)}


def parse_reason(line: Mapping[str, Any]) -> Reason:
    """Return the reason of an object in JSON."""
    return Reason(line["code"], {name: value for name, value in line.items() if name != "code"})


def read_decisions(path: Path) -> list[Decision]:
    """Return the decisions of a ``decisions.jsonl``, in the order of the file.

    Raises:
        UserError: not readable, not JSON Lines, a line that is no decision, or a pair twice.
    """
    decisions: dict[tuple[str, str], Decision] = {}

    def parse(line: dict[str, Any]) -> None:
        decision = Decision.from_json(line)
        if decision.key in decisions:
            raise ValueError(f"repeats the pair {decision.suspicious} and {decision.source}")
        decisions[decision.key] = decision

    for _ in read_lines(path, parse, "give the decisions.jsonl of `run`"):
        pass
    return list(decisions.values())
