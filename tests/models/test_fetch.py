"""``models fetch`` against a hub on this machine, and the models of an image."""

import os
import re
import shlex
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from pan_scdg.bundled import MODEL_CACHE_VARIABLE
from pan_scdg.cli import run_command
from pan_scdg.models.catalogue import CATALOGUE, REVISION_FILE
from pan_scdg.models.fetch import main
from pan_scdg.models.find import find_model
from tests.local_hub import LocalHub, serving

ROOT = Path(__file__).parents[2]
NAME, REPOSITORY, COMMIT = "Qwen3-0.6B-Base", "Qwen/Qwen3-0.6B-Base", "0123456789abcdef0123456789abcdef01234567"
TOKEN = "hf_" + "x" * 30
FORBIDDEN = {
    "README.md": b"# a model\n",
    "modeling_own.py": b"raise SystemExit\n",
    "pytorch_model.bin": b"a pickle",
    "sparse_linear.pt": b"a pickle",
    "consolidated.safetensors": b"the same weights once more",
    "original/params.json": b"{}",
    "onnx/config.json": b"{}",
    ".gitattributes": b"",
    "chat_template.jinja": b"",
    "[a]*.json": b"{}",
    "../outside.json": b"{}",
}
MORE = {"merges.txt": b"#version: 0.2\n", "tekken.json": b"{}", "1_Pooling/config.json": b"{}", "spiece.model": b"\x0a"}

Start = Callable[..., "subprocess.Popen[str]"]
Fetch = Callable[..., "subprocess.CompletedProcess[str]"]


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv(MODEL_CACHE_VARIABLE, str(tmp_path / "cache"))
    return tmp_path / "cache"


@pytest.fixture
def hub(tiny_folder: Callable[[str], Path]) -> Iterator[LocalHub]:
    files = {p.name: p.read_bytes() for p in sorted(tiny_folder("qwen3").iterdir())}
    with serving(LocalHub(REPOSITORY, COMMIT, {**files, **MORE, **FORBIDDEN})) as local:
        yield local


@pytest.fixture
def start(hub: LocalHub, cache: Path, tmp_path: Path) -> Start:
    """Return a function that starts the command in a process: the library reads its settings when imported."""

    def call(name: str = NAME, revision: str = "main", **more: str) -> "subprocess.Popen[str]":
        kept = {k: v for k, v in os.environ.items() if not k.startswith("HF_") and not k.lower().endswith("_proxy")}
        own = {"HF_ENDPOINT": hub.endpoint, "HF_HOME": str(tmp_path / "hf"), "NO_PROXY": "*"}
        command = [sys.executable, "entrypoint.py", "models", "fetch", name, "--revision", revision]
        pipe, environment = subprocess.PIPE, {**kept, **own, MODEL_CACHE_VARIABLE: str(cache), **more}
        return subprocess.Popen(command, cwd=ROOT, env=environment, stdout=pipe, stderr=pipe, text=True)

    return call


@pytest.fixture
def fetch(start: Start) -> Fetch:
    """Return a function that runs the command to its end."""

    def call(*arguments: str, **more: str) -> "subprocess.CompletedProcess[str]":
        with start(*arguments, **more) as process:
            out, err = process.communicate(timeout=120)
        return subprocess.CompletedProcess(process.args, process.returncode, out, err)

    return call


def list_expected(hub: LocalHub) -> dict[str, bytes]:
    permitted = {name: data for name, data in hub.files.items() if name not in FORBIDDEN}
    return {**permitted, REVISION_FILE: f"{hub.commit}\n".encode()}


def read_folder(folder: Path) -> dict[str, bytes]:
    return {p.relative_to(folder).as_posix(): p.read_bytes() for p in folder.rglob("*") if p.is_file()}


def check_refused(done: "subprocess.CompletedProcess[str]", cache: Path) -> str:
    """Return the only line of a refusal, after which nothing has its final name."""
    assert (done.returncode, done.stdout, done.stderr.count("\n")) == (2, "", 1), done.stderr
    assert not (cache / NAME).exists()
    return done.stderr


