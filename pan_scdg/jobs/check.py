"""Check folders of texts: decide their pairs as `run` does, and write tables and a page beside the result."""

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from tempfile import TemporaryDirectory

from pan_scdg.errors import UserError
from pan_scdg.jobs.check_input import CheckInput, CheckPaths, Indices, collect_texts
from pan_scdg.jobs.decisions import DecisionRule, compare_with_cohorts, require_threshold
from pan_scdg.jobs.options import RunOptions, make_job
from pan_scdg.jobs.pipeline import DecidedPairs, MeasuredPairs, compute_pairs
from pan_scdg.jobs.runner import Run, Task, run_task
from pan_scdg.jobs.worker import PairWorker
from pan_scdg.methods import MethodOptions
from pan_scdg.normal_form import compose
from pan_scdg.notices import Notices
from pan_scdg.profile import Profile
from pan_scdg.progress import Progress
from pan_scdg.records import DocumentPair, MeasuredPassage, Passage, Reason, Span, TextFile
from pan_scdg.report import wording
from pan_scdg.report.html import render_report, save_page
from pan_scdg.report.pages import read_report
from pan_scdg.report.records import Report
from pan_scdg.report.table import ENCODING, format_best, format_pairs, format_texts, list_sentences
from pan_scdg.results.files import PAGE, PAIRS_TABLE, TEXTS, TEXTS_TABLE, write_lines
from pan_scdg.results.folder import WorkFolder, require_job
from pan_scdg.results.job import CheckFacts, JobFile
from pan_scdg.results.records import (
    ANNOUNCED,
    SHARED,
    DecidedPair,
    ScoreLine,
    TextLine,
    write_decisions,
    write_gains,
    write_passages,
)

MAX_PAIRS = 10_000
"""Up to this number all pairs are scored; from more, a first stage leaves out those that cannot be reuse."""
MIN_SHARING = 3
"""Documents that share a passage, from which on a reason says how many."""
MAX_BEFORE = 20
"""Characters before a passage in which a colon is that announces it."""
MIN_OVERLAP = 0.5
"""Least share of a passage inside another one that counts as the same."""


@dataclass(frozen=True)
class CheckOptions:
    """The options of ``check``; see its help."""

    inputs: CheckPaths
    output: Path
    gains: bool = True
    device: str = "cpu"
    workers: int | None = None
    model: Path | None = None
    overwrite: bool = False
    strict: bool = False


def check_texts(profile: Profile, options: CheckOptions) -> tuple[str, list[str]]:
    """Compare every suspicious text with every source, and write the result; return the ranked table and lines.

    Raises:
        UserError: a text cannot be read, or a model or the output is not usable; no result is published.
    """
    require_threshold(profile)
    notices = Notices(options.strict)
    check_input = collect_texts(options.inputs, notices)
    sources = (compose(text.text, profile.raw_text).text for text in check_input.texts[check_input.first_source :])
    statistics = profile.method_settings.count_sources(sources)
    explains = options.gains and profile.gains is not None
    worker = PairWorker(profile, MethodOptions(options.device, options.model), statistics, explains)
    lines = write_check(check_input, worker, options, notices)
    few = profile.method_settings.warn_of_sources(statistics, profile.need_decide().threshold)
    lines += [f"warning: {wording.describe_fact(reason)}" for reason in few]
    table = format_best(*((options.output / name).read_text(ENCODING) for name in (TEXTS_TABLE, PAIRS_TABLE)))
    return table, [*notices.list_warnings(), *check_input.excluded, *lines, f"report: {options.output / PAGE}"]


def check_in_memory(worker: PairWorker, inputs: CheckPaths) -> Report:
    """Return the report of a check without its files."""
    notices = Notices()
    with TemporaryDirectory(prefix="pan_scdg-") as folder:
        options = CheckOptions(inputs, Path(folder), worker.explains, worker.options.device, model=worker.options.model)
        write_check(collect_texts(inputs, notices), worker, options, notices)
        report = read_report(Path(folder), require_job(Path(folder)))
    return replace(report, table_file="", passages_file="")


