"""Describe a check for the report: what was compared, with what, and what to know about it."""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from pan_scdg import __version__
from pan_scdg.jobs.check.texts import Material
from pan_scdg.jobs.check.write import PASSAGES, TABLE
from pan_scdg.models.find import SHORT, FoundModel
from pan_scdg.report.records import Report, ReportPair

UNDECIDED = "nothing is decided: the threshold is not for this model"
AMONG = "the texts were compared among each other: which one of a pair was written first is unknown"


class Setting(NamedTuple):
    """The method that decided, as the page names it: profile, threshold and models."""

    profile: str
    threshold: float | None
    models: Mapping[str, FoundModel]
    identity: Mapping[str, Any]
    """The fields of the job that identify the models."""
    template: str | None
    """Name of the text that everybody was given."""


def make_report(
    material: Material, pairs: Sequence[ReportPair], setting: Setting, warnings: Sequence[str], left_out: int
) -> Report:
    """Return the report of a check.

    Args:
        material: the texts.
        pairs: best first.
        setting: what decided.
        warnings: about the texts.
        left_out: number of pairs that a first stage left out.
    """
    more = []
    if setting.threshold is None:
        more.append(UNDECIDED)
    if material.among:
        more.append(AMONG)
    if left_out:
        more.append(f"{left_out:,} pairs are not listed: whatever their words, they cannot reach the threshold")
    left, right = len(material.suspicious), len(material.sources)
    return Report(
        f"{left} texts among each other" if material.among else f"{left} texts and {right} sources",
        {text.shown.name: text.shown for text in material.suspicious},
        {text.shown.name: text.shown for text in material.sources},
        tuple(pairs),
        setting.threshold,
        facts=list_facts(setting, left, right),
        warnings=(*warnings, *more),
        among=material.among,
        table_file=TABLE,
        passages_file=PASSAGES,
    )


def list_facts(setting: Setting, suspicious: int, sources: int) -> dict[str, Any]:
    """Return what decided, and the numbers of texts."""
    return {**describe_setting(setting), "suspicious_texts": suspicious, "sources": sources}


def describe_setting(setting: Setting) -> dict[str, Any]:
    """Return what decided: program, profile and models."""
    facts: dict[str, Any] = {"program": f"pan_scdg {__version__}", "profile": setting.profile}
    for name, found in setting.models.items():
        weights = setting.identity.get(name, {}).get("weights", "")
        facts[name] = f"{found.name} {str(weights)[:SHORT]}".strip()
    if setting.template is not None:
        facts["template"] = f"{setting.template}; what a text has in common with it does not count"
    return facts