def test_a_whole_model_without_what_could_contain_code(fetch: Fetch, hub: LocalHub, cache: Path) -> None:
    done = fetch()
    assert (done.returncode, done.stderr) == (0, "")
    assert read_folder(cache / NAME) == list_expected(hub)
    assert hub.fetched() == set(hub.files) - set(FORBIDDEN), "what is forbidden is not even requested"
    assert [p.name for p in cache.iterdir()] == [NAME], "no partial folder, no notes of the library"
    assert f"{REPOSITORY} at {COMMIT}, {len(hub.fetched())} files" in done.stdout
    assert "licence: Apache-2.0" in done.stdout
    assert hub.seen == {None}
    assert find_model(NAME) == (NAME, cache / NAME, "model_cache", COMMIT)
    hub.asked.clear()
    again = fetch()
    assert (again.returncode, hub.asked) == (2, [])
    assert f"{cache / NAME}: the folder exists already. Remove it to fetch the model again" in again.stderr


def test_a_broken_connection_continues_where_it_broke(fetch: Fetch, hub: LocalHub, cache: Path) -> None:
    # the library keeps whole blocks of 10 MiB
    hub.files["model-2.safetensors"] = bytes(range(256)) * (88 << 10)
    hub.cut["model-2.safetensors"] = 15 << 20
    refusal = check_refused(fetch(), cache)
    assert "the connection broke" in refusal
    assert "run the same command again" in refusal
    assert [p.name for p in cache.iterdir()] == [f".{NAME}.{COMMIT}.part"]
    check_refused(fetch(HF_ENDPOINT="http://127.0.0.1:9"), cache)
    hub.cut.clear()
    hub.asked.clear()
    assert fetch().returncode == 0
    assert read_folder(cache / NAME) == list_expected(hub)
    assert ("GET", "model-2.safetensors", f"bytes={10 << 20}-") in hub.asked
    assert "config.json" not in hub.fetched(), "what was whole is not fetched again"


def test_a_file_that_has_not_the_hash_that_the_hub_announces(fetch: Fetch, hub: LocalHub, cache: Path) -> None:
    hub.damaged |= (names := {"model.safetensors", "tokenizer.json"})
    for name in sorted(names):
        refusal = check_refused(fetch(), cache)
        assert f"{name} arrived damaged: its hash is " in refusal
        assert refusal.endswith(". Run the same command again; it fetches this file again.\n")
        hub.damaged.remove(name)
        hub.asked.clear()
    assert fetch().returncode == 0
    assert read_folder(cache / NAME) == list_expected(hub)
    assert hub.fetched() == {"tokenizer.json"}, "what was right is not fetched again"


def test_a_stopped_fetch_continues(fetch: Fetch, hub: LocalHub, cache: Path, start: Start) -> None:
    hub.cut["model.safetensors"], hub.stalls = 1000, True
    with start() as process:
        assert hub.stalled.wait(60)
        process.send_signal(signal.SIGTERM)
        hub.released.set()
        _, said = process.communicate(timeout=60)
    assert (process.returncode, said) == (3, "stopped: run the same command again to continue.\n")
    assert not (cache / NAME).exists()
    hub.cut.clear()
    assert fetch().returncode == 0
    assert read_folder(cache / NAME) == list_expected(hub)


def test_a_gated_model_is_explained_and_a_token_appears_nowhere(
    fetch: Fetch, hub: LocalHub, cache: Path, tmp_path: Path
) -> None:
    hub.repository, hub.token = "meta-llama/Llama-3.1-8B", TOKEN
    without = check_refused(fetch("Llama-3.1-8B"), cache)
    assert "meta-llama/Llama-3.1-8B is gated: the hub gives it to known accounts only. Accept the licence" in without
    assert "HF_TOKEN" in without
    wrong = check_refused(fetch("Llama-3.1-8B", HF_TOKEN="hf_wrong"), cache)
    assert "refuses the token in HF_TOKEN" in wrong
    right = fetch("Llama-3.1-8B", HF_TOKEN=TOKEN)
    assert (right.returncode, right.stderr) == (0, "")
    assert f"Bearer {TOKEN}" in hub.seen
    written = b"".join(p.read_bytes() for p in tmp_path.rglob("*") if p.is_file())
    for token in (TOKEN, "hf_wrong"):
        assert token.encode() not in written
        assert token not in without + wrong + right.stdout


