"""Compare folders of texts: read them, score the pairs as `run` does, and write the table, passages and page."""

from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from pan_scdg.align.passages import Evidence
from pan_scdg.align.selection import select_pairs
from pan_scdg.errors import UserError
from pan_scdg.jobs.cluster import Devices, open_workers
from pan_scdg.jobs.decisions import DecisionRule, require_threshold
from pan_scdg.jobs.material import Material, collect_texts
from pan_scdg.jobs.options import RunOptions, describe_job
from pan_scdg.jobs.pairs import (
    LEFT_OUT,
    MAX_MEASURED_PAIRS,
    check_pairs,
    name_key,
    read_pair_texts,
    score_pairs,
)
from pan_scdg.jobs.result import ScoreFile, open_result
from pan_scdg.jobs.worker import PairWorker, PassageTask
from pan_scdg.logs import say
from pan_scdg.methods import MethodOptions
from pan_scdg.methods.alignment import AlignmentMethod
from pan_scdg.methods.bm25 import count_statistics
from pan_scdg.models.find import describe_models
from pan_scdg.normal_form import compose
from pan_scdg.notices import Notices
from pan_scdg.profile import MethodSettings, Passages, Profile
from pan_scdg.progress import Progress, format_count
from pan_scdg.records import DocumentPair, Passage
from pan_scdg.report import wording
from pan_scdg.report.html import render_report, save_page
from pan_scdg.report.pages import PAGE
from pan_scdg.report.records import (
    UNCLEAR_MARGIN,
    Report,
    ReportPair,
    TokenGains,
    make_report_pair,
    rank_pair,
)
from pan_scdg.report.table import ENCODING, format_best, format_pairs, format_passages, format_texts

PAIRS_FILE, TEXTS_FILE, PASSAGES_FILE = "report.csv", "texts.csv", "passages.jsonl"
TEXTS_FOLDER = "texts"
MAX_PAIRS = 10_000
"""Up to this number all pairs are scored; from more, a first stage leaves out those that cannot be reuse."""
MIN_SHARING = 3
"""Documents that share a passage, from which on a note says how many."""
MIN_OVERLAP = 0.5
"""Least share of a passage inside another one that counts as the same."""
MAX_NAME_BYTES = 255
MIN_COHORT = 10
"""Other pairs of both texts below the threshold, from which on a score is compared with theirs."""
COHORT_SPREAD = 5.0
"""Distance of an unusual score from the median of these pairs, in distances of their lower quartile from it."""
COHORT_WARNING = "many pairs of these texts score nearly as high, as those of answers to one question do"
AMONG_WARNING = "Compared with one another; the report cannot tell who copied from whom."

Indices = tuple[int, int]
"""The numbers of a suspicious text and of a source in the material."""
Interval = tuple[int, int]


@dataclass(frozen=True)
class CheckOptions:
    """The options of ``check``; see its help."""

    suspicious: Path
    sources: Path | None
    """None: the suspicious texts are compared with each other."""
    output: Path
    template: Path | None = None
    gains: bool = True
    device: str = "cpu"
    workers: int | None = None
    cluster: str | None = None
    model: Path | None = None
    overwrite: bool = False
    strict: bool = False


class ScoredPair(NamedTuple):
    """A pair as the report shows it; of texts compared with each other, the better of both directions."""

    indices: Indices
    """Target and source of the score."""
    shown: ReportPair
    values: Mapping[str, float]
    """The numbers that the method measured."""


