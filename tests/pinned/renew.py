"""Replace pinned results by those of the present code: ``python -m tests.pinned.renew CASE...``.

A case is the name of a file in ``cases/``. Look at the difference before you commit it, and say in the docstring of
``test_pinned.py`` why the results changed.
"""

import json
import sys
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from pan_scdg.models import devices
from tests.pinned.test_pinned import CASES, HERE, run_case

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


if __name__ == "__main__":
    devices.list_cpu_features = frozenset  # as in the tests: encode in float32
    for name in sys.argv[1:]:
        with TemporaryDirectory() as folder:
            case = {**CASES[name], "result": run_case(CASES[name], Path(folder))}
        (HERE / "cases" / f"{name}.json").write_text(f"{format_case(case)}\n", encoding="utf-8")
