"""Make the page of a result of `run` from its folder and the texts of its input; nothing is scored."""

import gzip
import json
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from heapq import heappop, heappush
from itertools import groupby
from pathlib import Path
from typing import Any

from pan_scdg.align.locator import PassageLocator
from pan_scdg.align.passages import Evidence
from pan_scdg.align.units import count_words
from pan_scdg.errors import UserError
from pan_scdg.notices import Notices
from pan_scdg.pan.source_retrieval import Corpus, read_queries
from pan_scdg.pan.text_alignment import read_pairs, read_text
from pan_scdg.progress import Progress
from pan_scdg.records import Passage, Query, TextFile
from pan_scdg.report.html import write_report
from pan_scdg.report.judge import judge_pair, rank_pair
from pan_scdg.report.query_page import ExplainedPassage, RankedSource, ReportQuery, write_query_page
from pan_scdg.report.records import Report, ReportPair, ReportText, TokenGains
from pan_scdg.report.view import MAX_DETAILS, MAX_PAGE_BYTES
from pan_scdg.report.wording import UNDECIDED, describe_job

PAGE = "report.html"
MAX_TOKENS = 1_000_000
"""Tokens whose gains are read for a page, which shows fewer of them."""
MAX_SOURCES = 10
"""Of each query; others are shown if they explain a passage."""


def write_page(folder: Path, job: Mapping[str, Any], directory: Path) -> str:
    """Write the page of a result into its folder; return the name of the file.

    Args:
        folder: of the result, staged or complete.
        job: its ``job.json``.
        directory: the input.

    Raises:
        UserError: the result decides nothing, or the input cannot be read.
    """
    if job["task"] == "check" or job["scores_only"]:
        raise UserError("has no decisions of `run`", "give the output of `run` without --scores-only", folder)
    if job["task"] == "pairs":
        write_report(make_run_report(folder, job, directory), folder / PAGE)
    else:
        _write_query_page(folder, job, directory)
    return PAGE


def make_run_report(folder: Path, job: Mapping[str, Any], directory: Path) -> Report:
    """Return the report of pair detection."""
    records = {(record["suspicious"], record["source"]): record for record in _read_lines(folder / "decisions.jsonl")}
    evidence: defaultdict[tuple[str, str], list[Evidence]] = defaultdict(list)
    for line in _read_lines(folder / "passages.jsonl"):
        evidence[line["suspicious"], line["source"]].append(read_evidence(line))
    pairs = [pair for pair in read_pairs(directory, Notices()).pairs if _name(pair.suspicious, pair.source) in records]
    first = next(iter(records.values()))
    names = {
        record[side]: record.get(f"{side}_name", record[side])
        for record in records.values()
        for side in ("suspicious", "source")
    }
    suspicious = RunTexts((pair.suspicious for pair in pairs), names)
    sources = RunTexts((pair.source for pair in pairs), names)
    judged: list[tuple[ReportPair, tuple[str, str]]] = []
    with Progress("reading texts", len(pairs)) as progress:
        for pair in pairs:
            key = _name(pair.suspicious, pair.source)
            left, right = suspicious.shown[key[0]], sources.shown[key[1]]
            words = suspicious.count_words(left), sources.count_words(right)
            judged.append((judge_pair(records[key], (left, right), words), key))
            progress.update()
    judged.sort(key=lambda item: (*rank_pair(item[0]), item[0].suspicious, item[0].source))
    gains = _read_pair_gains(folder / "gains.jsonl.gz", [key for _, key in judged])
    warnings = [job["partial"]] if job.get("partial") else []
    return Report(
        f"{len(pairs):,} pairs of {len(suspicious):,} texts and {len(sources):,} sources",
        suspicious,
        sources,
        tuple(_add_details(judged, evidence, gains, suspicious, sources)),
        first["threshold"],
        {**describe_job(job), "suspicious_texts": len(suspicious), "sources": len(sources)},
        (*warnings, *([UNDECIDED] if first["threshold"] is None else [])),
        table_file="decisions.jsonl",
        passages_file="passages.jsonl" if evidence else "",
    )


