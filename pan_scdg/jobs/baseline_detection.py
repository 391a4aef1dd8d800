"""Job 1 by a baseline, start to end: the outputs of `pair_detection`, with another score behind them."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple

from pan_scdg.errors import UserError, UserErrors
from pan_scdg.jobs.baseline_verdicts import BaselineRule, Scored, failed_verdict, verdicts_of
from pan_scdg.jobs.options import Partial, RunOptions, baseline_parts, job_of, limited
from pan_scdg.jobs.output import OutputDirectory
from pan_scdg.jobs.pair_results import DECISIONS, names_digest, warn_of_few, write_verdicts
from pan_scdg.jobs.run_metadata import run_metadata
from pan_scdg.logs import say
from pan_scdg.models.places import models_line, origins_of
from pan_scdg.notices import Notices
from pan_scdg.pan.inputs import input_digest
from pan_scdg.pan.prepare import read_names
from pan_scdg.pan.text_alignment import PairCorpus, read_pairs
from pan_scdg.profile import Profile
from pan_scdg.profile.baseline import BaselineSettings, Cosine, GramLogistic, Prompted
from pan_scdg.records import DocumentPair
from pan_scdg.scoring.baseline_models import Outside, settings_of
from pan_scdg.scoring.baseline_scoring import (
    TextFacts,
    collection_of,
    decision_scores,
    lazy_pair,
    read_facts,
    score_pairs,
)
from pan_scdg.scoring.pair_plan import FailedPair
from pan_scdg.store import Store


class BaselineJob(NamedTuple):
    """What a run needs, read and checked: nothing is computed or written yet."""

    rule: BaselineRule
    corpus: PairCorpus
    """All pairs of the input: statistics are over the sources of all."""
    pairs: Sequence[DocumentPair]
    """Those to be decided."""
    partial: Partial | None
    outside: Outside
    names: dict[str, str]
    notices: Notices
    output: OutputDirectory


def detect_with_baseline(profile: Profile, options: RunOptions) -> list[str]:
    """Decide every pair of the input and write the results; returns the lines to show the user.

    Raises:
        UserError: input, settings or output are not usable; nothing has its final name then.
    """
    job = _read_job(profile, options)
    with job.output.locked():
        return _detect(job, options)


def _detect(job: BaselineJob, options: RunOptions) -> list[str]:
    told = [] if job.partial is None else [job.partial.warning()]
    if job.output.prepare(options.overwrite):
        return [*told, f"already complete: {options.output}"]
    if not job.output.publishing():
        facts, failed = _read_texts(job, options)
        job.output.start()
        if job.outside.places:
            say([models_line(list(job.outside.places.values()))])
        with (
            Store(options.state or job.output.hidden) as store,
            run_metadata(job.output.staged, job.output.job, options.metadata, None),
        ):
            written = _write_results(job, facts, failed, store)
        job.output.seal(written, (), job.partial and job.partial._asdict(), origins_of(job.outside.places))
    job.output.publish()
    done = "decided" if job.rule.threshold is not None else "scored, without decisions,"
    return [*job.notices.lines(), *told, f"{done} {len(job.pairs)} pairs: {options.output / DECISIONS}"]


def _read_job(profile: Profile, options: RunOptions) -> BaselineJob:
    settings = settings_of(profile)
    rule = BaselineRule(settings, calibrated(profile))
    notices = Notices(options.strict)
    corpus = read_pairs(options.input, notices)
    pairs, partial = limited(corpus.pairs, options, "pairs")
    ids = {document.doc_id for pair in pairs for document in (pair.suspicious, pair.source)}
    outside = baseline_parts(settings, options, sorted(ids))
    names = read_names(options.input)
    options = replace(options, device=outside.device)  # the result of a method without a model depends on none
    if (foreign := _foreign_model(settings, outside)) is not None:
        say([f"warning: {foreign}"])
        rule = rule._replace(threshold=None)
    digest = input_digest(options.input, "pairs")
    job = job_of("pairs", profile, options, digest, outside.identity, partial)
    job["names"] = names_digest(names)
    output = OutputDirectory(options.output, job)
    return BaselineJob(rule, corpus, pairs, partial, outside, names, notices, output)


def calibrated(profile: Profile) -> float:
    """The threshold of the profile.

    Raises:
        UserError: it has none yet.
    """
    settings = settings_of(profile)
    lacks = "weights" if isinstance(settings, GramLogistic) and settings.weights is None else "threshold"
    if settings.threshold is None:
        raise UserError(
            f"profile {profile.name} has no {lacks}, so it decides nothing",
            "calibrate it on pairs with truth: `calibrate --input DIR --profile NAME --write FILE`",
        )
    return settings.threshold


def _foreign_model(settings: BaselineSettings, outside: Outside) -> str | None:
    """Return one line that says why the threshold cannot decide about this model's scores; None: it can."""
    known = settings.calibrated_with if isinstance(settings, Cosine | Prompted) else None
    if known in (None, outside.fingerprint):
        return None
    return (
        f"nothing is decided: the profile was calibrated with a model {str(known)[:40]}, and this one is "
        f"{outside.fingerprint[:40]}; calibrate with this model, or use that one"
    )


def _read_texts(job: BaselineJob, options: RunOptions) -> tuple[dict[str, TextFacts], list[FailedPair]]:
    """The facts of all texts that matter, and the pairs of those that cannot be read."""
    lazy = [lazy_pair(pair) for pair in job.pairs]
    sources = [lazy_pair(pair).source for pair in job.corpus.pairs]
    facts, faults = read_facts([text for pair in lazy for text in pair] + sources)
    failed = [
        FailedPair(pair, faults[document.doc_id])
        for pair in job.pairs
        for document in (pair.suspicious, pair.source)
        if document.doc_id in faults
    ]
    if faults and options.on_error == "stop":
        raise UserErrors(list(faults.values()))
    return facts, failed


def _write_results(
    job: BaselineJob, facts: Mapping[str, TextFacts], failed: Sequence[FailedPair], store: Store
) -> list[str]:
    """Write everything into the staging folder; the files' names in the order in which they are to be published."""
    rule, settings = job.rule, job.rule.settings
    verdicts = {item.pair: failed_verdict(item, rule, job.names) for item in failed}
    pairs = [pair for pair in job.pairs if pair not in verdicts]
    lazy = [lazy_pair(pair) for pair in pairs]
    collection = collection_of((lazy_pair(pair).source for pair in job.corpus.pairs), facts)
    scorer = job.outside.scorer(settings, collection, store)
    rows = score_pairs(lazy, scorer, store, facts)
    features = [dict(zip(scorer.features, row, strict=True)) for row in rows]
    scores = decision_scores(settings, rows).tolist()
    scored = [Scored(*item) for item in zip(pairs, lazy, features, scores, strict=True)]
    verdicts |= dict(zip(pairs, verdicts_of(scored, rule, job.names, facts, store), strict=True))
    written = write_verdicts(job.output.staged, {pair: verdicts[pair] for pair in job.pairs})
    if rule.threshold is not None:
        warn_of_few(sum(bool(v.passages) for v in verdicts.values()), job.notices, job.output.path)
    return written
