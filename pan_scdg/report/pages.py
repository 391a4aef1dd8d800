"""Make the page of a result of `run` from its folder and the texts of its input; nothing is scored."""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from pan_scdg.align.locator import PassageLocator
from pan_scdg.align.passages import Alignment, Evidence
from pan_scdg.align.units import count_words, prepare_text
from pan_scdg.errors import UserError
from pan_scdg.notices import Notices
from pan_scdg.pan.text_alignment import name_detection, read_pairs, read_text
from pan_scdg.pan.truth import TAG, read_span_files
from pan_scdg.progress import Progress
from pan_scdg.records import DocumentPair, Passage, TextFile
from pan_scdg.report.html import render_report, save_page
from pan_scdg.report.query_page import render_retrieval
from pan_scdg.report.records import (
    Excluded,
    Report,
    ReportPair,
    ReportText,
    TokenGains,
    make_report_pair,
    rank_pair,
    read_evidence,
    read_lines,
)
from pan_scdg.report.view import MAX_DETAILS
from pan_scdg.report.wording import UNDECIDED, describe_job

PAGE = "report.html"
MAX_TOKENS = 1_000_000
"""Tokens whose gains are read for a page, which shows fewer of them."""


def write_page(folder: Path, job: Mapping[str, Any], directory: Path) -> str:
    """Write the page of a result into its folder; return the name of the file.

    Args:
        folder: of the result, staged or complete.
        job: its ``job.json``.
        directory: the input.

    Raises:
        UserError: the input cannot be read.
    """
    if job["task"] == "pairs":
        page = render_report(make_run_report(folder, job, directory))
    else:
        page = render_retrieval(folder, job, directory)
    save_page(page, folder / PAGE)
    return PAGE


class DecidedPair(NamedTuple):
    """A pair of the input, and what the report shows of it."""

    pair: DocumentPair
    shown: ReportPair

    @property
    def key(self) -> tuple[str, str]:
        """Return the ids of its documents."""
        return self.pair.suspicious.doc_id, self.pair.source.doc_id


def make_run_report(folder: Path, job: Mapping[str, Any], directory: Path) -> Report:
    """Return the report of pair detection; see `write_page`."""
    records = {(record["suspicious"], record["source"]): record for record in read_lines(folder / "decisions.jsonl")}
    names = {
        record[side]: record.get(f"{side}_name", record[side])
        for record in records.values()
        for side in ("suspicious", "source")
    }
    pairs = [
        pair
        for pair in read_pairs(directory, Notices()).pairs
        if (pair.suspicious.doc_id, pair.source.doc_id) in records
    ]
    method = job["profile"]["decide"]["method"]
    suspicious = RunTexts((pair.suspicious for pair in pairs), names, method)
    sources = RunTexts((pair.source for pair in pairs), names)
    decided: list[DecidedPair] = []
    with Progress("reading texts", len(pairs)) as progress:
        for pair in pairs:
            left, right = suspicious.shown[pair.suspicious.doc_id], sources.shown[pair.source.doc_id]
            words = suspicious.count_words(left), sources.count_words(right)
            record = records[pair.suspicious.doc_id, pair.source.doc_id]
            decided.append(DecidedPair(pair, make_report_pair(record, (left, right), words)))
            progress.update()
    decided.sort(key=lambda one: (*rank_pair(one.shown), one.shown.suspicious, one.shown.source))
    threshold = next(iter(records.values()))["threshold"]
    warnings = [job["partial"]] if job.get("partial") else []
    return Report(
        f"{len(pairs):,} pairs of {len(suspicious):,} texts and {len(sources):,} sources",
        suspicious,
        sources,
        tuple(_add_details(folder, decided, suspicious, sources)),
        threshold,
        {**describe_job(job), "suspicious_texts": len(suspicious), "sources": len(sources)},
        (*warnings, *([UNDECIDED] if threshold is None else [])),
        table_file="decisions.jsonl",
        passages_file="passages.jsonl" if (folder / "passages.jsonl").exists() else "",
    )


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
        self._words: dict[str, int] = {}
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

    def count_words(self, name: str) -> int:
        """Return the number of words of a text, which is read once for this."""
        if name not in self._words:
            self._words[name] = count_words(self[name].text)
        return self._words[name]


