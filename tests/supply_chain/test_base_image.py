"""The base image: its name in the Dockerfile, and the script that adds the digest which the registry names."""

import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest

from tools.supply_chain.locks import ROOT

DIGEST = "sha256:" + "0123456789abcdef" * 4
NEWER = "sha256:" + "fedcba9876543210" * 4
SCRIPT = Path("tools/supply_chain/pin_base_image.sh")


@pytest.fixture
def clone(tmp_path: Path) -> Path:
    (tmp_path / SCRIPT).parent.mkdir(parents=True)
    shutil.copy(ROOT / SCRIPT, tmp_path / SCRIPT)
    (tmp_path / "Dockerfile").write_text("# A\nARG BASE_IMAGE=python:3.11-slim\nFROM ${BASE_IMAGE}\n")
    return tmp_path


def pin(clone: Path, answer: str) -> "subprocess.CompletedProcess[str]":
    """Run the script with an engine that answers ``answer`` when it is asked for the digest."""
    docker = clone / "bin" / "docker"
    docker.parent.mkdir(exist_ok=True)
    docker.write_text(f'#!/bin/sh\necho "$@" >> "{clone}/asked"\n[ "$1" = pull ] || echo "{answer}"\n')
    docker.chmod(0o755)
    environment = {**os.environ, "PATH": f"{docker.parent}:{os.environ['PATH']}"}
    return subprocess.run(["bash", str(SCRIPT)], cwd=clone, env=environment, capture_output=True, text=True)


def test_the_default_is_a_tag_with_a_digest() -> None:
    text = (ROOT / "Dockerfile").read_text(encoding="utf-8")
    assert re.findall(r"(?m)^ARG BASE_IMAGE=python:3\.1[0-2]-slim@sha256:[0-9a-f]{64}$", text)


def test_the_digest_is_written_behind_the_tag_and_renewed(clone: Path) -> None:
    for digest in (DIGEST, NEWER):
        assert pin(clone, f"python@{digest}").returncode == 0
        assert f"\nARG BASE_IMAGE=python:3.11-slim@{digest}\nFROM" in (clone / "Dockerfile").read_text()
    assert set((clone / "asked").read_text().splitlines()) == {
        "pull --quiet python:3.11-slim",
        "image inspect --format {{index .RepoDigests 0}} python:3.11-slim",
    }


def test_what_is_no_digest_is_not_written(clone: Path) -> None:
    before = (clone / "Dockerfile").read_text()
    done = pin(clone, "python@latest")
    assert (done.returncode, done.stderr.count("\n")) == (1, 1)
    assert (clone / "Dockerfile").read_text() == before
