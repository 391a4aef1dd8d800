"""The files that every result with decided pairs has: scores, decisions, passages, and the gains of tokens."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from pan_scdg.jobs.decisions import DecidedPair
from pan_scdg.records import DocumentPair, MeasuredPassage, TokenGains
from pan_scdg.results.files import DECISIONS, GAINS, PASSAGES, SCORES, write_lines
from pan_scdg.results.folder import WorkFolder


def write_scores(work: WorkFolder, pairs: Sequence[DocumentPair]) -> str:
    """Write the scores in the order of the pairs, without the gains of tokens; return the name of the file."""
    lines = (work.scores[pair.key] for pair in pairs if pair.key in work.scores)
    return write_lines(work.staged, SCORES, lines)


def write_decisions(folder: Path, decided: Sequence[DecidedPair]) -> str:
    """Write the decisions; return the name of the file."""
    return write_lines(folder, DECISIONS, (one.record.to_json() for one in decided), rounded=True)


def write_passages(
    folder: Path,
    decided: Sequence[DecidedPair],
    describe: Callable[[DecidedPair, MeasuredPassage], Mapping[str, Any]] | None = None,
) -> list[str]:
    """Write the passages if there are any, with further fields that ``describe`` returns; return the file's name."""
    if not any(one.passages for one in decided):
        return []
    lines = (
        {**_name(one.pair), **passage.to_json(), **({} if describe is None else describe(one, passage))}
        for one in decided
        for passage in one.passages
    )
    return [write_lines(folder, PASSAGES, lines, rounded=True)]


def write_gains(folder: Path, gains: Iterable[tuple[DocumentPair, TokenGains]]) -> str:
    """Write the gains of tokens in nats, with their characters in the suspicious document; return the file's name."""
    lines = ({**_name(pair), "gains": tokens.gains, "offsets": tokens.spans} for pair, tokens in gains)
    return write_lines(folder, GAINS, lines)


def _name(pair: DocumentPair) -> dict[str, str]:
    return {"suspicious": pair.suspicious.doc_id, "source": pair.source.doc_id}