def _add_details(
    folder: Path, decided: Sequence[DecidedPair], suspicious: RunTexts, sources: RunTexts
) -> Iterator[ReportPair]:
    """Yield the pairs with passages and gains; passages are searched here if the run did not."""
    evidence: defaultdict[tuple[str, str], list[Evidence]] = defaultdict(list)
    for line in read_lines(folder / "passages.jsonl"):
        evidence[line["suspicious"], line["source"]].append(read_evidence(line))
    gains = _read_gains(folder / "gains.jsonl.gz", [one.key for one in decided[:MAX_DETAILS]])
    for number, one in enumerate(decided):
        passages, tokens = evidence.get(one.key, []), gains.get(one.key)
        if not passages and one.shown.decision != "no sign" and number < MAX_DETAILS:
            texts = suspicious[one.shown.suspicious].text, sources[one.shown.source].text
            passages = _read_detection(folder / name_detection(one.pair), *texts)
            passages = passages if tokens is None else _average_gains(passages, tokens)
        yield replace(one.shown, passages=tuple(passages), gains=tokens)


def _read_gains(path: Path, keys: Sequence[tuple[str, str]]) -> dict[tuple[str, str], TokenGains]:
    """Return the gains of the tokens of some pairs, as far as they were kept."""
    gains: dict[tuple[str, str], TokenGains] = {}
    chosen, space = set(keys), MAX_TOKENS
    for line in read_lines(path):
        key = line["suspicious"], line["source"]
        if key in chosen and len(line["gains"]) <= space:
            space -= len(line["gains"])
            gains[key] = TokenGains(tuple((begin, end) for begin, end in line["offsets"]), tuple(line["gains"]))
    return gains


def _read_detection(detection: Path, target: str, source: str) -> list[Evidence]:
    """Return the passages of a detection XML; if it covers both texts as wholes, those that share words."""
    spans = read_span_files([detection], TAG)
    passages = [Passage(s.this_offset, s.this_length, s.source_offset, s.source_length) for s in spans]
    if not passages or passages == [Passage(0, len(target), 0, len(source))]:
        return PassageLocator().locate(target, source)
    alignment = Alignment(prepare_text(target), prepare_text(source))
    return [alignment.measure(passage)._replace(counts=True) for passage in passages]


def _average_gains(passages: Iterable[Evidence], tokens: TokenGains) -> list[Evidence]:
    """Return the passages with the mean gain of the tokens that begin in each."""
    begins, gains = np.array([begin for begin, _ in tokens.spans]), np.array(tokens.gains)
    inside = [(passage, (begins >= passage.begin) & (begins < passage.end)) for passage in passages]
    return [passage._replace(gain=float(gains[mask].mean())) if mask.any() else passage for passage, mask in inside]


def make_pair_report(
    record: Mapping[str, Any],
    names: tuple[str, str],
    texts: tuple[str, str],
    passages: Sequence[Evidence],
    gains: TokenGains | None,
    facts: Mapping[str, Any],
) -> Report:
    """Return the report of one pair of texts.

    Args:
        record: the decision.
        names: of target and source, as shown.
        texts: target and source.
        passages: of the pair.
        gains: of the tokens of the target; None: there are none.
        facts: how the decision was made, by name.
    """
    pair = make_report_pair(record, names, (count_words(texts[0]), count_words(texts[1])))
    target, source = names
    return Report(
        f"{target} and {source}",
        {target: ReportText(target, texts[0]).exclude_quotations(record["method"])},
        {source: ReportText(source, texts[1])},
        (replace(pair, passages=tuple(passages), gains=gains),),
        record["threshold"],
        facts,
    )
