"""``models fetch`` against a hub on this machine: the fetched files, the lock, and the errors."""

import json
import os
import re
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from pan_scdg.bundled import MODEL_CACHE_VARIABLE
from pan_scdg.cli import run_command
from pan_scdg.errors import UserError
from pan_scdg.models import fetch as fetch_module
from pan_scdg.models.catalogue import CATALOGUE
from pan_scdg.models.lock import LOCK, Locked, read_lock
from tests.local_hub import LocalHub, serving, sha256

ROOT = Path(__file__).parents[2]
PROFILE = Path(__file__).parents[1] / "profiles" / "small.toml"
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

Fetch = Callable[..., "subprocess.CompletedProcess[str]"]


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv(MODEL_CACHE_VARIABLE, str(tmp_path / "cache"))
    return tmp_path / "cache"


@pytest.fixture
def hub(tiny_folder: Callable[[str], Path]) -> Iterator[LocalHub]:
    files = {p.name: p.read_bytes() for p in sorted(tiny_folder("qwen3").iterdir())}
    with serving(LocalHub(REPOSITORY, COMMIT, {**files, **MORE, **FORBIDDEN})) as found:
        yield found


@pytest.fixture
def start(hub: LocalHub, cache: Path, tmp_path: Path) -> Callable[..., "subprocess.Popen[str]"]:
    """Return a function that starts the command in a process: the library reads its settings when imported."""

    def call(name: str = NAME, revision: str = "main", **more: str) -> "subprocess.Popen[str]":
        kept = {k: v for k, v in os.environ.items() if not k.startswith("HF_") and not k.lower().endswith("_proxy")}
        own = {
            "HF_ENDPOINT": hub.endpoint,
            "HF_HOME": str(tmp_path / "hf"),
            "NO_PROXY": "*",
            MODEL_CACHE_VARIABLE: str(cache),
        }
        command = [sys.executable, "entrypoint.py", "models", "fetch", name, "--revision", revision]
        pipe = subprocess.PIPE
        return subprocess.Popen(command, cwd=ROOT, env={**kept, **own, **more}, stdout=pipe, stderr=pipe, text=True)

    return call


@pytest.fixture
def fetch(start: Callable[..., "subprocess.Popen[str]"]) -> Fetch:
    """Return a function that runs the command to its end."""

    def call(*arguments: str, **more: str) -> "subprocess.CompletedProcess[str]":
        with start(*arguments, **more) as process:
            out, err = process.communicate(timeout=120)
        return subprocess.CompletedProcess(process.args, process.returncode, out, err)

    return call


def wanted(hub: LocalHub) -> dict[str, bytes]:
    return {name: data for name, data in hub.files.items() if name not in FORBIDDEN}


def held(folder: Path) -> dict[str, bytes]:
    return {p.relative_to(folder).as_posix(): p.read_bytes() for p in folder.rglob("*") if p.is_file()}


def refused(done: "subprocess.CompletedProcess[str]", cache: Path) -> str:
    """Return the only line of a refusal, after which nothing has its final name and nothing is locked."""
    assert (done.returncode, done.stdout, done.stderr.count("\n")) == (2, "", 1), done.stderr
    assert not (cache / NAME).exists()
    assert not (cache / LOCK).exists()
    return done.stderr


def test_a_whole_model_comes_without_what_could_hold_code_and_is_locked(
    fetch: Fetch, hub: LocalHub, cache: Path
) -> None:
    done = fetch()
    assert (done.returncode, done.stderr) == (0, "")
    assert held(cache / NAME) == wanted(hub)
    assert hub.fetched() == set(wanted(hub)), "what is forbidden is not even asked for"
    assert sorted(p.name for p in cache.iterdir()) == [NAME, LOCK], "no partial folder, no notes of the library"
    digests = {name: sha256(data) for name, data in wanted(hub).items()}
    assert read_lock() == {NAME: Locked(repository=REPOSITORY, revision=COMMIT, files=digests)}
    assert f"{REPOSITORY} at {COMMIT}, {len(digests)} files" in done.stdout
    assert "licence: Apache-2.0" in done.stdout
    assert hub.seen == {None}


def test_what_is_there_is_compared_and_not_fetched_again(fetch: Fetch, hub: LocalHub, cache: Path) -> None:
    assert fetch().returncode == 0
    (cache / LOCK).unlink()
    hub.asked.clear()
    again = fetch(revision=COMMIT)
    assert (again.returncode, hub.fetched()) == (0, set())
    assert f"already in {cache / NAME}" in again.stdout
    assert read_lock()[NAME].revision == COMMIT
    (cache / NAME / "config.json").write_text("{}")
    other = fetch()
    assert (other.returncode, hub.fetched()) == (2, set())
    assert "config.json is not that of the revision main; move the folder away" in other.stderr
    assert (cache / NAME / "config.json").read_text() == "{}"