def write_check(check_input: CheckInput, worker: PairWorker, options: CheckOptions, notices: Notices) -> list[str]:
    """Write the result of a check, with its tables and page; return the lines about it.

    Raises:
        UserError: there are no pairs, or more than the method can score.
    """
    return run_task(TextCheck(check_input, worker, options, notices))


class TextCheck(Task[ScoreLine]):
    """The pairs of a check: decisions, passages, texts, tables and the page.

    Args:
        check_input: all texts.
        worker: opened the method.
        options: of ``check``.
        notices: of reading, which the page shows.
    """

    parse = staticmethod(ScoreLine.from_json)
    worker: PairWorker

    def __init__(self, check_input: CheckInput, worker: PairWorker, options: CheckOptions, notices: Notices) -> None:
        inputs = options.inputs
        super().__init__(
            RunOptions(
                inputs.suspicious,
                options.output,
                options.device,
                options.workers,
                overwrite=options.overwrite,
            )
        )
        self.input, self.worker, self.reading = check_input, worker, notices
        self.pairs = list(list_pairs(check_input))
        _check_count(len(self.pairs), check_input, worker)
        self.job = _make_job(worker, options, check_input)
        self.directions: list[DocumentPair] = []
        self.decided: DecidedPairs = {}
        self.report: Report | None = None

    def compute(self, run: Run[ScoreLine]) -> None:
        """Choose pairs, decide both directions, and pick and note what all pairs together show."""
        check_input, profile = self.input, self.worker.profile
        rule = DecisionRule(profile, self.job.fingerprint, self.job.dtype)
        chosen = _choose_pairs(check_input, self.worker, rule, self.pairs)
        texts = [text.compared for text in check_input.texts]
        self.directions = [
            DocumentPair(texts[i], texts[j]) for indices in chosen for i, j in _list_directions(check_input, indices)
        ]
        kinds = {text.compared: text.kind for text in check_input.texts}

        scores = MeasuredPairs(run.work.scores)

        def review(decided: DecidedPairs) -> DecidedPairs:
            picked = _pick_directions(decided) if check_input.within_class else decided
            return compare_with_cohorts(
                picked, kinds, lambda pair: profile.method_settings.is_copy(scores[pair].values)
            )

        common = (self.directions, self.worker, run.compute, scores, rule, Notices())
        decided = compute_pairs(*common, on_error="negative", review=review)
        if check_input.within_class:
            numbers = {text: number for number, text in enumerate(texts)}
            decided = dict(_sort_sides(pair, one, numbers) for pair, one in decided.items())
        self.decided = _note_sharing(decided, check_input)
        not_listed = len(self.pairs) - len(chosen)
        self.job = replace(self.job, check=_describe(check_input, self.reading, not_listed, rule.threshold))

    def write(self, work: WorkFolder[ScoreLine]) -> list[str]:
        """Stage scores, decisions, passages, gains, texts, tables and the page."""
        texts = {text.compared: text.shown.text for text in self.input.texts}
        files = [
            work.write_scores(pair.key for pair in self.directions),
            write_decisions(work.staged, self.decided.values()),
            *write_passages(work.staged, self.decided, lambda pair, passage: _quote(pair, passage, texts)),
            *write_gains(work.staged, self.decided),
            _write_texts(work.staged, self.input),
        ]
        self.report = read_report(work.staged, self.job)
        for name, table in ((TEXTS_TABLE, format_texts(self.report)), (PAIRS_TABLE, format_pairs(self.report))):
            (work.staged / name).write_text(table, encoding=ENCODING, newline="")
        save_page(render_report(self.report), work.staged / PAGE)
        return [*files, TEXTS_TABLE, PAIRS_TABLE, PAGE]

    def summarise(self) -> list[str]:
        """Return the lines about the decisions."""
        if self.report is None:
            raise ValueError("nothing is written")
        return [wording.summarise(self.report), wording.explain_findings(self.report.threshold), wording.CAUTION]


