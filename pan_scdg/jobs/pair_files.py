"""The files that every result with decided pairs has: scores, decisions, passages, and the gains of tokens."""

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from pan_scdg.align.passages import MeasuredPassage
from pan_scdg.jobs.decisions import DecidedPair
from pan_scdg.jobs.result import SCORES, WorkFolder
from pan_scdg.pan.detections import format_decision
from pan_scdg.pan.runs import open_gzip_text
from pan_scdg.records import DocumentPair, TokenGains
from pan_scdg.report.pages import DECISIONS, GAINS, PASSAGES


def write_scores(work: WorkFolder, pairs: Sequence[DocumentPair]) -> str:
    """Write the scores in the order of the pairs, without the gains of tokens; return the name of the file."""
    with open(work.staged / SCORES, "w", encoding="utf-8", newline="\n") as file:
        for pair in pairs:
            if pair.key in work.scores:
                file.write(json.dumps(work.scores[pair.key]) + "\n")
    return SCORES


def write_decisions(folder: Path, decided: Sequence[DecidedPair]) -> str:
    """Write the decisions; return the name of the file."""
    with open(folder / DECISIONS, "w", encoding="utf-8", newline="\n") as file:
        file.writelines(format_decision(one.record) for one in decided)
    return DECISIONS


def write_passages(
    folder: Path,
    decided: Sequence[DecidedPair],
    describe: Callable[[DecidedPair, MeasuredPassage], Mapping[str, Any]] | None = None,
) -> list[str]:
    """Write the passages if there are any, with further fields that ``describe`` returns; return the file's name."""
    if not any(one.passages for one in decided):
        return []
    with open(folder / PASSAGES, "w", encoding="utf-8", newline="\n") as file:
        for one in decided:
            for passage in one.passages:
                more = {} if describe is None else describe(one, passage)
                file.write(format_decision({**_name(one.pair), **passage.to_json(), **more}))
    return [PASSAGES]


def write_gains(folder: Path, gains: Iterable[tuple[DocumentPair, TokenGains]]) -> str:
    """Write the gains of tokens in nats, with their characters in the suspicious document; return the file's name."""
    with open_gzip_text(folder / GAINS) as file:
        for pair, tokens in gains:
            file.write(json.dumps({**_name(pair), "gains": tokens.gains, "offsets": tokens.spans}) + "\n")
    return GAINS


def _name(pair: DocumentPair) -> dict[str, str]:
    return {"suspicious": pair.suspicious.doc_id, "source": pair.source.doc_id}