class RunTexts(Mapping[str, ReportText]):
    """The texts of one side by the names that are shown; each is read when it is asked for.

    The user's own names are shown if no two of the documents have the same.
    """

    def __init__(self, files: Iterable[TextFile], names: Mapping[str, str]) -> None:
        distinct = {file.doc_id: file for file in files}
        own = {doc_id: names.get(doc_id, doc_id) for doc_id in distinct}
        self.shown = own if len(set(own.values())) == len(own) else {doc_id: doc_id for doc_id in own}
        """The name of each document by its id."""
        self._files = {self.shown[doc_id]: file for doc_id, file in distinct.items()}
        self._words: dict[str, int] = {}

    def __getitem__(self, name: str) -> ReportText:
        """Return a text; one that cannot be read is empty, with the reason as a warning."""
        try:
            return ReportText(name, read_text(self._files[name]))
        except UserError as e:
            return ReportText(name, "", (e.what,))

    def __iter__(self) -> Iterator[str]:
        return iter(self._files)

    def __len__(self) -> int:
        return len(self._files)

    def count_words(self, name: str) -> int:
        """Return the number of words of a text, which is read once for this."""
        if name not in self._words:
            self._words[name] = count_words(self[name].text)
        return self._words[name]


def read_evidence(line: Mapping[str, Any]) -> Evidence:
    """Return the passage of a line of ``passages.jsonl`` or ``evidence.jsonl``."""
    begin, begin2, end2 = line["begin"], line["begin2"] or 0, line["end2"] or 0
    passage = Passage(begin, line["end"] - begin, begin2, end2 - begin2)
    more = {name: line[name] for name in ("gain", "within", "counts") if name in line}
    return Evidence(passage, line["similarity"], line["verbatim"], **more)


def _name(suspicious: TextFile, source: TextFile) -> tuple[str, str]:
    return suspicious.doc_id, source.doc_id


def _read_lines(path: Path) -> Iterator[dict[str, Any]]:
    """Yield the records of a file of JSON lines, if it exists."""
    if path.exists():
        with gzip.open(path, "rt", encoding="utf-8") if path.suffix == ".gz" else path.open(encoding="utf-8") as file:
            yield from map(json.loads, file)


def _read_pair_gains(path: Path, best: Sequence[tuple[str, str]]) -> dict[tuple[str, str], TokenGains]:
    """Return the gains of the tokens of the best pairs, as far as they were kept."""
    wanted = set(best[:MAX_DETAILS])
    gains: dict[tuple[str, str], TokenGains] = {}
    space = MAX_TOKENS
    for line in _read_lines(path):
        key = line["suspicious"], line["source"]
        if key in wanted and len(line["gains"]) <= space:
            space -= len(line["gains"])
            gains[key] = TokenGains(tuple((begin, end) for begin, end in line["offsets"]), tuple(line["gains"]))
    return gains


def _add_details(
    judged: Sequence[tuple[ReportPair, tuple[str, str]]],
    evidence: Mapping[tuple[str, str], Sequence[Evidence]],
    gains: Mapping[tuple[str, str], TokenGains],
    suspicious: RunTexts,
    sources: RunTexts,
) -> Iterator[ReportPair]:
    """Yield the pairs with passages and gains; where the run has looked for no passages, those of equal words."""
    locator = PassageLocator()
    for number, (pair, key) in enumerate(judged):
        passages = evidence.get(key, ())
        if not passages and pair.judgement != "no sign" and number < MAX_DETAILS:
            passages = locator.locate(suspicious[pair.suspicious].text, sources[pair.source].text)
        yield replace(pair, passages=tuple(passages), gains=gains.get(key))


