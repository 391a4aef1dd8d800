"""Read ``tira.yml``, the submissions of a repository, and compose their ``tira-cli code-submission`` calls."""

import re
import shutil
import subprocess
import sys
from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Annotated, Any

from pydantic import Field, ValidationError

from pan_scdg.commit import find_commit
from pan_scdg.errors import UserError, UserErrors
from pan_scdg.jobs.decisions import require_threshold
from pan_scdg.pan.untrusted import is_file, read_utf8
from pan_scdg.profile import list_profiles, load_profile
from pan_scdg.settings import Table

MAX_MANIFEST_BYTES = 1 << 14
"""The time to parse nested lists is quadratic in their depth."""
COPIED, IN_IMAGE = Path("model_cache", "image"), "/app/model_cache"
"""The folder of the repository that a build copies into the image, and its path there; git ignores it."""
NOT_REACHED = re.compile(
    r"ConnectionError|ConnectTimeout|ReadTimeout|NewConnectionError|NameResolutionError|ProxyError"
)
"""Errors in a traceback of the client when it has no network."""
IDENTIFIER = r"^[A-Za-z0-9][A-Za-z0-9._-]*$"
Identifier = Annotated[str, Field(pattern=IDENTIFIER)]
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
        remedy = "run this in the folder of the repository"
        raise UserError("the manifest does not exist", remedy, path)
    text = read_utf8(path, MAX_MANIFEST_BYTES)
    try:
        # every value stays a string, since YAML's constructors can fail in many ways
        data: Any = yaml.load(text, Loader=yaml.BaseLoader)
        submissions = Manifest.model_validate(data).submissions
    except ValidationError as e:
        faults = [f"{'.'.join(map(str, fault['loc'])) or 'manifest'}: {fault['msg']}" for fault in e.errors()]
    except (ValueError, RecursionError, yaml.YAMLError) as e:  # RecursionError: deeply nested brackets
        raise UserError(f"cannot be read as YAML: {e}", "correct it", path) from e
    else:
        faults = [f"{name}.command {fault}" for name, entry in submissions.items() for fault in _list_faults(entry)]
    if faults:
        raise UserErrors([UserError(fault, "correct the entry", path) for fault in faults])
    return submissions


def _list_faults(entry: Submission) -> list[str]:
    """Return the reasons why TIRA cannot run the command of an entry."""
    words = entry.command.split()
    profiles = [words[i + 1 : i + 2] for i, word in enumerate(words) if word == "--profile"]
    return [
        *(["contains a double quote, and TIRA puts it between double quotes"] if '"' in entry.command else []),
        *(f"does not name {name}" for name in ("$inputDataset", "$outputDir") if name not in words),
        *(["does not run with the profile of the entry"] if profiles != [[entry.profile]] else []),
    ]


def choose_submission(
    submissions: dict[str, Submission],
    name: str,
    manifest: Path,
    own_profile: Path | None = None,
    method: Path | None = None,
) -> Submission:
    """Return the submission of this name, with a profile that can decide.

    Args:
        submissions: all entries.
        name: of the entry.
        manifest: their file.
        own_profile: a file that replaces the profile of the entry; see `put_files`.
        method: the registered file of its method.

    Raises:
        UserError: the name is unknown, or its profile is missing, not in the image or was never calibrated.
    """
    if name not in submissions:
        raise UserError(f"has no submission {name!r}", f"choose one of {', '.join(submissions)}", manifest)
    entry = submissions[name]
    profile = load_profile(entry.profile if own_profile is None else str(own_profile))
    if own_profile is not None:
        for file in (own_profile, *([] if method is None else [method])):
            if not re.match(IDENTIFIER, file.name):
                what = "the name of the file contains characters that TIRA's command cannot contain"
                raise UserError(what, "use letters, digits, dots, hyphens and underscores only", file)
        path = f"{IN_IMAGE}/{own_profile.name}"
        more = "" if method is None else f" --method {IN_IMAGE}/{method.name}"
        command = re.sub(rf"(--profile\s+){re.escape(entry.profile)}(?!\S)", rf"\g<1>{path}{more}", entry.command)
        entry = entry.model_copy(update={"profile": path, "command": command})
    elif entry.profile not in list_profiles():
        what = f"{name}.profile is {entry.profile}, which is not in the image"
        raise UserError(what, "give the file with --profile", manifest)
    if entry.task.startswith("pan25"):
        require_threshold(profile)
    else:
        profile.need_retrieval()
    return entry


@contextmanager
def put_files(files: Iterable[Path], repository: Path) -> Iterator[None]:
    """Put files into the folder that a build copies into the image, as long as the context lasts.

    Raises:
        UserError: a file of this name is there.
    """
    with ExitStack() as stack:
        for file in files:
            copy = repository / COPIED / file.name
            if copy.exists():
                raise UserError("already exists", "remove it, or rename your file", copy)
            copy.parent.mkdir(parents=True, exist_ok=True)
            stack.callback(copy.unlink, missing_ok=True)
            shutil.copyfile(file, copy)
        yield


def make_call(entry: Submission, repository: Path, dry_run: bool, build_args: str | None = None) -> list[str]:
    """Return the ``tira-cli`` call; the build gets the commit as an argument.

    Raises:
        UserError: ``tira-cli`` is not installed.
    """
    words = [_find_client(), "code-submission", *(["--dry-run"] if dry_run else [])]
    words += ["--path", str(repository), "--task", entry.task, "--dataset", entry.dataset]
    arguments = f"--build-arg REVISION={find_commit()}" + ("" if build_args is None else f" {build_args}")
    words.append(f"--build-args={arguments}")  # one word, since the value begins with a dash
    words += ["--command", entry.command]
    return words + (["--mount-hf-model", *entry.models] if entry.models else [])


def run_client(words: Sequence[str]) -> None:
    """Run a ``tira-cli`` call and show what it prints, without a traceback if TIRA cannot be reached.

    Raises:
        UserError: the call failed.
    """
    traceback: list[str] = []
    with subprocess.Popen(words, stderr=subprocess.PIPE, text=True, errors="replace") as client:
        for line in client.stderr or ():
            if traceback or line.startswith("Traceback "):
                traceback.append(line)
            else:
                sys.stderr.write(line)
    if not client.returncode:
        sys.stderr.writelines(traceback)
        return
    if traceback and NOT_REACHED.search("".join(traceback)):
        remedy = "connect this machine to the network, or try the image without TIRA: `tira-run` in docs/tira.md"
        raise UserError("TIRA cannot be reached", remedy)
    sys.stderr.writelines(traceback)
    raise UserError(f"tira-cli ended with {client.returncode}", "see its message above")


def list_images() -> set[str]:
    """Return the names of all images of the container engine; none without one."""
    engine = shutil.which("docker") or shutil.which("podman")
    if engine is None:
        return set()
    words = [engine, "images", "--format", "{{.Repository}}:{{.Tag}}"]
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    return {name for name in done.stdout.split() if not name.startswith("<none>")}


def _find_client() -> str:
    """Return the program ``tira-cli`` beside this Python or on the path."""
    installed = Path(sys.executable).parent / "tira-cli"
    client = str(installed) if installed.is_file() else shutil.which("tira-cli")
    if client is None:
        raise UserError("the program tira-cli is not installed", "run `pip install tira`")
    return client
