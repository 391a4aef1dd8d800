"""Models inside the image, fetched by its build or before it, and the order in which a container looks for models.

The hub is one on this machine, and builds share its network. The model is a tiny one under the name of a real one.
"""

import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.container.conftest import CLOSED, ROOT, Docker, copied_context, visible
from tests.hub_cache import add_snapshot, name_main
from tests.local_hub import LocalHub, serving

pytestmark = [pytest.mark.container, pytest.mark.long]
NAME, REPOSITORY, COMMIT = "Qwen3-0.6B-Base", "Qwen/Qwen3-0.6B-Base", "a" * 40
GATED, GATED_REPOSITORY, GATED_COMMIT = "Llama-3.1-8B", "meta-llama/Llama-3.1-8B", "b" * 40
MOUNTED_COMMIT = "c" * 40
TOKEN = "hf_" + "x" * 30

Build = Callable[..., "subprocess.CompletedProcess[str]"]


@pytest.fixture(scope="module")
def checkpoint(tiny_folder: Callable[[str], Path]) -> Path:
    return tiny_folder("qwen3")


@pytest.fixture(scope="module")
def hub(checkpoint: Path) -> Iterator[LocalHub]:
    files = {p.name: p.read_bytes() for p in sorted(checkpoint.iterdir())}
    with serving(LocalHub(REPOSITORY, COMMIT, files)) as found:
        yield found


