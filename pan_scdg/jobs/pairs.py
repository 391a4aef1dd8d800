"""Pair detection: decide the pairs of a PAN input, and write the official results (paper, PAN25)."""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

from pan_scdg.digests import hash_text
from pan_scdg.errors import UserError
from pan_scdg.jobs.clock import Clock
from pan_scdg.jobs.cluster import open_workers
from pan_scdg.jobs.decisions import DecidedPair, DecisionRule, require_threshold
from pan_scdg.jobs.metadata import write_metadata
from pan_scdg.jobs.options import OnError, RunOptions, choose_items, describe_job
from pan_scdg.jobs.pair_files import write_decisions, write_gains, write_passages, write_scores
from pan_scdg.jobs.pipeline import PairScores, compute_pairs, score_pairs
from pan_scdg.jobs.worker import PairWorker
from pan_scdg.logs import say
from pan_scdg.methods import UNKNOWN_SCRIPT, MethodOptions
from pan_scdg.methods.alignment import OTHER_LANGUAGE
from pan_scdg.models.find import describe_models
from pan_scdg.normal_form import compose
from pan_scdg.notices import Notices
from pan_scdg.pan.detections import format_detection
from pan_scdg.pan.inputs import hash_input
from pan_scdg.pan.prepare import read_names
from pan_scdg.pan.text_alignment import name_detection, read_pairs, read_text
from pan_scdg.profile import Profile
from pan_scdg.progress import Progress, format_count
from pan_scdg.records import DocumentPair, Passage, Reason, Span, TokenGains
from pan_scdg.report.pages import write_page
from pan_scdg.report.wording import DISGUISE, NOT_ENGLISH, UNLIKE_WORDS, describe_fact, describe_reason
from pan_scdg.results.files import DECISIONS, PAGE, SCORES
from pan_scdg.results.folder import ScoreFile, open_result
from pan_scdg.results.records import DISGUISED, SIDES
from pan_scdg.scdg.calibration_range import RARE_WORDS

MIN_DETECTIONS = 2
"""With fewer, TIRA's check refuses a result."""
NO_PASSAGE, UNDETECTED = Reason("no_passage"), Reason("undetected")


def detect_pairs(profile: Profile, options: RunOptions) -> list[str]:
    """Decide every pair of the input and write the results; return the lines to show the user.

    Raises:
        UserError: input, settings or output are not usable; no result is published.
    """
    clock = None if options.deadline is None else Clock(options.deadline)
    if not options.scores_only:
        require_threshold(profile)
    notices = Notices(options.strict)
    corpus = read_pairs(options.input, notices, may_lack_files=options.on_error == "negative")
    pairs, part = choose_items(corpus.pairs, options, "pairs")
    names = read_names(corpus.pairs_file.parent)
    explains = options.report and profile.gains is not None
    statistics = count_sources(profile, corpus.pairs, options.on_error)
    worker = PairWorker(profile, _choose_method_options(profile, options), statistics, explains)
    job = describe_job(
        "pairs",
        profile,
        options,
        hash_input(options.input, "pairs", pairs=corpus),
        worker.identify(),
        fingerprint=worker.method.fingerprint,
        names=hash_text(json.dumps(sorted(names.items()))) if names else None,
    )
    lines = [] if part is None else [f"warning: {part}"]
    with open_result(options.output, job, overwrite=options.overwrite) as work:
        if work is None:
            return [*lines, f"already complete: {options.output}"]
        models = worker.list_models()
        about: dict[str, Any] = {
            "partial": part and str(part),
            "model_names": {name: one.name for name, one in models.items()},
        }
        about["model_revisions"] = {name: one.revision for name, one in models.items() if one.revision is not None}
        say([describe_models(models.values())] if models else [])
        scores = PairScores(work.scores)
        decided: list[DecidedPair] = []
        with open_workers(worker, options.devices) as workers:
            compute = partial(workers.map, is_late=None if clock is None else clock.is_late)
            if options.scores_only:
                score_pairs(pairs, worker, compute, scores, notices, options.on_error)
            else:
                rule = DecisionRule(profile, job)
                decided = compute_pairs(
                    pairs,
                    worker,
                    compute,
                    scores,
                    rule,
                    notices,
                    on_error=options.on_error,
                    for_page=options.report,
                )
        if scores.late:
            about["deadline"] = f"{format_count(len(scores.late), 'pair')} not scored within {options.deadline:g} h"
            lines.append(f"warning: {about['deadline']}")
        files = [write_scores(work, pairs)]
        if not options.scores_only:
            for reason in profile.method_settings.warn_of_sources(statistics, rule.threshold):
                lines.append(f"warning: {describe_fact(reason)}")
                decided = [one if one.decision else one.add(reason) for one in decided]
            note_languages(decided, notices)
            detected = [add_detections(one, worker) for one in decided]
            decided = [add_names(one, names) for one, _ in detected]
            files = [
                *write_detections(work.staged, detected),
                *write_passages(work.staged, decided),
                write_decisions(work.staged, decided),
                *files,
            ]
            count = sum(bool(detections) for _, detections in detected)
            lines += warn_about_few_detections(rule, count, options.output)
        if worker.options.keep_gains:
            files.append(write_gains(work.staged, _read_gains(pairs, work.scores)))
        elif any(one.gains for one in decided):
            files.append(write_gains(work.staged, [(one.pair, one.gains) for one in decided if one.gains]))
        if options.report:
            files.append(write_page(work.staged, {**job, **about}, options.input))
        if options.metadata:
            files.append(write_metadata(work.staged, job))
        work.publish(files, **about, incidents=[*work.scores.list_incidents(), *workers.incidents])
    scored = sum(pair.key in work.scores for pair in pairs)
    return [*notices.list_warnings(), *lines, *_summarise(options, len(pairs), scored)]


