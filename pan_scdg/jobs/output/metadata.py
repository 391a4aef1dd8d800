"""Write ``ir-metadata.yml``: software, machine and resources of a run, in the format that TIRA reads.

tirex-tracker is native code that may abort its process or raise exceptions in it. It therefore runs in a process of its
own (`tracker_process`) with a bounded time to answer: on failure the file is missing, a warning is logged, and the run
goes on. Times and machine differ between runs, so the file is not part of the sealed result.
"""

import json
import os
import platform
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import pan_scdg
from pan_scdg.jobs.output.mark import METADATA
from pan_scdg.logs import say
from pan_scdg.own_files import write_atomically
from pan_scdg.scoring.model import ScoringModel

SECTIONS = ("platform", "implementation", "resources")
"""Required sections of the tracker's answer."""
PATIENCE, SHARE = 10.0, 0.005
"""The tracker has this many seconds, plus this share of the run's duration, to answer from all samples."""
GRACE = 1.0
"""Seconds after which a tracker that does not end by itself is killed."""
UNKNOWN_DATASET = "id"
"""Name of an unknown data set in TIRA's client."""
TEAM, REPOSITORY = "PAN_SCDG_TEAM", "PAN_SCDG_REPOSITORY"
"""Environment variables whose values are written to the file if they are set."""

Tracker = subprocess.Popen[str]


@contextmanager
def track_run(staged: Path, job: Mapping[str, Any], wanted: bool, model: ScoringModel | None) -> Iterator[None]:
    """Track the body of the context, and stage the file when it ends."""
    tracker = _start_tracker() if wanted else None
    if tracker is None:
        yield
        return
    began = time.monotonic()
    try:
        yield
        seconds = time.monotonic() - began
        try:
            import yaml

            figures = _ask_tracker(tracker, PATIENCE + SHARE * seconds)
            document = _make_document(figures, job, model, seconds)
            write_atomically(staged / METADATA, yaml.safe_dump(document, sort_keys=False))
        except Exception as e:  # no failure of the tracker may stop the run
            _warn(e)
    finally:
        _end_tracker(tracker)


def _start_tracker() -> Tracker | None:
    """Start the tracker in a session of its own, which Ctrl-C does not reach; return None with a warning on failure."""
    command = [sys.executable, "-m", "pan_scdg.jobs.output.tracker_process", str(os.getpid())]
    pipe, nowhere = subprocess.PIPE, subprocess.DEVNULL
    here = Path(pan_scdg.__file__).parents[1]
    try:
        return subprocess.Popen(
            command, cwd=here, stdin=pipe, stdout=pipe, stderr=nowhere, encoding="utf-8", start_new_session=True
        )
    except OSError as e:
        _warn(e)
        return None


def _ask_tracker(tracker: Tracker, seconds: float) -> dict[str, Any]:
    """Return the measurements of the tracker.

    Raises:
        subprocess.TimeoutExpired: it does not answer in time.
        ValueError: it failed, or its answer is not valid.
    """
    said, _ = tracker.communicate("now\n", timeout=seconds)
    if tracker.returncode:
        raise ValueError(f"the tracker ended with {tracker.returncode}")
    answer = json.loads(said.splitlines()[-1] if said else "null")
    if not isinstance(answer, dict) or not all(isinstance(answer.get(name), dict) for name in SECTIONS):
        raise ValueError(answer["error"] if isinstance(answer, dict) and "error" in answer else "no figures")
    return answer


def _end_tracker(tracker: Tracker) -> None:
    """Close the pipes, after which the tracker cleans up and ends; kill it if it hangs."""
    for pipe in filter(None, (tracker.stdin, tracker.stdout)):
        with suppress(OSError):
            pipe.close()
    try:
        tracker.wait(0 if tracker.returncode is not None else GRACE)
    except subprocess.TimeoutExpired:
        tracker.kill()
        tracker.wait()


def _warn(fault: Exception) -> None:
    say([f"warning: no {METADATA}: {fault}"])


def _make_document(
    figures: dict[str, Any], job: Mapping[str, Any], model: ScoringModel | None, seconds: float
) -> dict[str, Any]:
    """Return the measurements with the fields of ir_metadata about the run and the record of this project."""
    profile, retrieves = job["profile"], job["task"] == "retrieval"
    team, repository = os.environ.get(TEAM), os.environ.get(REPOSITORY)
    if repository:
        figures["implementation"]["source"]["repository"] = repository
    dataset = os.environ.get("TIRA_DATASET_ID", UNKNOWN_DATASET)
    name = f"SHA-256 {job['input']}" if dataset == UNKNOWN_DATASET else dataset
    own = {
        "version": pan_scdg.__version__,
        "python": platform.python_version(),
        "job": job,
        "devices": [job["device"]] if model is None else model.devices,
        "seconds": round(seconds, 3),
        **({} if model is None else {"tokens": model.tokens, "incidents": model.list_incidents()}),
    }
    return {
        "tag": profile["retrieval"]["tag"] if retrieves else profile["name"],
        **({"actor": {"team": team}} if team else {}),
        "method": {
            "name": f"{'' if model is None else 'SCDG, '}profile {profile['name']}",
            "description": profile["description"],
        },
        "data": {"test collection": {"name": name}},
        **figures,
        "pan_scdg": own,
    }