def list_pairs(check_input: CheckInput) -> Iterator[Indices]:
    """Yield all pairs of a suspicious text with another file; of two suspicious ones, the earlier comes first."""
    paths = [text.compared.path.resolve() for text in check_input.texts]
    for i in range(len(check_input.suspicious)):
        numbers = range(max(i + 1, check_input.first_source), len(paths))
        yield from ((i, j) for j in numbers if paths[i] != paths[j] and not check_input.are_drafts((i, j)))


def _check_count(count: int, check_input: CheckInput, worker: PairWorker) -> None:
    """Raise UserError if there is no pair, or more than the method can score."""
    if not count:
        author = check_input.suspicious[0].author
        what = f"all texts are in one folder of an author, {author}" if author else "both sides are the same file"
        raise UserError(what, "give another text to compare it with", check_input.suspicious[0].compared.path)
    if count > MAX_PAIRS and not worker.method.selects:
        raise UserError(
            f"{count} pairs exceed the limit of profile {worker.profile.name}, {MAX_PAIRS}",
            "use a profile that decides by alignment, such as offline, or check fewer texts at a time",
        )


def _make_job(worker: PairWorker, options: CheckOptions, check_input: CheckInput) -> JobFile:
    """Return all fields that the result depends on."""
    inputs = options.inputs
    same = RunOptions(inputs.suspicious, options.output, options.device)
    return replace(
        make_job("check", worker.profile, same, check_input.hash(), worker.identify()),
        fingerprint=worker.method.fingerprint,
        suspicious=inputs.suspicious.name,
        handout=None if inputs.handout is None else inputs.handout.name,
        within_class=inputs.within_class,
        author_folders=inputs.author_folders,
        gains=options.gains,
    )


def _describe(check_input: CheckInput, notices: Notices, not_listed: int, threshold: float | None) -> CheckFacts:
    lines = [line.removeprefix("warning: ") for line in notices.list_warnings()]
    # what was excluded comes first: it changes all that follows
    lines = [*check_input.excluded, *(f"{line[:1].upper()}{line[1:]}" for line in lines)]
    return CheckFacts(lines, notices.left_out, not_listed, threshold)


def _choose_pairs(
    check_input: CheckInput, worker: PairWorker, rule: DecisionRule, pairs: Sequence[Indices]
) -> Sequence[Indices]:
    """Return all pairs; of many, those whose score may come near the threshold."""
    method, raw_text = worker.method, worker.profile.raw_text
    if len(pairs) <= MAX_PAIRS or rule.threshold is None or not method.selects:
        return pairs
    first, margin = check_input.first_source, worker.profile.method_settings.unclear_margin or 0.0
    with Progress("first stage", len(check_input.suspicious)) as progress:

        def read_targets() -> Iterator[str]:
            for text in check_input.suspicious:
                yield compose(text.text, raw_text).text
                progress.update()

        sources = (compose(text.text, raw_text).text for text in check_input.texts[first:])
        selected = method.select(read_targets(), sources, rule.threshold - margin)
    chosen = {_sort(check_input, (i, first + j)) for i, j in selected}
    return [pair for pair in pairs if pair in chosen]


def _sort(check_input: CheckInput, indices: Indices) -> Indices:
    """Return the numbers of a pair, sorted if both texts are suspicious: their order carries no meaning."""
    return (min(indices), max(indices)) if check_input.is_within_class(indices) else indices


def _list_directions(check_input: CheckInput, indices: Indices) -> list[Indices]:
    """Return a pair as it is scored: two suspicious texts in both directions."""
    i, j = indices
    return [(i, j), (j, i)] if check_input.is_within_class(indices) else [(i, j)]


