"""Decisions from the numbers of a method: the threshold, what it is for, and what is warned about."""

from pathlib import Path
from typing import Any

import pytest

from pan_scdg.errors import UserError
from pan_scdg.jobs.decisions import DecisionRule, require_threshold
from pan_scdg.methods import Measurements
from pan_scdg.profile import Profile, parse_profile
from pan_scdg.records import DocumentPair, Reason, TextFile
from pan_scdg.report.wording import describe_numbers, describe_reasons
from pan_scdg.results.records import FEW_WORDS, JUST_BELOW, TOO_LITTLE_TEXT, Decision
from tests.decisions import list_sentences

PAIR = DocumentPair(*(TextFile(name, f"{name}.txt", Path(name)) for name in ("s", "r")))
RANGE = {"tokens": [200, 900], "nats_per_byte": [1.0, 2.0], "common_words": 0.6}
CALIBRATION = {"digest": "d", "pairs": 4, "positives": 2, "f1": 1.0, "accuracy": 1.0, "negatives": [0.1, 0.2]}
INSIDE = {"tokens": 500, "mean": 0.1, "median": 0.2, "positive_gain_rate": 0.5, "nats_per_byte": 1.5}
INSIDE |= {"common_words": 0.7, "top_10": 0.5}


def make_profile(method: str, table: dict[str, Any], **decide: Any) -> Profile:
    model = {"model": {"name": "m"}} if method == "gains" else {}
    tables = {**model, "decide": {"method": method, **decide}, method.replace("-", "_"): table}
    return parse_profile({"name": "p", "description": "d", **tables}, "p.toml")


def make_rule(profile: Profile, fingerprint: str = "", dtype: str | None = None) -> DecisionRule:
    return DecisionRule(profile, fingerprint, dtype)


def decide_score(score: float, fingerprint: str = "", computed_in: str | None = None, **decide: Any) -> dict[str, Any]:
    profile = make_profile("containment", {}, threshold=0.5, **decide)
    measured = Measurements({"score": score}, (Reason("odd"),))
    return make_rule(profile, fingerprint, computed_in).decide(PAIR, measured).to_json()


@pytest.mark.parametrize("score", [0.0, 0.39, 0.45, 0.5, 0.55, 0.61])
def test_a_score_of_at_least_the_threshold_is_positive_and_one_within_the_noise_is_near(score: float) -> None:
    odd = [{"code": "odd"}]
    fields = {"suspicious": "s", "source": "r", "score": score, "threshold": 0.5, "method": "containment"}
    fields |= {"decision": score >= 0.5, "finding": "likely" if score >= 0.5 else "no sign", "reasons": odd}
    assert decide_score(score) == fields
    fields["near_threshold"] = 0.4 < score < 0.6
    if 0.4 < score < 0.5:
        fields |= {"finding": "unclear", "reasons": [*odd, {"code": JUST_BELOW}]}
    assert decide_score(score, noise=0.1) == fields


def test_the_threshold_of_another_model_decides_nothing() -> None:
    decide = {"calibrated_with": "one" * 20, "noise": 0.1, "calibration": CALIBRATION}
    assert decide_score(0.5, "one" * 20, **decide)["decision"]
    assert decide_score(0.5, "one" * 20, **decide)["negatives_at_least"] == 0
    other = decide_score(0.5, "two" * 20, **decide)
    assert (other["score"], other["threshold"], other["decision"]) == (0.5, None, None)
    assert not {"near_threshold", "negatives_at_least"} & set(other)
    reason = make_rule(make_profile("containment", {}, threshold=0.5, **decide), "two").reason
    assert str(reason).startswith("no decisions: the profile was calibrated with a model oneone")


