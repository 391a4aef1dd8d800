"""``score``: one suspicious and one source file, with the gain of every token on request."""

import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

from pan_scdg.errors import UserError
from pan_scdg.jobs.options import RunOptions
from pan_scdg.logs import say
from pan_scdg.notices import Notices
from pan_scdg.pan.text_alignment import read_text
from pan_scdg.pan.untrusted import read_standard_input
from pan_scdg.profile import PairSettings, Profile
from pan_scdg.records import DocumentPair, TextFile
from pan_scdg.scdg.aggregation import Aggregate, aggregate_of
from pan_scdg.scdg.gains import Gains
from pan_scdg.scoring.features import Wanted, feature_grid, features_of
from pan_scdg.scoring.known_range import (
    calibration_warnings,
    foreign_model,
    known_noise,
    near_fields,
    negatives_fields,
    target_facts,
    warnings_about,
)
from pan_scdg.scoring.model import ScoringModel
from pan_scdg.scoring.pair_plan import PlannedPair, plan_pairs
from pan_scdg.scoring.pairs import control_field
from pan_scdg.scoring.passes import PassScorer

STANDARD = Path("-")
"""Standard input or output instead of a file."""
STANDARD_INPUT = TextFile("standard input", "standard input", Path("standard input"))


class ScoredFiles(NamedTuple):
    """What is shown of two files, and one line of JSON a token."""

    described: dict[str, Any]
    tokens: Iterator[str]


def score_files(profile: Profile, suspicious: Path, source: Path, options: RunOptions) -> ScoredFiles:
    """Score, decision (None without a threshold), gain statistics and the gain of each token.

    Raises:
        UserError: a file cannot be read or the pair cannot be scored.
    """
    settings = profile.need_pairs()
    pair = DocumentPair(_text_file(suspicious), _text_file(source), 1)
    source_text, target = (
        read_standard_input() if file is STANDARD_INPUT else read_text(file) for file in (pair.source, pair.suspicious)
    )
    model = replace(options, workers=1).scoring_model(profile.need_model())
    planned, failed = plan_pairs([pair], model, settings, Notices(), lambda _: (source_text, target))
    if failed:
        raise failed[0].error
    passes = planned[0].texts().passes(model.tokenizer, settings)
    gains = PassScorer(model, None).gains(passes, settings.control)
    return ScoredFiles(_described(gains, planned[0], model, settings), _token_lines(gains, model))


def _described(gains: Gains, plan: PlannedPair, model: ScoringModel, settings: PairSettings) -> dict[str, Any]:
    """What is printed about the gains; a profile without q or w is shown the average."""
    aggregate = aggregate_of(settings) or Aggregate("top", 100.0)
    grid = feature_grid([] if settings.q is None else [settings.q])
    values = features_of(gains, Wanted(grid, aggregate.windows, aggregate.medians, aggregate.bounded))
    score = aggregate.of(values)
    known, threshold = settings.calibration, settings.threshold
    say(calibration_warnings(known, model))
    if (foreign := foreign_model(known, model)) is not None:
        known = threshold = None
    result = {
        "score": score,
        "threshold": threshold,
        "decision": None if threshold is None else bool(score >= threshold),
        **near_fields(score, threshold, known_noise(known, model)),
        "aggregation": aggregate.name,
        **control_field(settings.control),
        "mode": plan.mode,
        "tokens": values.tokens,
        "mean": values.mean,
        "median": values.median,
        "positive_gain_rate": values.positive_rate,
        "total_gain_nats": values.total,
        **{f"top_{p:g}": v for p, v in sorted(values.top.items())},
        **negatives_fields(score, known),
    }
    if known is not None and known.range is not None:
        facts = target_facts(model.tokenizer, plan.texts().target, values)
        result["warnings"] = warnings_about(facts, known, aggregate)
    if foreign is not None:
        result["warnings"] = [foreign]
    return result


def _text_file(path: Path) -> TextFile:
    if path == STANDARD:
        return STANDARD_INPUT
    if not path.is_file():
        raise UserError("the file does not exist", "give two text files", path)
    return TextFile(path.stem, path.name, path)


def _token_lines(gains: Gains, model: ScoringModel) -> Iterator[str]:
    columns = {"unconditional": gains.unconditional, "conditional": gains.conditional}
    if gains.control is not None:
        columns["control"] = gains.control
    columns["gain"] = gains.gains
    for position, token in enumerate(gains.token_ids.tolist()):
        record = {
            "position": position,
            "token_id": token,
            "token": model.tokenizer.decode([token]),
            **{name: round(float(values[position]), 6) for name, values in columns.items()},
        }
        yield json.dumps(record, ensure_ascii=True) + "\n"
