"""The one way of a pair: read, checked, put into a batch, scored by a worker, decided, and given passages.

`run`, `check` and Python differ in how they read pairs and in what they write; all three call `compute_pairs`.
"""

import time
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from pan_scdg.errors import InputError, UserError, UserErrors
from pan_scdg.jobs.decisions import MIN_WORDS, DecisionRule
from pan_scdg.jobs.options import OnError
from pan_scdg.jobs.worker import PairWorker, PassageTask, ScoreTask
from pan_scdg.methods import Measurements
from pan_scdg.normal_form import SURPLUS_MARKS, has_surplus_marks
from pan_scdg.notices import Notices
from pan_scdg.progress import Progress
from pan_scdg.records import DocumentPair, Reason, TextPair, TokenGains
from pan_scdg.results.folder import ScoreFile
from pan_scdg.results.records import DISGUISED, FEW_WORDS, GAIN_DECIMALS, SIDES, DecidedPair, Key, ScoreLine
from pan_scdg.text.disguise import find_disguise
from pan_scdg.text.units import count_words

BATCH_CHARACTERS = 50_000
"""Characters of the pairs that are scored together; a longer pair is a batch of its own."""
BEGINNING_CHARACTERS = 1_000
MAX_MEASURED_PAIRS = 100
"""The best pairs of a result, whose passages' gains are measured; a passage takes about a second."""
UNCOUNTED_PASSAGES = "left_out"
"""The number of passages of a pair that do not count, such as quotations."""
NOT_SCORED = "pair not scored, decided negative"
LATE = "no score within the deadline"
SHARED_BATCHES = 16
"""Batches that are one if their pairs share texts and the method computes a text once for all of them."""
SAVE_SECONDS = 2.0
"""Least time between two writes of the scores of a batch that is being computed."""
Compute = Callable[[Iterable[Any]], Iterator[Any]]
"""Computes tasks of a `PairWorker`, in order: `jobs.cluster.Workers.map`."""
DecidedPairs = dict[DocumentPair, DecidedPair]
"""Decided pairs by their documents, in order."""
Review = Callable[[DecidedPairs], DecidedPairs]
"""A rule about all decided pairs together, before passages are searched."""


class MeasuredPairs:
    """Measurements of pairs, in memory or, if they belong to a result, in its score file.

    Args:
        file: that of a stopped run, to which new pairs are appended; None: they stay in memory.
    """

    def __init__(self, file: ScoreFile[ScoreLine] | None = None) -> None:
        self._file = file
        self._own: dict[Key, Measurements] = {}
        self.late: list[DocumentPair] = []
        """Pairs for which there was no time, or no device."""

    def __contains__(self, pair: DocumentPair) -> bool:
        return pair.key in (self._own if self._file is None else self._file)

    def __getitem__(self, pair: DocumentPair) -> Measurements:
        """Return what was measured on a pair; gains of tokens that are in a file are left there."""
        if self._file is None:
            return self._own[pair.key]
        line = self._file[pair.key]
        return Measurements(dict(line.values), line.reasons)

    @property
    def are_kept(self) -> bool:
        """Return True if they are in a file."""
        return self._file is not None

    def expect(self, pairs: int) -> None:
        """Set the number of pairs that are scored, which a message names if the run is stopped."""
        if self._file is not None:
            self._file.total = pairs

    def append(self, batch: Mapping[DocumentPair, Measurements]) -> None:
        """Add pairs."""
        if self._file is None:
            self._own |= {pair.key: measured for pair, measured in batch.items()}
        else:
            self._file.append(_make_line(pair, measured) for pair, measured in batch.items())


