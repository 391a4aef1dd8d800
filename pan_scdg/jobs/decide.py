"""``decide``: decide pairs again from the scores of a result, by another threshold or profile, without a model."""

import shutil
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import NamedTuple

from pan_scdg.errors import UserError
from pan_scdg.jobs.calibrate import check_scores_profile
from pan_scdg.jobs.decisions import DecisionRule, require_threshold
from pan_scdg.jobs.options import choose_recorded
from pan_scdg.jobs.pairs import (
    NO_PASSAGE,
    add_detections,
    add_names,
    note_languages,
    warn_about_few_detections,
    write_detections,
)
from pan_scdg.jobs.pipeline import DecidedPairs
from pan_scdg.jobs.worker import PairWorker
from pan_scdg.methods import Measurements, MethodOptions
from pan_scdg.notices import Notices
from pan_scdg.pan.inputs import hash_input
from pan_scdg.pan.prepare import read_names
from pan_scdg.pan.text_alignment import DETECTED, name_detection, read_pairs, read_text
from pan_scdg.pan.truth import read_feature_files
from pan_scdg.pan.untrusted import is_file
from pan_scdg.profile import Profile
from pan_scdg.progress import format_count
from pan_scdg.records import DocumentPair, MeasuredPassage, Passage, Reason, Span
from pan_scdg.results.files import DECISIONS, GAINS, PASSAGES, SCORES, read_lines, read_optional
from pan_scdg.results.folder import ScoreFile, WorkFolder, list_changed_files, open_result, require_job
from pan_scdg.results.records import (
    FEW_WORDS,
    NOT_SCORED,
    DecidedPair,
    Key,
    PassageLine,
    ScoreLine,
    read_decisions,
    write_decisions,
    write_passages,
)

NOT_SEARCHED = Reason("not_searched")
NO_SCORE = "the result has no score of this pair"


@dataclass(frozen=True)
class DecideOptions:
    """The options of ``decide``."""

    result: Path
    """Result of ``run`` on pairs."""
    input: Path
    output: Path
    overwrite: bool = False


class Recorded(NamedTuple):
    """The former decisions and passages of a result, by pair; without any if it has scores only."""

    reasons: Mapping[Key, Sequence[Reason]]
    passages: Mapping[Key, Sequence[MeasuredPassage]]


def decide_again(profile: Profile, options: DecideOptions) -> list[str]:
    """Decide the pairs of a result by a profile, and write the result; return the lines to show the user.

    Passages are those that the result has. A pair that is positive now and has none gets a detection that covers both
    documents, as of `run` where it finds no passage or the profile has no table ``[passages]``.

    Raises:
        UserError: the result has no scores of pairs, or those of other settings or another input; or the output is not
            usable.
    """
    require_threshold(profile)
    result, notices = options.result, Notices()
    job = require_job(result, "pairs")
    check_scores_profile(profile, job, result)
    corpus = read_pairs(options.input, notices, may_lack_files=True)
    if job.input != hash_input(options.input, "pairs", pairs=corpus):
        raise UserError("these scores belong to another input", "give the input of `run`", result)
    pairs = choose_recorded(corpus.pairs, job, "pairs")
    recorded = profile.model_dump(mode="json", exclude_none=True)
    new_job = replace(job, profile=recorded, scores_only=False, report=False)  # by whom the scores were computed stays
    lines = list_changed_files(result, job)
    with open_result(options.output, new_job, ScoreLine.from_json, overwrite=options.overwrite) as work:
        if work is None:
            return [*lines, f"already complete: {options.output}"]
        rule = DecisionRule(profile, job.fingerprint, job.dtype)
        decided = _decide(pairs, ScoreFile(result / SCORES, ScoreLine.from_json), rule, _read_recorded(result), result)
        note_languages(decided, notices)
        detected = {pair: _detect(pair, one, profile, result) for pair, one in decided.items()}
        names = read_names(corpus.pairs_file.parent)
        decided = {pair: add_names(one, names) for pair, (one, _) in detected.items()}
        files = [*write_detections(work.staged, detected), *write_passages(work.staged, decided)]
        files += [write_decisions(work.staged, decided.values()), _copy_scores(work, result, pairs)]
        if is_file(result / GAINS):
            files.append(shutil.copyfile(result / GAINS, work.staged / GAINS).name)
        work.publish(files)
    positive = sum(bool(detections) for _, detections in detected.values())
    lines += _describe_new_positives(decided.values()) + warn_about_few_detections(rule, positive, options.output)
    count = format_count(len(pairs), "pair")
    return [*notices.list_warnings(), *lines, f"decided {count}: {options.output / DECISIONS}"]


