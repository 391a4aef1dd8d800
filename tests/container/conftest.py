"""A real engine, the image built once, and small inputs of both jobs."""

import gzip
import json
import os
import re
import shutil
import subprocess
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path

import pytest

from pan_scdg.commit import find_commit
from tests.conftest import IMAGE_VARIABLE

ROOT = Path(__file__).parents[2]
ENGINE = ROOT.parent / "shared" / "engine" / "start.sh"
TEST_IMAGE = "pan_scdg-test"
BASE_VARIABLE = "PAN_SCDG_TEST_BASE_IMAGE"
EXAMPLES = ROOT / "examples"
PAIRS, QUERIES, DOCUMENTS = 3, 3, 12
CHARACTERS = 2500

LIBRARIES = ("OMP_NUM_THREADS", "OPENBLAS_CORETYPE", "OPENBLAS_L2_SIZE")
ALIKE = tuple(word for name in LIBRARIES for word in ("--env", name))
"""With the threads and the instructions that the libraries of a run outside use, which change last digits."""
CLOSED = ("--network", "none", "--read-only", "--tmpfs", "/tmp", "--cap-drop", "ALL", *ALIKE)
"""As closed as an engine can make it."""

Docker = Callable[..., "subprocess.CompletedProcess[str]"]


@pytest.fixture(scope="session")
def docker() -> Docker:
    """Return a function that calls docker, ``docker("images")``; skip without an engine."""
    environment = dict(os.environ)
    if ENGINE.is_file():
        started = subprocess.run(["bash", str(ENGINE)], capture_output=True, text=True)
        if started.returncode:  # an engine that is there and does not start is a fault, not a reason to skip
            pytest.fail(f"the engine does not start: {started.stderr[-500:]}")
        found = re.findall(r"(?:^|[;\s])export (\w+)=['\"]?([^'\";\n]*)", started.stdout)
        environment |= dict(found)
    elif BASE_VARIABLE not in environment:
        pytest.skip(f"no engine at {ENGINE.name}; with one of your own set {BASE_VARIABLE} to a base image")

    def call(*arguments: object, check: bool = True, **options: object) -> "subprocess.CompletedProcess[str]":
        words = ["docker", *map(str, arguments)]
        done = subprocess.run(words, env=environment, capture_output=True, text=True, **options)  # type: ignore[call-overload]
        assert not check or done.returncode == 0, done.stderr[-2000:]
        return done  # type: ignore[no-any-return]

    call.environment = environment  # type: ignore[attr-defined]
    return call


@pytest.fixture(scope="session")
def base_image() -> str:
    return os.environ.get(BASE_VARIABLE, "localhost/python:3.11-slim-test")


@pytest.fixture(scope="package")
def image(docker: Docker, base_image: str) -> Iterator[str]:
    """Return the name of the image of this work tree; what is made here is removed after the last test."""
    tag = os.environ.get(IMAGE_VARIABLE, f"{TEST_IMAGE}-{os.getpid()}")
    arguments = ("--build-arg", f"BASE_IMAGE={base_image}", "--build-arg", f"REVISION={find_commit()}")
    docker("build", *arguments, "-t", tag, ROOT)
    yield tag
    if IMAGE_VARIABLE in os.environ:
        return
    docker("rmi", "--force", tag, check=False)
    docker("image", "prune", "--force", check=False)


@pytest.fixture(scope="session")
def pairs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the first pairs of the examples, shortened; two are positive, as TIRA's check requires."""
    source, folder = EXAMPLES / "pan25-pairs" / "test", tmp_path_factory.mktemp("pairs")
    lines = (source / "pairs").read_text(encoding="utf-8").splitlines()[:PAIRS]
    (folder / "pairs").write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    for side, column in (("susp", 0), ("src", 1)):
        (folder / side).mkdir()
        for name in {line.split()[column] for line in lines}:
            text = (source / side / name).read_text(encoding="utf-8")[:CHARACTERS]
            (folder / side / name).write_text(text, encoding="utf-8")
    folder.chmod(0o755)  # for the user of the container
    return folder


@pytest.fixture(scope="session")
def retrieval(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the first documents and queries of the examples, shortened."""
    source, folder = EXAMPLES / "pan26-retrieval", tmp_path_factory.mktemp("retrieval")
    with gzip.open(source / "corpus.jsonl.gz", "rt", encoding="utf-8") as file:
        documents = [json.loads(line) for line, _ in zip(file, range(DOCUMENTS))]
    with gzip.open(folder / "corpus.jsonl.gz", "wt", encoding="utf-8") as packed:
        packed.writelines(json.dumps({**d, "default_text": d["default_text"][:900]}) + "\n" for d in documents)
    asked = [json.loads(line) for line in (source / "queries.jsonl").read_text(encoding="utf-8").splitlines()[:QUERIES]]
    with open(folder / "queries.jsonl", "w", encoding="utf-8") as plain:
        plain.writelines(json.dumps({**q, "query": q["query"][:700]}) + "\n" for q in asked)
    folder.chmod(0o755)
    return folder


@pytest.fixture(scope="package")
def finished(
    docker: Docker, image: str, tmp_path_factory: pytest.TempPathFactory
) -> Callable[[Path], dict[str, bytes]]:
    """Return ``finished(input)``: the files that an undisturbed container writes, by name."""

    @cache
    def files(source: Path) -> dict[str, bytes]:
        output = tmp_path_factory.mktemp("finished")
        output.chmod(0o777)
        done = in_container(docker, image, source, output)
        assert done.returncode == 0, done.stderr
        assert done.stderr.isascii()
        return visible(output)

    return files


@pytest.fixture
def open_folder(tmp_path: Path) -> Callable[[str], Path]:
    """Return a function that makes a folder in which any user of the container may write."""

    def made(name: str) -> Path:
        (tmp_path / name).mkdir()
        (tmp_path / name).chmod(0o777)
        return tmp_path / name

    return made


def copied_context(folder: Path) -> Path:
    """Copy the build context of this work tree into ``folder``, without models that a user put there for images."""
    ignore = (ROOT / ".dockerignore").read_text(encoding="utf-8").splitlines()
    names = ["Dockerfile", ".dockerignore", *(line[1:] for line in ignore if line[:1] == "!")]
    for name in names:
        if name == "model_cache/image":
            continue
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        if (ROOT / name).is_dir():
            shutil.copytree(ROOT / name, folder / name, ignore=shutil.ignore_patterns("__pycache__"))
        else:
            shutil.copy2(ROOT / name, folder / name)
    return folder


def in_container(
    docker: Docker, image: str, source: Path, output: Path, *more: str
) -> "subprocess.CompletedProcess[str]":
    """Run the image as another user than root, with everything closed that can be."""
    mounts = ("-v", f"{source}:/in:ro", "-v", f"{output}:/out")
    where = ("--input", "/in", "--output", "/out")
    return docker("run", "--rm", *CLOSED, "--user", "1000", *mounts, image, "run", *where, *more, check=False)


def visible(folder: Path) -> dict[str, bytes]:
    """Return the bytes of the visible files of a result, without the metadata, which differ from run to run."""
    files = {p.name: p.read_bytes() for p in folder.iterdir() if not p.name.startswith((".", "ir-metadata"))}
    if "job.json" in files:
        job = json.loads(files["job.json"])
        job["files"].pop("ir-metadata.yml", None)
        job["packages"].pop("python", None)  # of the base image
        files["job.json"] = json.dumps(job).encode()
    return files