def test_a_cut_connection_goes_on_where_it_broke(fetch: Fetch, hub: LocalHub, cache: Path) -> None:
    # the library keeps whole blocks of 10 MiB
    hub.files["model-2.safetensors"] = bytes(range(256)) * (88 << 10)
    hub.cut["model-2.safetensors"] = 15 << 20
    said = refused(fetch(), cache)
    assert "the connection broke" in said
    assert "give the same command again" in said
    hub.cut.clear()
    hub.asked.clear()
    assert fetch().returncode == 0
    assert held(cache / NAME) == wanted(hub)
    assert ("GET", "model-2.safetensors", f"bytes={10 << 20}-") in hub.asked
    assert "config.json" not in hub.fetched(), "what was whole is not fetched again"


def test_a_fetch_that_is_stopped_ends_at_once_and_goes_on(
    fetch: Fetch, hub: LocalHub, cache: Path, start: Callable[..., "subprocess.Popen[str]"]
) -> None:
    hub.cut["model.safetensors"], hub.stalls = 1000, True
    with start() as process:
        assert hub.stalled.wait(60)
        process.send_signal(signal.SIGTERM)
        _, said = process.communicate(timeout=8)  # the library would wait ten seconds for the hub
        hub.released.set()
    assert (process.returncode, said) == (3, "error: stopped; run the same command again to continue\n")
    assert not (cache / NAME).exists()
    hub.cut.clear()
    assert fetch().returncode == 0
    assert held(cache / NAME) == wanted(hub)


def test_a_partial_folder_of_another_revision_leaves_nothing_behind(fetch: Fetch, hub: LocalHub, cache: Path) -> None:
    hub.damaged["model.safetensors"] = bytes(len(hub.files["model.safetensors"]))
    refused(fetch(), cache)
    hub.damaged.clear()
    hub.commit = COMMIT[::-1]
    del hub.files["tekken.json"]
    hub.files["merges.txt"] = b"other merges\n"
    assert fetch().returncode == 0
    assert held(cache / NAME) == wanted(hub)
    assert read_lock()[NAME].revision == COMMIT[::-1]


@pytest.mark.parametrize("name", ["model.safetensors", "config.json"])
def test_a_damaged_file_is_not_taken(fetch: Fetch, hub: LocalHub, cache: Path, name: str) -> None:
    data = hub.files[name]
    hub.damaged[name] = data[:-1] + bytes([data[-1] ^ 1])  # of the same size: only a digest shows it
    assert f"files arrived damaged, {name} first; give the same command again" in refused(fetch(), cache)
    hub.damaged.clear()
    hub.asked.clear()
    assert fetch().returncode == 0
    assert held(cache / NAME) == wanted(hub)
    assert hub.fetched() == {name}


def test_a_gated_model_is_explained_and_a_token_appears_nowhere(
    fetch: Fetch, hub: LocalHub, cache: Path, tmp_path: Path
) -> None:
    hub.repository, hub.token = "meta-llama/Llama-3.1-8B", TOKEN
    without = refused(fetch("Llama-3.1-8B"), cache)
    assert "meta-llama/Llama-3.1-8B is gated: the hub gives it to known accounts only; accept the licence" in without
    assert "HF_TOKEN" in without
    wrong = refused(fetch("Llama-3.1-8B", HF_TOKEN="hf_wrong"), cache)
    assert "refuses the token in HF_TOKEN" in wrong
    right = fetch("Llama-3.1-8B", HF_TOKEN=TOKEN)
    assert (right.returncode, right.stderr) == (0, "")
    assert f"Bearer {TOKEN}" in hub.seen
    written = b"".join(p.read_bytes() for p in tmp_path.rglob("*") if p.is_file())
    for token in (TOKEN, "hf_wrong"):
        assert token.encode() not in written
        assert token not in without + wrong + right.stdout


def test_a_token_that_is_none(fetch: Fetch, cache: Path) -> None:
    said = refused(fetch(HF_TOKEN="hf_名前"), cache)
    assert said == "error: HF_TOKEN contains characters that no token has; copy the token again\n"


def test_an_unknown_revision_and_an_unknown_repository(fetch: Fetch, hub: LocalHub, cache: Path) -> None:
    assert f"{REPOSITORY} has no revision 'v9'; name a commit" in refused(fetch(revision="v9"), cache)
    hub.repository = "elsewhere/model"
    assert f"the hub has no repository {REPOSITORY}" in refused(fetch(), cache)


def test_without_a_network(fetch: Fetch, cache: Path) -> None:
    assert "the hub cannot be reached" in refused(fetch(HF_ENDPOINT="http://127.0.0.1:9"), cache)
    assert "HF_HUB_OFFLINE is set" in refused(fetch(HF_HUB_OFFLINE="1"), cache)


