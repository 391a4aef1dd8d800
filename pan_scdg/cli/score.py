"""The command score: one suspicious and one source file, with the gain of every token on request."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import click

from pan_scdg.cli.options import (
    FILE,
    FILE_OR_STANDARD,
    device_option,
    load_chosen_profile,
    model_option,
    profile_option,
)
from pan_scdg.documents.reader import CONVERTERS
from pan_scdg.errors import UserError
from pan_scdg.pan.untrusted import read_document, read_standard_input

if TYPE_CHECKING:
    from pan_scdg.profile import Profile
    from pan_scdg.scorer import PairResult

STANDARD = Path("-")
"""Standard input or output instead of a file."""


@click.command(short_help="Score one pair of text files.")
@click.argument("suspicious", type=FILE_OR_STANDARD)
@click.argument("source", type=FILE_OR_STANDARD)
@profile_option
@device_option
@model_option
@click.option(
    "--tokens",
    type=FILE_OR_STANDARD,
    help="File for one JSON line per token with its log-probabilities and gain. With - the lines follow the result.",
)
@click.option("--report", type=FILE, help="HTML file for both texts side by side, with their passages and gains.")
def score(
    suspicious: Path,
    source: Path,
    profile: str,
    device: str,
    model: Path | None,
    tokens: Path | None,
    report: Path | None,
) -> None:
    """Score a SUSPICIOUS file with a SOURCE file and print JSON. Either can be - for standard input.

    \b
    Example:
      pan-scdg score suspicious.txt source.txt --report report.html
    """
    from pan_scdg.cli.paths import check_file, find_profile_file, holds_report, holds_tokens
    from pan_scdg.results.folder import write_atomically

    if suspicious == source == STANDARD:
        raise click.UsageError("only one file can be standard input")
    chosen = load_chosen_profile(profile)
    if tokens is not None and chosen.gains is None:
        raise click.UsageError(f"--tokens needs a profile with gains, which {chosen.name} lacks")
    inputs = {"SUSPICIOUS": suspicious, "SOURCE": source, "--model": model, "--profile": find_profile_file(profile)}
    if tokens is not None and tokens != STANDARD:
        check_file(tokens, "--tokens", inputs, "the tokens of a pair", holds_tokens)
    if report is not None:
        check_file(report, "--report", {**inputs, "--tokens": tokens}, "the report of a pair", holds_report)
    result = score_files(chosen, suspicious, source, device=device, model=model)
    if report is not None:
        write_atomically(report, format_report(result, suspicious, source))
    if tokens == STANDARD:
        click.echo(json.dumps(result.record))
        click.echo("".join(format_tokens(result)), nl=False)
        return
    if tokens is not None:
        write_atomically(tokens, "".join(format_tokens(result)))
    click.echo(json.dumps(result.record, indent=1))


def score_files(
    profile: "Profile",
    suspicious: Path,
    source: Path,
    *,
    device: str,
    model: Path | None,
) -> "PairResult":
    """Return the result of one pair of files; one of them may be standard input.

    Raises:
        UserError: a file cannot be read, or the pair cannot be scored.
    """
    from pan_scdg.scorer import TARGET, Scorer

    with Scorer(profile, device=device, model=model) as scorer:
        other, target = _read(source), _read(suspicious)
        try:
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
    if path.suffix.lower() in CONVERTERS:
        raise UserError("not a plain text", f"compare {path.suffix} files with pan-scdg check", path)
    return read_document(path)


def format_report(result: "PairResult", suspicious: Path, source: Path) -> str:
    """Return the page of a pair of files as HTML."""
    return result.to_html((_name(suspicious), _name(source)))


def _name(path: Path) -> str:
    return "standard input" if path == STANDARD else path.name


def format_tokens(result: "PairResult") -> Iterator[str]:
    """Yield one line of JSON a token: its id, text and place, its log-probabilities and gain in nats, six decimals.

    ``begin`` is its first character in the target and ``end`` the one after its last; they are equal if it has none.
    """
    for position, token in enumerate(result.tokens):
        values = {"unconditional": token.unconditional, "conditional": token.conditional}
        place = {"begin": token.begin, "end": token.end}
        record = {"position": position, "token_id": token.token_id, "token": token.text, **place}
        numbers = {name: round(value, 6) for name, value in {**values, "gain": token.gain}.items()}
        yield json.dumps({**record, **numbers}, ensure_ascii=True) + "\n"
