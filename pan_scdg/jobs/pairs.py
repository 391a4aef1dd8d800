"""Pair detection: score the pairs of an input, decide them, and write the official results (paper, PAN25).

A pair goes through this file from top to bottom: read, checked, put into a batch, scored by a worker, decided, and
written as XML and as a line of ``decisions.jsonl``.
"""

import json
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

from pan_scdg.align.passages import Evidence
from pan_scdg.digests import hash_text
from pan_scdg.errors import InputError, UserError, UserErrors
from pan_scdg.jobs.cluster import open_workers
from pan_scdg.jobs.decisions import Decision, DecisionRule, name_pair, require_threshold
from pan_scdg.jobs.metadata import write_metadata
from pan_scdg.jobs.options import OnError, RunOptions, choose_items, describe_job
from pan_scdg.jobs.result import SCORES, ScoreFile, WorkFolder, open_result
from pan_scdg.jobs.worker import FoundPassages, PairWorker, PassageTask
from pan_scdg.logs import say
from pan_scdg.methods import UNKNOWN_SCRIPT, Method, MethodOptions, Score
from pan_scdg.models.find import describe_models
from pan_scdg.normal_form import SURPLUS_MARKS, compose, has_surplus_marks
from pan_scdg.notices import Notices
from pan_scdg.pan.detections import format_decision, format_detection
from pan_scdg.pan.inputs import hash_input
from pan_scdg.pan.prepare import read_names
from pan_scdg.pan.runs import open_gzip_text
from pan_scdg.pan.text_alignment import name_detection, read_pairs, read_text
from pan_scdg.profile import Profile
from pan_scdg.progress import Progress, format_count
from pan_scdg.records import DocumentPair, Passage, TextPair
from pan_scdg.report.pages import PAGE, write_page
from pan_scdg.scdg.calibration_range import LANGUAGE

DECISIONS = "decisions.jsonl"
PASSAGES = "passages.jsonl"
GAINS = "gains.jsonl.gz"
BATCH_CHARACTERS = 50_000
"""Characters of the pairs that are scored together; a longer pair is a batch of its own."""
MAX_MEASURED_PAIRS = 100
"""The best pairs, whose passages' gains are measured for a page; a passage takes about a second."""
MIN_DETECTIONS = 2
"""With fewer, TIRA's check refuses a result."""
NO_PASSAGE = "no passage found: the detection covers both documents"
UNDETECTED = "decided positive without a passage"
LEFT_OUT = "left_out"
"""The number of passages of a pair that do not count, such as quotations."""


class CheckedPairs(NamedTuple):
    """The pairs that can be scored, with their lengths in characters, and why the others cannot."""

    lengths: dict[DocumentPair, tuple[int, int]]
    """Of target and source."""
    errors: dict[DocumentPair, UserError]


def detect_pairs(profile: Profile, options: RunOptions) -> list[str]:
    """Decide every pair of the input and write the results; return the lines to show the user.

    Raises:
        UserError: input, settings or output are not usable; no result is published.
    """
    if not options.scores_only:
        require_threshold(profile)
    notices = Notices(options.strict)
    corpus = read_pairs(options.input, notices, may_lack_files=options.on_error == "negative")
    pairs, partial = choose_items(corpus.pairs, options, "pairs")
    names = read_names(options.input)
    explains = options.report and profile.gains is not None
    statistics = count_sources(profile, corpus.pairs)
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
    warnings = [] if partial is None else [f"warning: {partial}"]
    with open_result(options.output, job, overwrite=options.overwrite) as work:
        if work is None:
            return [*warnings, f"already complete: {options.output}"]
        models = worker.list_models()
        about = {"partial": partial and str(partial), "model_names": {name: one.name for name, one in models.items()}}
        about["model_revisions"] = {name: one.revision for name, one in models.items() if one.revision is not None}
        say([describe_models(models.values())] if models else [])
        checked = check_pairs(pairs, worker.method, notices, options.on_error)
        with open_workers(worker, options.devices) as workers:
            score_pairs(checked, workers.map, work.scores, options.on_error, profile.method_settings.max_batch)
            files = [_write_scores(work, pairs)]
            if not options.scores_only:
                rule = DecisionRule(profile, job)
                decisions = decide_pairs(pairs, checked, work.scores, rule, names)
                _note_languages(decisions, notices)
                decisions = add_passages(decisions, checked, profile, worker.method, workers.map, work.scores, explains)
                files = [*_write_decisions(work.staged, decisions), *files]
                warnings += _warn_about_few_detections(rule, decisions, options.output)
        if worker.options.keep_gains:
            files.append(_write_gains(work, pairs))
        if options.report:
            files.append(write_page(work.staged, {**job, **about}, options.input))
        if options.metadata:
            files.append(write_metadata(work.staged, job))
        work.publish(files, **about, incidents=work.scores.list_incidents())
    return [*notices.list_warnings(), *warnings, *_summarise(options, len(pairs), len(checked.errors))]


