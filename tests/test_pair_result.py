"""The verdict about a pair in ordinary language, and the evidence of its passages."""

from typing import Any

import numpy as np
import pytest

from pan_scdg.pair_result import PairResult, Token
from pan_scdg.align.align import Evidence
from pan_scdg.records import Passage

TEXT = "One two three four." + 50 * " And more."

EVIDENCE = Evidence(Passage(3, 10, 0, 9), 0.5, 0.25)


def make_result(text: str = TEXT, **changes: Any) -> PairResult:
    tokens = tuple(
        Token(i, word, begin, begin + len(word), -3.0, -3.0 + i, -2.5, float(i))
        for i, (begin, word) in enumerate([(0, "One"), (3, " two"), (7, " three"), (13, " four.")])
    )
    values = {
        "score": 0.4,
        "decision": True,
        "threshold": 0.3,
        "warnings": (),
        "passages": (EVIDENCE,),
        **changes,
    }
    told = {name: values[name] for name in ("score", "decision", "threshold", "warnings")}
    record = {**told, **values.pop("record", {})}
    gains = np.array([token.gain for token in tokens])
    return PairResult(gains=gains, tokens=tokens, texts=(text, TEXT), facts={"profile": "p"}, record=record, **values)


@pytest.mark.parametrize(
    ("changes", "judgement"),
    [
        ({}, "likely"),
        ({"warnings": ("the target is longer than the calibration texts",)}, "likely"),
        ({"text": TEXT[:200]}, "unclear"),
        ({"decision": None, "threshold": None}, "unclear"),
        ({"decision": False, "score": 0.1}, "no sign"),
        ({"decision": False, "score": 0.1, "record": {"near_threshold": True}}, "unclear"),
        ({"decision": False, "score": 0.28, "record": {"baseline": "alignment"}}, "unclear"),
        ({"decision": False, "score": 0.1, "record": {"negatives_at_least": 0.05}}, "unclear"),
        ({"decision": False, "score": 0.1, "record": {"negatives_at_least": 0.5}}, "no sign"),
    ],
)
def test_a_verdict_is_said_in_ordinary_language(changes: dict[str, Any], judgement: str) -> None:
    (pair,) = make_result(**changes).to_report().pairs
    assert pair.judgement == judgement


def test_a_passage_keeps_its_own_gain() -> None:
    report = make_result(passages=(EVIDENCE._replace(gain=0.75, control=0.125),)).to_report()
    (passage,) = report.pairs[0].passages
    assert (passage.gain, passage.control) == (0.75, 0.125)


def test_a_report_has_the_names_and_the_facts() -> None:
    report = make_result().to_report(("a.txt", "b.txt"))
    (passage,) = report.pairs[0].passages
    assert (passage.begin, passage.end, passage.begin2, passage.end2) == (3, 13, 0, 9)
    assert report.suspicious["a.txt"].text == TEXT
    assert dict(report.facts) == {"profile": "p"}
