"""Job 1, start to end: pairs in, one detection XML per pair and ``decisions.jsonl`` out (paper, PAN25)."""

from collections.abc import Iterable, Sequence
from contextlib import closing
from typing import NamedTuple

from pan_scdg.errors import UserError
from pan_scdg.jobs.options import Partial, RunOptions, job_of, limited
from pan_scdg.jobs.output import OutputDirectory
from pan_scdg.jobs.pair_results import (
    DECISIONS,
    GAINS,
    Rule,
    failed_verdict,
    names_digest,
    scored_verdict,
    warn_of_few,
    write_gains,
    write_verdicts,
)
from pan_scdg.jobs.run_metadata import run_metadata
from pan_scdg.jobs.shards import write_shard
from pan_scdg.logs import say
from pan_scdg.models.places import models_line, origins_of
from pan_scdg.notices import Notices
from pan_scdg.pan.inputs import input_digest
from pan_scdg.pan.prepare import read_names
from pan_scdg.pan.text_alignment import PairCorpus, read_pairs
from pan_scdg.profile import PairSettings, Profile
from pan_scdg.scdg.aggregation import aggregate_of
from pan_scdg.scdg.calibration_range import TargetFacts
from pan_scdg.scoring.known_range import calibration_warnings, facts_of_pairs, foreign_model, known_noise
from pan_scdg.scoring.model import ScoringModel
from pan_scdg.scoring.pair_plan import FailedPair
from pan_scdg.scoring.pairs import ScoredPair, check_pairs, score_pairs
from pan_scdg.store import Store


class PairJob(NamedTuple):
    """What a run of job 1 needs, read and checked: nothing is computed or written yet."""

    settings: PairSettings
    rule: Rule
    notices: Notices
    corpus: PairCorpus
    partial: Partial | None
    model: ScoringModel
    names: dict[str, str]
    output: OutputDirectory

    def told(self) -> list[str]:
        """What is said of a result of a part of the input."""
        return [] if self.partial is None else [self.partial.warning()]


def read_job(profile: Profile, options: RunOptions) -> PairJob:
    """Input, rule and model of a run.

    Raises:
        UserError: input or settings are not usable.
    """
    settings, rule = profile.need_pairs(), calibrated(profile)
    notices = Notices(options.strict)
    corpus = read_pairs(options.input, notices)
    pairs, partial = limited(corpus.pairs, options, "pairs")
    model = options.scoring_model(profile.need_model())
    say(calibration_warnings(rule.calibration, model))
    if foreign_model(rule.calibration, model) is not None:
        rule = rule._replace(threshold=None, calibration=None)
    rule = rule._replace(noise=known_noise(rule.calibration, model))
    names = read_names(options.input)
    models = {"language_model": model.identity()}
    job = job_of("pairs", profile, options, input_digest(options.input, "pairs"), models, partial)
    job["names"] = names_digest(names)
    if options.shards is not None:
        options.shards.check(job)
    output = OutputDirectory(options.output, job)
    return PairJob(settings, rule, notices, corpus._replace(pairs=tuple(pairs)), partial, model, names, output)


def detect_pairs(profile: Profile, options: RunOptions) -> list[str]:
    """Decide every pair of the input and write the results; returns the lines to show the user.

    Raises:
        UserError: input, settings or output are not usable; nothing has its final name then.
    """
    job = read_job(profile, options)
    with job.output.locked():
        return _detect(job, options)


def _detect(job: PairJob, options: RunOptions) -> list[str]:
    settings, _, notices, corpus, partial, model, _, output = job
    if output.prepare(options.overwrite):
        return [*job.told(), f"already complete: {options.output}"]
    if not output.publishing():
        planned, failed = check_pairs(corpus.pairs, model, settings, notices, options.on_error)
        output.start()
        say([models_line([model.found])])
        with (
            Store(options.state or output.hidden) as store,
            run_metadata(output.staged, output.job, options.metadata, model),
        ):
            if options.shards is not None:
                options.shards.restore(store)
            with closing(model):
                scored = score_pairs(planned, model, settings, store, options.keep_gains, options.share)
            if options.share is None:
                written = _write_results(job, scored, failed, store, options)
            else:
                written = write_shard(output.staged, store, [s.plan.key for s in scored])
        origins = origins_of({"language_model": model.found}) if options.shards is None else options.shards.origins
        output.seal(written, model.incidents(), partial and partial._asdict(), origins)
    output.publish()
    done = "decided" if job.rule.threshold is not None else "scored, without decisions,"
    done = f"{done} {len(corpus.pairs)} pairs: {options.output / DECISIONS}"
    if options.share is not None:
        done = f"{options.share} of {len(corpus.pairs)} pairs: {options.output}"
    return [*notices.lines(), *(f"warning: {incident}" for incident in model.incidents()), *job.told(), done]


def _write_results(
    job: PairJob, scored: Sequence[ScoredPair], failed: Sequence[FailedPair], store: Store, options: RunOptions
) -> list[str]:
    """Write everything into the staging folder; the files' names in the order in which they are to be published."""
    folder, rule, names = job.output.staged, job.rule, job.names
    if options.keep_gains:
        write_gains(folder / GAINS, scored, store, job.settings.control)
    facts = _facts(scored, rule, job.model)
    verdicts = {s.plan.pair: scored_verdict(s, rule, names, f) for s, f in zip(scored, facts, strict=True)}
    verdicts |= {f.pair: failed_verdict(f, rule, names) for f in failed}
    written = write_verdicts(folder, {pair: verdicts[pair] for pair in job.corpus.pairs})
    if rule.threshold is not None:
        warn_of_few(sum(bool(v.passages) for v in verdicts.values()), job.notices, options.output)
    return [*([GAINS] if options.keep_gains else []), *written]


def calibrated(profile: Profile) -> Rule:
    """The decision rule of the profile.

    Raises:
        UserError: the profile was never calibrated.
    """
    settings = profile.need_pairs()
    aggregate = aggregate_of(settings)
    if aggregate is None or settings.threshold is None:
        raise UserError(
            f"profile {profile.name} has no threshold, so it decides nothing",
            "calibrate it on pairs with truth: `calibrate --input DIR --profile NAME --write FILE`",
        )
    return Rule(aggregate, settings.threshold, settings.control, settings.calibration)


def _facts(scored: Sequence[ScoredPair], rule: Rule, model: ScoringModel) -> Iterable[TargetFacts | None]:
    """What is held against the calibration's range, where there is one."""
    if rule.calibration is None or rule.calibration.range is None:
        return [None] * len(scored)
    return facts_of_pairs(scored, model.tokenizer)
