"""Describe a check for the report: what was compared, with what, and what to know about it."""

from collections.abc import Sequence

from pan_scdg.jobs.check.texts import Material
from pan_scdg.jobs.check.write import PASSAGES, TABLE
from pan_scdg.report.records import Report, ReportPair
from pan_scdg.report.setting import UNDECIDED, Setting, list_facts

AMONG = "the texts were compared among each other: which one of a pair was written first is unknown"


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
