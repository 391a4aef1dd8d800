"""``ir-metadata.yml``: with what, where and at what cost a result was computed, in the format that TIRA reads.

tirex-tracker is native code, which may abort the process it is in, and signals an exception into whatever that process
is doing. So it watches from a process of its own (`tracker_process`), and gets a bounded time to answer: whatever goes
wrong there costs the file and one line of warning, never the run. Times and machine differ from run to run, hence the
file is no part of the sealed result.
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
from pan_scdg.jobs.output import METADATA
from pan_scdg.logs import say
from pan_scdg.own_files import write_atomically
from pan_scdg.scoring.model import ScoringModel

SECTIONS = ("platform", "implementation", "resources")
"""What the tracker has to tell about."""
PATIENCE, SHARE = 10.0, 0.005
"""So many seconds, and this share of the run's, may pass until the tracker answers, for it goes through all samples."""
GRACE = 1.0
"""Seconds in which a tracker that nobody asks ends by itself."""
UNKNOWN_DATASET = "id"
"""What TIRA's client calls a data set that it has no name for."""
TEAM, REPOSITORY = "PAN_SCDG_TEAM", "PAN_SCDG_REPOSITORY"
"""Variables whose values are named in the file; where there are none, nobody is."""

Tracker = subprocess.Popen[str]


@contextmanager
def run_metadata(staged: Path, job: Mapping[str, Any], wanted: bool, model: ScoringModel | None) -> Iterator[None]:
    """Track what is computed in the body, and stage the file when it ends.

    Args:
        staged: the folder of staged results.
        job: the job, which the file describes.
        wanted: False: do nothing.
        model: the language model of the run, if there is one.
    """
    tracker = _started() if wanted else None
    if tracker is None:
        yield
        return
    began = time.monotonic()
    try:
        yield
        seconds = time.monotonic() - began
        try:
            figures = _asked(tracker, PATIENCE + SHARE * seconds)
            write_atomically(staged / METADATA, _yaml(_document(figures, job, model, seconds)))
        except Exception as e:  # whatever it is, it is not worth the run
            _warn(e)
    finally:
        _end(tracker)


def _started() -> Tracker | None:
    """The tracker, in a session of its own so that Ctrl-C is not for it; None, with a warning, if it cannot be."""
    command = [sys.executable, "-m", "pan_scdg.jobs.tracker_process", str(os.getpid())]
    pipe, nowhere = subprocess.PIPE, subprocess.DEVNULL
    here = Path(pan_scdg.__file__).parents[1]
    try:
        return subprocess.Popen(
            command, cwd=here, stdin=pipe, stdout=pipe, stderr=nowhere, encoding="utf-8", start_new_session=True
        )
    except OSError as e:
        _warn(e)
        return None


def _asked(tracker: Tracker, seconds: float) -> dict[str, Any]:
    """The tracker's figures.

    Raises:
        subprocess.TimeoutExpired: it does not answer.
        ValueError: it ended, or what it says is of no use.
    """
    said, _ = tracker.communicate("now\n", timeout=seconds)
    if tracker.returncode:
        raise ValueError(f"the tracker ended with {tracker.returncode}")
    answer = json.loads(said.splitlines()[-1] if said else "null")
    if not isinstance(answer, dict) or not all(isinstance(answer.get(name), dict) for name in SECTIONS):
        raise ValueError(answer["error"] if isinstance(answer, dict) and "error" in answer else "no figures")
    return answer


def _end(tracker: Tracker) -> None:
    """Let it clean up, which it does once nobody can ask it any more; nobody waits for one that hangs."""
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


def _document(
    figures: dict[str, Any], job: Mapping[str, Any], model: ScoringModel | None, seconds: float
) -> dict[str, Any]:
    """What the tracker found, what ir_metadata wants to know of the run, and the run's own record."""
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
        **({} if model is None else {"tokens": model.tokens, "incidents": model.incidents()}),
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


def _yaml(document: Mapping[str, Any]) -> str:
    import yaml

    text: str = yaml.safe_dump(document, sort_keys=False)
    return text
