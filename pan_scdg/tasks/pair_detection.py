"""Job 1, start to end: pairs in, one detection XML per pair and ``decisions.jsonl`` out (paper, PAN25)."""

import json
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from pan_scdg.digests import text_digest
from pan_scdg.errors import UserError, UserErrors
from pan_scdg.notices import Notices
from pan_scdg.pan.detections import decision_line, detection_name, detection_xml
from pan_scdg.pan.inputs import input_digest
from pan_scdg.pan.prepare import read_names
from pan_scdg.pan.runs import open_gzip_text
from pan_scdg.pan.text_alignment import DocumentPair, PairCorpus, read_pairs, read_text
from pan_scdg.pan.truth import Passage
from pan_scdg.profile import PairSettings, Profile
from pan_scdg.progress import Progress
from pan_scdg.scdg.gains import GainStatistics
from pan_scdg.store import Store
from pan_scdg.tasks.features import feature_grid, load_features, load_gains, save_features
from pan_scdg.tasks.options import ModelAtHand, RunOptions, job_of
from pan_scdg.tasks.output import OutputDirectory
from pan_scdg.tasks.pair_plan import FailedPair, PlannedPair, passes_of, plan_pairs
from pan_scdg.tasks.passes import PassScorer

DECISIONS = "decisions.jsonl"
GAINS = "gains.jsonl.gz"


class ScoredPair(NamedTuple):
    """A planned pair with the statistics of its gains."""

    plan: PlannedPair
    features: GainStatistics


def detect_pairs(profile: Profile, options: RunOptions) -> list[str]:
    """Decide every pair of the input and write the results; returns the lines to show the user.

    Raises:
        UserError: input, settings or output are not usable; nothing has its final name then.
    """
    settings = profile.need_pairs()
    q, threshold = calibrated(profile)
    notices = Notices(options.strict)
    corpus = read_pairs(options.input, notices)
    model = ModelAtHand(profile.model, options)
    names = read_names(options.input)
    job = job_of("pairs", profile, options, input_digest(options.input, "pairs"), {"language_model": model.identity()})
    output = OutputDirectory(options.output, {**job, "names": names_digest(names)})
    if output.prepare(options.overwrite):
        return [f"already complete: {options.output}"]
    if not output.publishing():
        try:
            with Store(options.state or output.hidden) as store:
                scored, failed = score_pairs(corpus, model, settings, store, notices, options)
                written = _stage(output, scored, failed, corpus, store, options, q, threshold, notices, names)
        except UserErrors:  # found before anything was scored; their remedy is another setting
            output.abandon()
            raise
        output.seal(written)
    output.publish()
    return [*notices.lines(), f"decided {len(corpus.pairs)} pairs: {options.output / DECISIONS}"]


def calibrated(profile: Profile) -> tuple[float, float]:
    """q and threshold of the profile.

    Raises:
        UserError: the profile was never calibrated.
    """
    settings = profile.need_pairs()
    if settings.q is None or settings.threshold is None:
        raise UserError(
            f"profile {profile.name} has no threshold, so it decides nothing",
            "calibrate it on pairs with truth: `calibrate --input DIR --profile NAME --write FILE`",
        )
    return settings.q, settings.threshold


def score_pairs(
    corpus: PairCorpus,
    model: ModelAtHand,
    settings: PairSettings,
    store: Store,
    notices: Notices,
    options: RunOptions,
) -> tuple[list[ScoredPair], list[FailedPair]]:
    """The gain statistics of every pair, from the store where they are known.

    Raises:
        UserErrors: some pairs cannot be scored and ``on_error`` is ``stop``; nothing was scored then.
    """
    model.check_length(settings.limit, "pairs.limit")
    planned, failed = plan_pairs(corpus.pairs, model, settings, notices)
    if failed and options.on_error == "stop":
        raise UserErrors([f.error for f in failed])
    grid = feature_grid([settings.q] if settings.q else [])
    scorer, scored = PassScorer(model, store), []
    with Progress("scoring pairs", len(planned)) as progress:
        for plan in planned:
            before = scorer.tokens
            features = load_features(store, plan.key, grid, options.keep_gains)
            if features is None:
                source, target = read_text(plan.pair.source), read_text(plan.pair.suspicious)
                gains = scorer.gains(passes_of(source, target, plan.mode, model, settings))
                features = save_features(store, plan.key, gains, grid, options.keep_gains)
            scored.append(ScoredPair(plan, features))
            progress.update(tokens=scorer.tokens - before)
    return scored, failed


def aggregation_name(q: float) -> str:
    """How an aggregation is called in results: ``average`` or ``top-2%``."""
    return "average" if q == 100 else f"top-{q:g}%"


