"""Score the pairs of a check with the method of a profile, and describe them for the report."""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

from pan_scdg.jobs.check.pairs import Places, make_pairs
from pan_scdg.jobs.check.texts import Material
from pan_scdg.notices import Notices
from pan_scdg.align.align import Evidence
from pan_scdg.align.finder import Locator
from pan_scdg.progress import Progress
from pan_scdg.records import Passage
from pan_scdg.report.judge import judge_pair, rank_pair
from pan_scdg.report.records import ReportPair
from pan_scdg.scoring.pair_method import PairMethod
from pan_scdg.store import Store

LEAST_MANY = 5
"""So few documents are never many."""
SHARE_MANY = 0.25
"""Share of the documents of a side that makes a passage common."""
LEAST_OVERLAP = 0.5
"""Share of a passage that has to be in another one, so that both are the same."""

Interval = tuple[int, int]
COMMON = "all passages are ones that many of the texts share, which counts less"


class JudgedPair(NamedTuple):
    """A pair with its verdict; for pairs from one folder (--among), the better of both directions."""

    places: Places
    """Target and source of the score."""
    verdict: ReportPair
    left_out: bool
    """Some passages do not count."""


def judge_pairs(
    material: Material, places: list[Places], method: PairMethod[Any, Any], store: Store
) -> list[JudgedPair]:
    """Return the verdicts of a method on pairs, equal to those of `run`, in the order of ``places``.

    Pairs from one folder (--among) are scored in both directions, and the better one counts.
    """
    pairs = make_pairs(material, places)
    planned, failed = method.check(pairs, Notices(), "negative")
    records: dict[tuple[str, str], Mapping[str, Any]] = {}
    for verdict in method.judge(method.score(planned, store), {}):
        records[verdict.pair.suspicious.doc_id, verdict.pair.source.doc_id] = verdict.record
    for item in failed:
        records[item.pair.suspicious.doc_id, item.pair.source.doc_id] = method.judge_failed(item, {}).record
    left, right = material.suspicious, material.sources
    judged = []
    for i, j in places:
        directions = [(i, j), (j, i)] if material.among else [(i, j)]
        found = []
        for a, b in directions:
            record = records[left[a].compared.doc_id, right[b].compared.doc_id]
            names, words = (left[a].shown.name, right[b].shown.name), (left[a].words, right[b].words)
            found.append(JudgedPair((a, b), judge_pair(record, names, words), bool(record.get("left_out"))))
        judged.append(min(found, key=lambda pair: rank_pair(pair.verdict)))
    return judged


def describe_pairs(material: Material, judged: Sequence[JudgedPair], locator: Locator) -> list[ReportPair]:
    """Return the pairs for the report, best first, with the passages of those that are likely or unclear.

    Of the others only passages that do not count are shown.
    """
    shown = [pair for pair in judged if pair.verdict.judgement != "no sign" or pair.left_out]
    found: dict[Places, list[Evidence]] = {}
    with Progress("finding passages", len(shown)) as progress:
        for pair in shown:
            found[_sort(material, pair.places)] = _find_passages(material, pair, locator)
            progress.update()
    passages = _note_common(found, material)
    pairs = [_describe(material, pair, passages.get(_sort(material, pair.places), ())) for pair in judged]
    return sorted(pairs, key=lambda pair: (*rank_pair(pair), pair.suspicious, pair.source))


def _sort(material: Material, places: Places) -> Places:
    """Return the places of a pair, sorted for pairs from one folder (--among): their order carries no meaning."""
    return (min(places), max(places)) if material.among else places


def _find_passages(material: Material, pair: JudgedPair, locator: Locator) -> list[Evidence]:
    i, j = pair.places
    texts = material.suspicious[i].compared.text or "", material.sources[j].compared.text or ""
    found = locator.find(*texts, positive=pair.verdict.judgement != "no sign")
    if (i, j) != _sort(material, (i, j)):
        return sorted(evidence._replace(passage=_swap_sides(evidence.passage)) for evidence in found)
    return found


def _swap_sides(passage: Passage) -> Passage:
    return Passage(passage.source_offset, passage.source_length, passage.this_offset, passage.this_length)


def _describe(material: Material, pair: JudgedPair, passages: tuple[Evidence, ...]) -> ReportPair:
    i, j = _sort(material, pair.places)
    names = material.suspicious[i].shown.name, material.sources[j].shown.name
    verdict = replace(pair.verdict, suspicious=names[0], source=names[1], passages=passages)
    counted = [passage for passage in passages if passage.counts]
    if verdict.judgement == "likely" and counted and all(passage.note for passage in counted):
        return replace(verdict, judgement="unclear", warnings=(*verdict.warnings, COMMON))
    return verdict


def _note_common(pairs: Mapping[Places, Sequence[Evidence]], material: Material) -> dict[Places, tuple[Evidence, ...]]:
    """Return the passages of each pair, with a note on those that many documents share.

    A passage is common if many suspicious texts have passages from its place in the source, or if many sources have
    passages of its place in the suspicious text.
    """
    sides = ("texts", "texts") if material.among else ("sources", "suspicious texts")
    counts = len(material.sources), len(material.suspicious)
    places: defaultdict[tuple[str, int], list[tuple[int, Interval]]] = defaultdict(list)
    for (i, j), passages in pairs.items():
        for p in passages:
            places[sides[1], i].append((j, (p.begin, p.end)))
            places[sides[0], j].append((i, (p.begin2, p.end2)))
    noted = {}
    for (i, j), passages in pairs.items():
        rows = []
        for p in passages:
            notes = (
                _explain(_count((p.begin2, p.end2), places[sides[0], j]), counts[1], sides[1]),
                _explain(_count((p.begin, p.end), places[sides[1], i]), counts[0], sides[0]),
            )
            rows.append(p._replace(note=notes[0] or notes[1]))
        noted[i, j] = tuple(rows)
    return noted


def _count(place: Interval, others: Sequence[tuple[int, Interval]]) -> int:
    """Return the number of documents that have a passage at this place."""
    least = LEAST_OVERLAP * (place[1] - place[0])
    return len({who for who, (begin, end) in others if min(end, place[1]) - max(begin, place[0]) >= least})


def _explain(count: int, of: int, what: str) -> str:
    return f"{count} of {of} {what} share it" if count >= max(LEAST_MANY, SHARE_MANY * of) else ""
