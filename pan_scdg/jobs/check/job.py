"""Check texts against possible sources: read, score, and write the table, the passages and the page."""

from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from pan_scdg import __version__
from pan_scdg.errors import UserError
from pan_scdg.jobs.check.compare import describe_pairs, judge_pairs
from pan_scdg.jobs.check.pairs import (
    MOST_PAIRS,
    Places,
    encode_texts,
    find_candidates,
    list_pairs,
    make_pairs,
    require_first_stage,
)
from pan_scdg.jobs.check.report import TABLE, make_report, write_files
from pan_scdg.jobs.check.texts import Material, collect_texts
from pan_scdg.jobs.lifecycle import ReadyJob, Scored, carry_out
from pan_scdg.jobs.output.directory import OutputDirectory
from pan_scdg.jobs.pairs.detect import open_method
from pan_scdg.jobs.pairs.report import measure_gains
from pan_scdg.jobs.requests import PAGE, Computing, describe_job
from pan_scdg.models.find import FoundModel
from pan_scdg.notices import Notices
from pan_scdg.align.finder import Locator, PassageFinder
from pan_scdg.profile import PassageSettings, Profile
from pan_scdg.report.judge import NEAR
from pan_scdg.report.table import format_best
from pan_scdg.report.wording import CAUTION, describe_method, explain_verdicts, summarise
from pan_scdg.scoring.baseline_method import BaselineMethod
from pan_scdg.scoring.batches import Shard
from pan_scdg.scoring.pair_method import PairMethod, check_calibrated
from pan_scdg.scoring.verification import Verifier
from pan_scdg.store import Store


@dataclass(frozen=True)
class CheckRequest:
    """A request to check texts: the texts, the output and the options."""

    suspicious: Path
    """A folder of texts, or one."""
    sources: Path | None
    """The same; None: the suspicious texts are compared among each other."""
    output: Path
    template: Path | None = None
    """A text that all authors received."""
    gains: bool = True
    """Measure with the profile's language model how much easier each passage is to predict given its source."""
    overwrite: bool = False
    strict: bool = False


@dataclass(frozen=True)
class _Check:
    """A check whose texts were read and whose models were found."""

    profile: Profile
    request: CheckRequest
    computing: Computing
    material: Material
    count: int
    """Number of all pairs."""
    places: list[Places] | None
    """All pairs; None: there are too many, and a first stage chooses."""
    method: PairMethod[Any, Any]
    finder: PassageFinder
    notices: Notices
    summary: list[str] = field(default_factory=list)
    """The lines about the report, once it is written."""

    @property
    def models(self) -> dict[str, FoundModel]:
        """Return the models that the result depends on, by their names in the job."""
        return {**self.method.models, **self.finder.models}

    @property
    def template(self) -> str | None:
        """Return the name of the text that all authors received."""
        return None if self.request.template is None else self.request.template.name

    def describe_job(self) -> dict[str, Any]:
        """Return all fields that the bytes of the result depend on."""
        job = describe_job(
            "check",
            self.profile,
            input_digest=self.material.hash(),
            models={**self.method.identify(), **self.finder.identify()},
            device=self.method.device,
            engine=self.computing.engine,
        )
        # the page also shows fields that are not part of the scores
        shown = {"suspicious": self.request.suspicious.name, "template": self.template, "version": __version__}
        return {**job, **shown, "among": self.material.among, "gains": self.request.gains}

    def score(self, store: Store, _: Shard) -> Scored:
        """Return the pairs, best first, and how many were scored."""
        method, cluster, places = self.method, self.computing.cluster, self.places
        if isinstance(method, BaselineMethod) and (alignment := method.open_alignment(store)) is not None:
            settings, scorer = alignment
            actors = method.parts.make_actors(settings, cluster) if cluster.needs_ray(method.device) else None
            encode_texts(self.material, scorer, store, actors)
            if places is None:
                # without a threshold nothing is decided, and every pair is shown
                least = float("-inf") if method.threshold is None else method.threshold - NEAR
                places = find_candidates(self.material, alignment, least)
        if places is None:
            raise ValueError("only an alignment has a first stage")
        judged = judge_pairs(self.material, places, method, store)
        pairs = describe_pairs(self.material, judged, Locator(self.finder, method.open_alignment(store)))
        wanted = self.profile.pairs is not None and self.profile.passages is not None and self.profile.passages.gains
        if method.model is not None and wanted:
            left, right = (
                {text.shown.name: text.compared.text or "" for text in side}
                for side in (self.material.suspicious, self.material.sources)
            )
            verifier = Verifier(method.model, store)
            pairs = measure_gains(pairs, lambda pair: (left[pair.suspicious], right[pair.source]), verifier)
        return Scored((pairs, len(places)))

    def write(self, scored: Scored, _: Store, result: OutputDirectory) -> list[str]:
        """Stage the report and its tables; return the names of the files."""
        pairs, count = scored.values
        warnings = [line.removeprefix("warning: ") for line in self.notices.list_warnings()]
        facts = describe_method(self.profile.name, self.models, result.job["models"], self.template)
        report = make_report(self.material, pairs, self.method.threshold, facts, warnings, self.count - count)
        self.summary.extend([summarise(report), explain_verdicts(report.threshold), CAUTION])
        return write_files(result.staged, self.material, report)


def check_texts(profile: Profile, request: CheckRequest, computing: Computing) -> tuple[str, list[str]]:
    """Compare every suspicious text with every source, and write a report; return the ranked table and lines about it.

    Raises:
        UserError: a text cannot be read, or a model or the output is not usable; no result is published.
    """
    profile = profile.measure_passages(request.gains)
    notices = Notices(request.strict)
    material = collect_texts(request.suspicious, request.sources, request.template, notices)
    count, places = sum(1 for _ in list_pairs(material)), None
    if not count:
        raise UserError("both sides are the same file", "give another text to compare it with", request.suspicious)
    if count > MOST_PAIRS:
        require_first_stage(profile, count)
    else:
        places = list(list_pairs(material))
    known = make_pairs(material, places or [])
    with closing(open_method(check_calibrated(profile), computing, known, encodes=True)) as method:
        finder = PassageFinder(profile.passages or PassageSettings(), method.device)
        check = _Check(profile, request, computing, material, count, places, method, finder, notices)
        job = ReadyJob(
            scoring=check.describe_job(),
            places=check.models,
            models=[] if method.model is None else [method.model],
            summary=check.summary,
            notices=notices,
            score=check.score,
            write=check.write,
        )
        lines = carry_out(job, request.output, request.overwrite, None, computing.shards, computing.state)
    table = format_best((request.output / TABLE).read_text(encoding="utf-8"))
    return table, [*lines, f"report: {request.output / PAGE}"]
