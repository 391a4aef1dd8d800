"""Make the page of a result from its folder, and from the texts of its input; nothing is computed."""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from pan_scdg.errors import UserError
from pan_scdg.logs import say
from pan_scdg.notices import Notices
from pan_scdg.pan.inputs import hash_input
from pan_scdg.pan.text_alignment import read_pairs, read_text
from pan_scdg.progress import format_count
from pan_scdg.records import MeasuredPassage, TextFile, TokenGains
from pan_scdg.report.html import render_report, save_page
from pan_scdg.report.records import (
    Excluded,
    Report,
    ReportText,
    rank_pair,
)
from pan_scdg.report.view import MAX_DETAILS
from pan_scdg.report.wording import UNDECIDED, list_origins
from pan_scdg.results.files import (
    DECISIONS,
    GAINS,
    MAX_GAIN_VALUES,
    PAGE,
    PAIRS_TABLE,
    PASSAGES,
    TEXTS,
    read_lines,
    read_optional,
)
from pan_scdg.results.folder import list_changed_files, require_job
from pan_scdg.results.job import JobFile
from pan_scdg.results.records import DecidedPair, Decision, GainsLine, PassageLine, TextLine, read_decisions

AMONG = "Compared with one another; the report cannot tell who copied from whom."
MAX_TOKENS = 1_000_000
"""Tokens whose gains are read for a page, which shows fewer of them."""


def make_page(output: Path, directory: Path | None) -> Path:
    """Write ``report.html`` into a result folder, and return its path; nothing is computed.

    Args:
        output: of `run` or `check`.
        directory: the input of `run`, whose texts are shown; None: of `check`, whose result contains them.

    Raises:
        UserError: the folder is no complete result with decisions, or the input is another one.
    """
    job = require_job(output)
    if job.scores_only:
        raise UserError("contains no decisions", "give the output of `run` without --scores-only", output)
    if directory is not None and (job.task == "check" or hash_input(directory, job.task) != job.input):
        raise UserError("is not the input of this result", "give the folder that `run` read", directory)
    say(list_changed_files(output, job))
    return output / write_page(output, job, directory)


def write_page(folder: Path, job: JobFile, directory: Path | None = None) -> str:
    """Write the page of a result into its folder; return the name of the file.

    Args:
        folder: of the result, staged or complete.
        job: its ``job.json``.
        directory: the input; None: of a check, whose result contains the texts.

    Raises:
        UserError: the input cannot be read.
    """
    if job.task == "retrieval":
        from pan_scdg.report.query_page import render_retrieval

        page = render_retrieval(folder, job, _need(directory, folder))
    else:
        page = render_report(read_report(folder, job, directory))
    save_page(page, folder / PAGE)
    return PAGE


def _need(directory: Path | None, folder: Path) -> Path:
    if directory is None:
        raise UserError("the page shows texts of the input", "give its folder with --input", folder)
    return directory


def read_report(folder: Path, job: JobFile, directory: Path | None = None) -> Report:
    """Return the report of decided pairs; see `write_page`."""
    records = read_decisions(folder / DECISIONS)
    if job.task == "check":
        return _read_check(folder, job, records)
    return _read_run(folder, job, records, _need(directory, folder))


def _read_run(folder: Path, job: JobFile, records: Sequence[Decision], directory: Path) -> Report:
    decided = {record.key for record in records}
    pairs = [pair for pair in read_pairs(directory, Notices(), may_lack_files=True).pairs if pair.key in decided]
    names = {r.suspicious: r.suspicious_name or r.suspicious for r in records}
    names |= {r.source: r.source_name or r.source for r in records}
    suspicious = RunTexts((pair.suspicious for pair in pairs), names, job.method)
    sources = RunTexts((pair.source for pair in pairs), names)
    shown = [
        replace(record, suspicious=suspicious.shown[record.suspicious], source=sources.shown[record.source])
        for record in records
    ]
    return Report(
        f"{len(shown):,} pairs of {len(suspicious):,} texts and {len(sources):,} sources",
        suspicious,
        sources,
        _add_details(folder, records, shown),
        records[0].threshold,
        {**list_origins(job), "suspicious_texts": len(suspicious), "sources": len(sources)},
        (*filter(None, (job.partial, job.deadline)), *_warn_undecided(records[0].threshold)),
        table_file=DECISIONS,
        passages_file=PASSAGES if (folder / PASSAGES).exists() else "",
    )


