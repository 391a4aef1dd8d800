"""Pair detection: read pairs, write a detection XML per pair and ``decisions.jsonl`` (paper, PAN25)."""

import json
from collections.abc import Iterable, Mapping, Sequence
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any

from pan_scdg.digests import hash_text
from pan_scdg.jobs.check.report import Setting
from pan_scdg.jobs.lifecycle import produce_result
from pan_scdg.jobs.output_mark import Partial
from pan_scdg.jobs.passages import PASSAGES, Located, find_passages, write_passages
from pan_scdg.jobs.requests import Computing, Request, describe_job, take_first
from pan_scdg.jobs.run_report import PAGE, choose_gains, make_run_report
from pan_scdg.jobs.shards import Shards, open_model, write_shard
from pan_scdg.logs import say
from pan_scdg.models.find import describe_models
from pan_scdg.models.lock import list_origins
from pan_scdg.notices import Notices
from pan_scdg.pan.detections import format_decision, format_detection
from pan_scdg.pan.inputs import hash_input
from pan_scdg.pan.prepare import read_names
from pan_scdg.pan.text_alignment import name_detection, read_pairs
from pan_scdg.passages.finder import PassageFinder
from pan_scdg.passages.locate import Locator
from pan_scdg.profile import PassageSettings, Profile
from pan_scdg.records import DocumentPair
from pan_scdg.report.html import write_report
from pan_scdg.report.records import Report, TokenGains
from pan_scdg.scoring.baseline_method import BaselineMethod
from pan_scdg.scoring.baseline_parts import find_parts, need_baseline, refuse_unused
from pan_scdg.scoring.batches import WHOLE
from pan_scdg.scoring.gain_method import GainMethod
from pan_scdg.scoring.pair_method import PairMethod, Verdict
from pan_scdg.scoring.verification import Verifier
from pan_scdg.store import Store

DECISIONS = "decisions.jsonl"
GAINS = "gains.jsonl.gz"


def detect_pairs(
    profile: Profile,
    request: Request,
    computing: Computing,
    vectors: Path | None = None,
    merged: Shards | None = None,
) -> list[str]:
    """Decide every pair of the input and write the results; return the lines to show the user.

    Args:
        profile: SCDG with a threshold, or a baseline.
        request: input, output and options.
        computing: model folder, device and engine.
        vectors: folder of document vectors, if the baseline needs them.
        merged: shards with all scores; then nothing is computed.

    Raises:
        UserError: input, settings or output are not usable; no result is published.
    """
    notices = Notices(request.strict)
    corpus = read_pairs(request.input, notices)
    pairs, partial = take_first(corpus.pairs, request.limit, "pairs")
    names = read_names(request.input)
    with closing(open_method(profile, request, computing, corpus.pairs, pairs, vectors, merged)) as method:
        finder = None if profile.passages is None else PassageFinder(profile.passages, method.device)
        models = {**method.models, **({} if finder is None else finder.models)}
        job = _describe_pairs_job(profile, request, computing, method, finder, partial, names)
        if merged is not None:
            merged.check(job)
        with produce_result(request.output, job, request.overwrite) as result:
            if result.needed:
                planned, failed = method.check(pairs, notices, request.on_error)
                with result.compute(computing.state, request.metadata, method.model) as store:
                    if models:
                        say([describe_models(list(models.values()))])
                    if merged is not None:
                        merged.restore(store)
                    scored = method.score(planned, store)
                    locator, verifier = _make_locator(finder, method, store), _make_verifier(profile, method, store)
                    if request.share is not None:
                        keys = [key for item in scored for key in method.list_keys(item)]
                        if locator is not None and verifier is not None:
                            find_passages(list(method.judge(scored, names, store)), locator, verifier)
                            keys += verifier.keys
                        files = write_shard(result.staged, store, keys)
                    else:
                        verdicts = {verdict.pair: verdict for verdict in method.judge(scored, names, store)}
                        verdicts |= {item.pair: method.judge_failed(item, names) for item in failed}
                        located = _locate([verdicts[pair] for pair in pairs], locator, verifier)
                        files = _write_results(result.staged, located, locator is not None)
                        if request.keep_gains and isinstance(method, GainMethod):
                            method.write_gains(result.staged / GAINS, scored, store)
                            files.insert(0, GAINS)
                        if request.report:
                            gains = _read_gains(method, scored, verdicts, store)
                            setting = Setting(profile.name, method.threshold, models, job["models"], None)
                            shown = locator or Locator(PassageFinder(PassageSettings(), method.device), None, None)
                            report = make_run_report(located, names, setting, shown, gains)
                            files.insert(0, _write_page(result.staged, report, finder is not None, partial))
                        _warn_about_few_detections(method, verdicts.values(), notices, request.output)
                origins = list_origins(models) if merged is None else merged.origins
                result.seal(files, _list_incidents(method), partial, origins)
    limited = [] if partial is None else [partial.format_warning()]
    if result.complete:
        return [*limited, f"already complete: {request.output}"]
    warnings = [f"warning: {incident}" for incident in _list_incidents(method)]
    page = [f"report: {request.output / PAGE}"] if request.report else []
    return [*notices.list_warnings(), *warnings, *limited, _summarise(request, method, len(pairs)), *page]


