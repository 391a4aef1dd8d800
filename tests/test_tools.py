"""Set-up, locks and audit: locks agree with their lists and with what is installed, and failures say what to do."""

import hashlib
import os
import re
import shutil
import subprocess
import sys
from importlib.metadata import distributions
from pathlib import Path

import pytest
from packaging.markers import Marker
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from tools import audit
from tools.locks import ALL, LISTS, ROOT, SECTIONS, TORCH, Pin, find_lock, read_pins
from tools.renew import README, find_records, list_commands, replace_quotations

LOCK = find_lock(ALL)
TOOLS = Path(sys.prefix) / "tools"
INSTALLED = {canonicalize_name(found.metadata["Name"]): found for found in distributions()}


def applies(pin: Pin) -> bool:
    """Return True if a pin is for this Python and platform."""
    return not pin.marker or Marker(pin.marker).evaluate()


@pytest.mark.parametrize("requirements", LISTS, ids=lambda path: path.stem)
def test_a_lock_has_its_list_with_digests_and_no_address(requirements: Path) -> None:
    pins = read_pins(find_lock(requirements))
    assert {pin[:2] for pin in read_pins(requirements)} <= {pin[:2] for pin in pins}
    assert all(pin.hashes and re.fullmatch("[0-9a-f]{64}", digest) for pin in pins for digest in pin.hashes)
    assert "://" not in find_lock(requirements).read_text(encoding="utf-8")


def test_a_section_of_the_lock_is_in_order_so_that_resolving_again_changes_nothing() -> None:
    names = [(list(SECTIONS).index(pin.section), pin.name) for pin in read_pins(LOCK)]
    assert names == sorted(names)


def test_every_list_has_a_lock() -> None:
    lists = {ALL, *(ROOT / "requirements").glob("*.txt")}
    assert lists == set(LISTS)
    assert {find_lock(path) for path in lists} == {LOCK, *(ROOT / "requirements").glob("*.lock")}


def test_sections_are_those_where_installers_cut() -> None:
    assert re.findall(r"(?m)^# \[(\w+)\]", LOCK.read_text(encoding="utf-8")) == list(SECTIONS)
    for name in ("tools/setup.sh", "Dockerfile"):
        cuts = re.findall(r"# \\\[(\w+)\\\]", (ROOT / name).read_text(encoding="utf-8"))
        assert {"run", "torch", "tests"} == set(cuts), name


@pytest.mark.parametrize(("last", "absent"), [("run", TORCH), ("torch", None), ("tests", None)])
def test_sections_are_closed_under_dependencies(last: str, absent: "re.Pattern[str] | None") -> None:
    """Nothing resolves dependencies when a lock is installed."""
    sections = list(SECTIONS)[: list(SECTIONS).index(last) + 1]
    pins = {pin.name: pin for pin in read_pins(LOCK) if pin.section in sections and applies(pin)}
    for name in pins.keys() & INSTALLED.keys():
        for text in INSTALLED[name].requires or []:
            requirement = Requirement(text)
            needed = canonicalize_name(requirement.name)
            if requirement.marker and not requirement.marker.evaluate({"extra": ""}):
                continue
            assert needed in pins or (absent and absent.match(needed)), f"{name} needs {needed}"


def test_what_is_installed_is_what_is_locked() -> None:
    stamp = Path(sys.prefix) / "requirements.sha256"
    if not stamp.is_file() or stamp.read_text().strip() != hashlib.sha256(LOCK.read_bytes()).hexdigest():
        pytest.skip("`make` has not set up the present requirements")
    versions = {pin.name: pin.version for pin in read_pins(LOCK) if applies(pin) and pin.name != "torch"}
    assert {name: INSTALLED[name].version for name in versions if name in INSTALLED} == versions


def test_the_base_image_is_pinned() -> None:
    text = (ROOT / "Dockerfile").read_text(encoding="utf-8")
    assert re.findall(r"(?m)^ARG BASE_IMAGE=python:3\.1[0-2]-slim@sha256:[0-9a-f]{64}$", text)


def test_the_audit_says_that_nothing_was_checked_without_a_service() -> None:
    if not TOOLS.is_dir():
        pytest.skip("`make audit` has not installed its packages")
    command = [sys.executable, "-m", "tools.audit", "--osv-url", "http://127.0.0.1:9"]
    environment = {**os.environ, "PYTHONPATH": str(TOOLS)}
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.startswith("audit: no vulnerability service was reached, nothing was checked (")


