"""A process that tracks a run with tirex-tracker and prints the measurements when asked.

`metadata` starts it as ``python -m`` with the id of the process to track. A line on stdin asks for the
measurements; the end of stdin discards them. The answer on stdout is one JSON object: the measurements, or
``{"error": "..."}``.
"""

import json
import sys
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

EVERY = 2000
"""Milliseconds between two samples."""
LEFT_OUT = {
    "INVOCATION",  # contains paths and thus user names
    "DEVCONTAINER_CONF_PATHS",
    "PYTHON_VERSION",  # exported as the version of "modules"
    "PYTHON_MODULES",
    "PYTHON_NOTEBOOK_FILE_PATH_IN_CODE_ARCHIVE",
}
"""Measures that are excluded, like all of git, which would describe the repository of the work directory."""


def track_process(pid: int) -> dict[str, Any] | None:
    """Return the ir_metadata sections about the process ``pid``; None if stdin ended without a request."""
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
        found: dict[str, Any] = _drop_series(yaml.safe_load(path.read_text(encoding="utf-8")))
    found["implementation"]["source"].pop("archive path", None)  # the archive is empty and deleted with the folder
    return found if asked else None


def _drop_series(value: Any) -> Any:
    """Return nested measurements without their time series, which grow with the run."""
    if not isinstance(value, dict):
        return value
    return {name: _drop_series(part) for name, part in value.items() if name != "timeseries"}


def main() -> None:
    """Print the measurements, or the error if they could not be taken."""
    try:
        answer = track_process(int(sys.argv[1]))
    except Exception as e:
        answer = {"error": f"{type(e).__name__}: {e}"}
    if answer is not None:
        print(json.dumps(answer, default=str))


if __name__ == "__main__":
    main()