def test_a_hub_that_lacks_the_model_or_is_not_reached(fetch: Fetch, hub: LocalHub, cache: Path, tmp_path: Path) -> None:
    assert f"{REPOSITORY} has no revision 'v9'. Name a commit" in check_refused(fetch(revision="v9"), cache)
    for lost, what in (("model.safetensors", "weights in safetensors format"), ("config.json",) * 2):
        del hub.files[lost]
        assert f"{REPOSITORY} has no {what} at the revision main" in check_refused(fetch(), cache)
    assert hub.fetched() == set()
    hub.repository = "elsewhere/model"
    assert f"the hub has no repository {REPOSITORY}" in check_refused(fetch(), cache)
    assert "the hub cannot be reached" in check_refused(fetch(HF_ENDPOINT="http://127.0.0.1:9"), cache)
    assert "HF_HUB_OFFLINE is set" in check_refused(fetch(HF_HUB_OFFLINE="1"), cache)


@pytest.mark.long  # the client tries several times
def test_a_proxy_of_the_environment_is_used(fetch: Fetch, hub: LocalHub, cache: Path) -> None:
    nobody = "http://127.0.0.1:9"
    done = fetch(NO_PROXY="", HTTP_PROXY=nobody, HTTPS_PROXY=nobody)
    assert (done.returncode, done.stderr.count("\n"), "cannot be reached" in done.stderr) == (2, 1, True), done.stderr
    assert not any(cache.glob("*/*.safetensors"))


def test_a_cache_that_cannot_be_written(fetch: Fetch, tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    refusal = check_refused(fetch(PAN_SCDG_MODEL_CACHE=str(tmp_path / "file")), tmp_path)
    assert "cannot be written: Not a directory. Name another cache with PAN_SCDG_MODEL_CACHE" in refusal


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["bge-m3"], "needs a revision. Give --revision"),
        (["terrier", "--revision", "main"], "leave out --revision"),
        (["scdg-mini", "--revision", "main"], "is bundled. Leave it out"),
        (["Qwen9", "--revision", "main"], "there is no model 'Qwen9'. Give one of: Qwen3-0.6B-Base"),
        (["Linq-Embed"], "there is no model 'Linq-Embed'. Did you mean 'Linq-Embed-Mistral'? `pan-scdg models list`"),
    ],
)
def test_what_cannot_be_fetched(
    arguments: list[str], says: str, cache: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run_command(["models", "fetch", *arguments]) == 2
    assert says in capsys.readouterr().err


def test_the_catalogue_has_commits() -> None:
    commits = [model.commit for model in CATALOGUE.values() if model.commit is not None]
    assert all(re.fullmatch("[0-9a-f]{40}", commit) for commit in commits)
    assert len(set(commits)) == len(commits) == len(CATALOGUE) - 1


@pytest.mark.parametrize(
    ("words", "says"),
    [
        ("scdg-mini@main", "scdg-mini is bundled. Leave it out"),
        (f"{NAME}@a Qwen9@b", "there is no model 'Qwen9'. Give one of: Qwen3-0.6B-Base, "),
        ("../../etc@a", "there is no model '../../etc'"),
        ("bge-m3", "bge-m3 needs a revision"),
        ("Llama-3.1-8B@main", "is gated, but a build has no token. Fetch it with HF_TOKEN into model_cache/image"),
    ],
)
def test_models_of_an_image_are_refused_before_anything_is_fetched(
    words: str, says: str, cache: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(words) == 2
    assert says in capsys.readouterr().err
    assert not cache.exists()


def test_the_stage_of_the_dockerfile_has_what_fetching_needs(hub: LocalHub, tmp_path: Path) -> None:
    text = (ROOT / "Dockerfile").read_text(encoding="utf-8").replace("\\\n", " ")
    (body,) = re.findall(r"^FROM packages AS models\n(.*?)^FROM ", text, re.M | re.S)
    for words in map(shlex.split, re.findall(r"^COPY (pan_scdg/.*)$", body, re.M)):
        for name in words[:-1]:
            (tmp_path / words[-1]).mkdir(parents=True, exist_ok=True)
            shutil.copy(ROOT / name, tmp_path / words[-1])
    kept = {k: v for k, v in os.environ.items() if not k.startswith(("HF_", "PAN_SCDG_"))}
    environment = {**kept, "HF_ENDPOINT": hub.endpoint, "HF_HOME": str(tmp_path / "hf"), "NO_PROXY": "*"}
    command = [sys.executable, "-m", "pan_scdg.models.fetch", f"scdg-mini,{NAME}@main"]
    done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=120)
    assert (done.returncode, done.stderr) == (0, "")
    assert f"{REPOSITORY} at {COMMIT}" in done.stdout
    assert read_folder(tmp_path / "model_cache" / NAME) == list_expected(hub)
