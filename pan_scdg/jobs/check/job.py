"""Check texts against possible sources: read, score, and write the table, the passages and the page."""

from contextlib import closing
from dataclasses import dataclass
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
from pan_scdg.jobs.output.directory import produce_result
from pan_scdg.jobs.pairs.detect import open_method
from pan_scdg.jobs.pairs.report import measure_gains
from pan_scdg.jobs.requests import PAGE, Computing, describe_job
from pan_scdg.logs import say
from pan_scdg.models.find import describe_models
from pan_scdg.models.lock import list_origins
from pan_scdg.notices import Notices
from pan_scdg.passages.finder import PassageFinder
from pan_scdg.passages.locate import Locator
from pan_scdg.profile import PassageSettings, Profile
from pan_scdg.report.judge import NEAR
from pan_scdg.report.records import ReportPair
from pan_scdg.report.setting import Setting
from pan_scdg.report.table import format_best
from pan_scdg.report.wording import CAUTION, explain_verdicts, summarise
from pan_scdg.scoring.baseline_method import BaselineMethod
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
    method: PairMethod[Any, Any]
    finder: PassageFinder

    def describe_setting(self) -> Setting:
        """Return the profile, threshold and models that decide."""
        models = {**self.method.models, **self.finder.models}
        identity = {**self.method.identify(), **self.finder.identify()}
        template = None if self.request.template is None else self.request.template.name
        return Setting(self.profile.name, self.method.threshold, models, identity, template)

    def describe_job(self, setting: Setting) -> dict[str, Any]:
        """Return all fields that the bytes of the result depend on."""
        job = describe_job(
            "check",
            self.profile,
            input_digest=self.material.hash(),
            models=dict(setting.identity),
            device=self.method.device,
            engine=self.computing.engine,
        )
        # the page also shows fields that are not part of the scores
        shown = {"suspicious": self.request.suspicious.name, "template": setting.template, "version": __version__}
        return {**job, **shown, "among": self.material.among, "gains": self.request.gains}

    def compare(self, places: list[Places] | None, store: Store) -> tuple[list[ReportPair], int]:
        """Return the pairs, best first, and how many were scored.

        Without ``places`` there are too many pairs, and a first stage chooses.
        """
        method, cluster = self.method, self.computing.cluster
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
        return pairs, len(places)


def check_texts(profile: Profile, request: CheckRequest, computing: Computing) -> tuple[str, list[str]]:
    """Compare every suspicious text with every source, and write a report; return the ranked table and lines about it.

    Raises:
        UserError: a text cannot be read, or a model or the output is not usable; no result is published.
    """
    profile = profile.measure_passages(request.gains)
    notices = Notices(request.strict)
    material = collect_texts(request.suspicious, request.sources, request.template, notices)
    total, places = sum(1 for _ in list_pairs(material)), None
    if not total:
        raise UserError("both sides are the same file", "give another text to compare it with", request.suspicious)
    if total > MOST_PAIRS:
        require_first_stage(profile, total)
    else:
        places = list(list_pairs(material))
    known = make_pairs(material, places or [])
    report = None
    with closing(open_method(check_calibrated(profile), computing, known, encodes=True)) as method:
        finder = PassageFinder(profile.passages or PassageSettings(), method.device)
        check = _Check(profile, request, computing, material, method, finder)
        setting = check.describe_setting()
        with produce_result(request.output, check.describe_job(setting), request.overwrite) as result:
            if result.needed:
                with result.compute(computing.state, False, method.model) as store:
                    say([describe_models(setting.models.values())] if setting.models else [])
                    pairs, scored = check.compare(places, store)
                    warnings = [line.removeprefix("warning: ") for line in notices.list_warnings()]
                    report = make_report(material, pairs, setting, warnings, total - scored)
                    files = write_files(result.staged, material, report)
                result.seal(files, [], None, list_origins(setting.models))
    page = f"report: {request.output / PAGE}"
    table = format_best((request.output / TABLE).read_text(encoding="utf-8"))
    if report is None:
        return table, [f"already complete: {request.output}", page]
    said = summarise(report), explain_verdicts(report.threshold), CAUTION
    return table, [*notices.list_warnings(), *said, page]
