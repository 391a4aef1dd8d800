"""Find a full disk among the causes of an error."""

import errno
import re

from pan_scdg.errors import UserError, UserErrors

ERRORS = {errno.ENOSPC, errno.EDQUOT, errno.EFBIG}
SAYINGS = re.compile(
    "No space left on device|Disk quota exceeded|File too large|database or disk is full|disk I/O error"
    r"|\d+ requested and \d+ written"
)
"""Messages of SQLite, NumPy and other programs about a full disk that carry no error number."""


def find_full_disk(error: BaseException) -> str | None:
    """Return where and how a disk was full, None if no cause of ``error`` is a full disk."""
    seen: list[BaseException] = []
    cause: BaseException | None = error
    while cause is not None and cause not in seen:
        seen.append(cause)
        if _is_full_disk(cause):
            return _describe(error, cause)
        cause = cause.__cause__ or (None if cause.__suppress_context__ else cause.__context__)
    return None


def _is_full_disk(cause: BaseException) -> bool:
    if isinstance(cause, OSError) and cause.errno is not None:
        return cause.errno in ERRORS
    # a message of ours may quote names of files, which may say anything
    return not isinstance(cause, UserError) and SAYINGS.search(str(cause)) is not None


def _describe(error: BaseException, cause: BaseException) -> str:
    if isinstance(error, UserError) and not isinstance(error, UserErrors):
        return error.what if error.where is None else f"{error.where}: {error.what}"
    if isinstance(cause, OSError) and cause.strerror:
        return f"{cause.filename or 'disk'}: {cause.strerror}"
    return f"disk: {cause}"
