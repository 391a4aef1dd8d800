"""Make the page of a complete result."""

from pathlib import Path

from pan_scdg.errors import UserError
from pan_scdg.logs import say
from pan_scdg.pan.inputs import hash_input
from pan_scdg.report.pages import write_page
from pan_scdg.results.folder import list_changed_files, require_job


def make_page(output: Path, directory: Path | None) -> Path:
    """Write ``report.html`` into a result folder, and return its path; nothing is computed.

    Args:
        output: of `run` or `check`.
        directory: the input of `run`, whose texts are shown; None: of `check`, whose result contains them.

    Raises:
        UserError: the folder is no complete result with decisions, or the input is another one.
    """
    job = require_job(output)
    if job.scores_only:
        raise UserError("contains no decisions", "give the output of `run` without --scores-only", output)
    if directory is not None and (job.task == "check" or hash_input(directory, job.task) != job.input):
        raise UserError("is not the input of this result", "give the folder that `run` read", directory)
    say(list_changed_files(output, job))
    return output / write_page(output, job, directory)