class _Saver:
    """Adds what was measured on the pairs of batches; inside its context also those of a batch that is being computed.

    Args:
        worker: reports each score, if it computes in this process.
        pairs: all that are scored.
        measured: pairs in a file are written every `SAVE_SECONDS`.
        progress: counts them.
    """

    def __init__(
        self, worker: PairWorker, pairs: Iterable[DocumentPair], measured: MeasuredPairs, progress: Progress
    ) -> None:
        self._worker, self._measured, self._progress = worker, measured, progress
        self._pairs = {pair.key: pair for pair in pairs}
        self._waiting: dict[DocumentPair, Measurements] = {}
        self._saved, self._finished = time.monotonic(), 0

    def __enter__(self) -> "_Saver":
        if self._measured.are_kept:
            self._worker.on_score = self._add
        return self

    def __exit__(self, *_: object) -> None:
        self._worker.on_score = None
        self._save()

    def _add(self, texts: TextPair, one: Measurements) -> None:
        self._waiting[self._pairs[texts.target_id, texts.source_id]] = one
        self._progress.update()
        if time.monotonic() - self._saved >= SAVE_SECONDS:
            self._save()

    def _save(self) -> None:
        waiting, self._waiting, self._saved = self._waiting, {}, time.monotonic()
        self._measured.append({pair: one for pair, one in waiting.items() if pair not in self._measured})

    def finish(self, results: Mapping[DocumentPair, object]) -> None:
        """Add what was measured, among the results of a batch."""
        self._waiting = {pair: one for pair, one in results.items() if isinstance(one, Measurements)}
        self._save()
        self._finished += len(results)
        self._progress.update(self._finished - self._progress.done)


def _make_line(pair: DocumentPair, measured: Measurements) -> ScoreLine:
    values = {name: value if isinstance(value, int) else float(value) for name, value in measured.values.items()}
    tokens = None
    if measured.gains is not None and measured.offsets is not None:
        gains = tuple(round(gain, GAIN_DECIMALS) for gain in measured.gains.gains.tolist())
        tokens = TokenGains(tuple(map(tuple, measured.offsets.tolist())), gains)
    return ScoreLine(*pair.key, values, measured.reasons, measured.incidents, tokens)


@dataclass
class CheckedPairs:
    """The pairs that can be scored, with their lengths in characters, and why the others cannot."""

    lengths: dict[DocumentPair, tuple[int, int]] = field(default_factory=dict)
    """Of target and source."""
    about_texts: dict[DocumentPair, list[Reason]] = field(default_factory=dict)
    """Reasons that their texts give: few words, or characters that disguise them."""
    errors: dict[DocumentPair, UserError] = field(default_factory=dict)


def compute_pairs(
    pairs: Sequence[DocumentPair],
    worker: PairWorker,
    compute: Compute,
    measured: MeasuredPairs,
    rule: DecisionRule,
    notices: Notices,
    *,
    on_error: OnError = "stop",
    for_page: bool = True,
    measured_pairs: int = MAX_MEASURED_PAIRS,
    review: Review | None = None,
) -> DecidedPairs:
    """Score and decide pairs, and find their passages.

    Args:
        pairs: distinct pairs, whose texts are read when they are needed.
        worker: opened the method; its language model explains passages if ``worker.explains``.
        compute: computes the tasks of the worker; with a deadline it may end before the last one, and then pairs have
            no score or no passages.
        measured: pairs of a stopped run are not computed again.
        rule: decides by score.
        notices: counts what is unusual in the texts.
        on_error: treatment of pairs that cannot be scored.
        for_page: also find the passages that only a page shows.
        measured_pairs: number of pairs, the best ones, whose passages' gains are measured.
        review: decides about all pairs together.

    Returns:
        The decided pairs, in order, unless ``review`` returned others.

    Raises:
        UserError: see `score_pairs`.
    """
    checked = score_pairs(pairs, worker, compute, measured, notices, on_error)
    decided = decide_pairs(pairs, checked, measured, rule)
    if review is not None:
        decided = review(decided)
    return _add_passages(decided, measured, worker, compute, for_page, measured_pairs)


