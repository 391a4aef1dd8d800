"""Compare folders of texts: read them, score the pairs as `run` does, and write the table, passages and page."""

from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple

import numpy as np

from pan_scdg.align.passages import Evidence
from pan_scdg.align.selection import select_pairs
from pan_scdg.errors import UserError
from pan_scdg.jobs.cluster import Devices, Workers, open_workers
from pan_scdg.jobs.decisions import DecisionRule, require_threshold
from pan_scdg.jobs.material import Indices, Inputs, Material, collect_texts
from pan_scdg.jobs.options import RunOptions, describe_job
from pan_scdg.jobs.pairs import (
    LEFT_OUT,
    MAX_MEASURED_PAIRS,
    check_pairs,
    name_key,
    read_pair_texts,
    score_pairs,
)
from pan_scdg.jobs.result import SCORES, ScoreFile, open_result
from pan_scdg.jobs.worker import PairWorker, PassageTask
from pan_scdg.logs import say
from pan_scdg.methods import MethodOptions, MethodSettings
from pan_scdg.methods.alignment import AlignmentMethod
from pan_scdg.models.find import describe_models
from pan_scdg.normal_form import compose
from pan_scdg.notices import Notices
from pan_scdg.profile import Profile
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
from pan_scdg.settings import Passages

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
COHORT_SPREAD = 8.0
"""Distance of an unusual score from the median of these pairs, in distances of their lower quartile from it; chosen in
benchmarks/results/verdicts.md."""
COHORT_WARNING = "many pairs of these texts score nearly as high, as answers to one question do"
AMONG_WARNING = "Compared with one another; the report cannot tell who copied from whom."

Interval = tuple[int, int]


@dataclass(frozen=True)
class CheckOptions:
    """The options of ``check``; see its help."""

    inputs: Inputs
    output: Path
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
    material = collect_texts(options.inputs, notices)
    sources = (compose(text.text).text for text in material.texts[material.first_source :])
    statistics = profile.method_settings.count_sources(sources)
    measures = options.gains and profile.gains is not None
    worker = PairWorker(profile, MethodOptions(options.device, options.model), statistics, measures)
    job = _describe_check(profile, options, material, worker)
    check_count(material, worker)
    lines: list[str] = []
    with open_result(options.output, job, overwrite=options.overwrite) as work:
        if work is not None:
            models = worker.list_models()
            say([describe_models(models.values())] if models else [])
            job["model_names"] = {name: model.name for name, model in models.items()}
            with open_workers(worker, Devices(options.device, options.workers, options.cluster)) as workers:
                report = compare(material, worker, job, notices, workers.map, work.scores)
            lines = [wording.summarise(report), wording.explain_decisions(report.threshold), wording.CAUTION]
            work.publish(write_files(work.staged, material, report))
    if not lines:
        lines = [f"already complete: {options.output}"]
    table = format_best(*((options.output / name).read_text(ENCODING) for name in (TEXTS_FILE, PAIRS_FILE)))
    return table, [*notices.list_warnings(), *material.excluded, *lines, f"report: {options.output / PAGE}"]


def check_in_memory(worker: PairWorker, job: dict[str, Any], inputs: Inputs) -> Report:
    """Compare texts as `check_texts` does, without a result; ``job`` has the fields that a report and a rule read."""
    notices = Notices()
    material = collect_texts(inputs, notices)
    check_count(material, worker)
    job = {**job, "template": None if inputs.template is None else inputs.template.name}
    with TemporaryDirectory() as folder:
        scores = ScoreFile(Path(folder) / SCORES)
        report = compare(material, worker, job, notices, Workers[Any, Any](worker).map, scores)
    return replace(report, table_file="", passages_file="")