def _choose_method_options(profile: Profile, options: RunOptions) -> MethodOptions:
    """Return the options of the method; the page of a method that can keep the gains of all tokens shows them."""
    shows_gains = options.report and "keep_gains" in profile.method_settings.options
    return replace(options.method, keep_gains=options.keep_gains or shows_gains)


def _summarise(options: RunOptions, count: int, scored: int) -> list[str]:
    """Return the lines about a complete result of so many pairs."""
    if options.scores_only:
        return [f"scored {format_count(scored, 'pair')}: {options.output / SCORES}"]
    page = [f"report: {options.output / PAGE}"] if options.report else []
    return [f"decided {format_count(count, 'pair')}: {options.output / DECISIONS}", *page]


def _read_gains(pairs: Sequence[DocumentPair], scores: ScoreFile) -> Iterator[tuple[DocumentPair, TokenGains]]:
    """Yield the gains of all tokens of each scored pair, which are in memory one pair at a time."""
    for pair in pairs:
        if pair.key in scores:
            line = scores.read_line(pair.key)
            yield pair, TokenGains(line["offsets"], line["gains"])


def note_languages(decided: Sequence[DecidedPair], notices: Notices) -> None:
    """Count the texts in scripts or languages that the profile does not know, and those that are disguised."""
    told = {RARE_WORDS: UNLIKE_WORDS, OTHER_LANGUAGE: NOT_ENGLISH, DISGUISED: DISGUISE}
    for one in decided:
        for reason in one.record.reasons:
            if reason.code in {UNKNOWN_SCRIPT, *told}:
                what = told.get(reason.code) or describe_reason(reason, one.record)
                characters = reason.numbers.get("characters")
                text = one.pair.source if reason.numbers.get("side") == SIDES[1] else one.pair.suspicious
                notices.add(f"{what} ({characters})" if characters else what, str(text.path))


def add_detections(one: DecidedPair, worker: PairWorker) -> tuple[DecidedPair, Sequence[Passage]]:
    """Return a pair and the passages of its detection XML, with a warning if a positive one has no own passages."""
    if not one.decision:
        return one, ()
    has_passages = worker.profile.passages is not None
    if has_passages and one.passages:
        return one, [passage.passage for passage in one.passages]
    texts = worker.read_texts(one.pair)
    if not has_passages:
        detections = tuple(map(texts.restore, worker.method.detect(texts)))
        return (one, detections) if detections else (one.add(UNDETECTED), ())
    lengths = [len(text) for text in texts.originals]
    return one.add(NO_PASSAGE), [Passage(Span(0, lengths[0]), Span(0, lengths[1]))] if all(lengths) else []


def add_names(one: DecidedPair, names: Mapping[str, str]) -> DecidedPair:
    """Return a pair with the user's own names of its documents, if there are any."""
    if not names:
        return one
    suspicious, source = (names.get(doc_id, doc_id) for doc_id in one.pair.key)
    return one._replace(record=replace(one.record, suspicious_name=suspicious, source_name=source))


def write_detections(folder: Path, detected: Sequence[tuple[DecidedPair, Sequence[Passage]]]) -> list[str]:
    """Write a detection XML for each pair; return the names of the files."""
    for one, detections in detected:
        (folder / name_detection(one.pair)).write_bytes(format_detection(one.pair, detections))
    return [name_detection(one.pair) for one, _ in detected]


def count_sources(profile: Profile, pairs: Sequence[DocumentPair], on_error: OnError) -> Any:
    """Return what the method counts in all distinct sources; they are read only if it does.

    A source that cannot be read has no words if its pairs are decided negative.
    """
    sources = {pair.source.doc_id: pair.source for pair in pairs}

    def read_sources() -> Iterator[str]:
        with Progress("counting terms", len(sources)) as progress:
            for source in sources.values():
                try:
                    yield compose(read_text(source), profile.raw_text).text
                except UserError:
                    if on_error != "negative":
                        raise
                progress.update()

    return profile.method_settings.count_sources(read_sources())


def warn_about_few_detections(rule: DecisionRule, count: int, output: Path) -> list[str]:
    """Return a warning if TIRA's check would refuse the result for having too few detections."""
    if rule.threshold is None or count >= MIN_DETECTIONS:
        return []
    what = f"{count or 'no'} {'pair was' if count == 1 else 'pairs were'} decided positive"
    return [f"warning: {what}: TIRA's check will refuse this output: {output}"]