def _stage(
    output: OutputDirectory,
    scored: Sequence[ScoredPair],
    failed: Sequence[FailedPair],
    corpus: PairCorpus,
    store: Store,
    options: RunOptions,
    q: float,
    threshold: float,
    notices: Notices,
    names: Mapping[str, str],
) -> list[str]:
    """Write all results into the staging folder; returns their names, the mark of completeness last."""
    by_pair: dict[DocumentPair, tuple[Mapping[str, Any], tuple[Passage, ...]]] = {}
    for item in scored:
        by_pair[item.plan.pair] = _decision(item, q, threshold, names), _whole_documents(item, q, threshold)
    for item_failed in failed:
        by_pair[item_failed.pair] = _undecided(item_failed, q, threshold, names), ()
    written = []
    for pair in corpus.pairs:
        name = detection_name(pair)
        (output.staged / name).write_bytes(detection_xml(pair, by_pair[pair][1]))
        written.append(name)
    positives = sum(bool(by_pair[pair][1]) for pair in corpus.pairs)
    if positives < 2:
        notices.add(f"{positives} pairs decided positive: TIRA's check will refuse this output", str(output.path))
    if options.keep_gains:
        _write_gains(output.staged / GAINS, scored, store)
        written.append(GAINS)
    with open(output.staged / DECISIONS, "w", encoding="utf-8", newline="\n") as file:
        file.writelines(decision_line(by_pair[pair][0]) for pair in corpus.pairs)
    return [*written, DECISIONS]


def _decision(item: ScoredPair, q: float, threshold: float, names: Mapping[str, str]) -> dict[str, Any]:
    score = item.features.top[q]
    warnings = (
        ["scored in segments: the pair is longer than the profile's limit"] if item.plan.mode == "segments" else []
    )
    if item.plan.source_length == 0:
        warnings.append("the source document is empty")
    return {
        **_who(item.plan.pair, names),
        "score": score,
        "threshold": threshold,
        "decision": bool(score >= threshold),
        "aggregation": aggregation_name(q),
        "tokens": item.features.tokens,
        "mean": item.features.mean,
        "median": item.features.median,
        "positive_gain_rate": item.features.positive_rate,
        "warnings": warnings,
    }


def _undecided(item: FailedPair, q: float, threshold: float, names: Mapping[str, str]) -> dict[str, Any]:
    """A pair that could not be scored, decided negative because the user asked for that."""
    nothing = dict.fromkeys(("score", "tokens", "mean", "median", "positive_gain_rate"))
    return {
        **_who(item.pair, names),
        **nothing,
        "threshold": threshold,
        "decision": False,
        "aggregation": aggregation_name(q),
        "warnings": [f"not scored, decided negative: {item.error.what}"],
    }


def names_digest(names: Mapping[str, str]) -> str | None:
    """What stands for the map of original names in a job; the results show them."""
    return text_digest(json.dumps(sorted(names.items()))) if names else None


def _who(pair: DocumentPair, names: Mapping[str, str]) -> dict[str, Any]:
    who = {"suspicious": pair.suspicious.doc_id, "source": pair.source.doc_id}
    if names:
        who["suspicious_name"] = names.get(pair.suspicious.doc_id, pair.suspicious.doc_id)
        who["source_name"] = names.get(pair.source.doc_id, pair.source.doc_id)
    return who


def _whole_documents(item: ScoredPair, q: float, threshold: float) -> tuple[Passage, ...]:
    """One feature that spans both documents when the pair is positive; a feature of length 0 would break evaluators."""
    if item.features.top[q] < threshold or item.plan.source_length == 0:
        return ()
    return (Passage(0, item.plan.target_length, 0, item.plan.source_length, ""),)


def _write_gains(path: Path, scored: Sequence[ScoredPair], store: Store) -> None:
    def lines() -> Iterator[str]:
        for item in scored:
            gains = [round(float(g), 6) for g in load_gains(store, item.plan.key)]
            pair = item.plan.pair
            yield (
                json.dumps({"suspicious": pair.suspicious.doc_id, "source": pair.source.doc_id, "gains": gains}) + "\n"
            )

    with open_gzip_text(path) as file:
        file.writelines(lines())


def show(lines: Sequence[str]) -> None:
    """Tell the user, on stderr: stdout is for results."""
    for line in lines:
        print(line.encode("ascii", "backslashreplace").decode(), file=sys.stderr)


def labels_and_scores(
    scored: Sequence[ScoredPair], positive: Mapping[tuple[str, str], bool], grid: Sequence[float]
) -> tuple[np.ndarray[Any, np.dtype[np.bool_]], dict[float, np.ndarray[Any, np.dtype[np.float64]]]]:
    """Labels ``[pairs]`` and, for each q of ``grid``, scores ``[pairs]``, in the order of ``scored``."""
    labels = np.array([positive[s.plan.pair.suspicious.doc_id, s.plan.pair.source.doc_id] for s in scored], dtype=bool)
    return labels, {float(q): np.array([s.features.top[float(q)] for s in scored]) for q in grid}
