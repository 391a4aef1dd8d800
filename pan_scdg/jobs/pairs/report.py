"""The report of a run over pairs: its verdicts, the passages behind them, and the gains of the best pairs' tokens."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from pan_scdg.errors import UserError
from pan_scdg.pan.text_alignment import read_text
from pan_scdg.align.align import Alignment, Evidence
from pan_scdg.align.finder import Locator
from pan_scdg.align.units import count_words, prepare_text
from pan_scdg.profile import PassageSettings
from pan_scdg.progress import Progress
from pan_scdg.records import DocumentPair, Passage, TextFile
from pan_scdg.report.judge import judge_pair, rank_pair
from pan_scdg.report.records import Report, ReportPair, ReportText, TokenGains
from pan_scdg.report.view import MOST_DETAILS
from pan_scdg.report.wording import UNDECIDED
from pan_scdg.scoring.pair_method import LocatedGains, Verdict, cover_both
from pan_scdg.scoring.token_offsets import TokenLocator, make_locator
from pan_scdg.scoring.verification import Verifier

MOST_PAIRS = 100
"""The best pairs, whose passages are measured; a passage takes about a second."""
MOST_TOKENS = 1_000_000
"""Tokens whose gains are read for a page, which shows fewer of them."""


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
        """Yield the names."""
        return iter(self._files)

    def __len__(self) -> int:
        """Return the number of texts."""
        return len(self._files)

    def count_words(self, name: str) -> int:
        """Return the number of words of a text, which is read once for this."""
        if name not in self._words:
            self._words[name] = count_words(self[name].text)
        return self._words[name]


def make_run_report(
    verdicts: Sequence[Verdict],
    names: Mapping[str, str],
    threshold: float | None,
    facts: Mapping[str, Any],
    locator: Locator,
    gains: Mapping[DocumentPair, TokenGains],
    verifier: Verifier | None = None,
) -> Report:
    """Return the report of a run.

    Args:
        verdicts: with the passages that the run has found.
        names: the user's own names of documents by id; may be empty.
        threshold: that decided; None: nothing was decided.
        facts: how the result was made, by name.
        locator: finds passages for the page where the run has looked for none.
        gains: of the tokens of some pairs.
        verifier: measures the gains of passages; None: they are those that the run has measured.
    """
    suspicious = RunTexts((verdict.pair.suspicious for verdict in verdicts), names)
    sources = RunTexts((verdict.pair.source for verdict in verdicts), names)
    judged: list[tuple[ReportPair, Verdict]] = []
    with Progress("judging pairs", len(verdicts)) as progress:
        for verdict in verdicts:
            pair = verdict.pair
            left, right = suspicious.shown[pair.suspicious.doc_id], sources.shown[pair.source.doc_id]
            words = suspicious.count_words(left), sources.count_words(right)
            judged.append((judge_pair(verdict.record, (left, right), words), verdict))
            progress.update()
    judged.sort(key=lambda item: (*rank_pair(item[0]), item[0].suspicious, item[0].source))
    pairs = list(_add_evidence(judged, suspicious, sources, locator, gains))
    if verifier is not None:
        pairs = measure_gains(pairs, lambda p: (suspicious[p.suspicious].text, sources[p.source].text), verifier)
    return Report(
        f"{len(verdicts):,} pairs of {len(suspicious):,} texts and {len(sources):,} sources",
        suspicious,
        sources,
        tuple(pairs),
        threshold,
        {**facts, "suspicious_texts": len(suspicious), "sources": len(sources)},
        () if threshold is not None else (UNDECIDED,),
    )


def _add_evidence(
    judged: Sequence[tuple[ReportPair, Verdict]],
    suspicious: RunTexts,
    sources: RunTexts,
    locator: Locator,
    gains: Mapping[DocumentPair, TokenGains],
) -> Iterator[ReportPair]:
    """Yield the pairs with passages and gains; pairs that exceed the page's limit keep the passages of the run."""
    for number, (pair, verdict) in enumerate(judged):
        found = verdict.evidence
        if not found and pair.judgement != "no sign" and number < MOST_DETAILS:
            found = _find(verdict.passages, suspicious[pair.suspicious].text, sources[pair.source].text, locator)
        yield replace(pair, passages=tuple(found), gains=gains.get(verdict.pair))


def _find(known: tuple[Passage, ...], target: str, source: str, locator: Locator) -> list[Evidence]:
    """Return the passages of a detection; of one that covers both documents as a whole, those of ``locator``."""
    if not known or known == cover_both(len(target), len(source)):
        return locator.find(target, source)
    settings = PassageSettings()
    left, right = (prepare_text(text, settings.unit_words) for text in (target, source))
    alignment = Alignment(left, right, settings)
    return [alignment.measure(passage)._replace(counts=True) for passage in known]  # they are those of another method


def choose_gains(located: Iterable[LocatedGains]) -> dict[DocumentPair, TokenGains]:
    """Return the gains of the tokens of the first pairs, for a page.

    They are read, best first, as far as needed.
    """
    chosen: dict[DocumentPair, TokenGains] = {}
    space = MOST_TOKENS
    for pair, gains, offsets in located:
        space -= len(gains.token_ids)
        if space < 0:
            break
        spans = ((begin, end) for begin, end in offsets.tolist())
        chosen[pair] = TokenGains(tuple(spans), tuple(gains.gains.tolist()))
    return chosen


def measure_gains(
    pairs: Iterable[ReportPair], read_texts: Callable[[ReportPair], tuple[str, str]], verifier: Verifier
) -> list[ReportPair]:
    """Return the pairs, the passages of the best ones with their gains."""
    measured = list(pairs)
    chosen = [number for number, pair in enumerate(measured) if pair.passages][:MOST_PAIRS]
    locator = make_locator(verifier.model)
    with Progress("measuring gains", len(chosen)) as progress:
        for number in chosen:
            pair = measured[number]
            measured[number] = _measure_pair(pair, *read_texts(pair), verifier, locator)
            progress.update()
    return measured


def _measure_pair(pair: ReportPair, target: str, source: str, verifier: Verifier, locator: TokenLocator) -> ReportPair:
    """Return the pair with gains of passages, and of their tokens if it has none of all tokens."""
    passages: list[Evidence] = []
    tokens: dict[tuple[int, int], float] = {}
    for p in pair.passages:
        found = verifier.measure(target, source, p.passage)
        passages.append(p._replace(gain=found.gain, control=found.control))
        for (start, end), gain in zip(locator.locate_query(target[p.begin : p.end]).offsets.tolist(), found.gains):
            if start < end:
                tokens.setdefault((p.begin + start, p.begin + end), gain)
    spans = tuple(sorted(tokens))
    gains = pair.gains or TokenGains(spans, tuple(tokens[span] for span in spans))
    return replace(pair, passages=tuple(passages), gains=gains)