def _read_check(folder: Path, job: JobFile, records: Sequence[Decision]) -> Report:
    method, within_class, about = job.method, job.within_class, job.check
    if about is None:
        raise UserError("lacks what a check records", "check again", folder)
    lines: dict[str, list[TextLine]] = {"suspicious": [], "source": [], "old": []}
    for line in read_lines(folder / TEXTS, TextLine.from_json):
        lines[line.kind].append(line)
    suspicious, others = lines["suspicious"], [*lines["source"], *lines["old"]]
    targets = {line.name: _make_text(line).exclude_quotations(method) for line in suspicious}
    sources = (targets if within_class else {}) | {line.name: _make_text(line) for line in others}
    counts = {"source": len(lines["source"]), "old text": len(lines["old"])}
    compared = ["each other"] * within_class + [format_count(n, what) for what, n in counts.items() if n]
    title = f"{format_count(len(targets), 'text')} compared with {', '.join(compared)}"
    facts = {**list_origins(job), "suspicious_texts": len(targets)}
    not_listed = f"{about.not_listed:,} pairs that cannot reach the threshold are not listed"
    return Report(
        " and ".join(title.rsplit(", ", 1)),
        targets,
        sources,
        _add_details(folder, records, records),
        about.threshold,
        facts | {f"{what}s": count for what, count in counts.items() if count},
        (
            *about.lines,
            *_warn_undecided(about.threshold),
            *([AMONG] if within_class else []),
            *([not_listed] if about.not_listed else []),
        ),
        within_class=within_class,
        not_listed=about.not_listed,
        not_read=about.not_read,
        table_file=PAIRS_TABLE,
        passages_file=PASSAGES if (folder / PASSAGES).exists() else "",
    )


def _make_text(line: TextLine) -> ReportText:
    return ReportText(line.name, line.text, line.warnings, tuple(Excluded(*part) for part in line.excluded))


def _warn_undecided(threshold: float | None) -> tuple[str, ...]:
    return (UNDECIDED,) if threshold is None else ()


class RunTexts(Mapping[str, ReportText]):
    """The texts of one side by the names that are shown; each is read when it is asked for.

    The user's own names are shown if no two of the documents have the same.

    Args:
        files: the documents.
        names: the user's own by id.
        method: that decides about these texts; empty for sources.
    """

    def __init__(self, files: Iterable[TextFile], names: Mapping[str, str], method: str = "") -> None:
        distinct = {file.doc_id: file for file in files}
        own = {doc_id: names.get(doc_id, doc_id) for doc_id in distinct}
        self.shown = own if len(set(own.values())) == len(own) else {doc_id: doc_id for doc_id in own}
        """The name of each document by its id."""
        self._files = {self.shown[doc_id]: file for doc_id, file in distinct.items()}
        self._method = method
        self._excluded: dict[str, tuple[Excluded, ...]] = {}

    def __getitem__(self, name: str) -> ReportText:
        """Return a text; one that cannot be read is empty, with the reason as a warning."""
        try:
            text = ReportText(name, read_text(self._files[name]))
        except UserError as e:
            return ReportText(name, "", (e.what,))
        if name not in self._excluded:
            self._excluded[name] = text.exclude_quotations(self._method).excluded
        return text._replace(excluded=self._excluded[name])

    def __iter__(self) -> Iterator[str]:
        return iter(self._files)

    def __len__(self) -> int:
        return len(self._files)


def _add_details(folder: Path, records: Sequence[Decision], shown: Sequence[Decision]) -> tuple[DecidedPair, ...]:
    """Return the pairs with passages and, of the best ones, gains; best first.

    Args:
        folder: of the result.
        records: the decisions.
        shown: the same with the names of texts as shown.
    """
    passages: defaultdict[tuple[str, str], list[MeasuredPassage]] = defaultdict(list)
    for line in read_optional(folder / PASSAGES, PassageLine.from_json):
        passages[line.key].append(line.passage)
    rows = [
        (record.key, DecidedPair(one, tuple(passages.get(record.key, ()))))
        for record, one in zip(records, shown, strict=True)
    ]
    rows.sort(key=lambda row: (*rank_pair(row[1]), row[1].suspicious, row[1].source))
    gains = _read_gains(folder / GAINS, [key for key, _ in rows[:MAX_DETAILS]])
    return tuple(replace(one, gains=gains.get(key)) for key, one in rows)


def _read_gains(path: Path, keys: Sequence[tuple[str, str]]) -> dict[tuple[str, str], TokenGains]:
    """Return the gains of the tokens of some pairs, as far as they were kept."""
    gains: dict[tuple[str, str], TokenGains] = {}
    chosen, space = set(keys), MAX_TOKENS
    for key, tokens, _ in read_optional(path, GainsLine.from_json, MAX_GAIN_VALUES):
        if key in chosen and len(tokens.gains) <= space:
            space -= len(tokens.gains)
            gains[key] = tokens
    return gains


def make_pair_report(pair: DecidedPair, texts: tuple[str, str], facts: Mapping[str, object]) -> Report:
    """Return the report of one pair of texts.

    Args:
        pair: with the names of its texts as shown.
        texts: target and source.
        facts: how the decision was made, by name.
    """
    target, source = pair.suspicious, pair.source
    return Report(
        f"{target} and {source}",
        {target: ReportText(target, texts[0]).exclude_quotations(pair.record.method)},
        {source: ReportText(source, texts[1])},
        (pair,),
        pair.record.threshold,
        facts,
    )
