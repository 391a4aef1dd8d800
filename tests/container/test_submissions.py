"""The submissions of tira.yml in the image, on stand-ins for checkpoints, by hand and by TIRA's client.

What TIRA does: the command in a shell, both folders in variables, models read-only where the Hugging Face cache is, no
network. Without a GPU the command has another device, and its profile other arithmetic; see ``tests.stand_ins``.
"""

import json
import re
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from pan_scdg.jobs.tira import read_manifest
from pan_scdg.results.records import read_decisions
from tests.container.conftest import CLOSED, ROOT, TEST_IMAGE, Docker, visible
from tests.stand_ins import COMMIT, list_repositories, write_hub, write_profile

pytestmark = pytest.mark.container
ENTRIES = {name: entry for name, entry in read_manifest(ROOT / "tira.yml").items() if name.endswith("leaderboard")}
FORMATS = {"pan25-leaderboard": "text-alignment-features", "pan26-leaderboard": "run.txt"}
SHIPPED = "/app/pan_scdg/profiles"
GAINS, DECIDE = {"q": 10.0}, {"threshold": -1.0}
"""Where `calibrate` would write it; every pair that can be scored is positive."""
EMPTY = "suspicious-document99999.txt"
"""A document that cannot be scored; its pair must not end the run."""
NEWER, MINISTRAL = ROOT / ".venv" / "transformers5", "pan25-ministral-3-8b"
"""What tools/test_transformers5.sh installs, and the profile that needs it."""
ROWS = [
    ("pan25-leaderboard", ENTRIES["pan25-leaderboard"].profile),
    ("pan26-leaderboard", ENTRIES["pan26-leaderboard"].profile),
    ("pan25-leaderboard", "pan25-llama-3.1-8b"),
    ("pan25-leaderboard", MINISTRAL),
    ("pan26-leaderboard", "pan26-bge-m3-sentence"),
]
"""Both entries, then the other language models and encoders of the paper, by the command of their task."""
IN_THE_GATE = ENTRIES["pan26-leaderboard"].profile
"""With a language model and an encoder; the others are in `make test-long`."""
PARAMETERS = [pytest.param(*row, id=row[1], marks=[pytest.mark.long] * (row[1] != IN_THE_GATE)) for row in ROWS]

Run = Callable[..., "subprocess.CompletedProcess[str]"]


