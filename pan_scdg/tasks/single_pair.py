"""``score``: one suspicious and one source file, with the gain of every token on request."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from pan_scdg.errors import UserError
from pan_scdg.notices import Notices
from pan_scdg.pan.text_alignment import DocumentPair, TextFile, read_text
from pan_scdg.profile import Profile
from pan_scdg.scdg.gains import Gains, statistics
from pan_scdg.tasks.features import feature_grid
from pan_scdg.tasks.model_at_hand import ModelAtHand
from pan_scdg.tasks.options import RunOptions
from pan_scdg.tasks.output import write_atomically
from pan_scdg.tasks.pair_plan import passes_of, plan_pairs
from pan_scdg.tasks.pair_scoring import aggregation_name
from pan_scdg.tasks.passes import PassScorer


def score_files(
    profile: Profile, suspicious: Path, source: Path, options: RunOptions, tokens: Path | None
) -> dict[str, Any]:
    """Score, decision (None without a threshold) and gain statistics; the profile of the tokens goes to ``tokens``.

    Raises:
        UserError: a file cannot be read or the pair cannot be scored.
    """
    settings = profile.need_pairs()
    pair = DocumentPair(_text_file(suspicious), _text_file(source), 1)
    model = ModelAtHand(profile.model, options)
    planned, failed = plan_pairs([pair], model, settings, Notices())
    if failed:
        raise failed[0].error
    passes = passes_of(read_text(pair.source), read_text(pair.suspicious), planned[0].mode, model, settings)
    gains = PassScorer(model, None).gains(passes)
    if tokens is not None:
        write_atomically(tokens, "".join(_token_lines(gains, model)))
    q = 100.0 if settings.q is None else settings.q
    values = statistics(gains.gains, feature_grid([q]))
    score = values.top[q]
    return {
        "score": score,
        "threshold": settings.threshold,
        "decision": None if settings.threshold is None else bool(score >= settings.threshold),
        "aggregation": aggregation_name(q),
        "mode": planned[0].mode,
        "tokens": values.tokens,
        "mean": values.mean,
        "median": values.median,
        "positive_gain_rate": values.positive_rate,
        "total_gain_nats": values.total,
        **{f"top_{p:g}": v for p, v in sorted(values.top.items())},
    }


def _text_file(path: Path) -> TextFile:
    if not path.is_file():
        raise UserError("the file does not exist", "give two text files", path)
    return TextFile(path.stem, path.name, path)


def _token_lines(gains: Gains, model: ModelAtHand) -> Iterator[str]:
    columns = (gains.token_ids, gains.unconditional, gains.conditional, gains.gains)
    for position, (token, alone, given, gain) in enumerate(zip(*(np.asarray(c).tolist() for c in columns))):
        record = {
            "position": position,
            "token_id": int(token),
            "token": model.tokenizer.decode([int(token)]),
            "unconditional": round(alone, 6),
            "conditional": round(given, 6),
            "gain": round(gain, 6),
        }
        yield json.dumps(record, ensure_ascii=True) + "\n"