def _choose_method_options(profile: Profile, options: RunOptions) -> MethodOptions:
    """Return the options of the method; the page of a method that decides by gains shows those of all tokens."""
    shows_gains = options.report and profile.need_decide().method == "gains"
    return replace(options.method, keep_gains=options.keep_gains or shows_gains)


def _summarise(options: RunOptions, count: int, failed: int) -> list[str]:
    """Return the lines about a complete result of so many pairs, of which some have no score."""
    if options.scores_only:
        return [f"scored {format_count(count - failed, 'pair')}: {options.output / SCORES}"]
    page = [f"report: {options.output / PAGE}"] if options.report else []
    return [f"decided {format_count(count, 'pair')}: {options.output / DECISIONS}", *page]


def check_pairs(pairs: Sequence[DocumentPair], method: Method, notices: Notices, on_error: OnError) -> CheckedPairs:
    """Read all pairs, and check that the method can score them.

    Raises:
        UserErrors: naming every pair that cannot be scored, if ``on_error`` is "stop".
    """
    checked = CheckedPairs({}, {})
    with Progress("checking pairs", len(pairs)) as progress:
        for pair in pairs:
            try:
                texts = read_pair_texts(pair)
                method.check(texts)
                target, source = texts.originals
                checked.lengths[pair] = len(target), len(source)
            except UserError as e:
                where = pair.suspicious.path if e.where == pair.suspicious.doc_id else e.where
                checked.errors[pair] = UserError(e.what, e.remedy, where, e.line)
            else:
                if not texts.source.strip():
                    notices.add("empty source document", str(pair.source.path))
                for file, text in zip(pair[:2], texts.originals):
                    if has_surplus_marks(text):
                        notices.add(SURPLUS_MARKS, str(file.path))
            progress.update()
    _stop_on_errors(checked, on_error)
    for error in checked.errors.values():
        notices.add("pair not scored, decided negative", f"{error.where}: {error.what}")
    return checked


def _stop_on_errors(checked: CheckedPairs, on_error: OnError) -> None:
    if checked.errors and on_error == "stop":
        errors = checked.errors.values()
        raise UserErrors([UserError(e.what, f"{e.remedy}, or see --on-error", e.where, e.line) for e in errors])


def read_pair_texts(pair: DocumentPair) -> TextPair:
    """Read the texts of a pair."""
    target, source = pair.suspicious, pair.source
    return TextPair.compose(target.doc_id, source.doc_id, read_text(target), read_text(source))


def score_pairs(
    checked: CheckedPairs,
    map_batches: Callable[[Iterable[Sequence[TextPair]]], Iterator[list[Score | InputError]]],
    scores: ScoreFile,
    on_error: OnError,
    max_batch: int | None = None,
) -> None:
    """Score the batches that are not in the score file yet, and append their scores.

    A batch is computed as a whole, since the last digits of a score depend on what is computed together.

    Raises:
        UserErrors: a pair exceeds the memory or has numbers that are not finite, and ``on_error`` is "stop"; else it
            is added to ``checked.errors``.
    """
    batches = [
        batch
        for batch in make_batches(checked.lengths, max_batch)
        if not all(name_key(pair) in scores for pair in batch)
    ]
    tasks = ([read_pair_texts(pair) for pair in batch] for batch in batches)
    with Progress("scoring pairs", sum(map(len, batches))) as progress:
        for batch, batch_scores in zip(batches, map_batches(tasks), strict=True):
            results = dict(zip(batch, batch_scores, strict=True))
            errors = {pair: result for pair, result in results.items() if isinstance(result, InputError)}
            scores.append(_make_line(pair, score) for pair, score in results.items() if isinstance(score, Score))
            for pair, e in errors.items():
                what = f"with {pair.source.doc_id} as source: {e.what}"
                checked.errors[pair] = UserError(what, e.remedy, pair.suspicious.path)
            _stop_on_errors(checked, on_error)
            progress.update(len(batch))


