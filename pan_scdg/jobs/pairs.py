"""Pair detection: decide the pairs of a PAN input, and write the official results (paper, PAN25)."""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from pan_scdg.digests import hash_text
from pan_scdg.errors import UserError
from pan_scdg.jobs.decisions import DecisionRule, require_threshold
from pan_scdg.jobs.options import OnError, RunOptions, choose_items, make_job
from pan_scdg.jobs.pipeline import MeasuredPairs, compute_pairs, score_pairs
from pan_scdg.jobs.runner import Run, Task, run_task
from pan_scdg.jobs.worker import PairWorker
from pan_scdg.methods import MethodOptions
from pan_scdg.normal_form import compose
from pan_scdg.notices import Notices
from pan_scdg.pan.inputs import hash_input
from pan_scdg.pan.prepare import read_names
from pan_scdg.pan.text_alignment import format_detection, name_detection, read_pairs, read_text
from pan_scdg.profile import Profile
from pan_scdg.progress import Progress, format_count
from pan_scdg.records import DocumentPair, Passage, Reason, Span
from pan_scdg.report.wording import describe_fact, name_kind
from pan_scdg.results.files import DECISIONS, GAINS, SCORES, write_lines
from pan_scdg.results.folder import ScoreFile, WorkFolder
from pan_scdg.results.records import (
    SIDES,
    DecidedPair,
    GainsLine,
    ScoreLine,
    write_decisions,
    write_gains,
    write_passages,
)

MIN_DETECTIONS = 2
"""With fewer, TIRA's check refuses a result."""
NO_PASSAGE, UNDETECTED = Reason("no_passage"), Reason("undetected")


def detect_pairs(profile: Profile, options: RunOptions) -> list[str]:
    """Decide every pair of the input and write the results; return the lines to show the user.

    Raises:
        UserError: input, settings or output are not usable; no result is published.
    """
    return run_task(PairDetection(profile, options))


class PairDetection(Task[ScoreLine]):
    """The pairs of a PAN folder: scores, decisions, detections and passages.

    Args:
        profile: has a table ``[decide]``.
        options: of ``run``.
    """

    parse = staticmethod(ScoreLine.from_json)
    worker: PairWorker

    def __init__(self, profile: Profile, options: RunOptions) -> None:
        super().__init__(options)
        if not options.scores_only:
            require_threshold(profile)
        corpus = read_pairs(options.input, self.notices, may_lack_files=options.on_error == "negative")
        self.pairs, part = choose_items(corpus.pairs, options, "pairs")
        self.names = read_names(corpus.pairs_file.parent)
        self.statistics = count_sources(profile, corpus.pairs, options.on_error)
        explains = options.report and profile.gains is not None
        self.profile = profile
        self.worker = PairWorker(profile, _choose_method_options(profile, options), self.statistics, explains)
        digest = hash_input(options.input, "pairs", pairs=corpus)
        self.job = replace(
            make_job("pairs", profile, options, digest, self.worker.identify()),
            fingerprint=self.worker.method.fingerprint,
            names=hash_text(json.dumps(sorted(self.names.items()))) if self.names else None,
        )
        self.note_part(part)
        self.decided: dict[DocumentPair, DecidedPair] = {}
        self.scored = 0

    def compute(self, run: Run[ScoreLine]) -> None:
        """Score the pairs, decide them and find their passages."""
        options, scores = self.options, MeasuredPairs(run.work.scores)
        common = (self.pairs, self.worker, run.compute, scores)
        if options.scores_only:
            score_pairs(*common, self.notices, options.on_error)
        else:
            rule = DecisionRule(self.profile, self.job.fingerprint, self.job.dtype)
            self.decided = compute_pairs(
                *common, rule, self.notices, on_error=options.on_error, for_page=options.report
            )
            self._note_facts(rule)
        if late := len(scores.late):
            self.note_deadline([f"{format_count(late, 'pair')} not scored within {options.deadline:g} h"])
        self.scored = sum(pair.key in run.work.scores for pair in self.pairs)

    def _note_facts(self, rule: DecisionRule) -> None:
        """Note what concerns all pairs, or those of a language."""
        for reason in self.profile.method_settings.warn_of_sources(self.statistics, rule.threshold):
            self.lines.append(f"warning: {describe_fact(reason)}")
            self.decided = {pair: one if one.decision else one.add(reason) for pair, one in self.decided.items()}
        note_languages(self.decided, self.notices)
        self._rule = rule

    def write(self, work: WorkFolder[ScoreLine]) -> list[str]:
        """Stage detections, passages, decisions, scores and gains."""
        files = [work.write_scores(pair.key for pair in self.pairs)]
        if not self.options.scores_only:
            detected = {pair: add_detections(pair, one, self.worker) for pair, one in self.decided.items()}
            self.decided = {pair: add_names(one, self.names) for pair, (one, _) in detected.items()}
            files = [
                *write_detections(work.staged, detected),
                *write_passages(work.staged, self.decided),
                write_decisions(work.staged, self.decided.values()),
                *files,
            ]
            count = sum(bool(detections) for _, detections in detected.values())
            self.lines += warn_about_few_detections(self._rule, count, self.options.output)
        if self.worker.options.keep_gains:
            return [*files, write_lines(work.staged, GAINS, _read_gains(self.pairs, work.scores))]
        return [*files, *write_gains(work.staged, self.decided)]

    def summarise(self) -> list[str]:
        """Return the line about the number of pairs."""
        output = self.options.output
        if self.options.scores_only:
            return [f"scored {format_count(self.scored, 'pair')}: {output / SCORES}"]
        return [f"decided {format_count(len(self.pairs), 'pair')}: {output / DECISIONS}"]


