"""The command line: each command parses, calls one function and prints. See the README for worked examples.

Exit codes: 0 done, 1 internal error, 2 input or settings, 3 stopped before the end but resumable.
"""

import errno
import json
import os
import signal
import sys
import tempfile
import traceback
from pathlib import Path
from typing import Any, NoReturn

import click

from pan_scdg import __version__
from pan_scdg.errors import Interrupted, UserError, one_line

FOLDER = click.Path(path_type=Path, file_okay=False)
FILE = click.Path(path_type=Path, dir_okay=False)
DISK_FAULTS = {errno.ENOSPC, errno.EDQUOT, errno.EIO, errno.EROFS}
profile_option = click.option("--profile", default="offline", show_default=True, help="Shipped profile, or a file.")
device_option = click.option(
    "--device", type=click.Choice(["auto", "cpu", "cuda"]), default="auto", show_default=True, help="Where models run."
)
model_option = click.option("--model", type=FOLDER, help="Folder of the language model, instead of model_cache/NAME.")
state_option = click.option(
    "--state", type=FOLDER, envvar="PAN_SCDG_STATE", help="Keep what is computed here, for later runs too."
)
truth_option = click.option("--truth", type=click.Path(path_type=Path), help="Truth XML folder, or qrels file.")
over_long_option = click.option(
    "--over-long",
    type=click.Choice(["error", "segments"]),
    help="What to do with pairs over the profile's limit.  [default: as the profile says]",
)
on_error_option = click.option(
    "--on-error",
    type=click.Choice(["stop", "negative"]),
    default="stop",
    show_default=True,
    help="Stop when pairs cannot be scored, or decide those negative with the reason.",
)


@click.group(context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 110})
@click.version_option(__version__)
def cli() -> None:
    """Which sources was a suspicious document written from?

    \b
    Example:
      python entrypoint.py run --input examples/pan25-pairs/test --output out
    """


@cli.command()
@click.option("--input", "directory", type=FOLDER, envvar=["TIRA_INPUT_DATASET", "inputDataset"], required=True)
@click.option("--output", type=FOLDER, envvar=["TIRA_OUTPUT_DIR", "outputDir"], required=True)
@profile_option
@click.option("--task", type=click.Choice(["auto", "pairs", "retrieval"]), default="auto", show_default=True)
@device_option
@state_option
@model_option
@over_long_option
@on_error_option
@click.option("--strict", is_flag=True, help="What is merely odd in the input is an error.")
@click.option("--keep-gains", is_flag=True, help="Write the gain of every token (gains.jsonl.gz).")
@click.option("--overwrite", is_flag=True, help="Redo a finished output.")
def run(
    directory: Path, output: Path, profile: str, task: str, device: str, over_long: str | None, **rest: Any
) -> None:
    """Do the job that the input directory calls for: decide pairs, or rank sources.

    Without --input and --output, TIRA's variables inputDataset and outputDir are used.

    \b
    Example:
      python entrypoint.py run --input examples/pan26-retrieval --output out
    """
    from pan_scdg.lm.checkpoint import best_device
    from pan_scdg.pan.inputs import detect_task
    from pan_scdg.tasks.options import RunOptions
    from pan_scdg.tasks.pair_detection import detect_pairs
    from pan_scdg.tasks.source_retrieval import retrieve_sources

    found = detect_task(directory, task)  # type: ignore[arg-type]
    chosen = _profile(profile, over_long)
    options = RunOptions(directory, output, best_device(device), **rest)
    _tell(detect_pairs(chosen, options) if found == "pairs" else retrieve_sources(chosen, options))


@cli.command()
@click.argument("suspicious", type=FILE)
@click.argument("source", type=FILE)
@profile_option
@device_option
@model_option
@over_long_option
@click.option("--tokens", type=FILE, help="Write one JSON line a token: log-probabilities and gain in nats.")
def score(
    suspicious: Path,
    source: Path,
    profile: str,
    device: str,
    model: Path | None,
    over_long: str | None,
    tokens: Path | None,
) -> None:
    """Score one SUSPICIOUS file against one SOURCE file; prints JSON.

    \b
    Example:
      python entrypoint.py score suspicious.txt source.txt --tokens gains.jsonl
    """
    from pan_scdg.lm.checkpoint import best_device
    from pan_scdg.tasks.options import RunOptions
    from pan_scdg.tasks.single_pair import score_files

    chosen = _profile(profile, over_long)
    if tokens is not None and not os.access(tokens.parent, os.W_OK | os.X_OK):
        raise UserError("cannot be written", "give a file in an existing, writable folder with --tokens", tokens)
    options = RunOptions(suspicious, source, best_device(device), model=model)
    result = score_files(chosen, suspicious, source, options, tokens)
    click.echo(json.dumps(result, indent=1))