def _write_query_page(folder: Path, job: Mapping[str, Any], directory: Path) -> None:
    """Write the page of source retrieval."""
    queries = read_queries(directory, Notices())
    shown = list(_list_report_queries(folder, queries))
    documents = _read_sources(Corpus(directory, Notices()), shown)
    facts = {**describe_job(job), "queries": len(shown)}
    warnings = [job["partial"]] if job.get("partial") else []
    write_query_page(shown, documents, facts, warnings, folder / PAGE)


def _list_report_queries(folder: Path, queries: Sequence[Query]) -> Iterator[ReportQuery]:
    """Yield the part of the page about each query that has candidates."""
    passages: defaultdict[str, list[ExplainedPassage]] = defaultdict(list)
    for line in _read_lines(folder / "evidence.jsonl"):
        explained = ExplainedPassage(read_evidence(line), line["document"], line["rank"], line["margin"])
        passages[line["query"]].append(explained)
    gains = _read_query_gains(folder / "gains.jsonl.gz", passages)
    routes = {line["query"]: line["routes"] for line in _read_lines(folder / "candidates.jsonl.gz")}
    texts = {query.query_id: query.text for query in queries}
    for query_id, lines in groupby(_read_lines(folder / "scores.jsonl.gz"), key=lambda line: str(line["query"])):
        explaining = {passage.rank for passage in passages[query_id]}
        kept = [line for line in lines if line["rank"] <= MAX_SOURCES or line["rank"] in explaining]
        sources = _describe_sources(kept, routes.get(query_id, {}))
        yield ReportQuery(query_id, texts[query_id], sources, passages[query_id], gains.get(query_id))


def _read_query_gains(path: Path, passages: Mapping[str, Sequence[ExplainedPassage]]) -> dict[str, TokenGains]:
    """Return by query the gains of the tokens that begin in passages, each with the source of the passage."""
    tokens: defaultdict[str, dict[tuple[int, int], float]] = defaultdict(dict)
    for line in _read_lines(path):
        explained = [p.evidence for p in passages.get(line["query"], ()) if p.document == line["document"]]
        places = [(one.begin, one.end) for one in explained]
        for (begin, end), gain in zip(line["offsets"], line["gains"]):
            if any(first <= begin < last for first, last in places):
                tokens[line["query"]][begin, end] = gain
    return {name: TokenGains(*zip(*sorted(values.items()), strict=True)) for name, values in tokens.items() if values}


def _describe_sources(lines: Sequence[Mapping[str, Any]], routes: Mapping[str, Any]) -> list[RankedSource]:
    wanted = {line["document"] for line in lines}
    places = {
        name: {doc_id: (rank, score) for rank, (doc_id, score) in enumerate(ranking, 1) if doc_id in wanted}
        for name, ranking in routes.items()
    }
    return [
        RankedSource(
            line["rank"],
            line["document"],
            line["final"],
            {name: ranks[line["document"]] for name, ranks in places.items() if line["document"] in ranks},
        )
        for line in lines
    ]


def _read_sources(corpus: Corpus, queries: Sequence[ReportQuery]) -> dict[str, str]:
    """Return the texts that explain passages, by id; if they exceed a page, those of the first queries."""
    wanted = dict.fromkeys(passage.document for query in queries for passage in query.passages)
    order = {doc_id: number for number, doc_id in enumerate(wanted)}
    texts: dict[str, str] = {}
    last_first: list[tuple[int, str]] = []
    size = 0
    for document in corpus.select(order):
        texts[document.doc_id] = document.text
        heappush(last_first, (-order[document.doc_id], document.doc_id))
        size += len(document.text)
        while size > MAX_PAGE_BYTES:
            size -= len(texts.pop(heappop(last_first)[1]))
    return texts


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
    pair = judge_pair(record, names, (count_words(texts[0]), count_words(texts[1])))
    target, source = names
    return Report(
        f"{target} and {source}",
        {target: ReportText(target, texts[0])},
        {source: ReportText(source, texts[1])},
        (replace(pair, passages=tuple(passages), gains=gains),),
        record["threshold"],
        facts,
    )
