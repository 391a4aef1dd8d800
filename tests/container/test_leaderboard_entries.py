"""The leaderboard's commands of tira.yml in the image, on stand-ins for checkpoints, and TIRA's check of the output.

What TIRA does: the command in a shell, both folders in variables, models read-only where the Hugging Face cache is, no
network. Without a GPU the command has another device, and its profile other arithmetic; see ``tests.stand_ins``.
"""

import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from pan_scdg.jobs.tira import read_manifest
from pan_scdg.pan.detections import read_decisions
from tests.container.conftest import CLOSED, ROOT, Docker, visible
from tests.stand_ins import COMMIT, list_repositories, write_hub, write_profile

pytestmark = pytest.mark.container
ENTRIES = {name: entry for name, entry in read_manifest(ROOT / "tira.yml").items() if name.endswith("leaderboard")}
FORMATS = {"pan25-leaderboard": "text-alignment-features", "pan26-leaderboard": "run.txt"}
SHIPPED = "/app/pan_scdg/profiles"
RULE = {"q": 10, "threshold": -1.0}
"""Of pairs, where `calibrate` would write it; every pair that can be scored is positive."""
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
PARAMETERS = [
    pytest.param(*row, id=row[1], marks=[pytest.mark.long] * (n >= len(ENTRIES))) for n, row in enumerate(ROWS)
]

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
    path = write_profile(profile, tmp_path / f"{profile}.toml", pairs=RULE, retrieval={"scored": 2})
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
        found = {
            record["suspicious"]: record["decision"] for record in read_decisions(tmp_path / "out/decisions.jsonl")
        }
        assert [one for one, positive in found.items() if not positive] == [Path(EMPTY).stem]


@pytest.mark.parametrize("name", list(ENTRIES)[:1])
def test_as_it_stands_it_asks_for_a_gpu_and_writes_nothing(name: str, run: Run, tmp_path: Path) -> None:
    done = run(name, ENTRIES[name].command)
    assert (done.returncode, done.stderr.count("\n")) == (2, 1), done.stderr
    assert done.stderr.startswith("error: no GPU was found")
    assert not visible(tmp_path / "out")