@pytest.fixture(scope="module")
def context(hub: LocalHub, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a build context with a gated model, fetched with a token as the documentation says."""
    folder = copied_context(tmp_path_factory.mktemp("context"))
    with serving(LocalHub(GATED_REPOSITORY, GATED_COMMIT, hub.files, token=TOKEN)) as gated:
        own = {
            "HF_ENDPOINT": gated.endpoint,
            "HF_TOKEN": TOKEN,
            "PAN_SCDG_MODEL_CACHE": str(folder / "model_cache/image"),
        }
        command = [sys.executable, "entrypoint.py", "models", "fetch", GATED, "--revision", "main"]
        subprocess.run(command, cwd=ROOT, env=os.environ | own | {"NO_PROXY": "*"}, check=True, capture_output=True)
    partial = folder / "model_cache" / "image" / ".bge-m3.part"
    partial.mkdir()
    (partial / "model.safetensors").write_bytes(b"half of it")
    return folder


@pytest.fixture(scope="module")
def build(docker: Docker, base_image: str, image: str, hub: LocalHub, context: Path) -> Build:
    """Return ``build(models, *more)``, which builds the context on the layers of the image."""

    def call(models: str, *more: str, endpoint: str = "") -> "subprocess.CompletedProcess[str]":
        settings = {"BASE_IMAGE": base_image, "HF_ENDPOINT": endpoint or hub.endpoint, "MODELS": models}
        words = [word for name, value in settings.items() for word in ("--build-arg", f"{name}={value}")]
        return docker("build", "--network", "host", "--force-rm", *words, *more, context, check=False)

    return call


@pytest.fixture(scope="module")
def baked(docker: Docker, image: str, build: Build) -> Iterator[str]:
    tag = f"{image}-models"
    done = build(f"scdg-mini,{NAME}@main", "--tag", tag)
    assert done.returncode == 0, done.stderr
    yield tag
    docker("rmi", "--force", tag, check=False)


@pytest.fixture
def run(
    docker: Docker, pairs: Path, tmp_path: Path, open_folder: Callable[[str], Path]
) -> Callable[..., tuple["subprocess.CompletedProcess[str]", Path]]:
    """Return ``run(image, "out", mounts, *more)``, which scores a pair with the model and returns the folder."""
    profile = tmp_path / "small.toml"
    text = (ROOT / "tests" / "profiles" / "small.toml").read_text(encoding="utf-8")
    profile.write_text(text.replace('name = "tiny"', f'name = "{NAME}"'), encoding="utf-8")

    def call(
        image: str, name: str, mounts: dict[str, Path], *more: str
    ) -> tuple["subprocess.CompletedProcess[str]", Path]:
        output = open_folder(name)
        read = {"/in": pairs, "/small.toml": profile, **mounts}
        volumes = [word for place, source in read.items() for word in ("-v", f"{source}:{place}:ro")]
        where = ("--input", "/in", "--output", "/out", "--profile", "/small.toml", "--limit", "1")
        done = docker(
            "run", "--rm", *CLOSED, *volumes, "-v", f"{output}:/out", image, "run", *where, *more, check=False
        )
        return done, output

    return call


def place_said(done: "subprocess.CompletedProcess[str]") -> str:
    """Return the line of a run that says where its model was found."""
    assert done.returncode == 0, done.stderr
    (line,) = [line for line in done.stderr.splitlines() if line.startswith("models: ")]
    return line


def test_a_fetched_and_a_prepared_model_are_in_the_image_without_the_token(
    docker: Docker, baked: str, run: Callable[..., tuple["subprocess.CompletedProcess[str]", Path]]
) -> None:
    script = "ls model_cache; find / -xdev -name '.*.part'; grep -rl hf_xxx /app/model_cache /root /tmp; true"
    listed = docker("run", "--rm", *CLOSED, "--entrypoint", "sh", baked, "-c", script).stdout.split()
    assert {NAME, GATED, "scdg-mini"} <= set(listed)
    assert not [name for name in listed if "/" in name]
    assert TOKEN not in docker("history", "--no-trunc", baked).stdout
    done, output = run(baked, "out", {})
    assert place_said(done).startswith(f"models: {NAME} from model_cache")
    assert "decisions.jsonl" in visible(output)


def test_in_which_order_a_container_looks_for_a_model(
    image: str,
    checkpoint: Path,
    run: Callable[..., tuple["subprocess.CompletedProcess[str]", Path]],
    tmp_path: Path,
) -> None:
    nothing, output = run(image, "nothing", {})
    assert (nothing.returncode, nothing.stderr.count("\n"), visible(output)) == (2, 1, {})
    own = f"/app/model_cache/{NAME}"
    assert nothing.stderr.startswith(
        f"error: {own}: model {NAME}: the folder does not exist, and /root/.cache/huggingface/hub "
    )
    for way in (f"put the checkpoint into {own}", f"--mount-hf-model {REPOSITORY}", "give its folder as the model"):
        assert way in nothing.stderr
    snapshot = add_snapshot(tmp_path / "hub", REPOSITORY, MOUNTED_COMMIT, checkpoint)
    name_main(snapshot, MOUNTED_COMMIT)
    repository = snapshot.parents[1]  # as TIRA mounts it
    mounts = {f"/root/.cache/huggingface/hub/{repository.name}": repository}
    said = place_said(run(image, "mounted", mounts)[0])
    assert said == f"models: {NAME} from huggingface cache at {MOUNTED_COMMIT[:12]}, Apache-2.0"
    mounts[own] = checkpoint
    assert place_said(run(image, "own", mounts)[0]) == f"models: {NAME} from model_cache, Apache-2.0"
    mounts["/given"] = checkpoint
    said = place_said(run(image, "given", mounts, "--model", "/given")[0])
    assert said == "models: /given from --model, licence not known here"


@pytest.mark.parametrize(
    ("models", "endpoint", "line"),
    [
        (f"{NAME}@v9", "", f"{REPOSITORY} has no revision 'v9'. Name a commit, branch or tag of the repository"),
        (f"{NAME}@main", "http://127.0.0.1:9", "the hub cannot be reached, or the connection broke: "),
        (f"{GATED}@main", "", f"{GATED} in MODELS is gated, but a build has no token. Fetch it with"),
    ],
    ids=["no-revision", "no-hub", "gated"],
)
def test_a_build_that_cannot_have_its_models_ends_with_one_line(
    build: Build, models: str, endpoint: str, line: str
) -> None:
    done = build(models, "--target", "models", endpoint=endpoint)
    assert done.returncode != 0
    said = done.stdout + done.stderr
    assert line in said
    assert "Traceback" not in said