def make_batches(
    lengths: Mapping[DocumentPair, tuple[int, int]], max_batch: int | None = None
) -> list[list[DocumentPair]]:
    """Return batches of up to `BATCH_CHARACTERS`: the pairs of a target together, those with the longest pair first.

    A pair that does not fit in memory thus shows at the beginning.
    """
    by_target: defaultdict[str, list[DocumentPair]] = defaultdict(list)
    for pair in lengths:
        by_target[pair.suspicious.doc_id].append(pair)
    groups = sorted(by_target.values(), key=lambda pairs: -max(sum(lengths[pair]) for pair in pairs))
    batches: list[list[DocumentPair]] = []
    space = 0
    for pair in (pair for group in groups for pair in group):
        if not batches or sum(lengths[pair]) > space or len(batches[-1]) == max_batch:
            batches.append([])
            space = BATCH_CHARACTERS
        batches[-1].append(pair)
        space -= sum(lengths[pair])
    return batches


def name_key(pair: DocumentPair) -> tuple[str, str]:
    """Return the key of a pair in a score file."""
    return pair.suspicious.doc_id, pair.source.doc_id


def decide_pairs(
    pairs: Sequence[DocumentPair],
    checked: CheckedPairs,
    scores: ScoreFile,
    rule: DecisionRule,
    names: Mapping[str, str],
) -> list[Decision]:
    """Return the decision about each pair, in order."""
    decisions = []
    for pair in pairs:
        if pair in checked.errors:
            record = rule.decide_failed(checked.errors[pair])
        else:
            line = scores[name_key(pair)]
            record = rule.decide(line["values"], line["warnings"])
        decisions.append(Decision(pair, {**name_pair(pair, names), **record}))
    return decisions


def _note_languages(decisions: Sequence[Decision], notices: Notices) -> None:
    """Count the pairs in scripts or languages that the models of the profile do not know."""
    for pair, record, *_ in decisions:
        for warning in record["warnings"]:
            if warning.startswith((UNKNOWN_SCRIPT, LANGUAGE)):
                notices.add(warning.partition(": share")[0], str(pair.suspicious.path))


def add_passages(
    decisions: Sequence[Decision],
    checked: CheckedPairs,
    profile: Profile,
    method: Method,
    map_tasks: Callable[[Iterable[PassageTask]], Iterator[FoundPassages]],
    scores: ScoreFile,
    with_gains: bool,
) -> list[Decision]:
    """Return the decisions with the passages of positive pairs, and those that do not count of any pair.

    Without a table ``[passages]``, the method gives the passages of a positive pair.
    """
    if profile.passages is None:
        return [
            _add_method_passages(decision, method) if decision.record["decision"] else decision
            for decision in decisions
        ]
    chosen = [d for d in decisions if d.record["decision"] or (d.pair in checked.lengths and d.record.get(LEFT_OUT))]
    best = sorted(chosen, key=lambda d: -d.record["score"])[:MAX_MEASURED_PAIRS] if with_gains else []
    measured = {d.pair for d in best}
    tasks = (
        PassageTask(
            read_pair_texts(d.pair), scores[name_key(d.pair)]["values"], bool(d.record["decision"]), d.pair in measured
        )
        for d in chosen
    )
    evidence: dict[DocumentPair, list[Evidence]] = {}
    with Progress("finding passages", len(chosen)) as progress:
        for decision, located in zip(chosen, map_tasks(tasks), strict=True):
            evidence[decision.pair] = located.evidence
            progress.update()
    return [_add_evidence(d, evidence[d.pair], checked.lengths[d.pair]) if d.pair in evidence else d for d in decisions]