def test_another_dtype_decides_with_a_warning_and_without_a_noise(monkeypatch: pytest.MonkeyPatch) -> None:
    lines: list[str] = []
    monkeypatch.setattr("pan_scdg.jobs.decisions.say", lines.extend)
    decide = {"calibrated_with": "m", "dtype": "bfloat16", "noise": 0.1}
    assert decide_score(0.5, "m", "bfloat16", **decide)["near_threshold"]
    assert lines == []
    record = decide_score(0.5, "m", "float32", **decide)
    assert (record["decision"], "near_threshold" in record) == (True, False)
    (line,) = lines
    assert line.startswith("warning: calibrated in bfloat16 and computed in float32: ")


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({}, []),
        ({"tokens": 169}, ["169 target tokens"]),
        ({"common_words": 0.5}, ["share of common words 0.50"]),
        ({"nats_per_byte": 2.4}, ["2.40 nats per byte"]),
        ({"nats_per_byte": 0.8, "tokens": 10}, ["10 target tokens", "predictable without the source: 0.80"]),
    ],
)
def test_targets_unlike_those_of_the_calibration_are_warned_about(changes: dict[str, float], said: list[str]) -> None:
    table = {"limit": 512, "q": 10.0}
    profile = make_profile("gains", table, threshold=0.4, calibration={**CALIBRATION, "range": RANGE})
    record = make_rule(profile).decide(PAIR, Measurements({**INSIDE, **changes})).to_json()
    assert len(record["reasons"]) == len(said)
    assert all(words in line for words, line in zip(said, list_sentences(record)))
    shown = {name: {**INSIDE, **changes}[name] for name in ("tokens", "mean", "median", "positive_gain_rate")}
    assert {name: record[name] for name in shown} == shown
    assert (record["aggregation"], record["score"], record["decision"]) == ("top-10%", 0.5, True)
    assert (record["negatives_at_least"], record["negatives"]) == (0, 0)


def test_alignment_says_when_only_the_texts_as_wholes_decide() -> None:
    profile = make_profile("alignment", {"model": "m"}, threshold=0.4)
    values = {"alignment": 0.4, "similarity": 0.0, "margin": 0.1, "candidates": 25.0, "copied": 0.0, "words": 90.0}
    values |= {
        "contrast": 0.2,
        "density": 0.0,
        "topic": 0.4,
        "nearest": 0.1,
        "sentences": 9.0,
        "corresponding": 1.0,
        "in_order": 0.0,
    }
    rule = make_rule(profile)

    def decide(**changes: float) -> Decision:
        return rule.decide(PAIR, Measurements({**values, **changes}))

    record = decide()
    assert (record.decision, record.reasons) == (True, (Reason("only_similar"),))
    assert record.numbers == values
    assert describe_numbers(record) == "1 of 9 sentences corresponds to one of the source"
    assert decide(alignment=1.4).reasons == ()
    assert decide(contrast=0.0, margin=0.18).reasons == (Reason(JUST_BELOW),), "negative"
    assert decide(contrast=0.0, margin=0.0).reasons == (), "far below"
    short = decide(sentences=1.0, similarity=0.9)
    assert (short.decision, short.finding, short.reasons) == (False, "unclear", (Reason(TOO_LITTLE_TEXT),))
    assert decide(sentences=1.0).finding == "no sign", "a single sentence has neither margin nor extent"


def test_a_text_of_few_words_is_unclear_unless_the_method_knows_what_is_too_little() -> None:
    few = Reason(FEW_WORDS, {"side": "source", "words": 3})
    containment = make_rule(make_profile("containment", {}, threshold=0.5))
    record = containment.decide(PAIR, Measurements({"score": 0.9}), [few])
    assert (record.decision, record.finding, record.reasons) == (True, "unclear", (few,))
    copy = {"alignment": 9.0, "similarity": 1.0, "margin": 0.1, "candidates": 25.0, "copied": 14.0, "words": 14.0}
    copy |= {"contrast": 0.2, "density": 0.0, "topic": 0.4, "nearest": 0.1}
    copy |= {"sentences": 1.0, "corresponding": 1.0, "in_order": 0.0}
    alignment = make_rule(make_profile("alignment", {"model": "m"}, threshold=0.4))
    record = alignment.decide(PAIR, Measurements(copy), [few])
    assert (record.decision, record.finding, record.reasons) == (True, "likely", ())


def test_a_pair_without_a_score_is_negative_with_the_reason() -> None:
    profile = make_profile("containment", {}, threshold=0.5, noise=0.1, calibration=CALIBRATION)
    record = make_rule(profile).decide_failed(PAIR, UserError("is empty", "remove it"))
    assert (record.score, record.decision, record.near_threshold, record.finding) == (None, False, None, "unclear")
    assert describe_reasons(record) == ["not scored, decided negative: is empty"]
    undecided = make_rule(make_profile("containment", {}, threshold=None)).decide_failed(PAIR, UserError("x", "y"))
    assert (undecided.decision, describe_reasons(undecided)) == (None, ["not scored: x"])


def test_what_was_never_calibrated_decides_nothing() -> None:
    with pytest.raises(UserError, match="has no threshold and cannot decide. Calibrate it"):
        require_threshold(make_profile("containment", {}))
    record = make_rule(make_profile("gram-logistic", {})).decide(PAIR, Measurements({}))
    assert (record.score, record.decision) == (None, None), "a logistic model without weights"
