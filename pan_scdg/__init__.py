"""Score how much better a language model predicts a suspicious document with a candidate source in its context.

Example:
    >>> from pan_scdg import Scorer
    >>> with Scorer("offline") as scorer:
    ...     result = scorer.score(target, source)
    >>> result.score, result.decision
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from pan_scdg.version import __version__

if TYPE_CHECKING:
    from pan_scdg.bundled import find_example
    from pan_scdg.errors import UserError
    from pan_scdg.profile import Profile, load_profile
    from pan_scdg.records import MeasuredPassage, Ranked
    from pan_scdg.report.html import render_report
    from pan_scdg.report.records import Report
    from pan_scdg.results.records import DecidedPair
    from pan_scdg.scorer import PairResult, RankedText, Scorer, Token

_MODULES = {
    "DecidedPair": "pan_scdg.results.records",
    "MeasuredPassage": "pan_scdg.records",
    "PairResult": "pan_scdg.scorer",
    "Profile": "pan_scdg.profile",
    "Ranked": "pan_scdg.records",
    "RankedText": "pan_scdg.scorer",
    "Report": "pan_scdg.report.records",
    "Scorer": "pan_scdg.scorer",
    "Token": "pan_scdg.scorer",
    "UserError": "pan_scdg.errors",
    "find_example": "pan_scdg.bundled",
    "load_profile": "pan_scdg.profile",
    "render_report": "pan_scdg.report.html",
}
__all__ = [
    "DecidedPair",
    "MeasuredPassage",
    "PairResult",
    "Profile",
    "Ranked",
    "RankedText",
    "Report",
    "Scorer",
    "Token",
    "UserError",
    "__version__",
    "find_example",
    "load_profile",
    "render_report",
]


def __getattr__(name: str) -> Any:
    """Import a public name when it is first used, so that ``import pan_scdg`` loads neither torch nor NumPy."""
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(_MODULES[name]), name)


def __dir__() -> list[str]:
    """Return the public names, imported or not."""
    return sorted({*globals(), *__all__})
