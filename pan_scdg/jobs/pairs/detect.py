"""Pair detection: read pairs, write a detection XML per pair and ``decisions.jsonl`` (paper, PAN25)."""

import json
from collections.abc import Iterable, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from pan_scdg.digests import hash_text
from pan_scdg.jobs.output.directory import OutputDirectory, produce_result
from pan_scdg.jobs.output.mark import Partial
from pan_scdg.jobs.pairs.passages import PASSAGES, find_passages, write_passages
from pan_scdg.jobs.pairs.report import choose_gains, make_run_report
from pan_scdg.jobs.requests import PAGE, Computing, Request, describe_job, list_lines, take_first
from pan_scdg.jobs.shards import write_shard
from pan_scdg.lm.engine import EngineName
from pan_scdg.logs import say
from pan_scdg.models.find import FoundModel, describe_models
from pan_scdg.notices import Notices
from pan_scdg.pan.detections import format_decision, format_detection
from pan_scdg.pan.inputs import hash_input
from pan_scdg.pan.prepare import read_names
from pan_scdg.pan.runs import open_gzip_text
from pan_scdg.pan.text_alignment import PairCorpus, name_detection, read_pairs
from pan_scdg.passages.finder import PassageFinder
from pan_scdg.passages.locate import Locator
from pan_scdg.profile import PassageSettings, Profile
from pan_scdg.records import DocumentPair
from pan_scdg.report.html import write_report
from pan_scdg.report.records import TokenGains
from pan_scdg.report.setting import Setting
from pan_scdg.scoring.baseline_method import BaselineMethod
from pan_scdg.scoring.baseline_parts import Given, refuse_unused
from pan_scdg.scoring.baseline_registry import find_parts
from pan_scdg.scoring.batches import WHOLE, Share
from pan_scdg.scoring.gain_method import GainMethod
from pan_scdg.scoring.pair_method import LocatedGains, PairMethod, Verdict, check_calibrated, name_pair
from pan_scdg.scoring.pair_plan import FailedPair
from pan_scdg.scoring.pairs import describe_control
from pan_scdg.scoring.verification import Verifier
from pan_scdg.store import Store

DECISIONS = "decisions.jsonl"
GAINS = "gains.jsonl.gz"


@dataclass(frozen=True)
class _Detection:
    """A job of pair detection: the checked input, and the method that decides it."""

    profile: Profile
    request: Request
    method: PairMethod[Any, Any]
    finder: PassageFinder | None
    """None: the profile wants no passages."""
    corpus: PairCorpus
    pairs: Sequence[DocumentPair]
    """Those of the corpus that are decided."""
    names: Mapping[str, str]
    partial: Partial | None
    notices: Notices

    @property
    def models(self) -> dict[str, FoundModel]:
        """Return the models that the result depends on, by their names in the job."""
        return {**self.method.models, **({} if self.finder is None else self.finder.models)}

    def describe_job(self, engine: EngineName) -> dict[str, Any]:
        """Return all fields that the bytes of the result depend on."""
        job = describe_job(
            "pairs",
            self.profile,
            request=self.request,
            input_digest=hash_input(self.request.input, "pairs", pairs=self.corpus),
            models={**self.method.identify(), **({} if self.finder is None else self.finder.identify())},
            device=self.method.device,
            engine=engine,
            partial=self.partial,
        )
        # results show the user's own names
        job["names"] = hash_text(json.dumps(sorted(self.names.items()))) if self.names else None
        return job

    def list_incidents(self) -> list[str]:
        """Return the incidents of the language model."""
        return [] if self.method.model is None else self.method.model.incidents()


def detect_pairs(profile: Profile, request: Request, computing: Computing, vectors: Path | None = None) -> list[str]:
    """Decide every pair of the input and write the results; return the lines to show the user.

    Args:
        profile: SCDG with a threshold, or a baseline.
        request: input, output and options.
        computing: model folder, device and engine, or shards with all scores.
        vectors: folder of document vectors, if the baseline needs them.

    Raises:
        UserError: input, settings or output are not usable; no result is published.
    """
    notices = Notices(request.strict)
    corpus = read_pairs(request.input, notices)
    pairs, partial = take_first(corpus.pairs, request.limit, "pairs")
    names = read_names(request.input)
    shards = computing.shards
    method = open_method(
        profile,
        computing,
        pairs,
        all_pairs=corpus.pairs,
        vectors=vectors,
        share=request.share or WHOLE,
        scores_only=request.scores_only,
        keep_gains=request.keep_gains,
        report=request.report,
    )
    with closing(method):
        finder = None if profile.passages is None else PassageFinder(profile.passages, method.device)
        detection = _Detection(profile, request, method, finder, corpus, pairs, names, partial, notices)
        job = detection.describe_job(computing.engine)
        shards.check(job)
        with produce_result(request.output, job, request.overwrite) as result:
            if result.needed:
                planned, failed = method.check(pairs, notices, request.on_error)
                with result.compute(computing.state, request.metadata, method.model, len(failed)) as store:
                    if detection.models:
                        say([describe_models(detection.models.values())])
                    shards.restore(store)
                    files = _stage_results(detection, planned, failed, store, result)
                result.seal(files, detection.list_incidents(), partial, shards.list_origins(detection.models))
    summary = _summarise(request, method, len(pairs))
    return list_lines(request, result.complete, partial, notices, detection.list_incidents(), summary)