def check_count(material: Material, worker: PairWorker) -> None:
    """Raise UserError if there is no pair, or more than the method can score."""
    count = sum(1 for _ in list_pairs(material))
    if not count:
        author = material.suspicious[0].author
        what = f"all texts are in one folder of an author, {author}" if author else "both sides are the same file"
        raise UserError(what, "give another text to compare it with", material.suspicious[0].compared.path)
    if count > MAX_PAIRS and not isinstance(worker.method, AlignmentMethod):
        raise UserError(
            f"{count} pairs exceed the limit of profile {worker.profile.name}, {MAX_PAIRS}",
            "use a profile that decides by alignment, such as offline, or check fewer texts at a time",
        )


def compare(
    material: Material,
    worker: PairWorker,
    job: Mapping[str, Any],
    notices: Notices,
    compute: Callable[..., Iterator[Any]],
    scores: ScoreFile,
) -> Report:
    """Return the report of all pairs."""
    rule = DecisionRule(worker.profile, job)
    pairs = list(list_pairs(material))
    indices = _choose_pairs(material, worker, rule, pairs)
    scored = _score(material, indices, worker, rule, compute, scores)
    described = _describe_pairs(material, scored, compute, worker.explains, rule.threshold)
    return make_report(material, described, rule.threshold, job, notices, len(pairs) - len(indices))


def list_pairs(material: Material) -> Iterator[Indices]:
    """Yield all pairs of a suspicious text with another file; of two suspicious ones, the earlier comes first."""
    paths = [text.compared.path.resolve() for text in material.texts]
    for i in range(len(material.suspicious)):
        numbers = range(max(i + 1, material.first_source), len(paths))
        yield from ((i, j) for j in numbers if paths[i] != paths[j] and not material.are_drafts((i, j)))


def _describe_check(profile: Profile, options: CheckOptions, material: Material, worker: PairWorker) -> dict[str, Any]:
    """Return all fields that the result depends on."""
    inputs = options.inputs
    run = RunOptions(inputs.suspicious, options.output, options.device)
    return describe_job(
        "check",
        profile,
        run,
        material.hash(),
        worker.identify(),
        fingerprint=worker.method.fingerprint,
        suspicious=inputs.suspicious.name,
        template=None if inputs.template is None else inputs.template.name,
        among=inputs.among,
        author_folders=inputs.author_folders,
        gains=options.gains,
    )


def _choose_pairs(
    material: Material, worker: PairWorker, rule: DecisionRule, pairs: Sequence[Indices]
) -> Sequence[Indices]:
    """Return all pairs; of many, those whose score may come near the threshold."""
    method = worker.method
    if len(pairs) <= MAX_PAIRS or rule.threshold is None or not isinstance(method, AlignmentMethod):
        return pairs
    first = material.first_source
    with Progress("first stage", len(material.suspicious)) as progress:

        def encode_targets() -> Iterator[Any]:
            for text in material.suspicious:
                yield method.encoder.encode(compose(text.text).text)
                progress.update()

        sources = (method.encoder.encode(compose(text.text).text) for text in material.texts[first:])
        least = rule.threshold - UNCLEAR_MARGIN
        selected = select_pairs(encode_targets(), sources, method.settings.compute_score, least)
    chosen = {_sort(material, (i, first + j)) for i, j in selected}
    return [pair for pair in pairs if pair in chosen]


def _score(
    material: Material,
    indices: Sequence[Indices],
    worker: PairWorker,
    rule: DecisionRule,
    compute: Callable[..., Iterator[Any]],
    scores: ScoreFile,
) -> list[ScoredPair]:
    """Return the decisions about pairs, equal to those of `run`, in the order of ``indices``.

    Two suspicious texts are scored in both directions, and the better one counts.
    """
    pairs = {one: _make_pair(material, one) for i, j in indices for one in _list_directions(material, (i, j))}
    checked = check_pairs(tuple(pairs.values()), worker.method, Notices(), "negative")
    score_pairs(checked, compute, scores, "negative", worker.profile.method_settings.max_batch)
    texts, scored = material.texts, []
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
            names, words = (texts[i].shown.name, texts[j].shown.name), (texts[i].words, texts[j].words)
            directions.append(ScoredPair((i, j), make_report_pair(record, names, words), values))
        scored.append(min(directions, key=lambda one: rank_pair(one.shown)))
    return compare_with_cohorts(scored, worker.profile.method_settings, [text.kind for text in texts])