def _pick_directions(decided: DecidedPairs) -> DecidedPairs:
    """Return the better direction of each pair of suspicious texts, and all other pairs."""
    picked: dict[frozenset[TextFile], DocumentPair] = {}
    for pair, one in decided.items():
        texts = frozenset(pair[:2])
        if texts not in picked or _rank(one) < _rank(decided[picked[texts]]):
            picked[texts] = pair
    return {pair: decided[pair] for pair in picked.values()}


def _rank(one: DecidedPair) -> tuple[bool, bool, float]:
    """Return the key by which the better direction comes first."""
    return not one.decision, one.score is None, -(one.score or 0.0)


def _sort_sides(
    pair: DocumentPair, one: DecidedPair, numbers: Mapping[TextFile, int]
) -> tuple[DocumentPair, DecidedPair]:
    """Return a pair with the earlier text first; its numbers and gains are those of the direction of the score."""
    if numbers[pair.suspicious] < numbers[pair.source]:
        return pair, one
    passages = sorted(p._replace(passage=_swap_sides(p.passage)) for p in one.passages)
    return DocumentPair(pair.source, pair.suspicious), DecidedPair(one.record.swap(), tuple(passages))


def _swap_sides(passage: Passage) -> Passage:
    return passage._replace(target=passage.source, source=passage.target)


def _note_sharing(decided: DecidedPairs, check_input: CheckInput) -> DecidedPairs:
    """Return the pairs; a passage that several suspicious texts share, or that a colon announces, has a reason.

    They are the texts with passages at its place in the source; of two suspicious texts, in either of both.
    """
    written = {text.compared for text in check_input.suspicious} if check_input.within_class else set()
    sharing: defaultdict[TextFile, list[tuple[TextFile, Span]]] = defaultdict(list)
    for pair, one in decided.items():
        for p in one.passages:
            sharing[pair.source].append((pair.suspicious, p.source))
            if pair.source in written:
                sharing[pair.suspicious].append((pair.source, p.target))
    noted = {}
    for pair, one in decided.items():
        passages = []
        for p in one.passages:
            count = _count_texts(p.source, sharing[pair.source])
            if pair.source in written:
                count = 1 + max(count, _count_texts(p.target, sharing[pair.suspicious]))
            reasons = [Reason(SHARED, {"texts": count, "of": len(check_input.suspicious)})] * (count >= MIN_SHARING)
            if _is_announced(pair.suspicious, p.target) and _is_announced(pair.source, p.source):
                reasons.append(Reason(ANNOUNCED))
            passages.append(p._replace(reasons=tuple(reasons)))
        noted[pair] = replace(one, passages=tuple(passages))
    return noted


def _is_announced(file: TextFile, span: Span) -> bool:
    """Return True if a colon stands before a span, with at most some marks and white space between them."""
    before = (file.text or "")[max(0, span.begin - MAX_BEFORE) : span.begin]
    return before.rstrip(" \t\r\n>*_\"“„«‘'").endswith(":")


def _count_texts(span: Span, others: Sequence[tuple[TextFile, Span]]) -> int:
    """Return the number of other texts that have a passage there."""
    least = MIN_OVERLAP * span.length
    return len({text for text, (begin, end) in others if min(end, span.end) - max(begin, span.begin) >= least})


def _quote(pair: DocumentPair, passage: MeasuredPassage, texts: Mapping[TextFile, str]) -> tuple[list[str], list[str]]:
    """Return the whole sentences around a passage in both texts."""
    own, other = list_sentences(texts[pair.suspicious], passage.target), texts[pair.source]
    return own, list_sentences(other, passage.source)


def _write_texts(folder: Path, check_input: CheckInput) -> str:
    """Write the texts as they were read, with what was excluded; offsets of passages count their characters."""
    lines = (
        TextLine(shown.name, text.kind, text.words, shown.warnings, shown.excluded, shown.text)
        for text in check_input.texts
        for shown in [text.shown]
    )
    return write_lines(folder, TEXTS, lines)