def _stage_results(
    detection: _Detection, planned: Sequence[Any], failed: Sequence[FailedPair], store: Store, result: OutputDirectory
) -> list[str]:
    """Score and decide the pairs, and stage the results; return the names of the files."""
    profile, method, request = detection.profile, detection.method, detection.request
    scored = method.score(planned, store)
    locator, verifier = None, None
    if profile.passages is not None and detection.finder is not None:
        locator = method.make_locator(detection.finder, store)
        verifier = Verifier(method.model, store) if profile.passages.gains and method.model is not None else None
    if request.share is not None:
        if locator is not None and verifier is not None:
            find_passages(list(method.judge(scored, detection.names, store)), locator, verifier)
        return write_shard(result.staged, store)
    by_pair = {verdict.pair: verdict for verdict in method.judge(scored, detection.names, store)}
    by_pair |= {item.pair: method.judge_failed(item, detection.names) for item in failed}
    verdicts, files = [by_pair[pair] for pair in detection.pairs], []
    if locator is not None:
        verdicts = find_passages(verdicts, locator, verifier)
        files.append(write_passages(result.staged, verdicts))
    files += write_verdicts(result.staged, verdicts)
    if request.keep_gains:
        about = describe_control(profile.need_pairs().control)
        write_gains(result.staged / GAINS, method.locate_gains(scored, store), about)
        files.insert(0, GAINS)
    if request.report:
        best = sorted(scored, key=lambda item: -by_pair[item.pair].record["score"])
        gains = choose_gains(method.locate_gains(best, store))
        files.insert(0, _write_page(detection, result, verdicts, locator, gains, store))
    _warn_about_few_detections(method, by_pair.values(), detection.notices, request.output)
    return files


def open_method(
    profile: Profile,
    computing: Computing,
    pairs: Sequence[DocumentPair],
    *,
    all_pairs: Sequence[DocumentPair] | None = None,
    vectors: Path | None = None,
    share: Share = WHOLE,
    scores_only: bool = False,
    keep_gains: bool = False,
    report: bool = False,
    encodes: bool = False,
) -> PairMethod[Any, Any]:
    """Return the method of a profile; its models are found and checked but not loaded.

    ``all_pairs`` are those of the input if ``pairs`` are a part of them. With ``encodes`` the devices also encode the
    texts of an alignment. The other options are those of `Request` and `detect_pairs`.

    Raises:
        UserError: a model or vectors are missing, an option has no effect, or the profile cannot decide.
    """
    # the page of a merge shows the gains that the shards hold
    explains = report and not computing.shards.folders and profile.pairs is not None
    method: PairMethod[Any, Any]
    if profile.baseline is None:
        model, keep = computing.open_model(profile.need_model()), keep_gains or explains
        method = GainMethod(profile, model, keep_gains=keep, share=share, scores_only=scores_only)
    else:
        asked = profile.passages is not None and profile.passages.gains and not scores_only
        measures = asked or (explains and profile.model is not None)
        unused = {
            "--keep-gains": keep_gains,
            "--engine reference": computing.engine == "reference" and not measures,
            "--workers": computing.cluster.actors is not None and not measures and not encodes,
            "--cluster": computing.cluster.address is not None and not measures and not encodes,
        }
        refuse_unused(profile.baseline, unused)
        ids = sorted({document.doc_id for pair in pairs for document in (pair.suspicious, pair.source)})
        judge = None if measures else computing.model
        parts = find_parts(profile.baseline, Given(computing.device, ids, vectors, judge, computing.state))
        parts = parts._replace(scored_in=computing.shards.first)
        measuring = computing.open_model(profile.need_model()) if measures else None
        sources = pairs if all_pairs is None else all_pairs
        method = BaselineMethod(profile, parts, sources, share, measuring, scores_only=scores_only)
    if not scores_only:
        check_calibrated(profile)
    return method


def _write_page(
    detection: _Detection,
    result: OutputDirectory,
    verdicts: Sequence[Verdict],
    locator: Locator | None,
    gains: Mapping[DocumentPair, TokenGains],
    store: Store,
) -> str:
    """Write the report; return the name of the file."""
    profile, method, partial = detection.profile, detection.method, detection.partial
    setting = Setting(profile.name, method.threshold, detection.models, result.job["models"])
    shown = locator or Locator(PassageFinder(PassageSettings(), method.device))
    model = None if profile.pairs is None else method.model
    verifier = Verifier(model, store) if model is not None and model.may_compute else None
    report = make_run_report(verdicts, detection.names, setting, shown, gains, verifier)
    limited = () if partial is None else (partial.format_warning().removeprefix("warning: "),)
    passages = "" if locator is None else PASSAGES
    whole = replace(report, warnings=(*limited, *report.warnings), table_file=DECISIONS, passages_file=passages)
    write_report(whole, result.staged / PAGE)
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


def write_gains(path: Path, located: Iterable[LocatedGains], about: Mapping[str, str]) -> None:
    """Write a JSON line per pair: the gain of each token in nats, rounded to 6 decimals, and its characters.

    ``offsets`` holds the first character of each token in the suspicious document and the one after its last.
    Each line also has the fields ``about`` the result.
    """
    with open_gzip_text(path) as file:
        for pair, gains, offsets in located:
            values = [round(float(gain), 6) for gain in gains.gains]
            file.write(
                json.dumps({**name_pair(pair, {}), **about, "gains": values, "offsets": offsets.tolist()}) + "\n"
            )


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