def check_texts(profile: Profile, options: CheckOptions) -> tuple[str, list[str]]:
    """Compare every suspicious text with every source, and write a report; return the ranked table and lines about it.

    Raises:
        UserError: a text cannot be read, or a model or the output is not usable; no result is published.
    """
    require_threshold(profile)
    profile = profile.model_copy(update={"passages": profile.passages or Passages()})
    notices = Notices(options.strict)
    material = collect_texts(options.suspicious, options.sources, options.template, notices)
    count = sum(1 for _ in list_pairs(material))
    if not count:
        raise UserError("both sides are the same file", "give another text to compare it with", options.suspicious)
    measures = options.gains and profile.gains is not None
    statistics = None
    if profile.need_decide().method == "bm25":
        statistics = count_statistics(compose(text.compared.text or "").text for text in material.sources)
    worker = PairWorker(profile, MethodOptions(options.device, options.model), statistics, measures)
    if count > MAX_PAIRS and not isinstance(worker.method, AlignmentMethod):
        raise UserError(
            f"{count} pairs are too many for profile {profile.name}: beyond {MAX_PAIRS} there has to be a first stage",
            "use a profile that decides by alignment, such as offline, or check fewer texts at a time",
        )
    job = _describe_check(profile, options, material, worker)
    lines: list[str] = []
    with open_result(options.output, job, overwrite=options.overwrite) as work:
        if work is not None:
            models = worker.list_models()
            say([describe_models(models.values())] if models else [])
            job["model_names"] = {name: model.name for name, model in models.items()}
            rule = DecisionRule(profile, job)
            indices = _choose_pairs(material, worker, rule, count)
            with open_workers(worker, Devices(options.device, options.workers, options.cluster)) as workers:
                scored = _score(material, indices, worker, rule, workers.map, work.scores)
                pairs = _describe_pairs(material, scored, workers.map, measures, rule.threshold)
            report = make_report(material, pairs, rule.threshold, job, notices, count - len(indices), options.template)
            lines = [wording.summarise(report), wording.explain_decisions(report.threshold), wording.CAUTION]
            work.publish(write_files(work.staged, material, report))
    if not lines:
        lines = [f"already complete: {options.output}"]
    table = format_best(*((options.output / name).read_text(ENCODING) for name in (TEXTS_FILE, PAIRS_FILE)))
    return table, [*notices.list_warnings(), *material.excluded, *lines, f"report: {options.output / PAGE}"]


def list_pairs(material: Material) -> Iterator[Indices]:
    """Yield all pairs of different files; in pairs from one folder (--among), the earlier file comes first."""
    if material.among:
        count = len(material.suspicious)
        yield from ((i, j) for i in range(count) for j in range(i + 1, count))
        return
    left, right = _resolve_paths(material)
    yield from ((i, j) for i in range(len(left)) for j in range(len(right)) if left[i] != right[j])


def _resolve_paths(material: Material) -> tuple[list[Path], list[Path]]:
    """Return the files of both sides: one that is on both is no source of itself."""
    left, right = ([text.compared.path.resolve() for text in side] for side in (material.suspicious, material.sources))
    return left, right


def _describe_check(profile: Profile, options: CheckOptions, material: Material, worker: PairWorker) -> dict[str, Any]:
    """Return all fields that the result depends on."""
    run = RunOptions(options.suspicious, options.output, options.device)
    return describe_job(
        "check",
        profile,
        run,
        material.hash(),
        worker.identify(),
        fingerprint=worker.method.fingerprint,
        suspicious=options.suspicious.name,
        template=None if options.template is None else options.template.name,
        among=material.among,
        gains=options.gains,
    )


def _choose_pairs(material: Material, worker: PairWorker, rule: DecisionRule, count: int) -> list[Indices]:
    """Return all pairs; of many, those whose score may come near the threshold."""
    method = worker.method
    if count <= MAX_PAIRS or rule.threshold is None or not isinstance(method, AlignmentMethod):
        return list(list_pairs(material))
    left, right = _resolve_paths(material)
    with Progress("first stage", len(material.suspicious)) as progress:

        def encode_targets() -> Iterator[Any]:
            for text in material.suspicious:
                yield method.encoder.encode(compose(text.compared.text or "").text)
                progress.update()

        sources = (method.encoder.encode(compose(text.compared.text or "").text) for text in material.sources)
        selected = select_pairs(encode_targets(), sources, method.settings, rule.threshold - UNCLEAR_MARGIN)
    return sorted({_sort(material, indices) for indices in selected if left[indices[0]] != right[indices[1]]})


