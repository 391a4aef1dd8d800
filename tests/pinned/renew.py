"""Replace pinned results by those of the present code: ``python -m tests.pinned.renew CASE...``.

A case is the name of a file in ``cases/``, or ``scorer`` for ``scorer.json``. A result that the tests accept stays as
it is. Look at the difference before you commit it, and say in the docstring of ``test_pinned.py`` why results changed.
"""

import json
import sys
from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from pan_scdg.models import devices
from tests.pinned.test_pinned import (
    CASES,
    HERE,
    SCORED,
    SCORER,
    assert_equal,
    assert_equal_pair,
    assert_ranking,
    rank_documents,
    run_case,
    score_pair,
)

ROWS_DEPTH = 3
"""Of a case: rows below this depth share a line."""


def format_case(value: Any, depth: int = 1) -> str:
    """Return JSON with a row, or a plain value, on each line."""
    space = " " * depth
    if isinstance(value, dict):
        lines = [f"{space}{json.dumps(name)}: {format_case(one, depth + 1)}" for name, one in value.items()]
    elif depth <= ROWS_DEPTH and isinstance(value, list) and value and isinstance(value[0], list):
        lines = [f"{space}{json.dumps(row, ensure_ascii=False)}" for row in value]
    else:
        return json.dumps(value)
    begin, end = "{}" if isinstance(value, dict) else "[]"
    return "\n".join([begin, ",\n".join(lines), f"{space[:-1]}{end}"]) if lines else begin + end


def is_equal(compare: Callable[[], None]) -> bool:
    """Return False if a comparison of the tests fails."""
    try:
        compare()
    except AssertionError:
        return False
    return True


def renew_scorer() -> None:
    """Replace ``scorer.json`` unless it holds within the tolerance."""
    pairs, ranking = {profile: score_pair(profile) for profile in SCORED}, rank_documents()

    def compare() -> None:
        for profile in SCORED:
            assert_equal_pair(pairs[profile], SCORER[profile])
        assert_ranking(ranking, SCORER["rank"])

    if not is_equal(compare):
        (HERE / "scorer.json").write_text(f"{format_case({**pairs, 'rank': ranking})}\n", encoding="utf-8")


def renew_case(name: str) -> None:
    """Replace the result of a case unless it holds within the tolerance."""
    with TemporaryDirectory() as folder:
        result = run_case(CASES[name], Path(folder))
    if not is_equal(lambda: assert_equal(result, CASES[name]["result"])):
        text = format_case({**CASES[name], "result": result})
        (HERE / "cases" / f"{name}.json").write_text(f"{text}\n", encoding="utf-8")


if __name__ == "__main__":
    devices.list_cpu_features = frozenset  # as in the tests: encode in float32
    for name in sys.argv[1:]:
        if name == "scorer":
            renew_scorer()
        else:
            renew_case(name)
