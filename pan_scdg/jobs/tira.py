"""Read ``tira.yml``, the submissions of a repository, and compose their ``tira-cli code-submission`` calls."""

import shutil
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any

from pydantic import Field, ValidationError

from pan_scdg.errors import UserError, UserErrors
from pan_scdg.pan.untrusted import is_file, read_utf8
from pan_scdg.profile import SHIPPED, Table, list_profiles, load_profile
from pan_scdg.scoring.pair_method import check_calibrated

MANIFEST = "tira.yml"
LARGEST = 1 << 14
"""Largest size of a manifest in bytes; the time to parse nested lists is quadratic in their depth."""
Identifier = Annotated[str, Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]*$")]
Repository = Annotated[str, Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]*/[A-Za-z0-9][A-Za-z0-9._-]*$")]


class Submission(Table):
    """An entry: the command, the data set of its first test, and the resources it needs."""

    task: Identifier
    dataset: Identifier
    profile: str = Field(min_length=1)
    command: str = Field(min_length=1)
    models: list[Repository]
    """Hugging Face repositories that are mounted, read-only."""
    resources: Identifier


class Manifest(Table):
    """A ``tira.yml``: all entries by name."""

    submissions: dict[Identifier, Submission] = Field(min_length=1)


def read_manifest(path: Path) -> dict[str, Submission]:
    """Return the submissions in a ``tira.yml``.

    Raises:
        UserError: it is missing, too large or not YAML, or fields are missing, unknown or wrong.
    """
    import yaml

    if not is_file(path):
        raise UserError(
            "the manifest does not exist", "run this in the repository, or give its path with --manifest", path
        )
    text = read_utf8(path, LARGEST)
    try:
        # every value stays a string, since YAML's constructors can fail in many ways
        data: Any = yaml.load(text, Loader=yaml.BaseLoader)
        found = Manifest.model_validate(data).submissions
    except ValidationError as e:
        faults = [f"{'.'.join(map(str, fault['loc'])) or 'manifest'}: {fault['msg']}" for fault in e.errors()]
        raise UserErrors([UserError(fault, "correct the entry", path) for fault in faults]) from e
    except (ValueError, RecursionError, yaml.YAMLError) as e:  # RecursionError: deeply nested brackets
        raise UserError(f"cannot be read as YAML: {e}", "correct it", path) from e
    faults = [f"{name}.command {fault}" for name, entry in found.items() for fault in _list_faults(entry)]
    if faults:
        raise UserErrors([UserError(fault, "correct the entry", path) for fault in faults])
    return found


def _list_faults(entry: Submission) -> list[str]:
    """Return the reasons why TIRA cannot run the command of an entry."""
    words = entry.command.split()
    follows = [words[i + 1 : i + 2] for i, word in enumerate(words) if word == "--profile"]
    return [
        *(["holds a double quote, and TIRA puts it between double quotes"] if '"' in entry.command else []),
        *(f"does not name {name}" for name in ("$inputDataset", "$outputDir") if name not in words),
        *(["does not run with the profile of the entry"] if follows != [[entry.profile]] else []),
    ]


def choose_submission(submissions: dict[str, Submission], name: str, manifest: Path) -> Submission:
    """Return the submission of this name, with a profile that can decide.

    Raises:
        UserError: the name is unknown, or its profile is missing, not in the image or was never calibrated.
    """
    if name not in submissions:
        raise UserError(f"has no submission {name!r}", f"choose one of {', '.join(submissions)}", manifest)
    entry = submissions[name]
    profile = load_profile(entry.profile)
    if entry.profile not in list_profiles():
        what = f"{name}.profile is {entry.profile}, which is not in the image"
        raise UserError(what, f"move it to {SHIPPED} and give its name without .toml", manifest)
    if entry.task.startswith("pan25"):
        check_calibrated(profile)
    else:
        profile.need_retrieval()
    return entry


def make_call(entry: Submission, repository: Path, dry_run: bool, build_args: str | None = None) -> list[str]:
    """Return the ``tira-cli`` call."""
    mounted = ["--mount-hf-model", *entry.models] if entry.models else []
    # a value that begins with a dash must be one word with its option
    build: Sequence[str] = [] if build_args is None else [f"--build-args={build_args}"]
    where = ["--path", str(repository), "--task", entry.task, "--dataset", entry.dataset]
    dry = ["--dry-run"] if dry_run else []
    return [find_client(), "code-submission", *dry, *where, *build, "--command", entry.command, *mounted]


def find_client() -> str:
    """Return the program ``tira-cli`` beside this Python or on the path.

    Raises:
        UserError: it is not installed.
    """
    beside = Path(sys.executable).parent / "tira-cli"
    found = str(beside) if beside.is_file() else shutil.which("tira-cli")
    if found is None:
        raise UserError("the program tira-cli is not installed", "install the extra: pip install 'pan_scdg[tira]'")
    return found
