"""The process that watches a run: tirex-tracker follows its parent, and answers once it is asked.

`run_metadata` starts it as ``python -m`` with the id of the process to follow. A line on stdin asks for the figures,
the end of stdin says that nobody will. The answer on stdout is one JSON object: the figures, or ``{"error": "..."}``.
"""

import json
import sys
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

EVERY = 2000
"""Milliseconds between two looks at the run."""
LEFT_OUT = {
    "INVOCATION",  # holds paths, and with them names of users
    "DEVCONTAINER_CONF_PATHS",
    "PYTHON_VERSION",  # exported as the version of "modules"
    "PYTHON_MODULES",
    "PYTHON_NOTEBOOK_FILE_PATH_IN_CODE_ARCHIVE",
}
"""Not measured; nor is anything of git, which would tell of whatever repository the work directory is in."""


def figures(pid: int) -> dict[str, Any] | None:
    """Sections of ir_metadata on machine, packages and resources of the process ``pid``; None: nobody asked."""
    import yaml
    from tirex_tracker import ALL_MEASURES, ExportFormat, tracking

    measures = {m for m in ALL_MEASURES if m.name not in LEFT_OUT and not m.name.startswith("GIT_")}
    with TemporaryDirectory(prefix="pan_scdg-tracker-") as folder:
        path = Path(folder) / "ir-metadata.yml"
        with tracking(
            measures=measures,
            poll_intervall_ms=EVERY,
            export_file_path=path,
            export_format=ExportFormat.IR_METADATA,
            pid=pid,
        ):
            asked = sys.stdin.readline()
        found: dict[str, Any] = _without_series(yaml.safe_load(path.read_text(encoding="utf-8")))
    found["implementation"]["source"].pop("archive path", None)  # an empty archive, gone with the folder
    return found if asked else None


def _without_series(value: Any) -> Any:
    """Of what was sampled only mean and extremes, so that the file does not grow with the run."""
    if not isinstance(value, dict):
        return value
    return {name: _without_series(part) for name, part in value.items() if name != "timeseries"}


def main() -> None:
    """Answer, whatever happens."""
    try:
        answer = figures(int(sys.argv[1]))
    except Exception as e:
        answer = {"error": f"{type(e).__name__}: {e}"}
    if answer is not None:
        print(json.dumps(answer, default=str))


if __name__ == "__main__":
    main()