def _score(
    material: Material,
    indices: Sequence[Indices],
    worker: PairWorker,
    rule: DecisionRule,
    compute: Callable[..., Iterator[Any]],
    scores: ScoreFile,
) -> list[ScoredPair]:
    """Return the decisions about pairs, equal to those of `run`, in the order of ``indices``.

    Pairs from one folder (--among) are scored in both directions, and the better one counts.
    """
    pairs = {one: _make_pair(material, one) for i, j in indices for one in _list_directions(material, (i, j))}
    checked = check_pairs(tuple(pairs.values()), worker.method, Notices(), "negative")
    score_pairs(checked, compute, scores, "negative", worker.profile.method_settings.max_batch)
    left, right = material.suspicious, material.sources
    scored = []
    for pair_indices in indices:
        directions = []
        for i, j in _list_directions(material, pair_indices):
            pair = pairs[i, j]
            values: Mapping[str, float] = {}
            if pair in checked.errors:
                record = rule.decide_failed(checked.errors[pair])
            else:
                line = scores[name_key(pair)]
                values, record = line["values"], rule.decide(line["values"], line["warnings"])
            names, words = (left[i].shown.name, right[j].shown.name), (left[i].words, right[j].words)
            directions.append(ScoredPair((i, j), make_report_pair(record, names, words), values))
        scored.append(min(directions, key=lambda one: rank_pair(one.shown)))
    return compare_with_cohorts(scored, worker.profile.method_settings, material.among)


def compare_with_cohorts(pairs: Sequence[ScoredPair], settings: MethodSettings, among: bool) -> list[ScoredPair]:
    """Return the pairs, of which those are unclear whose score is usual among the other pairs of both texts.

    Texts on one question are each other's controls. A score is unusual if it exceeds the median of the other pairs
    below the threshold by `COHORT_SPREAD` times the distance of their lower quartile; with fewer than `MIN_COHORT`
    such pairs nothing is compared. A copy is always reuse.
    """
    scores: defaultdict[tuple[str, int], dict[Indices, float]] = defaultdict(dict)
    for pair in pairs:
        if pair.shown.decision != "likely" and pair.shown.score is not None:
            for text in _name_texts(pair, among):
                scores[text][pair.indices] = pair.shown.score
    compared = []
    for pair in pairs:
        if pair.shown.decision == "likely" and not settings.is_copy(pair.values):
            cohort = [score for text in _name_texts(pair, among) for score in scores[text].values()]
            if pair.shown.score is not None and pair.shown.score < _find_usual_score(cohort):
                warnings = (*pair.shown.warnings, COHORT_WARNING)
                pair = pair._replace(shown=replace(pair.shown, decision="unclear", warnings=warnings))
        compared.append(pair)
    return compared


def _find_usual_score(cohort: Sequence[float]) -> float:
    """Return the score below which one is usual in a cohort; no score is in one that is too small."""
    if len(cohort) < MIN_COHORT:
        return float("-inf")
    quartile, median = np.quantile(cohort, (0.25, 0.5)).tolist()
    return float(median + COHORT_SPREAD * (median - quartile))


def _name_texts(pair: ScoredPair, among: bool) -> tuple[tuple[str, int], tuple[str, int]]:
    """Return both texts of a pair; those of one folder (--among) have one name on either side."""
    i, j = pair.indices
    return ("text" if among else "target", i), ("text" if among else "source", j)


def _list_directions(material: Material, indices: Indices) -> list[Indices]:
    i, j = indices
    return [(i, j), (j, i)] if material.among else [(i, j)]


def _make_pair(material: Material, indices: Indices) -> DocumentPair:
    return DocumentPair(material.suspicious[indices[0]].compared, material.sources[indices[1]].compared)


