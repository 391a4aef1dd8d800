"""Pair detection: read pairs, write a detection XML per pair and ``decisions.jsonl`` (paper, PAN25)."""

import json
from collections.abc import Iterable, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

from pan_scdg import __version__
from pan_scdg.digests import hash_text
from pan_scdg.jobs.lifecycle import ReadyJob, Scored, carry_out
from pan_scdg.jobs.output.directory import OutputDirectory
from pan_scdg.jobs.output.mark import Partial
from pan_scdg.jobs.pairs.report import choose_gains, make_run_report
from pan_scdg.jobs.pairs.results import (
    DECISIONS,
    GAINS,
    PASSAGES,
    find_passages,
    write_gains,
    write_passages,
    write_verdicts,
)
from pan_scdg.jobs.requests import PAGE, Computing, Request, describe_job, take_first
from pan_scdg.lm.engine import EngineName
from pan_scdg.models.find import FoundModel
from pan_scdg.notices import Notices
from pan_scdg.pan.inputs import hash_input
from pan_scdg.pan.prepare import read_names
from pan_scdg.pan.text_alignment import PairCorpus, read_pairs
from pan_scdg.align.finder import Locator, PassageFinder
from pan_scdg.profile import PassageSettings, Profile
from pan_scdg.progress import format_count
from pan_scdg.records import DocumentPair
from pan_scdg.report.html import write_report
from pan_scdg.report.records import TokenGains
from pan_scdg.report.wording import describe_method
from pan_scdg.scoring.baseline_method import BaselineMethod
from pan_scdg.scoring.baseline_registry import Given, find_parts, refuse_unused
from pan_scdg.scoring.batches import WHOLE, Shard
from pan_scdg.scoring.calibration import describe_control
from pan_scdg.scoring.gain_method import GainMethod
from pan_scdg.scoring.pair_method import FailedPair, PairMethod, Verdict, check_calibrated
from pan_scdg.scoring.verification import Verifier
from pan_scdg.store import Store

