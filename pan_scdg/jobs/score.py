"""``score``: one suspicious and one source file, with the gain of every token on request."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Literal

from pan_scdg.errors import UserError
from pan_scdg.logs import hold_notes
from pan_scdg.pan.untrusted import read_document, read_standard_input
from pan_scdg.profile import Profile
from pan_scdg.scorer import TARGET, PairResult, Scorer

STANDARD = Path("-")
"""Standard input or output instead of a file."""


def score_files(
    profile: Profile,
    suspicious: Path,
    source: Path,
    *,
    device: str,
    model: Path | None,
    engine: Literal["packed", "reference"],
) -> PairResult:
    """Return the result of one pair of files; one of them may be standard input.

    Raises:
        UserError: a file cannot be read, or the pair cannot be scored.
    """
    with Scorer(profile, device=device, model=model, engine=engine) as scorer:
        other, target = _read(source), _read(suspicious)
        try:
            with hold_notes():
                return scorer.score(target, other)
        except UserError as e:
            if e.where == TARGET:
                where = "standard input" if suspicious == STANDARD else suspicious
                raise UserError(e.what, e.remedy, where) from e
            raise


def _read(path: Path) -> str:
    if path == STANDARD:
        return read_standard_input()
    if not path.is_file():
        raise UserError("the file does not exist", "give two text files", path)
    return read_document(path)


def format_report(result: PairResult, suspicious: Path, source: Path) -> str:
    """Return the page of a pair of files as HTML."""
    return result.to_html((_name(suspicious), _name(source)))


def _name(path: Path) -> str:
    return "standard input" if path == STANDARD else path.name


def format_tokens(result: PairResult) -> Iterator[str]:
    """Yield one line of JSON a token: its id, text and place, its log-probabilities and gain in nats, six decimals.

    ``begin`` is its first character in the target and ``end`` the one after its last; they are equal if it has none.
    """
    for position, token in enumerate(result.tokens):
        values = {"unconditional": token.unconditional, "conditional": token.conditional}
        place = {"begin": token.start, "end": token.end}
        record = {"position": position, "token_id": token.token_id, "token": token.text, **place}
        numbers = {name: round(value, 6) for name, value in {**values, "gain": token.gain}.items()}
        yield json.dumps({**record, **numbers}, ensure_ascii=True) + "\n"
