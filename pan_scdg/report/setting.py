"""The origin of the decisions in a report: program, profile and models, as the page names them."""

from collections.abc import Mapping
from typing import Any, NamedTuple

from pan_scdg import __version__
from pan_scdg.models.find import SHORT, FoundModel

UNDECIDED = "nothing is decided: the threshold was chosen with another model"


class Setting(NamedTuple):
    """The method that decided."""

    profile: str
    threshold: float | None
    models: Mapping[str, FoundModel]
    identity: Mapping[str, Any]
    """The fields of the job that identify the models."""
    template: str | None = None
    """Name of the text that all authors received."""


def describe_setting(setting: Setting, **counts: int) -> dict[str, Any]:
    """Return program, profile and models with the first characters of their fingerprints, and numbers of texts."""
    facts: dict[str, Any] = {"program": f"pan_scdg {__version__}", "profile": setting.profile}
    for name, found in setting.models.items():
        weights = setting.identity.get(name, {}).get("weights", "")
        facts[name] = f"{found.name} {str(weights)[:SHORT]}".strip()
    if setting.template is not None:
        facts["template"] = f"{setting.template}; what a text has in common with it does not count"
    return {**facts, **counts}