def compare_with_cohorts(
    pairs: Sequence[ScoredPair], settings: MethodSettings, kinds: Sequence[str]
) -> list[ScoredPair]:
    """Return the pairs, of which those are unclear whose score is usual among the other pairs of both texts.

    Texts on one question are each other's controls; pairs with texts of another kind, such as sources, are none. A
    score is unusual if it exceeds the median of the other pairs below the threshold by `COHORT_SPREAD` times the
    distance of their lower quartile; with fewer than `MIN_COHORT` such pairs nothing is compared. A copy is always
    reuse.

    Args:
        pairs: all pairs.
        settings: of the method.
        kinds: the kind of each text, by its number.
    """
    scores: defaultdict[tuple[str, int], list[float]] = defaultdict(list)
    for pair in pairs:
        if pair.shown.decision != "likely" and pair.shown.score is not None:
            for number in pair.indices:
                scores[kinds[max(pair.indices)], number].append(pair.shown.score)
    compared = []
    for pair in pairs:
        if pair.shown.decision == "likely" and not settings.is_copy(pair.values):
            kind = kinds[max(pair.indices)]
            cohort = [score for number in pair.indices for score in scores[kind, number]]
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


def _list_directions(material: Material, indices: Indices) -> list[Indices]:
    i, j = indices
    return [(i, j), (j, i)] if material.is_among(indices) else [(i, j)]


def _make_pair(material: Material, indices: Indices) -> DocumentPair:
    return DocumentPair(material.texts[indices[0]].compared, material.texts[indices[1]].compared)


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
        for pair, found in zip(shown, compute(tasks)):
            indices = _sort(material, pair.indices)
            evidence[indices] = _orient(material, pair.indices, found.evidence)
            if found.gains and indices == pair.indices:
                gains[indices] = TokenGains(*zip(*found.gains, strict=True))
            progress.update()
    noted = _note_sharing(evidence, material)
    pairs = []
    for pair in scored:
        i, j = indices = _sort(material, pair.indices)
        names = material.texts[i].shown.name, material.texts[j].shown.name
        passages, gain = noted.get(indices, ()), gains.get(indices)
        pairs.append(replace(pair.shown, suspicious=names[0], source=names[1], passages=passages, gains=gain))
    return sorted(pairs, key=lambda pair: (*rank_pair(pair), pair.suspicious, pair.source))


def _has_passages(pair: ScoredPair, threshold: float | None) -> bool:
    if pair.shown.decision == "unclear" and "alignment" in pair.values and threshold is not None:
        return pair.shown.score is not None and pair.shown.score >= threshold - UNCLEAR_MARGIN
    return pair.shown.decision != "no sign"


def _sort(material: Material, indices: Indices) -> Indices:
    """Return the numbers of a pair, sorted if both texts are suspicious: their order carries no meaning."""
    return (min(indices), max(indices)) if material.is_among(indices) else indices


def _orient(material: Material, indices: Indices, passages: Sequence[Evidence]) -> list[Evidence]:
    """Return the passages of a pair in the order of its sorted indices."""
    if indices == _sort(material, indices):
        return list(passages)
    return sorted(one._replace(passage=_swap_sides(one.passage)) for one in passages)


def _swap_sides(passage: Passage) -> Passage:
    return Passage(passage.source_offset, passage.source_length, passage.this_offset, passage.this_length)


