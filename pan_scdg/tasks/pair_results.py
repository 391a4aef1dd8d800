"""What job 1 writes: a detection XML a pair, the gains on request, and ``decisions.jsonl``."""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from pan_scdg.digests import text_digest
from pan_scdg.pan.detections import decision_line, detection_name, detection_xml
from pan_scdg.pan.runs import open_gzip_text
from pan_scdg.pan.text_alignment import DocumentPair
from pan_scdg.pan.truth import Passage
from pan_scdg.store import Store
from pan_scdg.tasks.features import load_gains
from pan_scdg.tasks.pair_plan import FailedPair
from pan_scdg.tasks.pair_scoring import ScoredPair, aggregation_name

DECISIONS = "decisions.jsonl"
GAINS = "gains.jsonl.gz"


class Rule(NamedTuple):
    """A pair is positive when the mean of its largest ``q`` percent of gains is at least ``threshold``."""

    q: float
    threshold: float

    def positive(self, item: ScoredPair) -> bool:
        """The decision about a scored pair (paper, PAN25 decision rule, ``>=``)."""
        return bool(item.features.top[self.q] >= self.threshold)


class Verdict(NamedTuple):
    """What is written about a pair: its record in ``decisions.jsonl`` and its detections."""

    record: Mapping[str, Any]
    passages: tuple[Passage, ...]


def scored_verdict(item: ScoredPair, rule: Rule, names: Mapping[str, str]) -> Verdict:
    """The verdict about a scored pair; ``names`` maps document ids to the names that the user knows, if any."""
    warnings = []
    if item.plan.mode == "segments":
        warnings.append("scored in segments: the pair is longer than the profile's limit")
    if item.plan.source_length == 0:
        warnings.append("the source document is empty")
    record = {
        **_who(item.plan.pair, names),
        "score": item.features.top[rule.q],
        "threshold": rule.threshold,
        "decision": rule.positive(item),
        "aggregation": aggregation_name(rule.q),
        "tokens": item.features.tokens,
        "mean": item.features.mean,
        "median": item.features.median,
        "positive_gain_rate": item.features.positive_rate,
        "warnings": warnings,
    }
    # One feature spans both documents. A feature of length 0 would break evaluators.
    found = rule.positive(item) and item.plan.source_length > 0
    whole = Passage(0, item.plan.target_length, 0, item.plan.source_length, "")
    return Verdict(record, (whole,) if found else ())


def failed_verdict(item: FailedPair, rule: Rule, names: Mapping[str, str]) -> Verdict:
    """A pair that could not be scored, decided negative because the user asked for that."""
    nothing = dict.fromkeys(("score", "tokens", "mean", "median", "positive_gain_rate"))
    record = {
        **_who(item.pair, names),
        **nothing,
        "threshold": rule.threshold,
        "decision": False,
        "aggregation": aggregation_name(rule.q),
        "warnings": [f"not scored, decided negative: {item.error.what}"],
    }
    return Verdict(record, ())


def _who(pair: DocumentPair, names: Mapping[str, str]) -> dict[str, Any]:
    who = {"suspicious": pair.suspicious.doc_id, "source": pair.source.doc_id}
    if names:
        who["suspicious_name"] = names.get(pair.suspicious.doc_id, pair.suspicious.doc_id)
        who["source_name"] = names.get(pair.source.doc_id, pair.source.doc_id)
    return who


def names_digest(names: Mapping[str, str]) -> str | None:
    """What stands for the map of original names in a job; the results show them."""
    return text_digest(json.dumps(sorted(names.items()))) if names else None


def write_verdicts(folder: Path, verdicts: Mapping[DocumentPair, Verdict]) -> list[str]:
    """Write a detection XML a pair and then the decisions; returns the names of the files in that order."""
    written = []
    for pair, verdict in verdicts.items():
        (folder / detection_name(pair)).write_bytes(detection_xml(pair, verdict.passages))
        written.append(detection_name(pair))
    with open(folder / DECISIONS, "w", encoding="utf-8", newline="\n") as file:
        file.writelines(decision_line(v.record) for v in verdicts.values())
    return [*written, DECISIONS]


def write_gains(path: Path, scored: Sequence[ScoredPair], store: Store) -> None:
    """Write one JSON line a pair with the gain of each token in nats, 6 decimals."""
    with open_gzip_text(path) as file:
        for item in scored:
            gains = [round(float(g), 6) for g in load_gains(store, item.plan.key)]
            file.write(json.dumps({**_who(item.plan.pair, {}), "gains": gains}) + "\n")
