"""End the process: every failure is one line on stderr and an exit code.

The line is ``error: file:line: what is wrong. What to do.`` The codes are 0 done, 1 internal error, 2 wrong input or
settings, and 3 stopped but resumable. A command whose reader has ended exits with 141 and prints nothing on stderr.
"""

import atexit
import errno
import gc
import os
import re
import signal
import sys
import tempfile
import traceback
from pathlib import Path
from typing import NoReturn

import click

from pan_scdg.cli.commands import cli
from pan_scdg.cli.streams import ReaderGoneError, ResultsLostError, guard_streams
from pan_scdg.errors import Interrupted, UserError, UserErrors, escape_controls, get_first_line
from pan_scdg.logs import say_error, say_stopped, show_logs

READER_GONE = 128 + signal.SIGPIPE
"""The code that a shell reports of a program whose reader has ended, such as ``yes | head``."""
MAX_ERROR_LINES = 20
"""Lines about wrong input; a folder may have thousands of the same fault."""
DISK_FAULTS = {errno.EIO, errno.EROFS}
FULL = {errno.ENOSPC, errno.EDQUOT, errno.EFBIG}
MEMORY_SAYINGS = re.compile(
    "failed to map segment|[Cc]annot allocate memory|can't start new thread|can't allocate memory|Unable to allocate"
)
"""Messages about a lack of memory of exceptions that are no MemoryError: of an import, of torch, of a thread."""
FULL_SAYINGS = re.compile(
    "No space left on device|Disk quota exceeded|File too large|database or disk is full|disk I/O error"
    r"|\d+ requested and \d+ written"
)
"""Messages of SQLite, NumPy and other programs about a full disk that carry no error number."""


def _stop(_signal: int, _frame: object) -> NoReturn:
    raise Interrupted


def main() -> NoReturn:
    """Run the command line and exit."""
    guard_streams()
    # threads of OpenMP that spin while they wait make a busy machine several times slower
    os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")
    signal.signal(signal.SIGTERM, _stop)
    # importing torch and transformers makes 830,000 objects that stay: looking for garbage among them, again and
    # again and once more at the end, takes 2 s of every command
    gc.set_threshold(1_000_000, 20, 20)
    _leave(run_command(find_arguments()))


def _leave(code: int) -> NoReturn:
    """Exit without Python's last search for garbage, but with all else that a module or stream does at the end."""
    atexit._run_exitfuncs()
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)


def find_arguments() -> list[str]:
    """Return the arguments of the process; none mean ``run`` under TIRA, where no command may have been given."""
    under_tira = all(os.environ.get(name) for name in ("inputDataset", "outputDir"))
    return ["run"] if under_tira and not sys.argv[1:] else sys.argv[1:]


def run_command(arguments: list[str] | None = None) -> int:
    """Run the command line with ``arguments`` (default: the process's) and return the exit code."""
    show_logs()
    try:
        answer = cli.main(arguments, standalone_mode=False)
    except click.exceptions.NoArgsIsHelpError as e:
        click.echo(e.format_message(), err=True)
        return 2
    except click.ClickException as e:
        return _fail(_describe_usage(e.format_message()), 2)
    except (Interrupted, KeyboardInterrupt, click.Abort) as e:
        cause = e.__cause__ if isinstance(e, click.Abort) else e  # click's own has no text
        say_stopped(str(cause or ""))
        return 3
    except ReaderGoneError:
        return READER_GONE
    except ResultsLostError as e:
        return _fail(f"standard output: {e}. Redirect it to a file, and run again.", 2)
    except Exception as e:
        return _report(e)
    return answer if isinstance(answer, int) else 0  # the code of Context.exit; else what a command returns, None


def _report(e: Exception) -> int:
    """Print an error, and return the exit code."""
    if (fault := _find_full_disk(e)) is not None:
        return _fail(f"{fault}. Free some space and run the same command again to continue.", 3)
    if isinstance(e, UserError):
        lines = str(e).split("\n")
        if len(lines) > MAX_ERROR_LINES + 1:
            lines[MAX_ERROR_LINES:] = [f"and {len(lines) - MAX_ERROR_LINES:,} more like these. Correct them all."]
        return max(_fail(line, 2) for line in lines)
    if isinstance(e, OSError) and e.errno in (errno.EACCES, errno.EPERM) and e.filename is not None:
        return _fail(f"{e.filename}: {e.strerror}. Make it accessible to this user, or choose another folder.", 2)
    if isinstance(e, MemoryError) or (
        isinstance(e, ImportError | OSError | RuntimeError) and MEMORY_SAYINGS.search(str(e))
    ):
        remedy = "Raise the limit (`ulimit -v`) or give more memory"
        if "failed to map segment" in str(e):
            remedy += "; a noexec mount of Python's packages has the same effect"
        reason = f": {get_first_line(e)}" if str(e) else ""
        return _fail(f"not enough memory{reason}. {remedy}.", 2)
    if isinstance(e, FileNotFoundError) and not _has_working_directory():
        return _fail("the working directory was removed. Change into one that exists.", 2)
    if isinstance(e, OSError) and e.errno in DISK_FAULTS:
        return _fail(f"{e.filename or 'disk'}: {e.strerror}. Repair it, and run the same command again.", 3)
    what = f"internal error: {type(e).__name__}: {e}"
    if not sys.stderr.isatty():  # of a container, the logs are all that stays
        lines = "".join(traceback.format_exception(e)).splitlines()
        sys.stderr.write("".join(f"{escape_controls(line)}\n" for line in lines))
        return _fail(f"{what}. The traceback is above.", 1)
    try:
        with tempfile.NamedTemporaryFile("w", prefix="pan_scdg-error-", suffix=".log", delete=False) as log:
            traceback.print_exception(e, file=log)
        details = f"See {log.name}"
    except OSError as cause:
        details = f"The traceback cannot be written: {cause.strerror}"
    return _fail(f"{what}. {details}", 1)


def _has_working_directory() -> bool:
    try:
        return Path.cwd().is_dir()
    except OSError:
        return False


def _describe_usage(message: str) -> str:
    """Return click's message with a pointer to the help; some end with a question, such as "Did you mean 'run'?"."""
    message = re.sub(r"\. \((Did you mean [^()]*\?)\)$", r". \1", message)  # several suggestions
    return f"{message if message.endswith('?') else message.rstrip('.') + '.'} See --help."


def _fail(message: str, code: int) -> int:
    say_error(message)
    return code


def _find_full_disk(error: BaseException) -> str | None:
    """Return the place and message of a full disk; None if no cause of ``error`` is one."""
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
        return cause.errno in FULL
    # a message of ours may quote names of files, which may say anything
    return not isinstance(cause, UserError) and FULL_SAYINGS.search(str(cause)) is not None


def _describe(error: BaseException, cause: BaseException) -> str:
    if isinstance(error, UserError) and not isinstance(error, UserErrors):
        return error.what if error.where is None else f"{error.where}: {error.what}"
    if isinstance(cause, OSError) and cause.strerror:
        return f"{cause.filename or 'disk'}: {cause.strerror}"
    return f"disk: {cause}"