def test_an_accepted_vulnerability_needs_a_date_and_a_reason(tmp_path: Path) -> None:
    audit.read_accepted(audit.ACCEPTED)
    (tmp_path / "accepted.txt").write_text("# a comment\nCVE-2000-0001 2000-01-02\n")
    with pytest.raises(ValueError, match=r"accepted.txt:2: not `ID YYYY-MM-DD package: reason`"):
        audit.read_accepted(tmp_path / "accepted.txt")


def test_open_vulnerabilities_are_those_that_are_not_accepted() -> None:
    reported = [
        {"name": "a", "version": "1", "vulns": [{"id": "X-1", "aliases": ["CVE-1"], "fix_versions": ["2"]}]},
        {"name": "b", "version": "1", "vulns": []},
        {"name": "c", "skip_reason": "unknown"},
    ]
    assert audit.find_vulnerabilities(reported) == [audit.Finding("a 1", frozenset({"X-1", "CVE-1"}), ("2",))]


@pytest.fixture
def clone(tmp_path: Path) -> Path:
    (tmp_path / "tools").mkdir()
    shutil.copy(ROOT / "tools" / "setup.sh", tmp_path / "tools")
    shutil.copy(LOCK, tmp_path)
    return tmp_path


def set_up(clone: Path, **environment: str) -> "subprocess.CompletedProcess[str]":
    inherited = {k: v for k, v in os.environ.items() if k not in ("PYTHON", "TORCH_INDEX_URL")}
    words = ["bash", "tools/setup.sh"]
    return subprocess.run(words, cwd=clone, env=inherited | environment, capture_output=True, text=True, timeout=60)


def test_set_up_names_the_python_versions_it_needs(clone: Path) -> None:
    done = set_up(clone, PYTHON="no-such-python")
    assert done.returncode == 2
    assert "no Python 3.10 to 3.12 found" in done.stderr


def test_set_up_refuses_a_full_disk(clone: Path) -> None:
    (clone / "bin").mkdir()
    df = clone / "bin" / "df"
    df.write_text("#!/bin/sh\necho 'Filesystem 1024-blocks Used Available'\necho 'x 9 9 2097152 9% /'\n")
    df.chmod(0o755)
    done = set_up(clone, PYTHON=sys.executable, PATH=f"{clone / 'bin'}:{os.environ['PATH']}")
    assert done.returncode == 2
    assert "7 GB of disk are needed, and 2 GB are free here" in done.stderr
    assert not (clone / ".venv").exists()


def test_set_up_leaves_an_installed_environment_alone(clone: Path) -> None:
    python = clone / ".venv" / "bin" / "python"
    python.parent.mkdir(parents=True)
    python.symlink_to(sys.executable)
    (python.parent / "pan-scdg").symlink_to("python")
    digest = hashlib.sha256((clone / "requirements.lock").read_bytes()).hexdigest()
    (clone / ".venv" / "requirements.sha256").write_text(digest + "\n")
    done = set_up(clone, PYTHON="no-such-python")
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


def test_renew_replaces_quoted_output_and_nothing_else() -> None:
    block = "<!-- run -->\n```sh\npan-scdg a\npan-scdg b\n```\n"
    page = f"Text\n\n{block}\n    f1         0.5\n    R@10 (x)   0.1\n\n# Next\n\n    f1         0.5\n"
    commands: list[str] = []

    def read_output(block: str) -> str:
        commands.append(block)
        return "other      1\n  f1         0.75\nR@10 (y)   0.2\nR@10 (x)   0.3\n"

    renewed = replace_quotations(f"{page}{README.read_text(encoding='utf-8')}", read_output)
    assert renewed.startswith(page.replace("0.5", "0.75", 1).replace("0.1", "0.3"))
    assert commands[0] == "pan-scdg a\npan-scdg b\n"
    assert len(commands) > 3
    assert len(renewed.splitlines()) == len((page + README.read_text(encoding="utf-8")).splitlines())


def test_records_are_found_by_the_files_that_changed() -> None:
    page = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
    records = find_records(page, ["pan_scdg/methods/alignment.py"])
    assert "verdicts.md" in records
    assert "gpu.md" not in records
    every = find_records(page, ["pan_scdg/cli/check.py"])
    assert {*records, "gpu.md", "first-stage.md"} < {*every}
    for record in every:
        assert (ROOT / "benchmarks" / "results" / record).is_file()
        assert list(list_commands([record])), f"benchmarks/README.md has no command of {record}"