def open_method(
    profile: Profile,
    request: Request,
    computing: Computing,
    all_pairs: Sequence[DocumentPair],
    pairs: Sequence[DocumentPair],
    vectors: Path | None = None,
    merged: Shards | None = None,
) -> PairMethod[Any, Any]:
    """Return the method of a profile; its models are found and checked but not loaded.

    Args:
        profile: see `detect_pairs`.
        request: see `detect_pairs`.
        computing: see `detect_pairs`.
        all_pairs: all pairs of the input.
        pairs: the pairs to decide.
        vectors: see `detect_pairs`.
        merged: see `detect_pairs`.

    Raises:
        UserError: a model or vectors are missing, an option has no effect, or the profile cannot decide.
    """
    if profile.baseline is None:
        model = open_model(profile.need_model(), computing, "pairs", merged)
        # shards hold the gains that they were asked for
        keep = request.keep_gains or (request.report and merged is None)
        return GainMethod(profile, model, keep_gains=keep, share=request.share, scores_only=request.scores_only)
    baseline = need_baseline(profile)
    measures = profile.passages is not None and profile.passages.gains and not request.scores_only
    unused = {
        "--keep-gains": request.keep_gains,
        "--engine reference": computing.engine == "reference" and not measures,
        "--workers": computing.workers is not None and not measures,
    }
    refuse_unused(baseline, unused)
    ids = sorted({document.doc_id for pair in pairs for document in (pair.suspicious, pair.source)})
    judge = None if measures else computing.model
    parts = find_parts(baseline, computing.device, ids, vectors=vectors, model=judge, state=computing.state)
    measuring = open_model(profile.need_model(), computing, "pairs", merged) if measures else None
    return BaselineMethod(profile, parts, all_pairs, request.share, measuring, scores_only=request.scores_only)


def _locate(verdicts: Sequence[Verdict], locator: Locator | None, verifier: Verifier | None) -> list[Located]:
    """Return the verdicts with their passages, if the profile wants them."""
    if locator is None:
        return [Located(verdict, []) for verdict in verdicts]
    return find_passages(verdicts, locator, verifier)


def _write_results(folder: Path, located: Sequence[Located], passages: bool) -> list[str]:
    """Write passages, if the profile wants them, detections and decisions; return the names of the files."""
    files = [write_passages(folder, located)] if passages else []
    return files + write_verdicts(folder, [verdict for verdict, _ in located])


def _make_locator(finder: PassageFinder | None, method: PairMethod[Any, Any], store: Store) -> Locator | None:
    """Return what finds passages, if the profile wants them."""
    if finder is None:
        return None
    return method.make_locator(finder, store) if isinstance(method, BaselineMethod) else Locator(finder, None, None)


def _make_verifier(profile: Profile, method: PairMethod[Any, Any], store: Store) -> Verifier | None:
    """Return what measures the gains of passages, if the profile wants them."""
    if profile.passages is None or not profile.passages.gains or method.model is None:
        return None
    return Verifier(method.model, store)


def _describe_pairs_job(
    profile: Profile,
    request: Request,
    computing: Computing,
    method: PairMethod[Any, Any],
    finder: PassageFinder | None,
    partial: Partial | None,
    names: Mapping[str, str],
) -> dict[str, Any]:
    job = describe_job(
        "pairs",
        profile,
        request,
        input_digest=hash_input(request.input, "pairs"),
        models={**method.identify(), **({} if finder is None else finder.identify())},
        device=method.device,
        engine=computing.engine,
        partial=partial,
    )
    # results show the user's own names
    job["names"] = hash_text(json.dumps(sorted(names.items()))) if names else None
    return job


def _list_incidents(method: PairMethod[Any, Any]) -> list[str]:
    return [] if method.model is None else method.model.incidents()


def _read_gains(
    method: PairMethod[Any, Any], scored: Sequence[Any], verdicts: Mapping[DocumentPair, Verdict], store: Store
) -> dict[DocumentPair, TokenGains]:
    """Return the gains of the tokens of the best pairs, if they were kept."""
    if not isinstance(method, GainMethod) or not method.keeps_gains:
        return {}
    best = sorted(scored, key=lambda item: -verdicts[item.plan.pair].record["score"])
    return choose_gains(method.locate_gains(best, store))


def _write_page(folder: Path, report: Report, has_passages: bool, partial: Partial | None) -> str:
    """Write the report; return the name of the file."""
    limited = () if partial is None else (partial.format_warning().removeprefix("warning: "),)
    passages_file = PASSAGES if has_passages else ""
    whole = replace(report, warnings=(*limited, *report.warnings), table_file=DECISIONS, passages_file=passages_file)
    write_report(whole, folder / PAGE)
    return PAGE


def write_verdicts(folder: Path, verdicts: Sequence[Verdict]) -> list[str]:
    """Write a detection XML per pair, then the decisions; return the names of the files in this order."""
    written = []
    for verdict in verdicts:
        written.append(name_detection(verdict.pair))
        (folder / written[-1]).write_bytes(format_detection(verdict.pair, verdict.passages))
    with open(folder / DECISIONS, "w", encoding="utf-8", newline="\n") as file:
        file.writelines(format_decision(verdict.record) for verdict in verdicts)
    return [*written, DECISIONS]


def _warn_about_few_detections(
    method: PairMethod[Any, Any], verdicts: Iterable[Verdict], notices: Notices, output: Path
) -> None:
    """Add a notice if TIRA's check would refuse the result for having fewer than two detections."""
    positives = sum(bool(verdict.passages) for verdict in verdicts)
    if method.threshold is not None and positives < 2:
        what = "pair was" if positives == 1 else "pairs were"
        notices.add(f"{positives or 'no'} {what} decided positive: TIRA's check will refuse this output", str(output))


def _summarise(request: Request, method: PairMethod[Any, Any], pairs: int) -> str:
    if request.share is not None:
        part = "scored" if request.share == WHOLE else f"{request.share} of"
        return f"{part} {pairs} pairs: {request.output}"
    done = "decided" if method.threshold is not None else "scored, without decisions,"
    return f"{done} {pairs} pairs: {request.output / DECISIONS}"