def _describe_pairs(
    material: Material,
    scored: Sequence[ScoredPair],
    compute: Callable[..., Iterator[Any]],
    measures: bool,
    threshold: float | None,
) -> list[ReportPair]:
    """Return the pairs for the report, best first, with the passages of those that are likely or unclear.

    Of the others, and of texts that are too short and unlike each other, only passages that do not count are shown.
    """
    shown = [pair for pair in scored if pair.shown.decision != "no sign" or pair.values.get(LEFT_OUT)]
    best = sorted(shown, key=lambda pair: rank_pair(pair.shown))[:MAX_MEASURED_PAIRS] if measures else []
    measured = {pair.indices for pair in best}
    tasks = (
        PassageTask(
            read_pair_texts(_make_pair(material, pair.indices)),
            pair.values,
            _has_passages(pair, threshold),
            pair.indices in measured,
        )
        for pair in shown
    )
    evidence: dict[Indices, list[Evidence]] = {}
    gains: dict[Indices, TokenGains] = {}
    with Progress("finding passages", len(shown)) as progress:
        for pair, passages in zip(shown, compute(tasks)):
            indices = _sort(material, pair.indices)
            evidence[indices] = _orient(material, pair.indices, passages.evidence)
            if passages.gains and indices == pair.indices:
                gains[indices] = TokenGains(*zip(*passages.gains, strict=True))
            progress.update()
    noted = _note_sharing(evidence, material)
    pairs = [_describe(material, pair, noted.get(_sort(material, pair.indices), ()), gains) for pair in scored]
    return sorted(pairs, key=lambda pair: (*rank_pair(pair), pair.suspicious, pair.source))


def _has_passages(pair: ScoredPair, threshold: float | None) -> bool:
    if pair.shown.decision == "unclear" and "alignment" in pair.values and threshold is not None:
        return pair.shown.score is not None and pair.shown.score >= threshold - UNCLEAR_MARGIN
    return pair.shown.decision != "no sign"


def _sort(material: Material, indices: Indices) -> Indices:
    """Return the indices of a pair, sorted for pairs from one folder (--among): their order carries no meaning."""
    return (min(indices), max(indices)) if material.among else indices


def _orient(material: Material, indices: Indices, passages: Sequence[Evidence]) -> list[Evidence]:
    """Return the passages of a pair in the order of its sorted indices."""
    if indices == _sort(material, indices):
        return list(passages)
    return sorted(one._replace(passage=_swap_sides(one.passage)) for one in passages)


def _swap_sides(passage: Passage) -> Passage:
    return Passage(passage.source_offset, passage.source_length, passage.this_offset, passage.this_length)


def _describe(
    material: Material, pair: ScoredPair, passages: tuple[Evidence, ...], gains: Mapping[Indices, TokenGains]
) -> ReportPair:
    i, j = _sort(material, pair.indices)
    names = material.suspicious[i].shown.name, material.sources[j].shown.name
    return replace(pair.shown, suspicious=names[0], source=names[1], passages=passages, gains=gains.get((i, j)))


def _note_sharing(
    evidence: Mapping[Indices, Sequence[Evidence]], material: Material
) -> dict[Indices, tuple[Evidence, ...]]:
    """Return the passages of each pair, with a note on how many documents share those that several do.

    They are the suspicious texts with passages from its place in the source, or else the sources with passages of its
    place in the suspicious text.
    """
    sides = ("texts", "texts") if material.among else ("sources", "suspicious texts")
    counts = len(material.sources), len(material.suspicious)
    places: defaultdict[tuple[str, int], list[tuple[int, Interval]]] = defaultdict(list)
    for (i, j), passages in evidence.items():
        for p in passages:
            places[sides[1], i].append((j, (p.begin, p.end)))
            places[sides[0], j].append((i, (p.begin2, p.end2)))
    noted = {}
    for (i, j), passages in evidence.items():
        rows = []
        for p in passages:
            in_source = _count((p.begin2, p.end2), places[sides[0], j]) + material.among
            in_target = _count((p.begin, p.end), places[sides[1], i]) + material.among
            notes = _explain(in_source, counts[1], sides[1]), _explain(in_target, counts[0], sides[0])
            rows.append(p._replace(note=notes[0] or notes[1]))
        noted[i, j] = tuple(rows)
    return noted