def test_a_cache_that_cannot_be_written(fetch: Fetch, tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    said = refused(fetch(PAN_SCDG_MODEL_CACHE=str(tmp_path / "file")), tmp_path)
    assert "cannot be written: Not a directory; name another cache with PAN_SCDG_MODEL_CACHE" in said


def test_a_partial_folder_is_never_taken_for_a_model_without_network(fetch: Fetch, hub: LocalHub, cache: Path) -> None:
    hub.cut["model.safetensors"] = 10
    refused(fetch(), cache)
    assert (cache / f".{NAME}.{COMMIT}.part").is_dir()
    refused(fetch(HF_ENDPOINT="http://127.0.0.1:9"), cache)


@pytest.mark.parametrize(
    ("lost", "what"), [("model.safetensors", "weights in safetensors format"), ("config.json",) * 2]
)
def test_a_revision_without_safe_weights_is_refused(
    fetch: Fetch, hub: LocalHub, cache: Path, lost: str, what: str
) -> None:
    del hub.files[lost]
    said = refused(fetch(), cache)
    assert f"{REPOSITORY} has no {what} at the revision main" in said
    assert hub.fetched() == set()


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["bge-m3"], "needs a revision; give --revision"),
        (["terrier", "--revision", "main"], "leave out --revision"),
        (["scdg-mini", "--revision", "main"], "is bundled; leave it out"),
        (["Qwen9", "--revision", "main"], "no bundled profile uses a model 'Qwen9'; give one of: Qwen3-0.6B-Base"),
        (["SmolLM2"], "uses a model 'SmolLM2'; did you mean 'SmolLM2-135M-Instruct'? `models list`"),
    ],
)
def test_what_cannot_be_fetched(
    arguments: list[str], says: str, cache: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run_command(["models", "fetch", *arguments]) == 2
    assert says in capsys.readouterr().err


def test_without_a_revision_the_commit_of_the_catalogue_is_asked_for(
    hub: LocalHub, cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = []
    monkeypatch.setattr(fetch_module, "_list_files", lambda _published, revision: asked.append(revision) or stop())
    with pytest.raises(UserError, match="enough"):
        fetch_module.fetch_model(NAME, None)
    assert asked == [CATALOGUE[NAME].commit]
    commits = {name: model.commit for name, model in CATALOGUE.items() if model.commit is not None}
    assert all(re.fullmatch("[0-9a-f]{40}", commit) for commit in commits.values())
    assert len(set(commits.values())) == len(commits)


def stop() -> None:
    raise UserError("enough", "stop")


def test_a_lock_keeps_what_it_says_of_other_models(fetch: Fetch, hub: LocalHub, cache: Path) -> None:
    assert fetch().returncode == 0
    hub.repository = "Qwen/Qwen3-1.7B-Base"
    assert fetch("Qwen3-1.7B-Base").returncode == 0
    assert sorted(read_lock()) == ["Qwen3-0.6B-Base", "Qwen3-1.7B-Base"]


def test_verify_holds_what_was_fetched_against_the_lock(
    fetch: Fetch, cache: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    profile = tmp_path / "fetched.toml"
    profile.write_text(PROFILE.read_text().replace('name = "tiny"', f'name = "{NAME}"'))

    def verify() -> tuple[int, str, str]:
        return run_command(["models", "verify", "--profile", str(profile)]), *capsys.readouterr()

    assert fetch().returncode == 0
    code, out, _ = verify()
    assert code == 0
    assert re.search(rf"^lock +\d+ files as locked, {REPOSITORY} at {COMMIT}$", out, re.M)
    weights = cache / NAME / "model.safetensors"
    data = bytearray(weights.read_bytes())
    data[-1] ^= 1
    weights.write_bytes(data)
    (cache / NAME / "merges.txt").unlink()
    (cache / NAME / "model-9.safetensors").write_bytes(bytes(data))
    code, out, err = verify()
    assert code == 2
    assert re.search(r"^lock +does not fit$", out, re.M)
    starts = [
        f"{cache / NAME / 'merges.txt'}: the file is missing, but the lock file lists it",
        f"{weights}: SHA-256 is ",
        f"{cache / NAME / 'model-9.safetensors'}: the lock file does not list this file",
    ]
    lines = [line.removeprefix("error: ") for line in err.splitlines()]
    assert [line for line in lines if any(line.startswith(start) for start in starts)] == lines
    assert len(lines) == 3
    (cache / LOCK).unlink()
    assert re.search(r"^lock +unpinned$", verify()[1], re.M)
    (cache / LOCK).write_text(json.dumps({"models": {NAME: {"repository": REPOSITORY}}}))
    assert f"{cache / LOCK}: is not as this program wrote it: " in verify()[2]
    shutil.rmtree(cache)
