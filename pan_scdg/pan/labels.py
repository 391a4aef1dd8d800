"""Read a table of pairs with known answers, which is the truth of a check."""

from collections.abc import Iterable
from pathlib import Path

from pan_scdg.errors import UserError, UserErrors
from pan_scdg.pan.prepare import parse_answer, read_rows

NAMES = ("suspicious", "source")
LABELS = ("label", "reused")
"""Names of the column with the answer."""
Key = tuple[str, str]


def read_labels(path: Path) -> dict[Key, bool]:
    """Return the answer for each pair of names; lines without one are skipped, and so are other columns.

    Raises:
        UserErrors: every line whose answer is neither yes nor no, or contradicts an earlier one.
        UserError: the table cannot be read, lacks a column, or has no answers.
    """
    rows = read_rows(path)
    header = [name.strip().lower() for name in rows[0][1]] if rows else []
    label = next((name for name in LABELS if name in header), None)
    if label is None or not {*NAMES} <= {*header}:
        raise UserError("lacks a column", "begin the table with suspicious,source,label", path)
    labels: dict[Key, bool] = {}
    errors: list[UserError] = []
    for line, row in rows[1:]:
        cells = dict(zip(header, map(str.strip, row), strict=False))
        if not {*NAMES} <= {*cells}:
            errors.append(UserError("lacks a name", "write suspicious,source,label", path, line))
            continue
        if answer := cells.get(label, "").strip():
            try:
                reused = parse_answer(path, answer, line)
            except UserError as e:
                errors.append(e)
                continue
            if labels.setdefault((cells["suspicious"], cells["source"]), reused) != reused:
                errors.append(UserError("contradicts an earlier line about the same pair", "keep one", path, line))
    if errors:
        raise UserErrors(errors)
    if not labels:
        raise UserError("contains no answers", "write yes or no in the column label", path)
    return labels


def match_labels(path: Path, keys: Iterable[Key], *, within_class: bool) -> dict[Key, bool]:
    """Return the answers of a table for the pairs of a check that have one, in the order of the pairs.

    Args:
        path: of the table.
        keys: the names of the pairs.
        within_class: the texts were compared with each other, so that the order of two names does not matter.

    Raises:
        UserError: see `read_labels`; or a line is about another pair.
    """
    labels = read_labels(path)
    matched: dict[Key, bool] = {}
    for key in keys:
        answers = {labels.pop(form) for form in (key, key[::-1])[: 1 + within_class] if form in labels}
        if len(answers) == 2:
            raise UserError(f"contradicts itself about {key[0]!r} and {key[1]!r}", "keep one of the lines", path)
        matched |= dict.fromkeys([key], answers.pop()) if answers else {}
    if labels:
        first, second = next(iter(labels))
        what = f"{first!r} and {second!r} are no pair of this check"
        raise UserError(what, "write the names as in report.csv, and only pairs that it lists", path)
    return matched