def _choose_method_options(profile: Profile, options: RunOptions) -> MethodOptions:
    """Return the options of the method; the page of a method that can keep the gains of all tokens shows them."""
    shows_gains = options.report and "keep_gains" in profile.method_settings.options
    return replace(options.method, keep_gains=options.keep_gains or shows_gains)


def _read_gains(pairs: Sequence[DocumentPair], scores: ScoreFile[ScoreLine]) -> Iterator[GainsLine]:
    """Yield the gains of all tokens of each scored pair, which are in memory one pair at a time."""
    for pair in pairs:
        if pair.key in scores and (gains := scores.read_line(pair.key).gains) is not None:
            yield GainsLine(pair.key, gains)


def note_languages(decided: Mapping[DocumentPair, DecidedPair], notices: Notices) -> None:
    """Count the texts in scripts or languages that the profile does not know, and those that are disguised."""
    for pair, one in decided.items():
        for reason in one.record.reasons:
            if what := name_kind(reason, one.record):
                characters = reason.numbers.get("characters")
                text = pair.source if reason.numbers.get("side") == SIDES[1] else pair.suspicious
                notices.add(f"{what} ({characters})" if characters else what, str(text.path))


def add_detections(pair: DocumentPair, one: DecidedPair, worker: PairWorker) -> tuple[DecidedPair, Sequence[Passage]]:
    """Return a pair and the passages of its detection XML, with a warning if a positive one has no own passages."""
    if not one.decision:
        return one, ()
    has_passages = worker.profile.passages is not None
    if has_passages and one.passages:
        return one, [passage.passage for passage in one.passages]
    texts = worker.read_texts(pair)
    if not has_passages:
        detections = tuple(map(texts.restore, worker.method.detect(texts)))
        return (one, detections) if detections else (one.add(UNDETECTED), ())
    lengths = [len(text) for text in texts.originals]
    return one.add(NO_PASSAGE), [Passage(Span(0, lengths[0]), Span(0, lengths[1]))] if all(lengths) else []


def add_names(one: DecidedPair, names: Mapping[str, str]) -> DecidedPair:
    """Return a pair with the user's own names of its documents, if there are any."""
    if not names:
        return one
    suspicious, source = (names.get(doc_id, doc_id) for doc_id in one.record.key)
    return replace(one, record=replace(one.record, suspicious_name=suspicious, source_name=source))


def write_detections(folder: Path, detected: Mapping[DocumentPair, tuple[DecidedPair, Sequence[Passage]]]) -> list[str]:
    """Write a detection XML for each pair; return the names of the files."""
    for pair, (_, detections) in detected.items():
        (folder / name_detection(pair)).write_bytes(format_detection(pair, detections))
    return [name_detection(pair) for pair in detected]


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