@pytest.fixture(scope="module")
def hub(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a Hugging Face cache with every stand-in that a row needs."""
    return write_hub(tmp_path_factory.mktemp("hub"), [profile for _, profile in ROWS])


@pytest.fixture(scope="module")
def short_pairs(pairs: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the pairs with short texts, and one with an empty one; a token costs a vocabulary of logits."""
    folder = Path(shutil.copytree(pairs, tmp_path_factory.mktemp("short") / "pairs"))
    for path in folder.glob("*/*.txt"):
        path.write_text(path.read_text(encoding="utf-8")[:500], encoding="utf-8")
    (folder / "susp" / EMPTY).touch()
    with open(folder / "pairs", "a", encoding="utf-8") as file:
        file.write(f"{EMPTY} {next((folder / 'src').iterdir()).name}\n")
    return folder


@pytest.fixture
def run(docker: Docker, image: str, short_pairs: Path, retrieval: Path, open_folder: Callable[[str], Path]) -> Run:
    """Return ``run(entry, command, *more)``, which runs a command on the input of an entry's task."""

    def call(entry: str, command: str, *more: str) -> "subprocess.CompletedProcess[str]":
        source = short_pairs if entry.startswith("pan25") else retrieval
        where = ["-v", f"{source}:/in:ro", "-v", f"{open_folder('out')}:/out", "-e", "inputDataset=/in"]
        words = [*CLOSED, *where, "-e", "outputDir=/out", *more, "--entrypoint", "sh", image, "-c", command]
        return docker("run", "--rm", *words, check=False)

    return call


@pytest.mark.parametrize(("name", "profile"), PARAMETERS)
def test_an_entry_s_command_runs_on_stand_ins(
    name: str, profile: str, run: Run, hub: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from tira.check_format import FormatMsgType, check_format
    from tira.io_utils import huggingface_model_mounts

    newer: list[str] = []
    if profile == MINISTRAL:
        if not NEWER.is_dir():
            pytest.skip("tools/test_transformers5.sh has not installed its packages")
        newer = ["-v", f"{NEWER}:/newer:ro", "-e", "PYTHONPATH=/newer"]
    entry = ENTRIES[name]
    path = write_profile(profile, tmp_path / f"{profile}.toml", gains=GAINS, decide=DECIDE, retrieval={"scored": 2})
    repositories = list_repositories(profile)
    assert profile != entry.profile or set(repositories.values()) == set(entry.models)
    monkeypatch.setenv("HF_HUB_CACHE", str(hub))
    mounted = huggingface_model_mounts(repositories.values())
    mounts = [word for place, how in mounted.items() for word in ("-v", f"{place}:{how['bind']}:{how['mode']}")]
    command = entry.command.replace(entry.profile, profile).replace("--device cuda", "--device cpu")
    done = run(name, command, *mounts, *newer, "-v", f"{path}:{SHIPPED}/{path.name}:ro")
    assert done.returncode == 0, done.stderr
    assert all(f"{model} from huggingface cache at {COMMIT[:12]}" in done.stderr for model in repositories)
    assert check_format(tmp_path / "out", FORMATS[name], None)[0] == FormatMsgType.OK
    if name.startswith("pan25"):
        found = {record.suspicious: record.decision for record in read_decisions(tmp_path / "out/decisions.jsonl")}
        assert [one for one, positive in found.items() if not positive] == [Path(EMPTY).stem]


@pytest.mark.parametrize("name", list(ENTRIES)[:1])
def test_as_it_stands_it_asks_for_a_gpu_and_writes_nothing(name: str, run: Run, tmp_path: Path) -> None:
    done = run(name, ENTRIES[name].command)
    assert (done.returncode, done.stderr.count("\n")) == (2, 1), done.stderr
    assert re.match("error: (no GPU was found|torch .* cannot use cuda)", done.stderr)
    assert not visible(tmp_path / "out")


@pytest.mark.long
def test_tira_run(docker: Docker, image: str, pairs: Path, open_folder: Callable[[str], Path]) -> None:
    from tira.check_format import FormatMsgType, check_format

    output = open_folder("out")
    command = read_manifest(ROOT / "tira.yml")["pan25-offline"].command
    where = ["--input-directory", str(pairs), "--output-directory", str(output), "--image", image]
    done = subprocess.run(
        [Path(sys.executable).parent / "tira-run", *where, "--fail-if-output-is-empty", "--command", command],
        env=docker.environment,  # type: ignore[attr-defined]
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr[-2000:]
    assert check_format(output, "text-alignment-features", None)[0] == FormatMsgType.OK
    assert check_format(output / "ir-metadata.yml", "ir_metadata", None)[0] == FormatMsgType.OK


@pytest.mark.long
@pytest.mark.parametrize("name", ["pan25-offline", "pan26-offline", "pan26-leaderboard"])
def test_dry_run_of_a_submission(
    name: str, docker: Docker, base_image: str, pairs: Path, retrieval: Path, tmp_path: Path
) -> None:
    """The leaderboard's with stand-ins in the Hugging Face cache, which the client mounts, and without a GPU."""
    repository, entry = copy_repository(tmp_path / "repository"), read_manifest(ROOT / "tira.yml")[name]
    more = {}
    if name == "pan26-leaderboard":
        write_profile(
            entry.profile, repository / "pan_scdg" / "profiles" / f"{entry.profile}.toml", retrieval={"scored": 2}
        )
        manifest = repository / "tira.yml"
        manifest.write_text(manifest.read_text("utf-8").replace("--device cuda", "--device cpu"), encoding="utf-8")
        more = {"HF_HUB_CACHE": str(write_hub(tmp_path / "hub", [entry.profile]))}
    source, output_format = (pairs, "text-alignment-features") if name.startswith("pan25") else (retrieval, "run.txt")
    said = dry_run(name, output_format, source, commit_all(repository), docker, base_image, tmp_path, **more)
    for model in list_repositories(entry.profile) if more else ():
        assert f"{model} from huggingface cache at {COMMIT[:12]}" in said


def dry_run(
    name: str, output_format: str, source: Path, repository: Path, docker: Docker, base: str, scratch: Path, **more: str
) -> str:
    """Make a dry run and return what it said; the client reads from its cache what it would ask the server."""
    entry = read_manifest(ROOT / "tira.yml")[name]
    record = {
        "id": entry.dataset,
        "display_name": entry.dataset,
        "default_task": entry.task,
        "ir_datasets_id": None,
        "is_confidential": False,
        "is_deprecated": False,
        "mirrors": {"inputs": {"local": "local"}},
        "format": [output_format],
        "format_configuration": None,
    }
    answers = scratch / "home" / ".archived" / "v1" / "datasets"
    answers.mkdir(parents=True)
    (answers / "all").write_text(json.dumps([record]), encoding="utf-8")
    (scratch / "temporary").mkdir()
    places = {"TIRA_CACHE_DIR": scratch / "home", "TIRA_INPUT_DATASET": source, "TMPDIR": scratch / "temporary"}
    before = images(docker)
    done = subprocess.run(
        [
            *(sys.executable, ROOT / "entrypoint.py", "tira", "dry-run", name),
            *("--build-args", f"--build-arg BASE_IMAGE={base}"),
        ],
        cwd=repository,
        env={
            **docker.environment,  # type: ignore[attr-defined]
            **{key: str(place) for key, place in places.items()},
            "TERM": "xterm",
            **more,
        },
        capture_output=True,
        text=True,
    )
    for tag in {tag for tag in images(docker) - before if TEST_IMAGE not in tag}:  # other tests make images, too
        docker("rmi", "--force", tag, check=False)
    said = done.stdout + done.stderr
    assert done.returncode == 0, said[-3000:]
    assert f"code-submission --dry-run --path {repository}" in done.stderr
    return said


def copy_repository(folder: Path) -> Path:
    """Copy all files of this work tree that git does not ignore."""
    listed = ["git", "ls-files", "--cached", "--others", "--exclude-standard", "-z"]
    names = subprocess.run(listed, cwd=ROOT, check=True, capture_output=True, text=True).stdout.split("\0")
    for name in filter(None, names):
        if (ROOT / name).is_file():
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            (folder / name).write_bytes((ROOT / name).read_bytes())
    return folder


def commit_all(folder: Path) -> Path:
    """Make a folder a repository with one commit, and a remote that is never asked."""
    author = ["-c", "user.name=nobody", "-c", "user.email=nobody@localhost"]
    for words in (
        ["init", "--quiet"],
        ["add", "--all"],
        [*author, "commit", "--quiet", "--message", "all"],
        ["remote", "add", "origin", "https://localhost/none.git"],
    ):
        subprocess.run(["git", *words], cwd=folder, check=True, capture_output=True)
    return folder


def images(docker: Docker) -> set[str]:
    """Return the names of all images."""
    return set(docker("images", "--format", "{{.Repository}}:{{.Tag}}").stdout.split())
