"""Write ``ir-metadata.yml``: method, machine, packages and resources of a run, in the format that TIRA reads."""

import os
import platform
import resource
import time
from collections.abc import Mapping
from datetime import datetime, timezone
from importlib.metadata import distributions
from pathlib import Path
from typing import Any

from pan_scdg.commit import find_commit
from pan_scdg.models.devices import list_gpus
from pan_scdg.resources import count_cores, find_processor, measure_memory
from pan_scdg.results.files import METADATA
from pan_scdg.results.job import JobFile
from pan_scdg.version import __version__

UNKNOWN_DATASET = "id"
"""Name of an unknown data set in TIRA's client."""
TEAM, REPOSITORY = "PAN_SCDG_TEAM", "PAN_SCDG_REPOSITORY"
"""Environment variables whose values are written to the file if they are set."""
STARTED = time.time()


def write_metadata(folder: Path, job: JobFile, seconds: Mapping[str, float] | None = None) -> str:
    """Write the file about the result of a job into a folder; return its name.

    ``seconds`` are those of the stages that this process computed, by their names.
    """
    import yaml

    described = describe_run(job)
    if seconds:
        described["pan_scdg"]["seconds"] = {stage: round(spent, 3) for stage, spent in seconds.items()}
    text = yaml.safe_dump(described, sort_keys=False)
    (folder / METADATA).write_text(text, encoding="utf-8")
    return METADATA


def describe_run(job: JobFile) -> dict[str, Any]:
    """Return the fields of ir_metadata about this process and its job."""
    profile = job.profile
    dataset = os.environ.get("TIRA_DATASET_ID", UNKNOWN_DATASET)
    team, repository = os.environ.get(TEAM), os.environ.get(REPOSITORY)
    used = resource.getrusage(resource.RUSAGE_SELF)
    tag = profile["retrieval"]["tag"] if job.task == "retrieval" else profile["name"]
    return {
        "schema version": 0.2,
        "tag": tag,
        **({"actor": {"team": team}} if team else {}),
        "method": {"name": f"profile {profile['name']}", "description": profile["description"]},
        "data": {"test collection": {"name": f"SHA-256 {job.input}" if dataset == UNKNOWN_DATASET else dataset}},
        "platform": {
            "operating system": {"name": platform.system(), "kernel": platform.release()},
            "hardware": {
                "cpu": {"model": find_processor(), "number of cores": count_cores()},
                "ram": f"{measure_memory() >> 20} MB",
                "gpus": [] if job.device == "cpu" else list_gpus(),
            },
        },
        "implementation": {
            "executable": {"version": __version__},
            "python": {"version": platform.python_version(), "packages": _list_packages()},
            "source": {**({"repository": repository} if repository else {}), "commit": find_commit()},
        },
        "resources": {
            "runtime": {
                "start": datetime.fromtimestamp(STARTED, timezone.utc).isoformat(),
                "wallclock": f"{round((time.time() - STARTED) * 1000)} ms",
                "user": f"{round(used.ru_utime * 1000)} ms",
                "system": f"{round(used.ru_stime * 1000)} ms",
            },
            "ram": {"used process": {"max": f"{used.ru_maxrss >> 10} MB"}},
        },
        "pan_scdg": {
            "version": __version__,
            "job": {**job.identify(), **({"deadline": job.deadline} if job.deadline else {})},
        },
    }


def _list_packages() -> list[str]:
    return sorted({f"{one.metadata['Name']}=={one.version}" for one in distributions()})