def _count(place: Interval, others: Sequence[tuple[int, Interval]]) -> int:
    """Return the number of other documents that have a passage at this place."""
    least = MIN_OVERLAP * (place[1] - place[0])
    return len({who for who, (begin, end) in others if min(end, place[1]) - max(begin, place[0]) >= least})


def _explain(count: int, total: int, what: str) -> str:
    return f"{count} of {total} {what} share it" if count >= MIN_SHARING else ""


def make_report(
    material: Material,
    pairs: Sequence[ReportPair],
    threshold: float | None,
    job: Mapping[str, Any],
    notices: Notices,
    left_out: int,
    template: Path | None,
) -> Report:
    """Return the report of a check; ``left_out`` is the number of pairs that the first stage left out."""
    warnings = [line.removeprefix("warning: ") for line in notices.list_warnings()]
    if threshold is None:
        warnings.append(wording.UNDECIDED)
    warnings += material.excluded
    if material.among:
        warnings.append(AMONG_WARNING)
    if left_out:
        warnings.append(f"{left_out:,} pairs that cannot reach the threshold are not listed")
    left, right = len(material.suspicious), len(material.sources)
    others = "each other" if material.among else format_count(right, "source")
    facts = wording.describe_job(job, None if template is None else template.name)
    method = job["profile"]["decide"]["method"]
    suspicious = {text.shown.name: text.shown.exclude_quotations(method) for text in material.suspicious}
    return Report(
        f"{format_count(left, 'text')} compared with {others}",
        suspicious,
        suspicious if material.among else {text.shown.name: text.shown for text in material.sources},
        tuple(pairs),
        threshold,
        facts={**facts, "suspicious_texts": left, "sources": right},
        warnings=tuple(warnings),
        among=material.among,
        not_listed=left_out,
        not_read=notices.left_out,
        table_file=PAIRS_FILE,
        passages_file=PASSAGES_FILE,
    )


def write_files(folder: Path, material: Material, report: Report) -> list[str]:
    """Write all files into an empty folder; return their names, the page last.

    Raises:
        UserError: a text's name is too long for the file that it is kept in.
    """
    extracted = ((side, text.shown) for side, text in material.list_texts() if text.extracted)
    names = [_keep_text(folder, side, text.name, text.text) for side, text in extracted]
    for name, table in ((TEXTS_FILE, format_texts(report)), (PAIRS_FILE, format_pairs(report))):
        (folder / name).write_text(table, encoding=ENCODING, newline="")
    with open(folder / PASSAGES_FILE, "w", encoding="utf-8", newline="\n") as file:
        file.writelines(format_passages(report))
    save_page(render_report(report), folder / PAGE)
    return [*names, PASSAGES_FILE, TEXTS_FILE, PAIRS_FILE, PAGE]


def _keep_text(folder: Path, side: str, name: str, text: str) -> str:
    """Write a text that was taken out of another format; offsets refer to it."""
    kept = f"{TEXTS_FOLDER}/{name}.txt" if side == TEXTS_FOLDER else f"{TEXTS_FOLDER}/{side}/{name}.txt"
    if any(len(part.encode()) > MAX_NAME_BYTES for part in kept.split("/")):
        raise UserError("the name is too long for the file that its text is kept in", "shorten it", name)
    (folder / kept).parent.mkdir(parents=True, exist_ok=True)
    (folder / kept).write_text(text, encoding="utf-8", newline="")
    return kept
