"""Pairs of texts without files."""

from pan_scdg.methods import Method
from pan_scdg.records import TextPair


def make_pair(target: str, source: str, target_id: str = "p", source_id: str = "s") -> TextPair:
    return TextPair(target_id, source_id, target, source)


def measure(method: Method, *texts: tuple[str, str]) -> list[float]:
    """Return the only number of each pair of texts."""
    return [score.values["score"] for score in method.score([make_pair(*pair) for pair in texts])]