def score_pairs(
    pairs: Sequence[DocumentPair],
    worker: PairWorker,
    compute: Compute,
    measured: MeasuredPairs,
    notices: Notices,
    on_error: OnError = "stop",
) -> CheckedPairs:
    """Check all pairs, and score the batches that have no scores yet; see `compute_pairs`.

    The last digits of a score depend on what is computed together: the rest of a batch that a stopped run began is
    computed as it would have been.

    Raises:
        UserErrors: naming every pair that cannot be scored, if ``on_error`` is "stop"; with "raise" the first error
            itself.
    """
    checked = _check_pairs(pairs, worker, notices, on_error)
    refused, settings = len(checked.errors), worker.profile.method_settings
    measured.expect(len(checked.lengths))
    batches = [
        (batch, numbers)
        for batch in make_batches(checked.lengths, settings.max_batch, settings.shares_texts)
        if (numbers := [number for number, pair in enumerate(batch) if pair not in measured])
    ]
    tasks = (ScoreTask([worker.read_texts(pair) for pair in batch], numbers) for batch, numbers in batches)
    with (
        Progress("scoring pairs", sum(len(numbers) for _, numbers in batches)) as progress,
        _Saver(worker, checked.lengths, measured, progress) as saver,
    ):
        for (batch, numbers), results in zip(batches, compute(tasks)):
            computed = {batch[number]: result for number, result in zip(numbers, results, strict=True)}
            saver.finish(computed)
            for pair, e in computed.items():
                if isinstance(e, InputError) and on_error == "raise":
                    raise e
                if isinstance(e, InputError):
                    what = f"with {pair.source.doc_id} as source: {e.what}"
                    checked.errors[pair] = UserError(what, e.remedy, pair.suspicious.path)
            _stop_on_errors(checked, on_error)
    measured.late = [pair for pair in checked.lengths if pair not in measured and pair not in checked.errors]
    checked.errors |= {pair: UserError(LATE, "give the run more time", pair.suspicious.path) for pair in measured.late}
    for error in list(checked.errors.values())[refused : len(checked.errors) - len(measured.late)]:
        notices.add(NOT_SCORED, f"{error.where}: {error.what}")
    return checked


def _check_pairs(
    pairs: Sequence[DocumentPair], worker: PairWorker, notices: Notices, on_error: OnError
) -> CheckedPairs:
    """Read all pairs, and check that the method can score them."""
    checked = CheckedPairs()
    reasons: dict[tuple[str, str], list[Reason]] = {}
    """Of each text, by side and id; a text has many pairs."""
    with Progress("checking pairs", len(pairs)) as progress:
        for pair in pairs:
            try:
                texts = worker.read_texts(pair)
                worker.method.check(texts)
                target, source = texts.originals
                checked.lengths[pair] = len(target), len(source)
                keys = list(zip(SIDES, pair.key, strict=True))
                for (side, doc_id), text in zip(keys, texts.originals, strict=True):
                    if (side, doc_id) not in reasons:
                        reasons[side, doc_id] = list(_describe_text(side, text))
                checked.about_texts[pair] = [reason for key in keys for reason in reasons[key]]
            except UserError as e:
                if on_error == "raise":
                    raise
                where = pair.suspicious.path if e.where == pair.suspicious.doc_id else e.where
                checked.errors[pair] = UserError(e.what, e.remedy, where, e.line)
            else:
                if not texts.source.strip():
                    notices.add("empty source document", str(pair.source.path))
                for file, text in zip(pair[:2], texts.originals):
                    if not worker.profile.raw_text and has_surplus_marks(text):
                        notices.add(SURPLUS_MARKS, str(file.path))
            progress.update()
    _stop_on_errors(checked, on_error)
    for error in checked.errors.values():
        notices.add(NOT_SCORED, f"{error.where}: {error.what}")
    return checked


def _describe_text(side: str, text: str) -> Iterator[Reason]:
    # most texts have enough words at their beginning
    if count_words(text[:BEGINNING_CHARACTERS]) < 2 * MIN_WORDS and (count := count_words(text)) < MIN_WORDS:
        yield Reason(FEW_WORDS, {"side": side, "words": count})
    if characters := find_disguise(text):
        yield Reason(DISGUISED, {"side": side, "characters": characters})


def _stop_on_errors(checked: CheckedPairs, on_error: OnError) -> None:
    if checked.errors and on_error == "stop":
        errors = checked.errors.values()
        raise UserErrors([UserError(e.what, f"{e.remedy}, or see --on-error", e.where, e.line) for e in errors])