@cli.command()
@click.option("--input", "directory", type=FOLDER, required=True, help="Pairs with truth.")
@profile_option
@click.option("--write", type=FILE, required=True, help="Profile file to write.")
@truth_option
@device_option
@model_option
@over_long_option
@state_option
def calibrate(
    directory: Path,
    profile: str,
    write: Path,
    truth: Path | None,
    device: str,
    model: Path | None,
    over_long: str | None,
    state: Path | None,
) -> None:
    """Choose q or w and the threshold on pairs with truth, and write them into a profile file.

    \b
    Example:
      python entrypoint.py calibrate --input examples/pan25-pairs/calibration --write my-profile.toml
    """
    from pan_scdg.lm.checkpoint import best_device
    from pan_scdg.scdg.aggregation import Aggregate
    from pan_scdg.tasks.calibration import calibrate as choose_on
    from pan_scdg.tasks.calibration import check_target, write_profile
    from pan_scdg.tasks.options import RunOptions

    chosen = _profile(profile, over_long)
    check_target(profile, write)
    options = RunOptions(directory, write.parent, best_device(device), model=model)
    with tempfile.TemporaryDirectory(prefix="pan_scdg-") as scratch:
        choice, calibration, lines = choose_on(chosen, options, truth, state or Path(scratch))
    write_profile(profile, write, choice, calibration, over_long)
    _tell(lines)
    aggregate = Aggregate(chosen.need_pairs().aggregation, choice.parameter)
    click.echo(
        f"{aggregate.name}, threshold {choice.threshold:.6f}: F1 {choice.f1:.4f}, accuracy "
        f"{choice.accuracy:.4f} on {calibration.pairs} pairs ({calibration.positives} positive); wrote {write}"
    )


@cli.command()
@click.option("--input", "directory", type=FOLDER, required=True, help="What the results were made from.")
@click.option("--output", type=FOLDER, required=True, help="The output directory of run.")
@truth_option
def evaluate(directory: Path, output: Path, truth: Path | None) -> None:
    """Hold results against the truth, with bootstrap intervals.

    \b
    Example:
      python entrypoint.py evaluate --input examples/pan25-pairs/test --output out
    """
    from pan_scdg.tasks.evaluation import evaluate as hold

    click.echo(hold(directory, output, truth)[1], nl=False)


@cli.command()
def profiles() -> None:
    """List the shipped profiles.

    \b
    Example:
      python entrypoint.py profiles
    """
    from pan_scdg.profile import load_profile, shipped_profiles

    for name in shipped_profiles():
        click.echo(f"{name:22} {load_profile(name).description}")


@cli.command()
@click.option("--table", type=FILE, required=True, help="CSV: suspicious and source file of each pair.")
@click.option("--output", type=FOLDER, required=True, help="PAN directory to make.")
def prepare(table: Path, output: Path) -> None:
    """Turn a CSV of file pairs into a PAN directory with safe ids; results then show the original names.

    \b
    Example:
      python entrypoint.py prepare --table pairs.csv --output my-pairs
    """
    from pan_scdg.pan.prepare import prepare as make

    click.echo(f"{make(table, output)} pairs in {output}")


@cli.command()
@click.option("--output", type=FOLDER, default=Path("demo-output"), show_default=True)
@device_option
@state_option
def demo(output: Path, device: str, state: Path | None) -> None:
    """Both jobs on the shipped examples with the profile offline.

    \b
    Example:
      python entrypoint.py demo
    """
    from pan_scdg.lm.checkpoint import best_device
    from pan_scdg.tasks.demo import demo as show_both

    click.echo(show_both(output, best_device(device), state))


def _tell(lines: list[str]) -> None:
    """What is said about a run goes to stderr, in ASCII; stdout is for results."""
    for line in lines:
        click.echo(line.encode("ascii", "backslashreplace"), err=True)


def _profile(name: str, over_long: str | None) -> Any:
    from pan_scdg.profile import load_profile

    profile = load_profile(name)
    if over_long is None:
        return profile
    pairs = profile.need_pairs().model_copy(update={"over_long": over_long})
    return profile.model_copy(update={"pairs": pairs})


def _stop(_signal: int, _frame: object) -> NoReturn:
    raise Interrupted


def main() -> NoReturn:
    """Run the command line and leave with one of the four exit codes."""
    signal.signal(signal.SIGTERM, _stop)
    sys.exit(exit_code_of())


def exit_code_of(arguments: list[str] | None = None) -> int:
    """Run the command line with ``arguments`` (default: the process's); every failure is one line on stderr."""
    try:
        cli.main(arguments, prog_name="entrypoint.py", standalone_mode=False)
    except UserError as e:
        return max(_fail(line, 2) for line in str(e).split("\n"))
    except click.exceptions.NoArgsIsHelpError as e:
        click.echo(e.format_message(), err=True)
        return 2
    except click.ClickException as e:
        return _fail(f"{e.format_message().rstrip('.')}; see --help", 2)
    except (Interrupted, KeyboardInterrupt, click.Abort):
        return _fail("stopped; the same command goes on from here", 3)
    except OSError as e:
        if e.errno not in DISK_FAULTS:
            return _internal(e)
        return _fail(f"{e.filename or 'disk'}: {e.strerror}; correct that, the same command goes on from here", 3)
    except Exception as e:
        return _internal(e)
    return 0


def _internal(e: Exception) -> int:
    return _fail(f"internal error: {type(e).__name__}: {e}; details in {_log_traceback()}", 1)


def _fail(message: str, code: int) -> int:
    """Say ``message`` in one line, whatever it holds."""
    print(one_line(message).encode("ascii", "backslashreplace").decode(), file=sys.stderr)
    return code


def _log_traceback() -> Path:
    with tempfile.NamedTemporaryFile("w", prefix="pan_scdg-error-", suffix=".log", delete=False) as log:
        traceback.print_exc(file=log)
    return Path(log.name)
