"""The files that every result with decided pairs has: scores, decisions, passages, and the gains of tokens."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path

from pan_scdg.records import DocumentPair, MeasuredPassage
from pan_scdg.results.files import DECISIONS, GAINS, PASSAGES, SCORES, write_lines
from pan_scdg.results.folder import WorkFolder
from pan_scdg.results.records import DecidedPair, GainsLine, PassageLine, ScoreLine


def write_scores(work: WorkFolder[ScoreLine], pairs: Sequence[DocumentPair]) -> str:
    """Write the scores in the order of the pairs, without the gains of tokens; return the name of the file."""
    return write_lines(work.staged, SCORES, (work.scores[pair.key] for pair in pairs if pair.key in work.scores))


def write_decisions(folder: Path, decided: Iterable[DecidedPair]) -> str:
    """Write the decisions; return the name of the file."""
    return write_lines(folder, DECISIONS, (one.record for one in decided), rounded=True)


def write_passages(
    folder: Path,
    decided: Mapping[DocumentPair, DecidedPair],
    quote: Callable[[DocumentPair, MeasuredPassage], tuple[list[str], list[str]]] | None = None,
) -> list[str]:
    """Write the passages if there are any, with the sentences that ``quote`` returns; return the file's name."""
    if not any(one.passages for one in decided.values()):
        return []
    lines = (
        PassageLine(*pair.key, passage, None if quote is None else quote(pair, passage))
        for pair, one in decided.items()
        for passage in one.passages
    )
    return [write_lines(folder, PASSAGES, lines, rounded=True)]


def write_gains(folder: Path, decided: Mapping[DocumentPair, DecidedPair]) -> list[str]:
    """Write the gains of the tokens in passages if there are any; return the file's name."""
    lines = [GainsLine(pair.key, one.gains) for pair, one in decided.items() if one.gains is not None]
    return [write_lines(folder, GAINS, lines)] if lines else []