def make_batches(
    lengths: Mapping[DocumentPair, tuple[int, int]], max_batch: int | None = None, shares_texts: bool = False
) -> list[list[DocumentPair]]:
    """Return batches of up to `BATCH_CHARACTERS`: the pairs of a target together, those with the longest pair first.

    A pair that does not fit in memory thus shows at the beginning.

    Args:
        lengths: characters of target and source of each pair.
        max_batch: largest number of pairs of a batch.
        shares_texts: a text is computed once for the pairs of a batch. Pairs that share texts, directly or through
            others, are then in one batch, if they are many characters of up to `SHARED_BATCHES` times as many.
    """
    by_target: defaultdict[str, list[DocumentPair]] = defaultdict(list)
    for pair in lengths:
        by_target[pair.suspicious.doc_id].append(pair)
    groups = sorted(by_target.values(), key=lambda pairs: -max(sum(lengths[pair]) for pair in pairs))
    batches: list[list[DocumentPair]] = []
    space = 0
    for unit in _connect(groups) if shares_texts else [[pair] for group in groups for pair in group]:
        size = sum(sum(lengths[pair]) for pair in unit)
        most = BATCH_CHARACTERS * (SHARED_BATCHES if len(unit) > 1 and size > BATCH_CHARACTERS else 1)
        for number, pair in enumerate(unit):
            needed = sum(lengths[pair]) if number else size
            if not batches or needed > space or len(batches[-1]) == max_batch:
                batches.append([])
                space = most
            batches[-1].append(pair)
            space -= sum(lengths[pair])
        space = min(space, 0) if most > BATCH_CHARACTERS else space
    return batches


def _connect(groups: Sequence[list[DocumentPair]]) -> list[list[DocumentPair]]:
    """Return groups of pairs, those that share sources joined; the groups stay side by side."""
    joined: dict[int, list[DocumentPair]] = {}
    owners: dict[str, int] = {}
    for number, group in enumerate(groups):
        sources = {pair.source.doc_id for pair in group}
        others = sorted({owners[source] for source in sources if source in owners})
        first = min(others, default=number)
        joined.setdefault(first, [])
        for other in others[1:]:
            joined[first] += joined.pop(other)
        joined[first] += group
        owners |= dict.fromkeys({pair.source.doc_id for pair in joined[first]} if others[1:] else sources, first)
    return list(joined.values())


def decide_pairs(
    pairs: Sequence[DocumentPair], checked: CheckedPairs, measured: MeasuredPairs, rule: DecisionRule
) -> DecidedPairs:
    """Return the decision about each pair, in order."""
    return {
        pair: DecidedPair(
            rule.decide_failed(pair, checked.errors[pair])
            if pair in checked.errors
            else rule.decide(pair, measured[pair], checked.about_texts[pair])
        )
        for pair in pairs
    }


def _add_passages(
    decided: DecidedPairs,
    measured: MeasuredPairs,
    worker: PairWorker,
    compute: Compute,
    for_page: bool,
    measured_pairs: int,
) -> DecidedPairs:
    """Return the pairs with their passages, unless the profile asks for none and no page shows them."""
    if worker.profile.passages is None and not for_page:
        return decided
    # those that count of a positive pair, others of any; a page also shows those of unclear pairs
    shown = {
        pair: one
        for pair, one in decided.items()
        if one.decision
        or (pair in measured and measured[pair].values.get(UNCOUNTED_PASSAGES))
        or (for_page and one.is_near)
    }
    best = sorted(shown, key=lambda pair: (shown[pair].decision is not True, -(shown[pair].score or 0.0)))
    with_gains = set(best[:measured_pairs]) if worker.explains else set()
    tasks = (
        PassageTask(worker.read_texts(pair), one.decision is True or one.is_near, pair in with_gains)
        for pair, one in shown.items()
    )
    explained = dict(decided)
    with Progress("finding passages", len(shown)) as progress:
        for pair, (passages, gains) in zip(shown, compute(tasks)):
            explained[pair] = replace(shown[pair], passages=passages, gains=gains)
            progress.update()
    return explained
