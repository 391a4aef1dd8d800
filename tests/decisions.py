"""Decisions in tests: the sentences of their reasons."""

from collections.abc import Mapping
from typing import Any

from pan_scdg.report.wording import describe_reasons
from pan_scdg.results.records import Decision


def list_sentences(line: Mapping[str, Any]) -> list[str]:
    """Return the sentences of the reasons in a line of ``decisions.jsonl``."""
    return describe_reasons(Decision.from_json(line))
