"""What job 1 writes: a detection XML a pair, the gains on request, and ``decisions.jsonl``."""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from pan_scdg.digests import text_digest
from pan_scdg.notices import Notices
from pan_scdg.pan.detections import decision_line, detection_name, detection_xml
from pan_scdg.pan.runs import open_gzip_text
from pan_scdg.profile import Calibration, Control
from pan_scdg.records import DocumentPair, Passage
from pan_scdg.scdg.aggregation import Aggregate
from pan_scdg.scdg.calibration_range import TargetFacts
from pan_scdg.scoring.features import load_gains
from pan_scdg.scoring.known_range import near_fields, negatives_fields, warnings_about
from pan_scdg.scoring.pair_plan import FailedPair
from pan_scdg.scoring.pairs import ScoredPair, control_field
from pan_scdg.store import Store

DECISIONS = "decisions.jsonl"
GAINS = "gains.jsonl.gz"


class Rule(NamedTuple):
    """A pair is positive when its score is at least ``threshold``; without one nothing is decided."""

    aggregate: Aggregate
    threshold: float | None
    control: Control = "none"
    calibration: Calibration | None = None
    noise: float | None = None

    def positive(self, item: ScoredPair) -> bool | None:
        """The decision about a scored pair (paper, PAN25 decision rule, ``>=``); None: not decided."""
        return None if self.threshold is None else bool(self.aggregate.of(item.features) >= self.threshold)


class Verdict(NamedTuple):
    """What is written about a pair: its record in ``decisions.jsonl`` and its detections."""

    record: Mapping[str, Any]
    passages: tuple[Passage, ...]


def scored_verdict(item: ScoredPair, rule: Rule, names: Mapping[str, str], facts: TargetFacts | None = None) -> Verdict:
    """The verdict about a scored pair.

    ``names`` maps document ids to the names that the user knows, if any; ``facts`` are held against the range of the
    rule's calibration.
    """
    score = rule.aggregate.of(item.features)
    warnings = []
    if item.plan.mode == "segments":
        warnings.append("scored in segments: the pair is longer than the profile's limit")
    if item.plan.source_length == 0:
        warnings.append("the source document is empty")
    warnings += warnings_about(facts, rule.calibration, rule.aggregate)
    record = {
        **who(item.plan.pair, names),
        "score": score,
        "threshold": rule.threshold,
        "decision": rule.positive(item),
        **near_fields(score, rule.threshold, rule.noise),
        "aggregation": rule.aggregate.name,
        **control_field(rule.control),
        "tokens": item.features.tokens,
        "mean": item.features.mean,
        "median": item.features.median,
        "positive_gain_rate": item.features.positive_rate,
        **negatives_fields(score, rule.calibration),
        "warnings": warnings,
    }
    # One feature spans both documents. A feature of length 0 would break evaluators.
    found = rule.positive(item) and item.plan.source_length > 0
    whole = Passage(0, item.plan.target_length, 0, item.plan.source_length, "")
    return Verdict(record, (whole,) if found else ())


def failed_verdict(item: FailedPair, rule: Rule, names: Mapping[str, str]) -> Verdict:
    """A pair that could not be scored, decided negative because the user asked for that."""
    decision, said = (False, "not scored, decided negative") if rule.threshold is not None else (None, "not scored")
    nothing = dict.fromkeys(("score", "tokens", "mean", "median", "positive_gain_rate"))
    record = {
        **who(item.pair, names),
        **nothing,
        "threshold": rule.threshold,
        "decision": decision,
        **near_fields(None, rule.threshold, rule.noise),
        "aggregation": rule.aggregate.name,
        **control_field(rule.control),
        **negatives_fields(None, rule.calibration),
        "warnings": [f"{said}: {item.error.what}"],
    }
    return Verdict(record, ())


def who(pair: DocumentPair, names: Mapping[str, str]) -> dict[str, Any]:
    """The fields that name a pair: its ids, and the user's own names where there are any."""
    ids = {"suspicious": pair.suspicious.doc_id, "source": pair.source.doc_id}
    if names:
        ids["suspicious_name"] = names.get(pair.suspicious.doc_id, pair.suspicious.doc_id)
        ids["source_name"] = names.get(pair.source.doc_id, pair.source.doc_id)
    return ids


def names_digest(names: Mapping[str, str]) -> str | None:
    """What stands for the map of original names in a job; the results show them."""
    return text_digest(json.dumps(sorted(names.items()))) if names else None


def warn_of_few(positives: int, notices: Notices, output: Path) -> None:
    """Note where the result has too few pairs with a passage for TIRA's check.

    Raises:
        UserError: in strict mode.
    """
    if positives < 2:
        what = "pair was" if positives == 1 else "pairs were"
        notices.add(f"{positives or 'no'} {what} decided positive: TIRA's check will refuse this output", str(output))


def write_verdicts(folder: Path, verdicts: Mapping[DocumentPair, Verdict]) -> list[str]:
    """Write a detection XML a pair and then the decisions; returns the names of the files in that order."""
    written = []
    for pair, verdict in verdicts.items():
        (folder / detection_name(pair)).write_bytes(detection_xml(pair, verdict.passages))
        written.append(detection_name(pair))
    with open(folder / DECISIONS, "w", encoding="utf-8", newline="\n") as file:
        file.writelines(decision_line(v.record) for v in verdicts.values())
    return [*written, DECISIONS]


def write_gains(path: Path, scored: Sequence[ScoredPair], store: Store, control: Control) -> None:
    """Write one JSON line a pair with the gain of each token in nats, 6 decimals, and the control if there is one."""
    with open_gzip_text(path) as file:
        for item in scored:
            gains = [round(float(g), 6) for g in load_gains(store, item.plan.key, control)]
            record = {**who(item.plan.pair, {}), **control_field(control), "gains": gains}
            file.write(json.dumps(record) + "\n")