ONE_PROCESS = "leave it out: one process scores such pairs; only `check` can divide the encoding of their sentences"


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
    def places(self) -> dict[str, FoundModel]:
        """Return the models that the result depends on, by their names in the job."""
        return {**self.method.models, **({} if self.finder is None else self.finder.models)}

    @cached_property
    def checked(self) -> tuple[list[Any], list[FailedPair]]:
        """Return the pairs that can be scored, and the others."""
        return self.method.check(self.pairs, self.notices, self.request.on_error)

    def describe_job(self, profile: Profile, engine: EngineName) -> dict[str, Any]:
        """Return all fields that the scores and decisions of a profile depend on."""
        job = describe_job(
            "pairs",
            profile,
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

    def make_locator(self, store: Store) -> Locator | None:
        """Return a locator of passages, if the profile wants them."""
        return None if self.finder is None else Locator(self.finder, self.method.open_alignment(store))

    def score(self, store: Store, shard: Shard) -> Scored:
        """Score the pairs of a shard; the gains of passages are scores, too."""
        planned, every = self.checked[0], self.request.scores_only
        scored, verdicts = self.method.score(planned, store, shard, all_settings=every), None
        if self.profile.passages is not None and self.profile.passages.gains:
            verdicts = self.judge(scored, store)
        return Scored((scored, verdicts))

    def judge(self, scored: Sequence[Any], store: Store) -> list[Verdict]:
        """Return the verdicts about scored pairs, with passages if the profile wants them."""
        verdicts, settings = list(self.method.judge(scored, self.names)), self.profile.passages
        if settings is None or (locator := self.make_locator(store)) is None:
            return verdicts
        model = self.method.model if settings.gains else None
        return find_passages(verdicts, locator, None if model is None else Verifier(model, store))

    def write(self, scored: Scored, store: Store, result: OutputDirectory) -> list[str]:
        """Decide the pairs, and stage the results; return the names of the files."""
        (pairs, verdicts), method, request = scored.values, self.method, self.request
        by_pair = {verdict.pair: verdict for verdict in verdicts or self.judge(pairs, store)}
        by_pair |= {item.pair: method.judge_failed(item, self.names) for item in self.checked[1]}
        verdicts, files = [by_pair[pair] for pair in self.pairs], []
        if self.finder is not None:
            files.append(write_passages(result.staged, verdicts))
        files += write_verdicts(result.staged, verdicts)
        if request.keep_gains:
            about = describe_control(self.profile.need_pairs().control)
            write_gains(result.staged / GAINS, method.locate_gains(pairs, store), about)
            files.insert(0, GAINS)
        if request.report:
            best = sorted(pairs, key=lambda item: -by_pair[item.pair].record["score"])
            gains = choose_gains(method.locate_gains(best, store))
            files.insert(0, self.write_page(result, verdicts, gains, store))
        _warn_about_few_detections(method, verdicts, self.notices, request.output)
        return files

    def write_page(
        self,
        result: OutputDirectory,
        verdicts: Sequence[Verdict],
        gains: Mapping[DocumentPair, TokenGains],
        store: Store,
    ) -> str:
        """Write the report; return the name of the file."""
        profile, method, locator = self.profile, self.method, self.make_locator(store)
        facts = describe_method(profile.name, self.places, result.job["models"])
        shown = locator or Locator(PassageFinder(PassageSettings(), method.device))
        model = None if profile.pairs is None else method.model
        verifier = Verifier(model, store) if model is not None and model.may_compute else None
        report = make_run_report(verdicts, self.names, method.threshold, facts, shown, gains, verifier)
        limited = () if self.partial is None else (self.partial.format_warning().removeprefix("warning: "),)
        passages = "" if locator is None else PASSAGES
        whole = replace(report, warnings=(*limited, *report.warnings), table_file=DECISIONS, passages_file=passages)
        write_report(whole, result.staged / PAGE)
        return PAGE


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
    used = profile.decide_nothing() if request.scores_only else check_calibrated(profile)
    shard = request.shard or (WHOLE if request.scores_only else None)
    method = open_method(
        used,
        computing,
        pairs,
        all_pairs=corpus.pairs,
        vectors=vectors,
        keep_gains=request.keep_gains,
        report=request.report,
    )
    with closing(method):
        finder = None if profile.passages is None else PassageFinder(profile.passages, method.device)
        detection = _Detection(used, request, method, finder, corpus, pairs, names, partial, notices)
        done = "decided" if method.threshold is not None else "scored, without decisions,"
        page = [f"report: {request.output / PAGE}"] if request.report else []
        job = ReadyJob(
            scoring=detection.describe_job(profile, computing.engine),
            rest={"report": __version__} if request.report else {},
            metadata=request.metadata,
            places=detection.places,
            models=[] if method.model is None else [method.model],
            inputs=format_count(len(pairs), "pair"),
            summary=[f"{done} {format_count(len(pairs), 'pair')}: {request.output / DECISIONS}", *page],
            notices=notices,
            score=detection.score,
            write=detection.write,
            count_lost=lambda: len(detection.checked[1]),
            partial=partial,
        )
        return carry_out(job, request.output, request.overwrite, shard, computing.shards, computing.state)


def open_method(
    profile: Profile,
    computing: Computing,
    pairs: Sequence[DocumentPair],
    *,
    all_pairs: Sequence[DocumentPair] | None = None,
    vectors: Path | None = None,
    keep_gains: bool = False,
    report: bool = False,
    encodes: bool = False,
) -> PairMethod[Any, Any]:
    """Return the method of a profile; its models are found and checked but not loaded.

    ``all_pairs`` are those of the input if ``pairs`` are a part of them. With ``encodes`` the devices also encode the
    texts of an alignment. The other options are those of `Request` and `detect_pairs`.

    Raises:
        UserError: a model or vectors are missing, or an option has no effect.
    """
    # the page of a merge shows the gains that the shards hold
    explains = report and not computing.shards.folders and profile.pairs is not None
    method: PairMethod[Any, Any]
    if profile.baseline is None:
        model, keep = computing.open_model(profile.need_model()), keep_gains or explains
        method = GainMethod(profile, model, keep_gains=keep)
    else:
        asked = profile.passages is not None and profile.passages.gains
        measures = asked or (explains and profile.model is not None)
        unused = {
            "--keep-gains": keep_gains,
            "the engine reference": computing.engine == "reference" and not measures,
        }
        refuse_unused(profile.baseline, unused)
        if not measures and not encodes:
            devices = {"--workers": computing.cluster.actors, "--cluster": computing.cluster.address}
            refuse_unused(profile.baseline, devices, ONE_PROCESS)
        ids = sorted({document.doc_id for pair in pairs for document in (pair.suspicious, pair.source)})
        judge = None if measures else computing.model
        parts = find_parts(profile.baseline, Given(computing.device, ids, vectors, judge, computing.state))
        measuring = computing.open_model(profile.need_model()) if measures else None
        sources = pairs if all_pairs is None else all_pairs
        method = BaselineMethod(profile.baseline, parts, sources, measuring, computing.shards.scored_in)
    return method


def _warn_about_few_detections(
    method: PairMethod[Any, Any], verdicts: Iterable[Verdict], notices: Notices, output: Path
) -> None:
    """Add a notice if TIRA's check would refuse the result for having fewer than two detections."""
    positives = sum(bool(verdict.passages) for verdict in verdicts)
    if method.threshold is not None and positives < 2:
        what = "pair was" if positives == 1 else "pairs were"
        notices.add(f"{positives or 'no'} {what} decided positive: TIRA's check will refuse this output", str(output))
