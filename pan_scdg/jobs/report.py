"""Make the page of a complete result of `run`."""

from pathlib import Path

from pan_scdg.digests import hash_file
from pan_scdg.errors import UserError
from pan_scdg.jobs.result import JOB, list_changed_files, require_job, write_json
from pan_scdg.logs import say
from pan_scdg.pan.inputs import hash_input
from pan_scdg.report.pages import write_page


def make_page(output: Path, directory: Path) -> Path:
    """Write ``report.html`` into a result folder, and return its path; nothing is computed.

    Args:
        output: of `run`.
        directory: the input of that run, whose texts are shown.

    Raises:
        UserError: the folder is no complete result with decisions, or the input is another one.
    """
    job = require_job(output)
    if job["task"] == "check" or job["scores_only"]:
        raise UserError("contains no decisions", "give the output of `run` without --scores-only", output)
    if hash_input(directory, job["task"]) != job["input"]:
        raise UserError("is not the input of this result", "give the folder that `run` read", directory)
    say(list_changed_files(output, job))
    name = write_page(output, job, directory)
    # a later run with --overwrite removes what is listed
    write_json(output / JOB, {**job, "files": {**job["files"], name: hash_file(output / name)}})
    return output / name