def _decide(
    pairs: Sequence[DocumentPair], scores: ScoreFile[ScoreLine], rule: DecisionRule, recorded: Recorded, result: Path
) -> DecidedPairs:
    """Return the decision about each pair, with the passages that are recorded."""
    decided: DecidedPairs = {}
    for pair in pairs:
        reasons = recorded.reasons.get(pair.key, ())
        if pair.key not in scores:
            cause = next((str(reason.numbers["cause"]) for reason in reasons if reason.code == NOT_SCORED), NO_SCORE)
            error = UserError(cause, "score it", pair.suspicious.path)
            decided[pair] = DecidedPair(rule.decide_failed(pair, error))
            continue
        score = scores[pair.key]
        measured = Measurements(dict(score.values), score.reasons)
        few_words = [reason for reason in reasons if reason.code == FEW_WORDS]
        try:
            record = rule.decide(pair, measured, few_words)
        except KeyError as e:
            what = f"has no {e.args[0]}, which the profile decides by"
            raise UserError(what, "score with it: `run --scores-only`", result / SCORES) from e
        passages = tuple(p for p in recorded.passages.get(pair.key, ()) if record.decision or not p.counts)
        one = DecidedPair(record, passages)
        decided[pair] = one.add(NO_PASSAGE) if one.decision and NO_PASSAGE in reasons else one
    return decided


def _read_recorded(result: Path) -> Recorded:
    passages: dict[Key, list[MeasuredPassage]] = {}

    for line in read_optional(result / PASSAGES, PassageLine.from_json):
        passages.setdefault(line.key, []).append(line.passage)
    decisions = read_decisions(result / DECISIONS) if is_file(result / DECISIONS) else []
    reasons = {decision.key: decision.reasons for decision in decisions}
    return Recorded(reasons, passages)


def _detect(
    pair: DocumentPair, one: DecidedPair, profile: Profile, result: Path
) -> tuple[DecidedPair, Sequence[Passage]]:
    """Return a pair and its detections: those of the result, those that need no model, or both whole documents."""
    if not one.decision:
        return one, ()
    file = result / name_detection(pair)
    former = read_feature_files([file], DETECTED) if is_file(file) else []
    if former:
        return one, [Passage(feature.target, feature.source_span) for feature in former]
    if one.passages:
        return one, [passage.passage for passage in one.passages]
    if profile.passages is None and profile.method_settings.finds_passages:
        return add_detections(pair, one, PairWorker(profile, MethodOptions()))
    lengths = [len(read_text(text)) for text in (pair.suspicious, pair.source)]
    whole = [Passage(Span(0, lengths[0]), Span(0, lengths[1]))] if all(lengths) else []
    return one if profile.passages is None else one.add(NOT_SEARCHED), whole


def _copy_scores(work: WorkFolder[ScoreLine], result: Path, pairs: Sequence[DocumentPair]) -> str:
    """Copy the scores into the new result."""
    work.scores.append(read_lines(result / SCORES, ScoreLine.from_json))
    return work.write_scores(pair.key for pair in pairs)


def _describe_new_positives(decided: Iterable[DecidedPair]) -> list[str]:
    """Return a warning about the positive pairs that have no recorded passage."""
    count = sum(NOT_SEARCHED in one.record.reasons for one in decided)
    if not count:
        return []
    subject = f"{format_count(count, 'positive pair')} {'has' if count == 1 else 'have'} no recorded passage"
    return [f"warning: {subject}: the detection covers both documents, as of `run` without a passage; `run` searches"]