def _note_sharing(
    evidence: Mapping[Indices, Sequence[Evidence]], material: Material
) -> dict[Indices, tuple[Evidence, ...]]:
    """Return the passages of each pair, with a note on how many suspicious texts share those that several do.

    They are the texts with passages at its place in the source; of two suspicious texts, in either of both.
    """
    places: defaultdict[int, list[tuple[int, Interval]]] = defaultdict(list)
    for (i, j), passages in evidence.items():
        for p in passages:
            places[j].append((i, (p.begin2, p.end2)))
            if material.is_among((i, j)):
                places[i].append((j, (p.begin, p.end)))
    count = len(material.suspicious)
    noted = {}
    for (i, j), passages in evidence.items():
        rows = []
        for p in passages:
            sharing = _count_texts((p.begin2, p.end2), places[j])
            if material.is_among((i, j)):
                sharing = 1 + max(sharing, _count_texts((p.begin, p.end), places[i]))
            shared = "share it" if 2 * p.verbatim > 1 else "have a similar passage"
            note = f"{sharing} of {count} suspicious texts {shared}" if sharing >= MIN_SHARING else ""
            rows.append(p._replace(note=note))
        noted[i, j] = tuple(rows)
    return noted


def _count_texts(place: Interval, others: Sequence[tuple[int, Interval]]) -> int:
    """Return the number of other texts that have a passage at this place."""
    least = MIN_OVERLAP * (place[1] - place[0])
    return len({who for who, (begin, end) in others if min(end, place[1]) - max(begin, place[0]) >= least})


def make_report(
    material: Material,
    pairs: Sequence[ReportPair],
    threshold: float | None,
    job: Mapping[str, Any],
    notices: Notices,
    left_out: int,
) -> Report:
    """Return the report of a check; ``left_out`` is the number of pairs that the first stage left out."""
    lines = [line.removeprefix("warning: ") for line in notices.list_warnings()]
    # what was excluded comes first: it changes all that follows
    warnings = [*material.excluded, *(f"{line[:1].upper()}{line[1:]}" for line in lines)]
    if threshold is None:
        warnings.append(wording.UNDECIDED)
    if material.among:
        warnings.append(AMONG_WARNING)
    if left_out:
        warnings.append(f"{left_out:,} pairs that cannot reach the threshold are not listed")
    counts = {"source": len(material.sources), "old text": len(material.old)}
    others = ["each other"] * material.among + [format_count(n, what) for what, n in counts.items() if n]
    title = f"{format_count(len(material.suspicious), 'text')} compared with {', '.join(others)}"
    facts = {**wording.describe_job(job, job["template"]), "suspicious_texts": len(material.suspicious)}
    method = job["profile"]["decide"]["method"]
    suspicious = {text.shown.name: text.shown.exclude_quotations(method) for text in material.suspicious}
    sources = {text.shown.name: text.shown for text in (*material.sources, *material.old)}
    return Report(
        " and ".join(title.rsplit(", ", 1)),
        suspicious,
        (suspicious if material.among else {}) | sources,
        tuple(pairs),
        threshold,
        facts=facts | {f"{what}s": count for what, count in counts.items() if count},
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
    names = [_keep_text(folder, text.compared.doc_id, text.shown.text) for text in material.texts if text.extracted]
    for name, table in ((TEXTS_FILE, format_texts(report)), (PAIRS_FILE, format_pairs(report))):
        (folder / name).write_text(table, encoding=ENCODING, newline="")
    with open(folder / PASSAGES_FILE, "w", encoding="utf-8", newline="\n") as file:
        file.writelines(format_passages(report))
    save_page(render_report(report), folder / PAGE)
    return [*names, PASSAGES_FILE, TEXTS_FILE, PAIRS_FILE, PAGE]


def _keep_text(folder: Path, name: str, text: str) -> str:
    """Write a text that was taken out of another format; offsets refer to it."""
    kept = f"{TEXTS_FOLDER}/{name.removeprefix(f'{TEXTS_FOLDER}/')}.txt"
    if any(len(part.encode()) > MAX_NAME_BYTES for part in kept.split("/")):
        raise UserError("the name is too long", "shorten it", name)
    try:
        (folder / kept).parent.mkdir(parents=True, exist_ok=True)
        (folder / kept).write_text(text, encoding="utf-8", newline="")
    except (FileExistsError, IsADirectoryError, NotADirectoryError) as e:
        raise UserError("another text has a folder of this name", "rename it", name) from e
    return kept