def _add_method_passages(decision: Decision, method: Method) -> Decision:
    texts = read_pair_texts(decision.pair)
    if passages := method.find_passages(texts):
        return decision._replace(passages=tuple(map(texts.restore, passages)))
    return _add_warning(decision, UNDETECTED)


def _add_evidence(decision: Decision, evidence: Sequence[Evidence], lengths: tuple[int, int]) -> Decision:
    if not decision.record["decision"]:
        return decision._replace(evidence=evidence)
    passages = tuple(one.passage for one in evidence)
    if passages:
        return decision._replace(evidence=evidence, passages=passages)
    both = (Passage(0, lengths[0], 0, lengths[1]),) if all(lengths) else ()
    return _add_warning(decision._replace(passages=both), NO_PASSAGE)


def _add_warning(decision: Decision, warning: str) -> Decision:
    return decision._replace(record={**decision.record, "warnings": [*decision.record["warnings"], warning]})


def _make_line(pair: DocumentPair, score: Score) -> dict[str, Any]:
    suspicious, source = name_key(pair)
    line: dict[str, Any] = {
        "suspicious": suspicious,
        "source": source,
        "values": {name: value if isinstance(value, int) else float(value) for name, value in score.values.items()},
        "warnings": list(score.warnings),
    }
    if score.incidents:
        line["incidents"] = list(score.incidents)
    if score.gains is not None and score.offsets is not None:
        line |= {"gains": [round(gain, 6) for gain in score.gains.tolist()], "offsets": score.offsets.tolist()}
    return line


def _write_scores(work: WorkFolder, pairs: Sequence[DocumentPair]) -> str:
    """Write the scores in the order of the input, without the gains of tokens."""
    with open(work.staged / SCORES, "w", encoding="utf-8", newline="\n") as file:
        for key in map(name_key, pairs):
            if key in work.scores:
                file.write(json.dumps(work.scores[key]) + "\n")
    return SCORES


def _write_decisions(folder: Path, decisions: Sequence[Decision]) -> list[str]:
    """Write a detection XML per pair, the passages and the decisions; return the names of the files."""
    files = []
    for decision in decisions:
        files.append(name_detection(decision.pair))
        (folder / files[-1]).write_bytes(format_detection(decision.pair, decision.passages))
    if any(decision.evidence for decision in decisions):
        with open(folder / PASSAGES, "w", encoding="utf-8", newline="\n") as file:
            for pair, _, _, evidence in decisions:
                file.writelines(format_decision({**name_pair(pair, {}), **one.to_json()}) for one in evidence)
        files.append(PASSAGES)
    with open(folder / DECISIONS, "w", encoding="utf-8", newline="\n") as file:
        file.writelines(format_decision(decision.record) for decision in decisions)
    return [*files, DECISIONS]


def _write_gains(work: WorkFolder, pairs: Sequence[DocumentPair]) -> str:
    """Write a line per pair: the gain of each token in nats, and its characters in the suspicious document."""
    with open_gzip_text(work.staged / GAINS) as file:
        for pair in pairs:
            if name_key(pair) in work.scores:
                line = work.scores.read_line(name_key(pair))
                file.write(
                    json.dumps({**name_pair(pair, {}), "gains": line["gains"], "offsets": line["offsets"]}) + "\n"
                )
    return GAINS


def count_sources(profile: Profile, pairs: Sequence[DocumentPair]) -> Any:
    """Return what the method counts in all distinct sources; they are read only if it does."""
    sources = {pair.source.doc_id: pair.source for pair in pairs}

    def read_sources() -> Iterator[str]:
        with Progress("counting terms", len(sources)) as progress:
            for source in sources.values():
                yield compose(read_text(source)).text
                progress.update()

    return profile.method_settings.count_sources(read_sources())


def _warn_about_few_detections(rule: DecisionRule, decisions: Sequence[Decision], output: Path) -> list[str]:
    """Return a warning if TIRA's check would refuse the result for having too few detections."""
    count = sum(bool(decision.passages) for decision in decisions)
    if rule.threshold is None or count >= MIN_DETECTIONS:
        return []
    what = f"{count or 'no'} {'pair was' if count == 1 else 'pairs were'} decided positive"
    return [f"warning: {what}: TIRA's check will refuse this output: {output}"]
