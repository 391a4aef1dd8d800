"""Check texts against possible sources: read, score, and write the table, the passages and the page."""

from collections.abc import Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, NamedTuple

from pan_scdg import __version__
from pan_scdg.errors import UserError
from pan_scdg.jobs.check.compare import describe_pairs, judge_pairs
from pan_scdg.jobs.check.judge import NEAR
from pan_scdg.jobs.check.pairs import (
    MOST_PAIRS,
    Places,
    count_pairs,
    find_candidates,
    list_pairs,
    make_pairs,
    need_first_stage,
)
from pan_scdg.jobs.check.texts import Material, collect_texts
from pan_scdg.jobs.check.write import PAGE, write_files
from pan_scdg.jobs.detect import open_method
from pan_scdg.jobs.lifecycle import produce_result
from pan_scdg.jobs.requests import Computing, Request, describe_job
from pan_scdg.logs import say
from pan_scdg.models.find import SHORT, FoundModel, describe_models
from pan_scdg.models.lock import list_origins
from pan_scdg.notices import Notices
from pan_scdg.passages.finder import PassageFinder
from pan_scdg.profile import PassageSettings, Profile
from pan_scdg.report.records import Report, ReportPair
from pan_scdg.report.table import format_best
from pan_scdg.report.wording import CAUTION, summarise
from pan_scdg.scoring.baseline_parts import find_parts
from pan_scdg.scoring.pair_method import PairMethod
from pan_scdg.store import Store

AMONG = "the texts were compared among each other: which one of a pair was written first is unknown"


@dataclass(frozen=True)
class CheckRequest:
    """What is checked, and where the results go."""

    suspicious: Path
    """A folder of texts, or one."""
    sources: Path | None
    """The same; None: the suspicious texts are compared among each other."""
    output: Path
    template: Path | None = None
    """A text that everybody was given."""
    overwrite: bool = False
    strict: bool = False


class Checked(NamedTuple):
    """What the command prints: the ranked table, and lines about it."""

    table: str
    lines: list[str]


def check_texts(profile: Profile, request: CheckRequest, computing: Computing) -> Checked:
    """Compare every suspicious text with every source, and write a report.

    Args:
        profile: decides pairs, by alignment if there are more than `MOST_PAIRS`.
        request: texts, output and options.
        computing: models and device.

    Raises:
        UserError: a text cannot be read, or a model or the output is not usable; no result is published.
    """
    notices = Notices(request.strict)
    material = collect_texts(request.suspicious, request.sources, request.template, notices)
    total = count_pairs(material)
    if not total:
        raise UserError("both sides are the same file", "give another text to compare it with", request.suspicious)
    # of more pairs, which ones are scored follows from the scores of a first stage
    places = list(list_pairs(material)) if total <= MOST_PAIRS else None
    if places is None:
        need_first_stage(profile, total)
    common = Request(request.suspicious, request.output)
    known = [] if places is None else make_pairs(material, places)
    table, summary = "", ""
    with closing(open_method(profile, common, computing, known, known)) as method:
        finder = PassageFinder(profile.passages or PassageSettings(), method.device)
        models = {**method.models, **finder.models}
        identity = {**method.identify(), **finder.identify()}
        job = _describe_job(profile, common, computing, material, request, identity, method.device)
        with produce_result(request.output, job, request.overwrite) as result:
            if result.needed:
                with result.compute(computing.state, False, method.model) as store:
                    say(
                        [describe_models(list({found.folder: found for found in models.values()}.values()))]
                        if models
                        else []
                    )
                    if places is None:
                        places = _run_first_stage(material, profile, total, method, store)
                    pairs = describe_pairs(material, judge_pairs(material, places, method, store), finder)
                    report = _make_report(material, pairs, method, notices, total - len(places))
                    report = replace(report, facts=_list_facts(profile, request, material, models, identity))
                    files = write_files(result.staged, material, report)
                    table, summary = format_best(report), summarise(report)
                result.seal(files, [], None, list_origins(models))
    lines = [*notices.list_warnings(), summary, CAUTION] if summary else [f"already complete: {request.output}"]
    return Checked(table, [*lines, f"report: {request.output / PAGE}"])


def _describe_job(
    profile: Profile,
    common: Request,
    computing: Computing,
    material: Material,
    request: CheckRequest,
    models: dict[str, Any],
    device: str,
) -> dict[str, Any]:
    digest = material.hash()
    job = describe_job(
        "check", profile, common, input_digest=digest, models=models, device=device, engine=computing.engine
    )
    # the page shows these
    shown = {"suspicious": request.suspicious.name, "template": request.template and request.template.name}
    return {**job, **shown, "among": material.among, "version": __version__}


def _run_first_stage(
    material: Material, profile: Profile, total: int, method: PairMethod[Any, Any], store: Store
) -> list[Places]:
    settings = need_first_stage(profile, total)
    scorer = find_parts(settings, method.device, ()).make_alignment(settings, store)
    # without a threshold nothing is decided, and every pair is shown
    least = float("-inf") if method.threshold is None else method.threshold - NEAR
    return find_candidates(material, scorer, settings, least)


def _make_report(
    material: Material, pairs: Sequence[ReportPair], method: PairMethod[Any, Any], notices: Notices, left_out: int
) -> Report:
    warnings = [line.removeprefix("warning: ") for line in notices.list_warnings()]
    if method.threshold is None:
        warnings.append("nothing is decided: the threshold is not for this model")
    if material.among:
        warnings.append(AMONG)
    if left_out:
        warnings.append(f"{left_out:,} pairs are not listed: whatever their words, they cannot reach the threshold")
    return Report(
        f"{len(material.suspicious)} texts" + ("" if material.among else f" and {len(material.sources)} sources"),
        {text.shown.name: text.shown for text in material.suspicious},
        {text.shown.name: text.shown for text in material.sources},
        tuple(pairs),
        method.threshold,
        warnings=tuple(warnings),
        among=material.among,
    )


def _list_facts(
    profile: Profile,
    request: CheckRequest,
    material: Material,
    models: Mapping[str, FoundModel],
    identity: Mapping[str, Any],
) -> dict[str, Any]:
    """Return what the page says about the check."""
    facts: dict[str, Any] = {
        "program": f"pan_scdg {__version__}",
        "profile": profile.name,
    }
    for name, found in models.items():
        facts[name] = f"{found.name} ({str(identity.get(name, {}).get('weights', ''))[:SHORT]})"
    if request.template is not None:
        facts["template"] = f"{request.template.name}: what a text has in common with it does not count"
    return {**facts, "suspicious_texts": len(material.suspicious), "sources": len(material.sources)}
